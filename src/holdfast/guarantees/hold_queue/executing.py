"""A held record that is due, done once: read afresh, taken, asked of the party under an intent, recorded.

The take is conditional on the record as it was read: of a cancel and an execute at the same time one wins.

A record that says nothing of an attempt may have been done all the same: a restored table brings back what was done
since. So one that should have been done long ago is looked up before it is done, or left to a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.errors import DeclarationError, InProgress, PartyRefused
from holdfast.guarantees.hold_queue.claim import OUTCOME_UNKNOWN, HeldClaim
from holdfast.guarantees.hold_queue.patterns import HoldPatterns
from holdfast.guarantees.hold_queue.record import HeldRecord
from holdfast.guarantees.hold_queue.reviewing import gone, not_held
from holdfast.guarantees.once import Done, Once, OnceStatus
from holdfast.guarantees.once.claim import TRIES_MAX, busy, stored
from holdfast.guarantees.once.outside import MAY_BE_DONE, Deadline, Refusal, acted, refuse_unsafe
from holdfast.guarantees.once.record import moment_after, whole_second
from holdfast.model import Write
from holdfast.runtime import Stores

H = TypeVar("H", bound=HeldRecord)
T = TypeVar("T")

HeldAct: TypeAlias = Callable[[H, str], Awaitable[T]]
HeldLookUp: TypeAlias = Callable[[H, str], Awaitable[T | None]]


@dataclass(frozen=True)
class Effect(Generic[H, T]):
    """How it is done at the party, and what is written with what comes of it."""

    act: HeldAct[H, T]
    look_up: HeldLookUp[H, T] | None
    takes_key: bool
    key_kept_s: float | None
    act_s: float
    writes: Callable[[T], Sequence[Write[Any]]]
    refused: Refusal

    def refuse_unsafe(self, name: str, lease_s: float) -> None:
        refuse_unsafe(name, self.look_up is not None, self.takes_key, self.act_s, lease_s)
        if self.key_kept_s is not None and not self.takes_key:
            raise DeclarationError(
                f"An effect of {name} says how long the party keeps its key, and not that the party takes one: give "
                "takes_key=True, or leave key_kept_s out."
            )
        if self.key_kept_s is not None and self.key_kept_s <= self.act_s:
            raise DeclarationError(
                f"An effect of {name} has {self.act_s:g} s to happen, and the party keeps its key for {self.key_kept_s:g} s "
                "only: it could never be asked again. Shorten act_s, or give a look_up."
            )

    def may_ask(self, seen: HeldRecord, now: float) -> bool:
        """Whether the party, had it done it before, is sure to know the key still when it is asked now."""
        if self.look_up is not None or self.key_kept_s is None:
            return True
        since = seen.undone_at() if seen.asked_since is None else seen.asked_since
        return now + self.act_s <= since + self.key_kept_s


async def executed(
    once: Once[H], patterns: HoldPatterns[H], stores: Stores, record: H, effect: Effect[H, T]
) -> Done[H]:
    effect.refuse_unsafe(once.entity.__name__, once.lease_s)
    for _ in range(TRIES_MAX):
        seen = await stores.run(patterns.one(record))
        if seen is None:
            raise gone(record)
        if seen.status is OnceStatus.PROCESSED:
            return Done(seen, replayed=True)
        _refuse_not_due(seen, stores.clock.now())
        began = asyncio.get_running_loop().time()
        claim = await _taken(once, stores, seen, effect)
        if claim is not None:
            return await _done(claim, effect, Deadline(effect.act_s, began))
    raise busy()


def _refuse_not_due(seen: HeldRecord, now: float) -> None:
    """What was cancelled or refused, what another works on, what waits still, and what has ended before it was done."""
    if seen.status is OnceStatus.CANCELLED:
        raise not_held(seen)
    if seen.refused is not None:
        raise PartyRefused(
            seen.refused,
            f"{seen.spoken()} was refused for good before ({seen.refused}), and the party was not asked again."
            f"{MAY_BE_DONE if seen.asked_since is not None else ''} Where the reason is gone, call reopen.",
        )
    if seen.is_forgotten(now):
        raise gone(seen)
    live_s = seen.is_live_until() - now
    if live_s > 0:
        raise InProgress(
            f"{seen.spoken()} is being executed, or may be until {live_s:.1f} s from now: come again then.",
            retry_after_s=live_s,
        )
    if seen.status is OnceStatus.HELD and seen.due_in(now) > 0:
        raise InProgress(
            f"{seen.spoken()} is held for another {seen.due_in(now):.1f} s: come again then, or let somebody approve it.",
            retry_after_s=seen.due_in(now),
        )


async def _taken(once: Once[H], stores: Stores, seen: H, effect: Effect[H, T]) -> HeldClaim[H] | None:
    """The claim, with the intent in the same write where it is asked for at once; None where somebody was there
    meanwhile."""
    now = stores.clock.now()
    is_first, is_overdue = seen.asked_since is None, now > seen.undone_at() + once.lease_s
    asks = is_first and effect.may_ask(seen, now) and not (is_overdue and effect.look_up is not None)
    begun = once.begun(stores, seen, now, moment_after(now, effect.act_s) if asks else seen.act_until)
    # Not since now: one that came back may have been done as soon as it came due.
    begun["asked_since"] = moment_after(seen.undone_at(), 0) if asks else seen.asked_since
    begun["ends_at"] = seen.ends_at or seen.expires_at or whole_second(now + once.lifetime_s)
    put = once.retaken(seen, begun)
    if await stored(stores, put) is not None:
        return None
    return HeldClaim(
        once,
        stores,
        put.entity,
        begun["ends_at"],
        has_intent=asks,
        is_open=not is_first and effect.look_up is None,
        is_overdue=is_overdue and effect.look_up is None,
    )


async def _done(claim: HeldClaim[H], effect: Effect[H, T], deadline: Deadline) -> Done[H]:
    if not (claim.has_intent or effect.may_ask(claim.record, claim.stores.clock.now())):
        await _given_up(claim, effect)

    async def act(key: str) -> T:
        return await effect.act(claim.record, key)

    async def found(key: str) -> T | None:
        return None if effect.look_up is None else await effect.look_up(claim.record, key)

    look_up = None if effect.look_up is None else found
    return await acted(claim, act, look_up, deadline, effect.writes, effect.refused)


async def _given_up(claim: HeldClaim[H], effect: Effect[H, T]) -> None:
    """A person decides: nobody here can find out whether it was done."""
    why, reason = f"Whether {claim.record.spoken()} was done is not known", "outcome unknown"
    if claim.record.asked_since is None:
        late_s = claim.stores.clock.now() - claim.record.undone_at()
        why = (
            f"{claim.record.spoken()} is overdue by {late_s:.0f} s and may have been done before: whoever executes was down, or the "
            "table was restored to a moment before it was done"
        )
        reason = "long overdue, outcome unknown"
    error = PartyRefused(
        OUTCOME_UNKNOWN,
        f"{why}; and the party keeps its key for {effect.key_kept_s:g} s only: asked again, it might do it twice. Look at "
        "the party, and call reopen where it was not done.",
    )
    await claim.refuse(OUTCOME_UNKNOWN, reason, *effect.refused(error))
    raise error
