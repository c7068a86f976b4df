"""Deep check of an objects folder that no process uses: every object is read and, with its key, decrypted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.core.errors import InvalidRequest, KeyUnavailable, ObjectDamaged
from holdfast.security.ciphers import Cipher, Envelope
from holdfast.stores.objects.local import object_file
from holdfast.stores.objects.local.inspection import inspect_buckets
from holdfast.stores.objects.local.paths import OBJECTS_FOLDER, parse_key

FileProgress = Callable[[int, int], None]


class FolderContents(msgspec.Struct, kw_only=True):
    """What a folder holds: the number of objects of each bucket, and of those encrypted with each key."""

    counts: dict[str, int] = {}
    keys: dict[str, int] = {}
    damages: list[str] = []
    missing_keys: dict[str, str] = {}
    """Why a key is unavailable. The objects that need it were not decrypted."""


def check_objects(
    folder: Path, cipher: Cipher | None, progress: FileProgress = lambda done, total: None
) -> FolderContents:
    """Read every object. Without a cipher, the bodies are not decrypted.

    Raise `StoreFileError` if the definition of a bucket is unreadable.
    """
    found = FolderContents(counts=dict.fromkeys(inspect_buckets(folder), 0))
    paths = [
        (bucket, path)
        for bucket in found.counts
        for path in sorted((folder / bucket / OBJECTS_FOLDER).rglob("*"))
    ]
    for done, (bucket, path) in enumerate(paths, start=1):
        key = parse_key(bucket, path.relative_to(folder).as_posix())
        if key is not None and path.is_file():
            found.counts[bucket] += 1
            _check_object(found, cipher, bucket, key, path.read_bytes())
        progress(done, len(paths))
    return found


def _check_object(
    found: FolderContents, cipher: Cipher | None, bucket: str, key: str, content: bytes
) -> None:
    """Check one object, and note its key or its damage."""
    try:
        file = object_file.parse_file(content, bucket, key)
        try:
            id = Envelope.parse(file.stored_body).key_id
        except InvalidRequest as error:
            raise ObjectDamaged(bucket, key, error.message.rstrip(".")) from error
        found.keys[id] = found.keys.get(id, 0) + 1
        if cipher is not None and id not in found.missing_keys:
            try:
                object_file.decrypt_body(file, bucket, cipher)
            except KeyUnavailable as error:
                found.missing_keys[id] = error.message
    except ObjectDamaged as error:
        found.damages.append(f"the object {key} in {bucket} ({error.reason})")
