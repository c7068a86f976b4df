"""AdoptObject for every engine: put an object, or return the one that exists under its key.

It is made of two operations, a create-only put and a get.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.core.errors import AlreadyExists, NotFound, RetryLater
from holdfast.operations.objects import AdoptedObject, GetObject, PutObject

MAX_ATTEMPTS: Final = 3


async def adopt_object(run: Callable[[Any], Awaitable[Any]], put: PutObject) -> AdoptedObject:
    """Create the object, or return the one that exists: two concurrent callers both get the bytes of the
    first.

    `run` is the engine's own `run`. Raise `RetryLater` if the object is deleted between put and get three
    times.
    """
    creation = put if put.create_only else msgspec.structs.replace(put, create_only=True)
    for _ in range(MAX_ATTEMPTS):
        try:
            info = await run(creation)
            return AdoptedObject(info=info, body=put.body, is_adopted=False)
        except AlreadyExists:
            pass
        try:
            existing = await run(GetObject(put.bucket, put.key, pattern=put.pattern))
            return AdoptedObject(info=existing.info, body=existing.body, is_adopted=True)
        except NotFound:
            # The object was deleted between the two operations.
            continue
    raise RetryLater(
        f"The object {put.key} in {put.bucket} existed at the put and was gone at the get, {MAX_ATTEMPTS} "
        "times. Retry later."
    )
