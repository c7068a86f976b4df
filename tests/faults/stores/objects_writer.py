"""A process that puts objects into a local folder until it is killed, printing each acknowledged put."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path

from holdfast.operations.objects import PutObject
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import open_local_objects

BUCKET = "archive"
# Large enough that a kill may come in the middle of one.
BODY_BYTES = 512 * 1024
# The number of keys that are overwritten repeatedly.
REPLACED = 3


def make_body(key: str, number: int) -> bytes:
    """Make a body of which any part shows whether it belongs to the rest."""
    return hashlib.sha256(f"{key} {number}".encode()).digest() * (BODY_BYTES // 32)


async def put_until_killed(folder: Path, name: str) -> None:
    """Put new objects and replace others in turn, printing each acknowledged put."""
    objects = open_local_objects(folder / "objects", open_file_cipher(folder / "keys.json"))
    for number in range(1_000_000):
        new, replaced = f"new/{name}/{number}", f"replaced/{number % REPLACED}"
        await objects.run(PutObject(BUCKET, new, make_body(new, number), create_only=True))
        print(f"created {new} {number}", flush=True)  # noqa: T201
        await objects.run(PutObject(BUCKET, replaced, make_body(replaced, number)))
        print(f"replaced {replaced} {number}", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(put_until_killed(Path(sys.argv[1]), sys.argv[2]))
