/* A stand-in for NVIDIA's management library, for machines without a GPU.
 *
 * It has NVML's names and layouts (compiled with -DNVML_HEADER='"nvml.h"' the compiler holds it to
 * NVIDIA's own declarations) and does what a test tells it to, in lines of text that are given to
 * stand_in(), or stand in the environment variable NVML_STAND_IN when it is loaded:
 *
 *   gpus 4                          that many cards, each with the defaults of reset() below
 *   gpu 0 temperature 71            a property of card 0; the table PROPERTIES has them all
 *   gpu 0 uuid GPU-…                likewise uuid, bus_id, name
 *   gpu 0 parent 1                  card 0 is a MIG device of card 1
 *   gpu 0 power 350                 a rate from now on, or with `@ 3.5` from that second on
 *   gpu 0 xid 79                    an Xid event now
 *   clock 12.5                      time stands still there; `clock real` lets it run
 *   error NAME CODE [gpu N] [after N] [times N]   NAME is a function's name, or `field:83`
 *   latency NAME SECONDS            each call takes that long
 *   hang NAME                       calls do not return until `release`
 *   release                         takes back all errors, latencies and hangs
 *
 * A counter is the exact integral of its rate, published on a grid of the card's `period`, as the
 * counters of a real card lag behind by up to their period.
 */

#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef NVML_HEADER
#include NVML_HEADER
#else
#define DECLDIR
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef int nvmlReturn_t, nvmlValueType_t, nvmlClockType_t, nvmlTemperatureSensors_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned int version; nvmlTemperatureSensors_t sensorType; int temperature; } nvmlTemperature_t;
typedef union {
    double dVal;
    int siVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
} nvmlValue_t;
typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    nvmlValueType_t valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
#endif

#define UNINITIALIZED ((nvmlReturn_t)1)
#define INVALID_ARGUMENT ((nvmlReturn_t)2)
#define NOT_SUPPORTED ((nvmlReturn_t)3)
#define NOT_FOUND ((nvmlReturn_t)6)
#define INSUFFICIENT_SIZE ((nvmlReturn_t)7)
#define TIMEOUT ((nvmlReturn_t)10)
#define ARGUMENT_VERSION_MISMATCH ((nvmlReturn_t)25)
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };
enum { XID_CRITICAL_ERROR = 8 };
enum { MOST_GPUS = 16, MOST_STEPS = 256, MOST_FAULTS = 64, MOST_EVENTS = 64 };

typedef struct { int steps; double from[MOST_STEPS], value[MOST_STEPS]; } Rate;

struct nvmlDevice_st {
    char uuid[96], bus_id[32], name[64];
    double utilization, memory_utilization, memory_total, memory_used, temperature, memory_temperature;
    double sm_clock, memory_clock, max_sm_clock, max_memory_clock, power_limit, reasons, ecc;
    double remap_pending, remap_failure, recovery_action, period, energy_offset, pcie_modulus, parent;
    Rate power, throttle_power, throttle_thermal, pcie_tx, pcie_rx, nvlink_tx, nvlink_rx;
};
struct nvmlEventSet_st { int registered[MOST_GPUS], seen; };

typedef struct { char name[64]; nvmlReturn_t code; int gpu, hangs; long after, times; double seconds; } Fault;
typedef struct { int gpu; unsigned long long xid; } Event;
typedef struct { char name[64]; long calls; } Count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlDevice_st gpus[MOST_GPUS];
static Fault faults[MOST_FAULTS];
static Event events[MOST_EVENTS];
static Count counts[64];
static int gpu_count, fault_count, event_count, initialised;
static pid_t owner;
static double frozen = -1, started;

