"""Put an object or adopt the existing one: the same for every engine, as two operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.core.errors import AlreadyExists, NotFound, RetryLater
from holdfast.operations.objects import AdoptedObject, GetObject, PutObject

TURNS: Final = 3


async def adopted(run: Callable[[Any], Awaitable[Any]], put: PutObject) -> AdoptedObject:
    """Put the object, or return the existing one: two concurrent callers both get the bytes of the first."""
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
            # The object was deleted between the two operations.
            continue
    raise RetryLater(
        f"{put.key} in {put.bucket} was there when it was to be put and gone when it was to be read, {TURNS} "
        "times: "
        "try again later."
    )
