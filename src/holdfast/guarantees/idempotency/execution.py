"""Execution of an effect under a claim, which ends completed, released, failed or refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
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
from holdfast.model.operations import Write

R = TypeVar("R", bound=OnceRecord)

log = logging.getLogger(__name__)


async def run_claimed(claim: Claim[R], effect: Callable[[Claim[R]], Awaitable[object]]) -> Completion[R]:
    """Run the effect while the lease is renewed, and return the completion.

    A retryable error or cancellation releases the claim, any other error is recorded as a failure; all
    propagate.
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
    """Release the claim, and ignore a failed write: the lease expires by itself, and the caller's error
    matters more.
    """
    with suppress(HoldfastError), report_overlap(claim):
        await claim.release()


async def fail_claim(claim: Claim[R], error: Exception) -> None:
    """Record the label of the error in the claim, and ignore a failed write."""
    with suppress(HoldfastError), report_overlap(claim):
        await claim.fail(get_reason(error))


@contextmanager
def report_overlap(claim: Claim[R]) -> Iterator[None]:
    """Log and count that the claim was lost while this worker called the external service.

    Another worker may have waited for the deadline, and looked up or repeated the call. If the request of
    this one arrived later than that, the effect happened twice.
    """
    try:
        yield
    except LeaseLost:
        if claim.has_called:
            claim.stores.count("once_overlaps", record=claim.once.name)
            log.error(
                "The effect of %s may have happened twice: the claim was lost during the call of the "
                "external service. Check there.",
                claim.record.describe(),
            )
        raise


async def refuse_claim(
    claim: Claim[R], error: ExternalServiceRefused, *writes: Write[Any], is_open: bool = False
) -> None:
    """Record the refusal.

    If that write fails the intent stays: a later attempt looks up and is refused again. With `writes`, a
    failed write raises, so that the caller knows that they were not made. `is_open` notes that an earlier
    attempt may have succeeded.
    """
    with suppress(*(() if writes else (HoldfastError,))):
        reason = get_reason(error) + ("; outcome of an attempt before unknown" if is_open else "")
        await claim.refuse(str(error.code), reason, *writes)


def get_reason(error: Exception) -> str:
    """Return the label of the error, with the service's code of a refusal; not its text, which may be
    confidential.
    """
    kind = error_label(error)
    return f"{kind} ({error.code})" if isinstance(error, RequestRefused) else kind
