"""Conversion of object keys to file paths and back, for the local objects engine.

    a, a/b           objects/a@            objects/a/b@
    202611/r-1/x/y   objects/202611=5c/r-1%2Fx%2Fy@

Every character that is not plain is percent-encoded. A file name ends with `@` and a folder's does not, so
that `a` and `a/b` can both be keys. A part that is too long for a file name is split into folders that end
with `+`.

A key of three or more parts is one file in one of `SHARDS` folders of its first part, chosen by its second
part: a put makes no folders, each of which costs as much as the file. All keys that begin with the same two
parts are in one folder. Versions before 0.3 made a folder for each part (`to_former_path`).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote
from zlib import crc32

OBJECTS_FOLDER: Final = "objects"
STAGING_FOLDER: Final = "staging"
DEFINITION_FILE: Final = "bucket.json"
LOCK_FILE: Final = "lock"

FILE_SUFFIX: Final = "@"
CONTINUATION_SUFFIX: Final = "+"
# Between the first part and the shard in the name of a folder. In a part, it is percent-encoded.
SHARD_MARK: Final = "="
SHARDS: Final = 256
# Keys of fewer parts have a folder for each part.
MIN_SHARDED_PARTS: Final = 3
# File systems take 255 bytes; one is for the suffix, and some more for what a store adds while it writes.
MAX_PART_LENGTH: Final = 200


def to_path(bucket: str, key: str) -> str:
    """Return the path of an object's file, relative to the storage's root."""
    parts = key.split("/")
    if len(parts) < MIN_SHARDED_PARTS:
        return _build_former_path(bucket, parts)
    rest = _encode_part(key[len(parts[0]) + 1 :])
    return f"{_build_shard_folder(bucket, parts[0], _compute_shard(parts[1]))}/{rest}{FILE_SUFFIX}"


def to_former_path(bucket: str, key: str) -> str | None:
    """Return the path that versions before 0.3 gave the object's file; None if that is `to_path`."""
    parts = key.split("/")
    return None if len(parts) < MIN_SHARDED_PARTS else _build_former_path(bucket, parts)


def to_folders(bucket: str, prefix: str) -> list[str]:
    """Return the folders that contain every key that begins with `prefix`."""
    parts = prefix.split("/")[:-1]
    former = "/".join([bucket, OBJECTS_FOLDER, *map(_encode_part, parts)])
    if not parts:
        return [former]
    shards = [_compute_shard(parts[1])] if len(parts) > 1 else range(SHARDS)
    return [former, *(_build_shard_folder(bucket, parts[0], shard) for shard in shards)]


def parse_key(bucket: str, path: str) -> str | None:
    """Return the key of a path, or None for a file that is not an object."""
    if not path.endswith(FILE_SUFFIX):
        return None
    inside = path.removeprefix(f"{bucket}/{OBJECTS_FOLDER}/").removesuffix(FILE_SUFFIX)
    inside = inside.replace(f"{CONTINUATION_SUFFIX}/", "")
    first, mark, rest = inside.partition(SHARD_MARK)
    return unquote(f"{first}/{rest.partition('/')[2]}" if mark else inside)


def _build_former_path(bucket: str, parts: list[str]) -> str:
    """Return the path with a folder for each part of the key but the last."""
    return f"{bucket}/{OBJECTS_FOLDER}/" + "/".join(map(_encode_part, parts)) + FILE_SUFFIX


def _build_shard_folder(bucket: str, first_part: str, shard: int) -> str:
    return f"{bucket}/{OBJECTS_FOLDER}/{_encode_part(first_part)}{SHARD_MARK}{shard:02x}"


def _compute_shard(part: str) -> int:
    """Return the shard of all keys with this second part."""
    return crc32(part.encode()) % SHARDS


def _encode_part(part: str) -> str:
    """Percent-encode one part of a key; split it into folders that end with `+` if it is too long for a file
    name.
    """
    encoded = quote(part, safe=" ")
    if len(encoded) <= MAX_PART_LENGTH:
        return encoded
    pieces = [encoded[at : at + MAX_PART_LENGTH] for at in range(0, len(encoded), MAX_PART_LENGTH)]
    return f"{CONTINUATION_SUFFIX}/".join(pieces)
