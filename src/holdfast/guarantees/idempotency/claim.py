"""A claim: one worker's right to run an effect while its lease lasts; and the completion, its stored result.

Every write of a claim is conditional on its owner and on the revision it was based on. A worker that resumes
after another has taken over changes nothing and gets `LeaseLost`. A write whose response was lost is sent
again; if the first one arrived, the stored record equals the one to be written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from holdfast.core.errors import (
    ConditionFailed,
    InvalidRequest,
    LeaseLost,
    OutcomeUnknown,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.core.rng import RNG
from holdfast.guarantees.idempotency.record import (
    OnceRecord,
    OnceStatus,
    compute_end,
    compute_time_after,
    encode_json,
    format_key,
    truncate_to_second,
)
from holdfast.guarantees.resilience.lease import keep_renewed
from holdfast.model.entities import ConditionCheck, Put
from holdfast.model.operations import Write
from holdfast.operations.values import Item
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.guarantees.idempotency.declaration import Once

R = TypeVar("R", bound=OnceRecord)

MAX_ATTEMPTS: Final = 20
MAX_PAUSE_S: Final = 0.05

CONDITION_FAILED: Final = "ConditionalCheckFailed"
# Transient: another transaction on the same item, or throttling.
TRANSIENT_CODES: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)

# Attributes of `OnceRecord` that the caller may set.
CALLER_ATTRIBUTES: Final = frozenset({"expires_at"})


@dataclass(frozen=True)
class Completion(Generic[R]):
    """The effect has happened. With `replayed` it was done before, and `result` is the stored one."""

    record: R
    replayed: bool = False

    @property
    def result(self) -> Any:
        """The result, parsed from JSON; None if the effect returned none."""
        return None if self.record.result is None else json.loads(self.record.result)


@dataclass
class Claim(Generic[R]):
    """One worker's right to run the effect.

    `record` is as last stored; `completion` is set when the claim is completed. `requested_end` is when the
    record should expire, unless a lease or an intent needs it for longer. `has_intent` means that the intent
    in the record is this worker's own and that the external service was not called before. `has_called` means
    that this worker has started to call it.
    """

    once: Once[R]
    stores: Stores
    record: R
    requested_end: datetime
    completion: Completion[R] | None = None
    has_intent: bool = False
    has_called: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _is_released: bool = field(default=False, repr=False)

    @property
    def key(self) -> str:
        """The record's key as one string."""
        return format_key(self.record)

    @property
    def was_attempted(self) -> bool:
        """Whether the external service may have been called before this claim."""
        return self.record.act_until is not None and not self.has_intent

    async def complete(self, *writes: Write[Any], result: object = None, **changes: Any) -> Completion[R]:
        """Commit the writes and the completion in one transaction, on condition that this claim still holds.

        `changes` are the system's own attributes of the record. Raises `LeaseLost` if another worker took
        over, `InvalidRequest` if the claim was completed or released.
        """
        _refuse_reserved(changes)
        changes = self._build_no_intent_changes() | changes
        changes |= {
            "status": OnceStatus.PROCESSED,
            "result": None if result is None else encode_json(result),
            "last_processed_at": truncate_to_second(self._now),
            "in_progress_expires_at": None,
            "lease_s": None,
            "error": None,
        }
        async with self._lock:
            self._check_held()
            await self._put(changes, *writes, is_last=True)
            self.completion = Completion(self.record)
        return self.completion

    async def save(self, **changes: Any) -> None:
        """Save the system's own attributes in the record, for a worker that takes over, and renew the lease.

        A given `expires_at` changes the requested end of the record. Raises as `complete` does.
        """
        _refuse_reserved(changes)
        self.requested_end = changes.pop("expires_at", None) or self.requested_end
        async with self._lock:
            self._check_held()
            await self._put(changes | self._build_lease_changes())

    async def renew(self) -> None:
        """Renew the lease; raise `LeaseLost` if another worker took over.

        Does nothing after completion or release.
        """
        async with self._lock:
            if self._is_held:
                await self._put(self._build_lease_changes())

    async def release(self, **changes: Any) -> None:
        """Release the claim: another worker may claim at once, or when the deadline of an open intent has
        passed.

        Does nothing after completion or release, as `fail`, `refuse` and `clear_intent`.
        """
        async with self._lock:
            if self._is_held:
                await self._put(changes | {"in_progress_expires_at": None})
                self._is_released = True

    async def fail(self, reason: str) -> None:
        """Record the failure and its reason. The effect may be claimed again."""
        async with self._lock:
            if self._is_held:
                failed = {"status": OnceStatus.FAILED, "error": reason, "in_progress_expires_at": None}
                await self._put(failed)
                self._is_released = True

    async def refuse(self, code: str, reason: str, *writes: Write[Any], **changes: Any) -> None:
        """Record that the external service refused permanently, with its error code, and commit `writes` with
        that.

        Only `reopen` allows another claim.
        """
        async with self._lock:
            if self._is_held:
                refused = {"status": OnceStatus.FAILED, "refused": code, "error": reason}
                changes = (
                    self._build_no_intent_changes() | changes | refused | {"in_progress_expires_at": None}
                )
                await self._put(changes, *writes)
                self._is_released = True

    async def record_intent(self, act_s: float, **changes: Any) -> None:
        """Record that an external service is about to act, within `act_s` seconds from now at the latest."""
        async with self._lock:
            self._check_held()
            act_until = self.once.compute_act_until(self._now, act_s)
            await self._put(changes | self._build_lease_changes(act_until))

    async def clear_intent(self, **changes: Any) -> None:
        """Clear the intent: the external service refused for now or was never called, so it will not act."""
        async with self._lock:
            if self._is_held:
                await self._put(changes | self._build_no_intent_changes())

    def check(self) -> ConditionCheck[R]:
        """Return a condition check that this claim still holds, for a transaction of writes before the
        completion.
        """
        return self.once.pattern_set.check(self.record)

    @asynccontextmanager
    async def keep_renewed(self) -> AsyncIterator[Claim[R]]:
        """Renew the lease while the block runs, and cancel the block if the claim is lost."""
        async with keep_renewed(self.renew, self.once.lease_s):
            yield self

    # --- one write ----------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self.stores.clock.now()

    @property
    def _is_held(self) -> bool:
        """True until the claim is completed or released."""
        return self.completion is None and not self._is_released

    def _check_held(self) -> None:
        """Raise `InvalidRequest` if the claim was completed or released."""
        if not self._is_held:
            how = "released" if self.completion is None else "completed"
            raise InvalidRequest(
                f"Invalid use of the claim on {self.record.describe()}: it was {how} already. Claim it again."
            )

    def _build_lease_changes(self, act_until: float | None = None) -> dict[str, Any]:
        """Return changes that extend the lease, and with it the record's end: an expired record blocks no
        worker.
        """
        now = self._now
        until = compute_time_after(now, self.once.lease_s)
        act_until = act_until or self.record.act_until
        ends = compute_end(
            self.requested_end, until, None if act_until is None else now + self.once.retention_s
        )
        return {"in_progress_expires_at": until, "act_until": act_until, "expires_at": ends}

    def _build_no_intent_changes(self) -> dict[str, Any]:
        """Return changes that clear the intent and give the record its requested end."""
        ends = compute_end(self.requested_end, self.record.in_progress_expires_at or self._now)
        return {"act_until": None, "expires_at": ends}

    async def _put(self, changes: dict[str, Any], *writes: Write[Any], is_last: bool = False) -> None:
        """Write the changed record and `writes`, and keep it in `self.record`; retry if an earlier write
        arrived late.

        Raises `LeaseLost` if another worker took over, `RetryLater` after `MAX_ATTEMPTS`. `is_last` completes
        the claim.
        """
        pattern = self.once.pattern_set.complete if is_last else self.once.pattern_set.change
        for _ in range(MAX_ATTEMPTS):
            seen = self.record
            wanted = seen.model_copy(update=changes | {"revision": seen.revision + 1})
            put = pattern(wanted, seen.owner, seen.revision)
            found = await try_put(self.stores, put, *writes)
            if found is None:
                self.record = wanted
                return
            self.record = self._check_owner(found)
        raise build_busy_error()

    def _check_owner(self, found: Item) -> R:
        """Return the stored record if an earlier write of this claim arrived late; otherwise raise
        `LeaseLost`.
        """
        record = self.once.entity.from_item(found) if found else None
        if record is None or record.owner != self.record.owner or record.status is not OnceStatus.PROCESSING:
            raise LeaseLost(
                f"The claim on {self.record.describe()} was lost: its lease expired and another worker took "
                "over. Nothing under this claim is written. Leave the work to the other worker."
            )
        return record