#define NUMBER(name) {#name, offsetof(struct nvmlDevice_st, name)}
static const struct { const char *name; size_t at; } PROPERTIES[] = {
    NUMBER(utilization),       /* percent */
    NUMBER(memory_utilization),
    NUMBER(memory_total),      /* bytes */
    NUMBER(memory_used),
    NUMBER(temperature),       /* degrees Celsius */
    NUMBER(memory_temperature),
    NUMBER(sm_clock),          /* MHz */
    NUMBER(memory_clock),
    NUMBER(max_sm_clock),
    NUMBER(max_memory_clock),
    NUMBER(power_limit),       /* W */
    NUMBER(reasons),           /* the bits of nvmlClocksEventReason… */
    NUMBER(ecc),               /* uncorrected errors */
    NUMBER(remap_pending),
    NUMBER(remap_failure),
    NUMBER(recovery_action),
    NUMBER(period),            /* s between updates of the counters; 0: at once */
    NUMBER(energy_offset),     /* J that the energy counter is off, for one that goes back */
    NUMBER(pcie_modulus),      /* bytes at which the PCIe counters wrap; 0: never */
    NUMBER(parent),
}, RATES[] = {
    NUMBER(power),             /* W */
    NUMBER(throttle_power),    /* share of the time */
    NUMBER(throttle_thermal),
    NUMBER(pcie_tx),           /* bytes a second */
    NUMBER(pcie_rx),
    NUMBER(nvlink_tx),
    NUMBER(nvlink_rx),
};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* ---- time, rates, counters ---------------------------------------------------------------- */

static double real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double now(void) { return frozen >= 0 ? frozen : real_time() - started; }

static void pause_for(double seconds) {
    struct timespec span = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&span, NULL);
}

static double value_at(const Rate *rate, double time) {
    double value = 0;
    for (int i = 0; i < rate->steps && rate->from[i] <= time; i++) value = rate->value[i];
    return value;
}

static double integral(const struct nvmlDevice_st *gpu, const Rate *rate) {
    double sum = 0, until = now();
    if (gpu->period > 0) until = floor(until / gpu->period + 1e-9) * gpu->period;
    for (int i = 0; i < rate->steps && rate->from[i] < until; i++) {
        double end = i + 1 < rate->steps && rate->from[i + 1] < until ? rate->from[i + 1] : until;
        sum += rate->value[i] * (end - rate->from[i]);
    }
    return sum;
}

/* ---- what tests say ----------------------------------------------------------------------- */

static void reset(int count) {
    memset(gpus, 0, sizeof gpus);
    gpu_count = count;
    event_count = 0;
    for (int i = 0; i < count; i++) {
        struct nvmlDevice_st *gpu = &gpus[i];
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-0000-4000-8000-%012x", 0xa0 + i, i);
        snprintf(gpu->bus_id, sizeof gpu->bus_id, "%08x:%02x:00.0", 0, i + 1);
        snprintf(gpu->name, sizeof gpu->name, "NVIDIA Stand-In");
        gpu->utilization = 50, gpu->memory_utilization = 20;
        gpu->memory_total = 80e9, gpu->memory_used = 8e9;
        gpu->temperature = 40, gpu->memory_temperature = 45;
        gpu->sm_clock = 1500, gpu->memory_clock = 2600, gpu->max_sm_clock = 2000, gpu->max_memory_clock = 2600;
        gpu->power_limit = 700, gpu->parent = -1;
        gpu->power = (Rate){1, {0}, {300}};
    }
}

static int set_gpu(struct nvmlDevice_st *gpu, const char *name, char *rest) {
    double value, from = now();
    if (!strcmp(name, "uuid")) return snprintf(gpu->uuid, sizeof gpu->uuid, "%s", rest), 0;
    if (!strcmp(name, "bus_id")) return snprintf(gpu->bus_id, sizeof gpu->bus_id, "%s", rest), 0;
    if (!strcmp(name, "name")) return snprintf(gpu->name, sizeof gpu->name, "%s", rest), 0;
    if (sscanf(rest, "%lf @ %lf", &value, &from) < 1) return 1;
    if (!strcmp(name, "xid")) {
        if (event_count == MOST_EVENTS) return 1;
        events[event_count++] = (Event){gpu - gpus, (unsigned long long)value};
        return 0;
    }
    for (size_t i = 0; i < LENGTH(PROPERTIES); i++)
        if (!strcmp(name, PROPERTIES[i].name)) return *(double *)((char *)gpu + PROPERTIES[i].at) = value, 0;
    for (size_t i = 0; i < LENGTH(RATES); i++) {
        if (strcmp(name, RATES[i].name)) continue;
        Rate *rate = (Rate *)((char *)gpu + RATES[i].at);
        if (rate->steps && rate->from[rate->steps - 1] >= from) rate->steps--; /* said anew */
        if (rate->steps == MOST_STEPS || (rate->steps && rate->from[rate->steps - 1] >= from)) return 1;
        rate->from[rate->steps] = from, rate->value[rate->steps++] = value;
        return 0;
    }
    return 1;
}

