"""What the GPUs do, as NVIDIA's management library (NVML) tells it."""