def _refuse_reserved(changes: dict[str, Any]) -> None:
    """Raise `InvalidRequest` if the changes contain attributes that only the guarantee writes."""
    if ours := sorted(changes.keys() & (OnceRecord.model_fields.keys() - CALLER_ATTRIBUTES)):
        raise InvalidRequest(
            f"Invalid changes: {', '.join(ours)}. Only the guarantee writes these attributes. Leave them out."
        )


async def try_put(stores: Stores, put: Put[R], *writes: Write[Any]) -> Item | None:
    """Put the record and the writes in one transaction.

    Return None, or the stored item if the put's condition fails. The item is empty if there is none. A put
    whose response was lost counts as done. Conflicts and throttling are retried up to `MAX_ATTEMPTS` times,
    then raise `RetryLater`; a failed condition of `writes` raises `TransactionCancelled`.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            if writes:
                await stores.transact(*writes, put)
            else:
                await stores.run(put)
            return None
        except ConditionFailed as refused:
            return _find_blocking_item(put, refused.item)
        except TransactionCancelled as cancelled:
            own = cancelled.reasons[-1]
            if own.code == CONDITION_FAILED:
                return _find_blocking_item(put, own.item)
            codes = {reason.code for reason in cancelled.reasons}
            if CONDITION_FAILED in codes or not TRANSIENT_CODES & codes:
                raise
        except (TransactionConflict, OutcomeUnknown):
            pass  # send again: the condition prevents a second effect
        await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
    raise build_busy_error()


def _find_blocking_item(put: Put[R], item: Any) -> Item | None:
    """Return the item that blocks the put, or None if that item is the put itself, sent before."""
    found = cast(Item, dict(item or {}))
    return None if found == put.build_item() else found


def build_busy_error() -> RetryLater:
    """Return the error for a record that could not be written in `MAX_ATTEMPTS` attempts."""
    return RetryLater("The store is too busy for this record or does not respond. Retry in a moment.")