static int set_fault(Fault fault, char *options) {
    char option[16];
    long number;
    int length;
    for (; sscanf(options, " %15s %ld%n", option, &number, &length) == 2; options += length) {
        if (!strcmp(option, "gpu")) fault.gpu = number;
        else if (!strcmp(option, "after")) fault.after = number;
        else if (!strcmp(option, "times")) fault.times = number;
        else return 1;
    }
    if (fault_count == MOST_FAULTS || options[strspn(options, " ")]) return 1;
    faults[fault_count++] = fault;
    return 0;
}

static int obey(char *line) {
    char name[64], rest[128] = "";
    double seconds;
    int number, code, length = 0;
    if (!line[strspn(line, " ")] || line[0] == '#') return 0;
    if (sscanf(line, "gpus %d", &number) == 1) return number < 0 || number > MOST_GPUS ? 1 : (reset(number), 0);
    if (sscanf(line, "gpu %d %63s %127[^\n]", &number, name, rest) == 3)
        return number < 0 || number >= gpu_count ? 1 : set_gpu(&gpus[number], name, rest);
    if (sscanf(line, "clock %lf", &seconds) == 1) return frozen = seconds, 0;
    if (!strcmp(line, "clock real")) return frozen = -1, started = real_time(), 0;
    if (sscanf(line, "error %63s %d%n", name, &code, &length) == 2) {
        Fault fault = {.code = code, .gpu = -1, .times = -1};
        strcpy(fault.name, name);
        return set_fault(fault, line + length);
    }
    if (sscanf(line, "latency %63s %lf", name, &seconds) == 2 || sscanf(line, "hang %63s", name) == 1) {
        Fault fault = {.gpu = -1, .times = -1};
        if (line[0] == 'h') fault.hangs = 1;
        else fault.seconds = seconds;
        strcpy(fault.name, name);
        return set_fault(fault, "");
    }
    if (!strcmp(line, "release")) return fault_count = 0, 0;
    return 1;
}

/* Obeys lines; returns the number of the first that makes no sense, from 1, or 0. */
int stand_in(const char *text) {
    char line[256];
    int number = 0, wrong = 0;
    pthread_mutex_lock(&lock);
    while (*text && !wrong) {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        number++;
        if (length >= sizeof line || obey(line)) wrong = number;
        text += length + (text[length] == '\n');
    }
    pthread_mutex_unlock(&lock);
    return wrong;
}

/* How often a function was called since the library was loaded, or a field was asked for. */
long stand_in_calls(const char *name) {
    for (size_t i = 0; i < LENGTH(counts); i++)
        if (!strcmp(counts[i].name, name)) return counts[i].calls;
    return 0;
}

__attribute__((constructor)) static void load(void) {
    const char *text = getenv("NVML_STAND_IN");
    int wrong;
    reset(1);
    started = real_time();
    if (text && (wrong = stand_in(text))) {
        fprintf(stderr, "NVML_STAND_IN: line %d makes no sense\n", wrong);
        abort();
    }
}

/* ---- what happens at every call ------------------------------------------------------------ */

