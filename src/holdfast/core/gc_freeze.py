"""`freeze_gc`: excludes loaded objects from garbage collection in long-running processes."""

from __future__ import annotations

import gc


def freeze_gc() -> None:
    """Collect garbage, then exclude all loaded objects from later collections, which cost a fifth of a small
    request's time.
    """
    gc.collect()
    gc.freeze()
