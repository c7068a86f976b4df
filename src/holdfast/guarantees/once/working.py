"""An effect done under a claim: completed, given back, or failed with a reason, as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import (
    Conflict,
    HoldfastError,
    LeaseLost,
    PartyRefused,
    RequestRefused,
    RetryLater,
    error_label,
)
from holdfast.guarantees.once.claim import Claim, Done
from holdfast.guarantees.once.record import OnceRecord
from holdfast.model import Write

R = TypeVar("R", bound=OnceRecord)


async def worked(claim: Claim[R], effect: Callable[[Claim[R]], Awaitable[object]]) -> Done[R]:
    """What may go better next time is given back at once; any other error is a failure with its reason."""
    try:
        async with claim.kept():
            result = await effect(claim)
            return claim.done or await claim.complete(result=result)
    except LeaseLost:
        raise
    except (RetryLater, Conflict, asyncio.CancelledError):
        await given_back(claim)
        raise
    except Exception as error:
        await failed(claim, error)
        raise


async def given_back(claim: Claim[R]) -> None:
    """Where that cannot be written, the lease runs out by itself; the error that led here matters more."""
    with suppress(HoldfastError):
        await claim.release()


async def failed(claim: Claim[R], error: Exception) -> None:
    with suppress(HoldfastError):
        await claim.fail(reason_of(error))


async def refused(claim: Claim[R], error: PartyRefused, *writes: Write[Any], is_open: bool = False) -> None:
    """Where that cannot be written, the intent stays: the party is looked up, and refuses again. Where something was
    to be written with it, the caller is told that it is not."""
    with suppress(*(() if writes else (HoldfastError,))):
        reason = reason_of(error) + ("; outcome of an attempt before unknown" if is_open else "")
        await claim.refuse(str(error.code), reason, *writes)


def reason_of(error: Exception) -> str:
    """The kind of error, not its text: that may quote what must not be kept."""
    kind = error_label(error)
    return f"{kind} ({error.code})" if isinstance(error, RequestRefused) else kind
