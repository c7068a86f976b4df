"""Read the buckets of an objects folder without changing anything, for `holdfast doctor`."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import list_marked, refuse_lost_store
from holdfast.stores.objects.local.bucket_file import decode_definition
from holdfast.stores.objects.local.paths import DEFINITION_FILE, OBJECTS_FOLDER


def inspect_buckets(folder: Path) -> tuple[str, ...]:
    """Return the names of the folder's buckets, sorted.

    Raise `StoreFileError` if a bucket or all of its objects are lost, or if a definition is unreadable, or
    missing although the bucket has objects. A bucket without definition and objects was not created to its
    end, and is left out.
    """
    for marked in list_marked(folder):
        refuse_lost_store(marked, (marked / DEFINITION_FILE).exists)
    names = []
    for bucket in sorted(each for each in folder.iterdir() if each.is_dir()):
        definition = bucket / DEFINITION_FILE
        if not definition.exists() and not (bucket / OBJECTS_FOLDER).exists():
            continue
        try:
            content = definition.read_bytes()
        except OSError as error:
            raise StoreFileError(
                f"{definition} cannot be read ({error.strerror}). Restore the file from a backup."
            ) from error
        decode_definition(content, str(definition))
        refuse_lost_store(bucket / OBJECTS_FOLDER, (bucket / OBJECTS_FOLDER).exists)
        names.append(bucket.name)
    return tuple(names)
