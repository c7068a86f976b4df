"""An effect at an outside party: the intent is recorded, the party acts, the outcome is recorded.

Between the second and the third a worker may die, or an answer may be lost. Then nobody here knows whether the party
has acted; the intent says so, and until when it still may. Whoever comes next waits out that deadline (the claim sees to
it), looks up at the party by the record's key, and acts only if the party knows nothing.

The deadline is the margin: a call is given up at four fifths of it (`CALL_SHARE`), and the rest is for what is on its way. Nobody
looks before it is over, and whoever looks then looks once and acts at once.

The limit: a party that acts after its deadline is hit twice, look-up or not, since the look-up found nothing yet; only one that takes
the key is not. So `act_s` is how long the party may take at its slowest, not how long it usually takes. Where that cannot be known,
look again some time after an effect that was repeated, and undo what is too much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.errors import (
    CircuitOpen,
    DeclarationError,
    LeaseLost,
    PartyFailed,
    PartyRefused,
    RateLimited,
    RequestError,
)
from holdfast.guarantees.once.claim import Claim, Done
from holdfast.guarantees.once.record import OnceRecord
from holdfast.guarantees.once.working import failed, given_back, refused
from holdfast.model import Write

R = TypeVar("R", bound=OnceRecord)
T = TypeVar("T")

Act: TypeAlias = Callable[[str], Awaitable[T]]
Refusal: TypeAlias = Callable[[PartyRefused], Sequence[Write[Any]]]
LookUp: TypeAlias = Callable[[str], Awaitable[T | None]]

# The part of the time before the deadline that the call may take; the rest is for what is on its way to the party.
CALL_SHARE: Final = 0.8

# Added to a refusal of a repeat: it says nothing about the attempt before.
MAY_BE_DONE: Final = " An attempt before may have been done: its outcome is open, so look at the party first."


@dataclass(frozen=True)
class Deadline:
    """How long the party has, and since when by the event loop's time: not later than its intent was recorded."""

    act_s: float
    began: float

    @property
    def send_until(self) -> float:
        return self.began + self.act_s * CALL_SHARE


async def acted(
    claim: Claim[R],
    act: Act[T],
    look_up: LookUp[T] | None,
    deadline: Deadline,
    writes: Callable[[T], Sequence[Write[Any]]],
    refusal: Refusal = lambda _: (),
) -> Done[R]:
    """The claim completed with the party's outcome: found there, or newly come about. What `writes` makes of it, or
    `refusal` of a refusal for good, is written with it."""
    try:
        async with claim.kept():
            outcome: T | None = None
            is_open = claim.was_asked
            if is_open and look_up is not None:
                outcome, is_open = await look_up(claim.key), False
            if outcome is None:
                outcome = await _asked(claim, act, deadline, refusal, is_open)
            return await claim.complete(*writes(outcome), result=outcome)
    except LeaseLost:
        raise
    except RequestError as error:
        await failed(claim, error)
        raise
    except BaseException:
        await given_back(claim)
        raise


async def _asked(claim: Claim[R], act: Act[T], deadline: Deadline, refusal: Refusal, is_open: bool) -> T:
    """Acts under an intent. Only what says of itself that nothing was done takes the intent back: any other error,
    a store's too, may have come after the party had acted. `is_open` says that it may have acted before."""
    if not claim.has_intent:
        deadline = Deadline(deadline.act_s, asyncio.get_running_loop().time())
        await claim.intend(deadline.act_s)
    limit = asyncio.timeout_at(deadline.send_until)
    try:
        async with limit:
            _refuse_late(claim, deadline)
            return await act(claim.key)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _unknown(claim, None) from error
    except PartyFailed as error:
        if error.may_be_done:
            raise _unknown(claim, error) from error
        await claim.forget_intent()
        raise
    except PartyRefused as error:
        if not is_open:
            await refused(claim, error, *refusal(error))
            raise
        doubtful = PartyRefused(str(error.code), error.message + MAY_BE_DONE)
        await refused(claim, doubtful, *refusal(doubtful), is_open=True)
        raise doubtful from error
    except (CircuitOpen, RateLimited):
        await claim.forget_intent()
        raise


def _refuse_late(claim: Claim[R], deadline: Deadline) -> None:
    """A process that slept between its intent and its act must not act any more: another may have looked up.

    By both clocks: the wall clock may have been set back, and the monotonic one may stand while a machine sleeps.
    """
    kept_back = deadline.act_s * (1 - CALL_SHARE)
    is_late = claim.stores.clock.now() >= (claim.record.act_until or 0.0) - kept_back
    if is_late or asyncio.get_running_loop().time() >= deadline.send_until:
        raise PartyFailed(
            f"The deadline to act for {claim.record.spoken()} passed before the party was asked: nothing was sent. Come again.",
            may_be_done=False,
        )


def _unknown(claim: Claim[R], error: PartyFailed | None) -> PartyFailed:
    """Whoever comes again comes after the deadline."""
    wait_s = max(0.0, (claim.record.act_until or 0.0) - claim.stores.clock.now())
    asked_s = 0.0 if error is None else error.retry_after_s or 0.0
    what = "gave no answer in time" if error is None else f"failed: {error.message}"
    return PartyFailed(
        f"The party {what}. Whether it did {claim.record.spoken()} is open: come again in {max(wait_s, asked_s):.1f} s, and it is "
        "looked up before it is repeated.",
        may_be_done=True,
        retry_after_s=max(wait_s, asked_s),
    )


def refuse_unsafe(name: str, has_look_up: bool, takes_key: bool, act_s: float, lease_s: float) -> None:
    """What would hit a party twice, or let another take over while it acts."""
    if not (has_look_up or takes_key):
        raise DeclarationError(
            f"An effect of {name} at an outside party needs a way to find out whether it happened: give look_up=…, or "
            "say takes_key=True where the party takes the key that act is called with as an idempotency key."
        )
    if not 0 < act_s < lease_s:
        raise DeclarationError(
            f"An effect of {name} has {act_s:g} s to happen under a lease of {lease_s:g} s: the deadline must come "
            "before the lease ends. Shorten act_s, or declare a longer lease_s."
        )
