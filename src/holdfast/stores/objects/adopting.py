"""An object is put, or that which is there already is taken in its place: the same for every engine, as two
operations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.core.errors import AlreadyExists, NotFound, RetryLater
from holdfast.operations.objects import AdoptedObject, GetObject, PutObject

TURNS: Final = 3


async def adopted(run: Callable[[Any], Awaitable[Any]], put: PutObject) -> AdoptedObject:
    """Of two at once, both are given the bytes of the one that came first."""
    for _ in range(TURNS):
        try:
            info = await run(msgspec.structs.replace(put, create_only=True))
            return AdoptedObject(info=info, body=put.body, is_adopted=False)
        except AlreadyExists:
            pass
        try:
            there = await run(GetObject(put.bucket, put.key, pattern=put.pattern))
            return AdoptedObject(info=there.info, body=there.body, is_adopted=True)
        except NotFound:
            # Deleted in between.
            continue
    raise RetryLater(
        f"{put.key} in {put.bucket} was there when it was to be put and gone when it was to be read, {TURNS} "
        "times: "
        "try again later."
    )
