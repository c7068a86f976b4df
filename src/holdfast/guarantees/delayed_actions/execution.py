"""Execution of a due action, once: read it, take it, call the external service, record the outcome.

The take is conditional on the record that was read: of a concurrent cancel and execute one wins.

A record without an attempt may have been done all the same: a restored table brings back actions that were
done since the backup. So an action that is long overdue is looked up before it runs, or left to a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.core.errors import DeclarationError, ExternalServiceRefused, InProgress
from holdfast.guarantees.delayed_actions.claim import OUTCOME_UNKNOWN, DelayedActionClaim
from holdfast.guarantees.delayed_actions.patterns import DelayedActionPatterns
from holdfast.guarantees.delayed_actions.record import DelayedAction
from holdfast.guarantees.delayed_actions.reviews import build_gone, build_not_pending
from holdfast.guarantees.idempotency import Completion, Once, OnceStatus
from holdfast.guarantees.idempotency.claim import MAX_ATTEMPTS, build_busy_error, try_put
from holdfast.guarantees.idempotency.external_call import (
    MAY_BE_DONE_NOTE,
    Deadline,
    RefusalWrites,
    call_and_record,
    check_external_call,
    check_time_limit,
)
from holdfast.guarantees.idempotency.record import compute_time_after, format_key, truncate_to_second
from holdfast.model.operations import Write
from holdfast.runtime import Stores

H = TypeVar("H", bound=DelayedAction)
T = TypeVar("T")

DelayedAct: TypeAlias = Callable[[H, str], Awaitable[T]]
DelayedLookUp: TypeAlias = Callable[[H, str], Awaitable[T | None]]


@dataclass(frozen=True)
class Effect(Generic[H, T]):
    """The call of the external service, and the writes for its outcome."""

    act: DelayedAct[H, T]
    look_up: DelayedLookUp[H, T] | None
    takes_key: bool
    key_kept_s: float | None
    act_s: float
    writes: Callable[[T], Sequence[Write[Any]]]
    refused: RefusalWrites

    def check_safety(self, once: Once[H]) -> None:
        """Raise `DeclarationError` if a repeat could act twice, or if `key_kept_s` is invalid."""
        name = once.name
        check_external_call(name, self.act, self.look_up, self.takes_key)
        check_time_limit(name, self.act_s, once.lease_s, once.clock_margin_s)
        if self.key_kept_s is not None and not self.takes_key:
            raise DeclarationError(
                f"Invalid key_kept_s of {name}: it needs takes_key=True. Pass that too, or leave key_kept_s "
                "out."
            )
        if self.key_kept_s is not None and self.key_kept_s <= self.act_s:
            raise DeclarationError(
                f"Invalid key_kept_s={self.key_kept_s:g} of {name}: not above act_s={self.act_s:g}, so the "
                "call could never be repeated. Shorten act_s, or pass look_up."
            )

    def may_call(self, seen: DelayedAction, now: float, clock_margin_s: float) -> bool:
        """Return True if the service may be called: it can be looked up, or it would still know the key of an
        earlier call, whose time another clock wrote.
        """
        ends_at = now + self.act_s + clock_margin_s
        if self.look_up is not None or self.key_kept_s is None:
            return True
        if seen.asked_since is None:
            return ends_at <= seen.get_undone_at() + self.key_kept_s
        # A call in the future was made by a clock that was ahead: how long ago is unknown.
        return seen.asked_since <= now and ends_at <= seen.asked_since + self.key_kept_s


async def execute(
    once: Once[H], patterns: DelayedActionPatterns[H], stores: Stores, record: H, effect: Effect[H, T]
) -> Completion[H]:
    """Run the due action once and return its completion, or the stored one if it was executed before.

    Raises as `DelayedActions.execute` says, and `RetryLater` if the record keeps changing.
    """
    effect.check_safety(once)
    for _ in range(MAX_ATTEMPTS):
        seen = await stores.run(patterns.one(record))
        if seen is None:
            raise build_gone(record)
        if seen.status is OnceStatus.PROCESSED:
            return Completion(seen, replayed=True)
        _check_due(once, stores, seen)
        began = asyncio.get_running_loop().time()
        claim = await _try_take(once, stores, seen, effect)
        if claim is not None:
            return await _run_effect(claim, effect, Deadline(effect.act_s, began))
    raise build_busy_error()


def compute_wait_s(once: Once[H], stores: Stores, seen: H) -> float:
    """Return the seconds until a worker may take the action: it is due, and no other worker has it."""
    wait_s = once.compute_wait_s(stores, seen)
    return max(wait_s, _compute_delay_s(stores, seen)) if seen.status is OnceStatus.HELD else wait_s


def _compute_delay_s(stores: Stores, seen: DelayedAction) -> float:
    """Return the seconds until a waiting action is due; 0 or less if it is.

    An action that waits longer than it was delayed for, by the clock of these stores, is due when they have
    seen it unchanged for as long.
    """
    if seen.held_since is None or seen.held_until is None:
        return seen.get_seconds_until_due(stores.clock.now())
    due_at, key = seen.held_until.timestamp(), (type(seen).__name__, "delay", format_key(seen))
    return stores.deadlines.compute_left_s(key, due_at, due_at, max(0.0, due_at - seen.held_since))


def _check_due(once: Once[H], stores: Stores, seen: H) -> None:
    """Raise if the action was cancelled or refused, another worker has it, it is not due yet, or it has
    expired.
    """
    if seen.status is OnceStatus.CANCELLED:
        raise build_not_pending(seen)
    if seen.refused is not None:
        raise ExternalServiceRefused(
            seen.refused,
            f"{seen.describe()} was refused permanently ({seen.refused}); the external service was not "
            "called "
            f"again.{MAY_BE_DONE_NOTE if seen.asked_since is not None else ''} Call reopen once the reason "
            "is gone.",
        )
    if seen.can_be_replaced(stores.clock.now()):
        raise build_gone(seen)
    if (live_s := once.compute_wait_s(stores, seen)) > 0:
        raise InProgress(
            f"{seen.describe()} is being executed, or may be for another {live_s:.1f} s. Retry then.",
            retry_after_s=live_s,
        )
    if seen.status is OnceStatus.HELD and (left_s := _compute_delay_s(stores, seen)) > 0:
        raise InProgress(
            f"{seen.describe()} is delayed for another {left_s:.1f} s. Retry then, or have it approved.",
            retry_after_s=left_s,
        )


async def _try_take(
    once: Once[H], stores: Stores, seen: H, effect: Effect[H, T]
) -> DelayedActionClaim[H] | None:
    """Take the action and return its claim, or None if it was changed meanwhile.

    The take includes the intent if the service is called at once.
    """
    now = stores.clock.now()
    is_first, is_overdue = seen.asked_since is None, now > seen.get_undone_at() + once.lease_s
    may_call = effect.may_call(seen, now, once.clock_margin_s)
    asks = is_first and may_call and not (is_overdue and effect.look_up is not None)
    act_until = once.compute_act_until(now, effect.act_s) if asks else seen.act_until
    begun = once.build_claim_changes(stores, seen, now, act_until)
    # Not the current time: a restored action may have been done as soon as it was due.
    begun["asked_since"] = compute_time_after(min(seen.get_undone_at(), now), 0) if asks else seen.asked_since
    begun["ends_at"] = seen.ends_at or seen.expires_at or truncate_to_second(now + once.retention_s)
    put = once.build_takeover(seen, begun)
    if await try_put(stores, put) is not None:
        return None
    return DelayedActionClaim(
        once,
        stores,
        put.entity,
        begun["ends_at"],
        has_intent=asks,
        is_open=not is_first and effect.look_up is None,
        is_overdue=is_overdue and effect.look_up is None,
    )


async def _run_effect(
    claim: DelayedActionClaim[H], effect: Effect[H, T], deadline: Deadline
) -> Completion[H]:
    """Call the service under the claim and record the outcome; give up if the service may not be called
    again.
    """
    now, margin_s = claim.stores.clock.now(), claim.once.clock_margin_s
    if not (claim.has_intent or effect.may_call(claim.record, now, margin_s)):
        await _give_up(claim, effect)

    async def act(key: str) -> T:
        return await effect.act(claim.record, key)

    async def look_up_record(key: str) -> T | None:
        return None if effect.look_up is None else await effect.look_up(claim.record, key)

    look_up = None if effect.look_up is None else look_up_record
    return await call_and_record(claim, act, look_up, deadline, effect.writes, effect.refused)


async def _give_up(claim: DelayedActionClaim[H], effect: Effect[H, T]) -> None:
    """Record the action as refused with `OUTCOME_UNKNOWN` and raise that error: a person must check with the
    service.
    """
    why, reason = f"The outcome of {claim.record.describe()} is unknown", "outcome unknown"
    if claim.record.asked_since is None:
        late_s = claim.stores.clock.now() - claim.record.get_undone_at()
        why = (
            f"{claim.record.describe()} is overdue by {late_s:.0f} s and may have been done before: the "
            "worker was down, or the table was restored to a time before it was done"
        )
        reason = "long overdue, outcome unknown"
    error = ExternalServiceRefused(
        OUTCOME_UNKNOWN,
        f"{why}. The external service keeps the idempotency key for only {effect.key_kept_s:g} s, so a "
        "repeat could do it twice. Check with the service, and call reopen if it was not done.",
    )
    await claim.refuse(OUTCOME_UNKNOWN, reason, *effect.refused(error))
    raise error
