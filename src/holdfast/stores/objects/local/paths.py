"""Conversion of object keys to file paths and back, for the local objects engine.

Every character that is not plain is percent-encoded. A file name ends with `@` and a folder's does not, so
that `a` and `a/b` can both be keys. A part that is too long for a file name is split into folders that end
with `+`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

OBJECTS_FOLDER: Final = "objects"
STAGING_FOLDER: Final = "staging"
DEFINITION_FILE: Final = "bucket.json"
LOCK_FILE: Final = "lock"

FILE_SUFFIX: Final = "@"
CONTINUATION_SUFFIX: Final = "+"
# File systems take 255 bytes; one is for the suffix, and some more for what a store adds while it writes.
MAX_PART_LENGTH: Final = 200


def to_path(bucket: str, key: str) -> str:
    """Return the path of an object's file, relative to the storage's root."""
    return f"{bucket}/{OBJECTS_FOLDER}/" + "/".join(map(_encode_part, key.split("/"))) + FILE_SUFFIX


def to_folder(bucket: str, prefix: str) -> str:
    """Return the folder that contains every key that begins with `prefix`."""
    parts = prefix.split("/")[:-1]
    return "/".join([bucket, OBJECTS_FOLDER, *map(_encode_part, parts)])


def parse_key(bucket: str, path: str) -> str | None:
    """Return the key of a path, or None for a file that is not an object."""
    if not path.endswith(FILE_SUFFIX):
        return None
    inside = path.removeprefix(f"{bucket}/{OBJECTS_FOLDER}/").removesuffix(FILE_SUFFIX)
    return unquote(inside.replace(f"{CONTINUATION_SUFFIX}/", ""))


def _encode_part(part: str) -> str:
    """Percent-encode one part of a key; split it into folders that end with `+` if it is too long for a file
    name.
    """
    encoded = quote(part, safe=" ")
    pieces = [encoded[at : at + MAX_PART_LENGTH] for at in range(0, len(encoded), MAX_PART_LENGTH)]
    return f"{CONTINUATION_SUFFIX}/".join(pieces)
