"""Keys to paths of a file system, and back.

Every character that is not plain is percent-encoded. A file name ends with `@` and a folder's does not, so
that `a` and `a/b` can both be keys. A part that is too long for a file name is split into folders that end
with `+`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

OBJECTS: Final = "objects"
STAGING: Final = "staging"
DEFINITION: Final = "bucket.json"
LOCK: Final = "lock"

FILE_ENDING: Final = "@"
CONTINUED: Final = "+"
# File systems take 255 bytes; one is for the suffix, and some more for what a store adds while it writes.
STEP_LENGTH_MAX: Final = 200


def path_of(bucket: str, key: str) -> str:
    return f"{bucket}/{OBJECTS}/" + "/".join(map(_cut, key.split("/"))) + FILE_ENDING


def folder_of(bucket: str, prefix: str) -> str:
    """Return the folder that contains every key that begins with `prefix`."""
    steps = prefix.split("/")[:-1]
    return "/".join([bucket, OBJECTS, *map(_cut, steps)])


def key_of(bucket: str, path: str) -> str | None:
    """Return the key of a path, or None for a file that is not an object."""
    if not path.endswith(FILE_ENDING):
        return None
    inside = path.removeprefix(f"{bucket}/{OBJECTS}/").removesuffix(FILE_ENDING)
    return unquote(inside.replace(f"{CONTINUED}/", ""))


def _cut(step: str) -> str:
    encoded = quote(step, safe=" ")
    pieces = [encoded[at : at + STEP_LENGTH_MAX] for at in range(0, len(encoded), STEP_LENGTH_MAX)]
    return f"{CONTINUED}/".join(pieces)
