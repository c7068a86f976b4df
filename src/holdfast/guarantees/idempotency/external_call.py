"""An effect at an external service: record the intent, call the service, record the outcome.

A worker may die, or a response may be lost, between the call and its record. The intent then says that the
service may have acted, and until when it still may. The next worker waits for that deadline (the claim
enforces it), looks up the outcome by the record's key, and acts only if the service has none.

A call is cancelled after four fifths of its time limit `act_s` (`CALL_SHARE`); the rest is for requests still
in transit. The deadline is the time limit and the difference that the clocks of two workers may have
(`clock_margin_s`). No worker looks up before the deadline, and the one that does acts at once.

The limit: unless it accepts the idempotency key, a service acts twice if it acts after its deadline, because
the look-up found nothing yet. So `act_s` is the longest time that the service may take, not the usual one,
and `act` must be cancellable: what a thread or a child process sends is not. A process that is stopped while
it sends, or a clock that differs by more than the margin, has the same result. The worker that comes late
finds its claim lost and reports that (`once_overlaps`). Where it can happen, check again some time after a
repeated effect, and undo duplicates.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.core.errors import (
    CircuitOpen,
    DeclarationError,
    ExternalServiceFailed,
    ExternalServiceRefused,
    LeaseLost,
    RateLimited,
    RequestError,
)
from holdfast.guarantees.idempotency.claim import Claim, Completion
from holdfast.guarantees.idempotency.execution import (
    fail_claim,
    refuse_claim,
    release_claim,
    report_overlap,
)
from holdfast.guarantees.idempotency.record import OnceRecord
from holdfast.model.operations import Write

R = TypeVar("R", bound=OnceRecord)
T = TypeVar("T")

ExternalAct: TypeAlias = Callable[[str], Awaitable[T]]
RefusalWrites: TypeAlias = Callable[[ExternalServiceRefused], Sequence[Write[Any]]]
LookUp: TypeAlias = Callable[[str], Awaitable[T | None]]

# Share of the time before the deadline that the call may take; the rest is for requests in transit.
CALL_SHARE: Final = 0.8

# Added to the refusal of a repeat, which says nothing about the earlier attempt.
MAY_BE_DONE_NOTE: Final = (
    " An earlier attempt may have succeeded: its outcome is unknown. Check with the external service first."
)


@dataclass(frozen=True)
class Deadline:
    """Time limit for the external service: `act_s` seconds from `started`.

    `started` is event loop time, not later than the intent.
    """

    act_s: float
    started: float

    @property
    def send_until(self) -> float:
        """The event loop time at which the call is cancelled: after `CALL_SHARE` of the limit."""
        return self.started + self.act_s * CALL_SHARE


async def call_and_record(
    claim: Claim[R],
    act: ExternalAct[T],
    look_up: LookUp[T] | None,
    deadline: Deadline,
    writes: Callable[[T], Sequence[Write[Any]]],
    refusal: RefusalWrites = lambda _: (),
) -> Completion[R]:
    """Complete the claim with the outcome of the external service, looked up or new, and return the
    completion.

    The writes that `writes` returns for the outcome, or `refusal` for a permanent refusal, are committed with
    it. An invalid request is recorded as a failure; other errors release the claim. All propagate.
    """
    try:
        with report_overlap(claim):
            async with claim.keep_renewed():
                outcome: T | None = None
                is_open = claim.was_attempted
                if is_open and look_up is not None:
                    outcome, is_open = await look_up(claim.key), False
                if outcome is None:
                    outcome = await _call(claim, act, deadline, refusal, is_open)
                return await claim.complete(*writes(outcome), result=outcome)
    except LeaseLost:
        raise
    except RequestError as error:
        await fail_claim(claim, error)
        raise
    except BaseException:
        await release_claim(claim)
        raise


async def _call(
    claim: Claim[R], act: ExternalAct[T], deadline: Deadline, refusal: RefusalWrites, is_open: bool
) -> T:
    """Call the service under an intent and return its outcome.

    Only an error that says nothing was done clears the intent: any other one, a store's included, may have
    come after the service acted. `is_open` means that an earlier attempt may have succeeded. Raises
    `ExternalServiceFailed` with `may_be_done` after a timeout.
    """
    if not claim.has_intent:
        deadline = Deadline(deadline.act_s, asyncio.get_running_loop().time())
        await claim.record_intent(deadline.act_s)
    limit = asyncio.timeout_at(deadline.send_until)
    try:
        async with limit:
            _check_deadline(claim, deadline)
            claim.has_called = True
            return await act(claim.key)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _build_unknown_outcome(claim, None) from error
    except ExternalServiceFailed as error:
        if error.may_be_done:
            raise _build_unknown_outcome(claim, error) from error
        await claim.clear_intent()
        raise
    except ExternalServiceRefused as error:
        if not is_open:
            await refuse_claim(claim, error, *refusal(error))
            raise
        doubtful = ExternalServiceRefused(str(error.code), error.message + MAY_BE_DONE_NOTE)
        await refuse_claim(claim, doubtful, *refusal(doubtful), is_open=True)
        raise doubtful from error
    except (CircuitOpen, RateLimited):
        await claim.clear_intent()
        raise


def _check_deadline(claim: Claim[R], deadline: Deadline) -> None:
    """Raise `ExternalServiceFailed` if the deadline has passed: another worker may already have looked up the
    outcome.

    Both clocks count: the wall clock may have been set back, and the monotonic one may stop while a machine
    sleeps.
    """
    kept_back = deadline.act_s * (1 - CALL_SHARE) + claim.once.clock_margin_s
    is_late = claim.stores.clock.now() >= (claim.record.act_until or 0.0) - kept_back
    if is_late or asyncio.get_running_loop().time() >= deadline.send_until:
        raise ExternalServiceFailed(
            f"The deadline for {claim.record.describe()} passed before the external service was called: "
            "nothing was sent. Retry.",
            may_be_done=False,
        )


def _build_unknown_outcome(claim: Claim[R], error: ExternalServiceFailed | None) -> ExternalServiceFailed:
    """Return the error for an unknown outcome, with a retry time after the deadline."""
    wait_s = max(0.0, (claim.record.act_until or 0.0) - claim.stores.clock.now())
    asked_s = 0.0 if error is None else error.retry_after_s or 0.0
    what = "gave no answer in time" if error is None else f"failed: {error.message}"
    return ExternalServiceFailed(
        f"The external service {what}. The outcome of {claim.record.describe()} is unknown. Retry in "
        f"{max(wait_s, asked_s):.1f} s: it is looked up before it is repeated.",
        may_be_done=True,
        retry_after_s=max(wait_s, asked_s),
    )


def check_external_call(
    name: str, act: Callable[..., Any], look_up: Callable[..., Any] | None, takes_key: bool
) -> None:
    """Raise `DeclarationError` if a repeat could act twice. `name` is the entity's."""
    if look_up is None and not takes_key:
        raise DeclarationError(
            f"Invalid external call of {name}: its outcome cannot be checked. Pass look_up=…, or "
            "takes_key=True if the external service accepts the key as an idempotency key."
        )
    for role, function in (("act", act), ("look_up", look_up)):
        if function is not None and not _is_async(function):
            raise DeclarationError(
                f"Invalid {role} of {name}: {getattr(function, '__qualname__', function)!s} is not an async "
                "function, so it cannot be cancelled at its deadline. Write it with `async def`, and await "
                "the call that sends."
            )


def check_time_limit(name: str, act_s: float, lease_s: float, clock_margin_s: float) -> None:
    """Raise `DeclarationError` unless `act_s` and the clock margin are within the lease."""
    if not (act_s > 0 and act_s + clock_margin_s < lease_s):
        raise DeclarationError(
            f"Invalid act_s={act_s:g} of {name}: expected a time above 0 that ends, with "
            f"clock_margin_s={clock_margin_s:g}, before the lease does ({lease_s:g} s). Shorten act_s, or "
            "declare a longer lease_s."
        )


def _is_async(function: Callable[..., Any]) -> bool:
    """Return whether the function, also behind a partial or as a callable object, is defined with `async`."""
    while isinstance(function, functools.partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
