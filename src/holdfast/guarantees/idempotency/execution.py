"""Execution of an effect under a claim: completed, released, or failed with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.core.errors import (
    Conflict,
    ExternalServiceRefused,
    HoldfastError,
    LeaseLost,
    RequestRefused,
    RetryLater,
    error_label,
)
from holdfast.guarantees.idempotency.claim import Claim, Completion
from holdfast.guarantees.idempotency.record import OnceRecord
from holdfast.model import Write

R = TypeVar("R", bound=OnceRecord)


async def run_claimed(claim: Claim[R], effect: Callable[[Claim[R]], Awaitable[object]]) -> Completion[R]:
    """Run the effect under its claim. Release the claim on a retryable error; record any other error as a
    failure.
    """
    try:
        async with claim.keep_renewed():
            result = await effect(claim)
            return claim.completion or await claim.complete(result=result)
    except LeaseLost:
        raise
    except (RetryLater, Conflict, asyncio.CancelledError):
        await release_claim(claim)
        raise
    except Exception as error:
        await fail_claim(claim, error)
        raise


async def release_claim(claim: Claim[R]) -> None:
    """Release the claim. If that write fails the lease expires by itself, and the caller's error matters
    more.
    """
    with suppress(HoldfastError):
        await claim.release()


async def fail_claim(claim: Claim[R], error: Exception) -> None:
    with suppress(HoldfastError):
        await claim.fail(get_reason(error))


async def refuse_claim(
    claim: Claim[R], error: ExternalServiceRefused, *writes: Write[Any], is_open: bool = False
) -> None:
    """Record the refusal. If that write fails the intent stays: a later attempt looks up and is refused
    again.

    With `writes`, a failed write raises, so that the caller knows that they were not made.
    """
    with suppress(*(() if writes else (HoldfastError,))):
        reason = get_reason(error) + ("; outcome of an attempt before unknown" if is_open else "")
        await claim.refuse(str(error.code), reason, *writes)


def get_reason(error: Exception) -> str:
    """Return the label of the error, not its text, which may quote confidential data."""
    kind = error_label(error)
    return f"{kind} ({error.code})" if isinstance(error, RequestRefused) else kind
