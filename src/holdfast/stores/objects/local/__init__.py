"""The objects engine of this machine: objects in a folder (encrypted and durable) or in memory.

engine.py         runs operations
object_file.py    an object as one self-describing file, encrypted
bucket_file.py    the definition of a bucket as a file
file_storage.py   stores files: in a folder, durable when a put returns, or in memory
paths.py          keys to paths, and back
inspection.py     reads the buckets of a folder for `holdfast doctor`
"""

from __future__ import annotations

from holdfast.stores.objects.extra import require_obstore

# Check before the first import of the dependency, whose own error says less.
require_obstore()

from holdfast.stores.objects.local.engine import (  # noqa: E402
    LocalObjects,
    open_local_objects,
    open_memory_objects,
)

__all__ = ["LocalObjects", "open_local_objects", "open_memory_objects"]