static nvmlReturn_t meet(const char *name, nvmlDevice_t device) {
    nvmlReturn_t code = 0;
    double seconds = 0;
    int hangs = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LENGTH(counts); i++) {
        if (!counts[i].name[0]) snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
        if (strcmp(counts[i].name, name)) continue;
        counts[i].calls++;
        break;
    }
    for (int i = 0; i < fault_count && !code; i++) {
        Fault *fault = &faults[i];
        if (strcmp(fault->name, name) || (fault->gpu >= 0 && (!device || device - gpus != fault->gpu))) continue;
        if (fault->after > 0) fault->after--;
        else if (fault->times != 0) {
            if (fault->times > 0) fault->times--;
            hangs |= fault->hangs;
            code = fault->code;
            seconds += fault->seconds;
        }
    }
    pthread_mutex_unlock(&lock);
    if (seconds > 0) pause_for(seconds);
    while (hangs) {
        pause_for(0.005);
        pthread_mutex_lock(&lock);
        hangs = fault_count > 0;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

static int is_gpu(nvmlDevice_t device) { return device >= gpus && device < gpus + gpu_count; }

/* A child that was forked has not initialised it, whatever its parent did. */
#define ENTER(device)                                                  \
    do {                                                               \
        nvmlReturn_t code = meet(__func__, device);                    \
        if (code) return code;                                         \
        if (!initialised || owner != getpid()) return UNINITIALIZED;   \
    } while (0)
#define ENTER_GPU(device, result)                                      \
    do {                                                               \
        ENTER(device);                                                 \
        if (!is_gpu(device) || !(result)) return INVALID_ARGUMENT;     \
    } while (0)
/* Power, clocks and the like are the card's, not a MIG device's. */
#define ENTER_CARD(device, result)                                     \
    do {                                                               \
        ENTER_GPU(device, result);                                     \
        if ((device)->parent >= 0) return NOT_SUPPORTED;               \
    } while (0)

static nvmlReturn_t put(const char *text, char *result, unsigned int length) {
    if (!result) return INVALID_ARGUMENT;
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(result, text);
    return 0;
}

/* ---- library ------------------------------------------------------------------------------- */

nvmlReturn_t DECLDIR nvmlInitWithFlags(unsigned int flags) {
    nvmlReturn_t code = meet(__func__, NULL);
    (void)flags;
    if (code) return code;
    initialised = owner == getpid() ? initialised + 1 : 1;
    owner = getpid();
    return 0;
}

nvmlReturn_t DECLDIR nvmlInit_v2(void) {
    nvmlReturn_t code = meet(__func__, NULL);
    return code ? code : nvmlInitWithFlags(0);
}

nvmlReturn_t DECLDIR nvmlShutdown(void) {
    ENTER(NULL);
    initialised--;
    return 0;
}

const DECLDIR char *nvmlErrorString(nvmlReturn_t result) {
    static __thread char text[32];
    snprintf(text, sizeof text, "Stand-in error %d", (int)result);
    return text;
}

nvmlReturn_t DECLDIR nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER(NULL);
    return put("580.00.00", version, length);
}

nvmlReturn_t DECLDIR nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    ENTER(NULL);
    return put("13.580.00.00", version, length);
}

/* ---- which card ---------------------------------------------------------------------------- */

static unsigned int cards(void) {
    unsigned int count = 0;
    for (int i = 0; i < gpu_count; i++) count += gpus[i].parent < 0;
    return count;
}

nvmlReturn_t DECLDIR nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER(NULL);
    if (!count) return INVALID_ARGUMENT;
    *count = cards();
    return 0;
}

/* MIG devices have to be said after all cards. */
nvmlReturn_t DECLDIR nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    ENTER(NULL);
    if (index >= cards() || !device) return INVALID_ARGUMENT;
    *device = &gpus[index];
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    ENTER(NULL);
    if (!uuid || !device) return INVALID_ARGUMENT;
    for (int i = 0; i < gpu_count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return *device = &gpus[i], 0;
    return NOT_FOUND;
}

nvmlReturn_t DECLDIR nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    ENTER(NULL);
    if (!bus_id || !device) return INVALID_ARGUMENT;
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].parent < 0 && !strcasecmp(gpus[i].bus_id, bus_id)) return *device = &gpus[i], 0;
    return NOT_FOUND;
}

nvmlReturn_t DECLDIR nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    ENTER_GPU(device, uuid);
    return put(device->uuid, uuid, length);
}

nvmlReturn_t DECLDIR nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    ENTER_GPU(device, name);
    return put(device->name, name, length);
}

nvmlReturn_t DECLDIR nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    ENTER_GPU(device, index);
    *index = device->parent >= 0 ? 0 : device - gpus;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER_GPU(device, pci);
    memset(pci, 0, sizeof *pci);
    strcpy(pci->busId, device->bus_id);
    sscanf(device->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04x:%02x:%02x.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig) {
    ENTER_GPU(device, is_mig);
    *is_mig = device->parent >= 0;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
    ENTER_GPU(mig, device);
    if (mig->parent < 0) return INVALID_ARGUMENT;
    *device = &gpus[(int)mig->parent];
    return 0;
}

/* ---- readings ------------------------------------------------------------------------------ */

nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER_GPU(device, memory);
    memory->total = device->memory_total;
    memory->used = device->memory_used;
    memory->free = memory->total - memory->used;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ENTER_CARD(device, rates);
    rates->gpu = device->utilization;
    rates->memory = device->memory_utilization;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                              unsigned int *temperature) {
    ENTER_CARD(device, temperature);
    if (sensor) return INVALID_ARGUMENT;
    *temperature = device->temperature;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    ENTER_CARD(device, temperature);
    if (temperature->version != (sizeof *temperature | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = device->temperature;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) {
    ENTER_CARD(device, clock);
    if (type != 1 && type != 2) return NOT_SUPPORTED;
    *clock = type == 1 ? device->sm_clock : device->memory_clock;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) {
    ENTER_CARD(device, clock);
    if (type != 1 && type != 2) return NOT_SUPPORTED;
    *clock = type == 1 ? device->max_sm_clock : device->max_memory_clock;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ENTER_CARD(device, reasons);
    *reasons = device->reasons;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ENTER_CARD(device, reasons);
    *reasons = device->reasons;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power) {
    ENTER_CARD(device, power);
    *power = round(value_at(&device->power, now()) * 1000);
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit) {
    ENTER_CARD(device, limit);
    *limit = round(device->power_limit * 1000);
    return 0;
}

static unsigned long long energy(nvmlDevice_t device) {
    double joules = integral(device, &device->power) + device->energy_offset;
    return joules > 0 ? llround(joules * 1000) : 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    ENTER_CARD(device, millijoules);
    *millijoules = energy(device);
    return 0;
}

static unsigned long long bytes(nvmlDevice_t device, const Rate *rate) {
    double sum = integral(device, rate);
    return device->pcie_modulus > 0 ? fmod(sum, device->pcie_modulus) : sum;
}

static nvmlReturn_t read_field(nvmlDevice_t device, nvmlFieldValue_t *field) {
    unsigned long long value;
    int type = UNSIGNED_LONG_LONG;
    switch (field->fieldId) {
    case 4: value = device->ecc; break;
    case 74: value = integral(device, &device->throttle_power) * 1e9; break;
    case 75: value = integral(device, &device->throttle_thermal) * 1e9; break;
    case 82: value = device->memory_temperature, type = UNSIGNED_INT; break;
    case 83: value = energy(device); break;
    case 138: value = integral(device, &device->nvlink_tx) / 1024; break;
    case 139: value = integral(device, &device->nvlink_rx) / 1024; break;
    case 144: value = device->remap_pending, type = UNSIGNED_INT; break;
    case 145: value = device->remap_failure, type = UNSIGNED_INT; break;
    case 186: value = round(value_at(&device->power, now()) * 1000), type = UNSIGNED_INT; break;
    case 197: value = bytes(device, &device->pcie_tx); break;
    case 198: value = bytes(device, &device->pcie_rx); break;
    case 230: value = device->recovery_action, type = UNSIGNED_INT; break;
    default: return NOT_SUPPORTED;
    }
    memset(&field->value, 0xee, sizeof field->value); /* what is beyond the type is not for reading */
    if (type == UNSIGNED_INT) field->value.uiVal = value;
    else field->value.ullVal = value;
    field->valueType = type;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields) {
    char name[16];
    ENTER_CARD(device, fields);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "field:%u", fields[i].fieldId);
        fields[i].timestamp = (long long)(now() * 1e6);
        fields[i].latencyUsec = 0;
        fields[i].nvmlReturn = meet(name, device);
        if (!fields[i].nvmlReturn) fields[i].nvmlReturn = read_field(device, &fields[i]);
    }
    return 0;
}

/* ---- events -------------------------------------------------------------------------------- */

nvmlReturn_t DECLDIR nvmlEventSetCreate(nvmlEventSet_t *set) {
    ENTER(NULL);
    if (!set) return INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    (*set)->seen = event_count;
    return 0;
}

nvmlReturn_t DECLDIR nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    ENTER_CARD(device, set);
    if (types & ~(unsigned long long)XID_CRITICAL_ERROR) return NOT_SUPPORTED;
    set->registered[device - gpus] = 1;
    return 0;
}

nvmlReturn_t DECLDIR nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout) {
    double end = real_time() + timeout / 1000.0;
    ENTER(NULL);
    if (!set || !data) return INVALID_ARGUMENT;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (set->seen < event_count) {
            Event event = events[set->seen++];
            if (!set->registered[event.gpu]) continue;
            pthread_mutex_unlock(&lock);
            *data = (nvmlEventData_t){&gpus[event.gpu], XID_CRITICAL_ERROR, event.xid, ~0u, ~0u};
            return 0;
        }
        pthread_mutex_unlock(&lock);
        if (real_time() >= end) return TIMEOUT;
        pause_for(0.002);
    }
}

nvmlReturn_t DECLDIR nvmlEventSetFree(nvmlEventSet_t set) {
    ENTER(NULL);
    free(set);
    return 0;
}
