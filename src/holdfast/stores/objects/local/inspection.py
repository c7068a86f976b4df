"""Read the buckets of an objects folder without changing anything, for `holdfast doctor`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.operations.objects import BucketDefinition
from holdfast.stores.objects.local.paths import DEFINITION_FILE, OBJECTS_FOLDER


def inspect_buckets(folder: Path) -> tuple[str, ...]:
    """Return the names of the folder's buckets, sorted.

    Raise `StoreFileError` if a definition is unreadable, or missing although the bucket has objects. A bucket
    without both was not created to its end, and is left out.
    """
    names = []
    for bucket in sorted(each for each in folder.iterdir() if each.is_dir()):
        definition = bucket / DEFINITION_FILE
        if not definition.exists() and not (bucket / OBJECTS_FOLDER).exists():
            continue
        try:
            msgspec.json.decode(definition.read_bytes(), type=BucketDefinition)
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreFileError(
                f"{folder} is damaged: the definition of bucket {bucket.name} is unreadable."
                " Restore the folder from a backup."
            ) from error
        names.append(bucket.name)
    return tuple(names)
