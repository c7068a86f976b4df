"""The objects engines of this machine: a folder, or memory.

engine.py   runs operations
files.py    an object as one self-describing file, encrypted
media.py    where files are kept: a folder, durable when a put returns, or memory
paths.py    keys as paths, and back
"""

from __future__ import annotations

from holdfast.stores.objects.extra import require_obstore

# Before the first import of it, which would say less.
require_obstore()

from holdfast.stores.objects.local.engine import (  # noqa: E402
    LocalObjects,
    open_local_objects,
    open_memory_objects,
)

__all__ = ["LocalObjects", "open_local_objects", "open_memory_objects"]
