"""`Once`: the declaration of an effect that happens once, and the ways to run it.

claim          claim the record; the caller completes it
do             run an effect in tables: claim, run and complete, or return the stored result
wraps          the same as a decorator
call_external  run an effect at an external service: intent, call, outcome; looked up before it is repeated
reopen         allow another claim after a permanent refusal
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from holdfast.core.errors import (
    DeclarationError,
    ExternalServiceRefused,
    IdempotencyMismatch,
    InProgress,
    InvalidRequest,
)
from holdfast.guarantees.idempotency.claim import MAX_ATTEMPTS, Claim, Completion, build_busy_error, try_put
from holdfast.guarantees.idempotency.execution import run_claimed
from holdfast.guarantees.idempotency.external_call import (
    Deadline,
    ExternalAct,
    LookUp,
    call_and_record,
    check_external_call,
    check_time_limit,
)
from holdfast.guarantees.idempotency.patterns import OncePatterns, build_patterns
from holdfast.guarantees.idempotency.record import (
    OnceRecord,
    OnceStatus,
    compute_end,
    compute_time_after,
    format_key,
    truncate_to_second,
)
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.pattern_sets import Guarantee
from holdfast.model.entities import Put, get_declaration
from holdfast.model.operations import Write
from holdfast.model.patterns import Rate
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores

R = TypeVar("R", bound=OnceRecord)
T = TypeVar("T")
P = ParamSpec("P")

LEASE_S: Final = 60.0
# Machines that synchronise their clocks differ by some milliseconds.
CLOCK_MARGIN_S: Final = 1.0
RETENTION_S: Final = 30 * 24 * 3600.0

# Cleared on the first claim of a record, whatever the caller's record has there.
_RESET: Final[dict[str, Any]] = dict.fromkeys(("result", "error", "act_until", "last_processed_at"))


class Once(Guarantee, Generic[R]):
    """An effect that happens once per record, however often it is requested, even if workers die.

    The result is kept, and a repeat recognised, for `retention_s` seconds. Within that time:

    - An effect in tables happens once, without a further condition.
    - An effect at an external service that accepts the key (`takes_key`) happens once for as long as the
      service knows the key.
    - An effect at an external service that is only looked up happens once if the service acts within `act_s`
      seconds of the intent, or never, and if the clocks of two workers differ by at most `clock_margin_s`. A
      process that is stopped while it sends, and continues later, breaks the first. The worker that finds
      that its claim was lost during a call logs it, and counts it as `once_overlaps`.

    A worker that does not renew for `lease_s` seconds loses its claim to another worker.
    """

    def __init__(
        self,
        entity: type[R],
        *,
        prefix: str,
        rate: Rate,
        example: R | Callable[[], R],
        lease_s: float = LEASE_S,
        retention_s: float = RETENTION_S,
        clock_margin_s: float = CLOCK_MARGIN_S,
    ) -> None:
        self.name, self.entity, self.lease_s, self.retention_s = entity.__name__, entity, lease_s, retention_s
        self.clock_margin_s = clock_margin_s
        _check_declaration(entity, lease_s, retention_s, clock_margin_s)
        declare_retention(
            entity, retention_s, "a repeat is recognised for this long; a record may set its own end"
        )
        made: Any = example if callable(example) else lambda: example
        self.pattern_set: OncePatterns[R] = build_patterns(entity, prefix, rate, made)

    async def claim(
        self, stores: Stores, record: R, *, act_s: float | None = None
    ) -> Claim[R] | Completion[R]:
        """Claim the record for this worker, or return its stored completion if the effect is done.

        With `act_s`, the first claim of a record also writes the intent: an external service is about to act.
        Raises `InProgress` while another worker has it, `IdempotencyMismatch` if the key was used for another
        payload, `ExternalServiceRefused` after a permanent refusal, `InvalidRequest` for a delayed action,
        and `DeclarationError` if `act_s` and the clock margin are not within the lease.
        """
        if act_s is not None:
            check_time_limit(self.name, act_s, self.lease_s, self.clock_margin_s)
        return await self._claim(stores, record, act_s)

    async def reopen(self, stores: Stores, record: R) -> None:
        """Allow another claim after a permanent refusal, once an operator has confirmed that its reason is
        gone.

        Raises as `claim` does, except for the refusal.
        """
        taken = await self._claim(stores, record, is_reopening=True)
        if isinstance(taken, Claim):
            await taken.release()

    async def do(
        self, stores: Stores, record: R, effect: Callable[[Claim[R]], Awaitable[object]]
    ) -> Completion[R]:
        """Claim the record, run the effect and complete the claim; if the effect was done before, return its
        completion.

        The effect may complete the claim itself, with its writes; otherwise its return value is the result.
        Raises as `claim` does. A retryable error of the effect releases the claim; any other one is recorded
        as a failure.
        """
        taken = await self.claim(stores, record)
        return taken if isinstance(taken, Completion) else await run_claimed(taken, effect)

    def wraps(
        self, record: Callable[P, R]
    ) -> Callable[
        [Callable[Concatenate[Stores, Claim[R], P], Awaitable[object]]],
        Callable[Concatenate[Stores, P], Awaitable[Completion[R]]],
    ]:
        """Return a decorator that runs a function once, as `do` does.

        The function gets the stores, the claim, and its arguments. `record` builds the record from these
        arguments.
        """

        def decorate(
            function: Callable[Concatenate[Stores, Claim[R], P], Awaitable[object]],
        ) -> Callable[Concatenate[Stores, P], Awaitable[Completion[R]]]:
            @functools.wraps(function)
            async def once(stores: Stores, /, *args: P.args, **kwargs: P.kwargs) -> Completion[R]:
                return await self.do(
                    stores, record(*args, **kwargs), lambda claim: function(stores, claim, *args, **kwargs)
                )

            return once

        return decorate

    async def call_external(
        self,
        stores: Stores,
        record: R,
        *,
        act: ExternalAct[T],
        look_up: LookUp[T] | None = None,
        takes_key: bool = False,
        act_s: float,
        writes: Callable[[T], Sequence[Write[Any]]] = lambda _: (),
    ) -> Completion[R]:
        """Run the effect once at an external service. `act` and `look_up` get the record's key as text.

        `act` is an async function and has until shortly before `act_s` seconds have passed. If its outcome is
        unknown, the next attempt waits for that deadline and calls `look_up`, which returns the outcome, or
        None if the service has none; only then it acts again. `takes_key=True` means that the service accepts
        the key as an idempotency key, so `act` can be repeated without a look-up. The class says under which
        conditions each happens once. The writes that `writes` returns for the outcome are committed with the
        completion.

        Raises `DeclarationError`, before anything is done, if a repeat could act twice: without `look_up` and
        `takes_key`, if `act` or `look_up` cannot be cancelled, or if `act_s` and the clock margin are not
        within the lease.
        """
        check_external_call(self.name, act, look_up, takes_key)
        began = asyncio.get_running_loop().time()
        taken = await self.claim(stores, record, act_s=act_s)
        if isinstance(taken, Completion):
            return taken
        return await call_and_record(taken, act, look_up, Deadline(act_s, began), writes)

    # --- claiming -----------------------------------------------------------------------------------------

    async def _claim(
        self, stores: Stores, record: R, act_s: float | None = None, *, is_reopening: bool = False
    ) -> Claim[R] | Completion[R]:
        """Claim the record; after `MAX_ATTEMPTS` lost races raise `RetryLater`.

        `is_reopening` ignores a refusal.
        """
        seen: R | None = None
        for _ in range(MAX_ATTEMPTS):
            now = stores.clock.now()
            put = (
                self._build_first_claim(stores, record, now, act_s)
                if seen is None
                else self._build_retake(stores, record, seen, now)
            )
            found = await try_put(stores, put)
            if found is None:
                ends = self._get_requested_end(record, now)
                return Claim(self, stores, put.entity, ends, has_intent=seen is None and act_s is not None)
            seen = self.entity.from_item(found) if found else None
            if seen is None or seen.can_be_replaced(stores.clock.now()):
                seen = None
            elif self._check_is_done(stores, seen, record, is_reopening=is_reopening):
                return Completion(seen, replayed=True)
        raise build_busy_error()

    def _build_first_claim(self, stores: Stores, record: R, now: float, act_s: float | None) -> Put[R]:
        """Build the put that claims a record that does not exist or has expired, with an intent if `act_s` is
        given.
        """
        act_until = None if act_s is None else self.compute_act_until(now, act_s)
        changes = (
            _RESET | self.build_claim_changes(stores, record, now, act_until) | {"attempts": 1, "revision": 1}
        )
        changes["created_at"] = record.created_at or truncate_to_second(now)
        return self.pattern_set.claim(record.model_copy(update=changes), truncate_to_second(now))

    def _build_retake(self, stores: Stores, record: R, seen: R, now: float) -> Put[R]:
        """Build the put that takes over `seen`.

        The creation time and an open intent of the earlier worker are kept.
        """
        return self.build_takeover(seen, self.build_claim_changes(stores, record, now, seen.act_until))

    def build_takeover(self, seen: R, claim_changes: dict[str, Any]) -> Put[R]:
        """Build the put that takes over `seen` and counts an attempt, on condition that the record has not
        changed.
        """
        changes = claim_changes | {"attempts": seen.attempts + 1, "revision": seen.revision + 1}
        return self.pattern_set.retake(seen.model_copy(update=changes), seen.owner, seen.revision)

    def compute_act_until(self, now: float, act_s: float) -> float:
        """Return when the service can no longer act by the clock of any other worker: the time limit, and the
        difference that their clocks may have.
        """
        return compute_time_after(now, act_s + self.clock_margin_s)

    def build_claim_changes(
        self, stores: Stores, record: R, now: float, act_until: float | None
    ) -> dict[str, Any]:
        """Return the attributes of a fresh claim.

        The record outlives its lease and its intent, even if the caller set an earlier end.
        """
        until = compute_time_after(now, self.lease_s)
        kept_until = None if act_until is None else now + self.retention_s
        return {
            "status": OnceStatus.PROCESSING,
            "owner": UlidGenerator(stores.clock).new(),
            "in_progress_expires_at": until,
            "lease_s": self.lease_s,
            "act_until": act_until,
            "refused": None,
            "expires_at": compute_end(self._get_requested_end(record, now), until, kept_until),
        }

    def _get_requested_end(self, record: R, now: float) -> datetime:
        """Return the end that the caller set, otherwise now plus the declared lifetime."""
        return record.expires_at or truncate_to_second(now + self.retention_s)

    def compute_wait_s(self, stores: Stores, seen: R) -> float:
        """Return the seconds until another worker may take the record over; 0 or less if it may now.

        A lease or an intent is not longer than the lease that the record names. One that ends later by the
        clock of these stores is over when they have seen the record unchanged for as long.
        """
        max_s = self.lease_s if seen.lease_s is None else seen.lease_s
        key, version = (self.name, format_key(seen)), (seen.owner, seen.revision)
        return stores.deadlines.compute_left_s(key, version, seen.get_live_until(), max_s)

    def _check_is_done(self, stores: Stores, seen: R, record: R, *, is_reopening: bool) -> bool:
        """Return True if the effect is done, False if this worker may take over.

        Raise if another worker has it, if it was refused, if the payload differs, or if it is a delayed
        action.
        """
        if seen.payload_sha256 != record.payload_sha256:
            raise IdempotencyMismatch(
                f"Idempotency key {record.describe()} was used before with a different payload. "
                "Use a new key for new content."
            )
        if seen.status in (OnceStatus.HELD, OnceStatus.CANCELLED):
            raise InvalidRequest(
                f"{record.describe()} is a delayed action with status {seen.status}. Run it with "
                "DelayedActions.execute."
            )
        if seen.status is OnceStatus.PROCESSED:
            return True
        if seen.refused is not None and not is_reopening:
            raise ExternalServiceRefused(
                seen.refused,
                f"{record.describe()} was refused permanently ({seen.refused}); the external service was not "
                "called again. Stop requesting it, or call reopen once the reason is gone.",
            )
        if (wait_s := self.compute_wait_s(stores, seen)) > 0:
            raise InProgress(
                f"{record.describe()} is in progress, or may be for another {wait_s:.1f} s. Retry then, and "
                "do not acknowledge the message before.",
                retry_after_s=wait_s,
            )
        return False


def _check_declaration(
    entity: type[OnceRecord], lease_s: float, retention_s: float, clock_margin_s: float
) -> None:
    """Raise `DeclarationError` unless the table expires by `expires_at`, 0 < `lease_s` < `retention_s`, and
    the margin is not negative.
    """
    declaration = get_declaration(entity)
    stored_as = declaration.attributes["expires_at"].stored_name
    if declaration.table.ttl != stored_as:
        raise DeclarationError(
            f"Invalid {entity.__name__}: its expires_at is stored as {stored_as}, but the time-to-live "
            f"attribute of table {declaration.table.name} is {declaration.table.ttl or 'not set'}. Declare "
            f"Table({declaration.table.name!r}, …, ttl={stored_as!r})."
        )
    if not 0 < lease_s < retention_s:
        raise DeclarationError(
            f"Invalid Once({entity.__name__}): lease_s={lease_s:g}, retention_s={retention_s:g}. The lease "
            "must be above 0, and the record must outlive it."
        )
    if not clock_margin_s >= 0:
        raise DeclarationError(
            f"Invalid Once({entity.__name__}): clock_margin_s={clock_margin_s:g}. Expected 0 or more: the "
            "seconds by which the clocks of two workers may differ."
        )
