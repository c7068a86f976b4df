"""Garbage collector tuning for long-running processes."""

from __future__ import annotations

import gc


def freeze_gc() -> None:
    """Exclude the objects loaded so far from garbage collection, which would cost a fifth of a small
    request's time.
    """
    gc.collect()
    gc.freeze()
