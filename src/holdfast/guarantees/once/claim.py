"""A claim: the right to do something once, for as long as its lease lasts; and what is left when it is done.

Every write of a claim is conditional on its owner and on the revision it was made from. A worker that comes late, after
another has taken over, changes nothing: it is told `LeaseLost`. A write whose answer was lost is sent again; where the
first one had arrived, the record that is found is the very one that was to be written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from holdfast.chance import CHANCE
from holdfast.errors import (
    ConditionFailed,
    InvalidRequest,
    LeaseLost,
    OutcomeUnknown,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.guarantees.lease import renewing
from holdfast.guarantees.once.record import (
    OnceRecord,
    OnceStatus,
    end_of,
    json_text,
    key_text,
    moment_after,
    whole_second,
)
from holdfast.model import Check, Put, Write
from holdfast.operations.values import Item
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.guarantees.once.declaration import Once

R = TypeVar("R", bound=OnceRecord)

TRIES_MAX: Final = 20
PAUSE_S_MAX: Final = 0.05

NOT_SO: Final = "ConditionalCheckFailed"
# What passes by itself: another transaction on the same item, or too much at once.
PASSING: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})

# What a caller may change of our own.
CALLERS_OWN: Final = frozenset({"expires_at"})


@dataclass(frozen=True)
class Done(Generic[R]):
    """It has happened. `replayed` says that it was done before, and that `result` is the one that was stored."""

    record: R
    replayed: bool = False

    @property
    def result(self) -> Any:
        return None if self.record.result is None else json.loads(self.record.result)


@dataclass
class Claim(Generic[R]):
    """One worker's right to do it. `record` is as it was stored last; `done` is set once it is completed.

    `wanted_end` is when the record is to end, if neither a lease nor an intent needs it for longer. `has_intent` says
    that the intent in the record is this worker's own, and nothing was asked of the party before.
    """

    once: Once[R]
    stores: Stores
    record: R
    wanted_end: datetime
    done: Done[R] | None = None
    has_intent: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _is_given_back: bool = field(default=False, repr=False)

    @property
    def key(self) -> str:
        """The record's key as one text."""
        return key_text(self.record)

    @property
    def was_asked(self) -> bool:
        """Whether the party may have been asked before this claim."""
        return self.record.act_until is not None and not self.has_intent

    async def complete(self, *writes: Write[Any], result: object = None, **changes: Any) -> Done[R]:
        """The writes and the completion, in one transaction that only the owner can make."""
        _refuse_ours(changes)
        changes = self._without_intent() | changes
        changes |= {
            "status": OnceStatus.PROCESSED,
            "result": None if result is None else json_text(result),
            "last_processed_at": whole_second(self._now),
            "in_progress_expires_at": None,
            "error": None,
        }
        async with self._turn:
            self._refuse_ended()
            await self._put(changes, *writes, is_last=True)
            self.done = Done(self.record)
        return self.done

    async def keep(self, **changes: Any) -> None:
        """Attributes of the system's own written now, for whoever takes over: a decision that later attempts follow.
        The lease begins anew with it, and with an `expires_at` that is given the record still outlives it."""
        _refuse_ours(changes)
        self.wanted_end = changes.pop("expires_at", None) or self.wanted_end
        async with self._turn:
            self._refuse_ended()
            await self._put(changes | self._leased())

    async def renew(self) -> None:
        """The lease begins anew. It may be called at any time while the work goes on."""
        async with self._turn:
            if self._is_held:
                await self._put(self._leased())

    async def release(self, **changes: Any) -> None:
        """Gives it back: another may claim it at once, or when the deadline of an intent has passed."""
        async with self._turn:
            if self._is_held:
                await self._put(changes | {"in_progress_expires_at": None})
                self._is_given_back = True

    async def fail(self, reason: str) -> None:
        """Says that it failed, and why. It may be claimed again."""
        async with self._turn:
            if self._is_held:
                failed = {"status": OnceStatus.FAILED, "error": reason, "in_progress_expires_at": None}
                await self._put(failed)
                self._is_given_back = True

    async def refuse(self, code: str, reason: str, *writes: Write[Any], **changes: Any) -> None:
        """Says that the party refused for good, under its own name for that. It is not claimed again unless reopened."""
        async with self._turn:
            if self._is_held:
                refused = {"status": OnceStatus.FAILED, "refused": code, "error": reason}
                changes = self._without_intent() | changes | refused | {"in_progress_expires_at": None}
                await self._put(changes, *writes)
                self._is_given_back = True

    async def intend(self, act_s: float, **changes: Any) -> None:
        """Records that an outside party is about to act, at the latest `act_s` seconds from now."""
        async with self._turn:
            self._refuse_ended()
            await self._put(changes | self._leased(moment_after(self._now, act_s)))

    async def forget_intent(self, **changes: Any) -> None:
        """The party has refused for now, or never was asked: nothing can still come of the intent."""
        async with self._turn:
            if self._is_held:
                await self._put(changes | self._without_intent())

    def check(self) -> Check[R]:
        """For a transaction of other writes, before the completion: that this claim still is the one."""
        return self.once.patterns.check(self.record)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[Claim[R]]:
        """Renews the lease while the block runs, and cancels the block when the claim is lost."""
        async with renewing(self.renew, self.once.lease_s):
            yield self

    # --- one write --------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self.stores.clock.now()

    @property
    def _is_held(self) -> bool:
        return self.done is None and not self._is_given_back

    def _refuse_ended(self) -> None:
        if not self._is_held:
            how = "given back" if self.done is None else "completed"
            raise InvalidRequest(f"This claim on {self.record.spoken()} was {how} already: claim it again.")

    def _leased(self, act_until: float | None = None) -> dict[str, Any]:
        """A record outlives its lease: one that has expired would not keep others away."""
        now = self._now
        until = moment_after(now, self.once.lease_s)
        act_until = act_until or self.record.act_until
        ends = end_of(self.wanted_end, until, None if act_until is None else now + self.once.lifetime_s)
        return {"in_progress_expires_at": until, "act_until": act_until, "expires_at": ends}

    def _without_intent(self) -> dict[str, Any]:
        """The intent is over, and the record need not be kept for it any longer."""
        ends = end_of(self.wanted_end, self.record.in_progress_expires_at or self._now)
        return {"act_until": None, "expires_at": ends}

    async def _put(self, changes: dict[str, Any], *writes: Write[Any], is_last: bool = False) -> None:
        pattern = self.once.patterns.complete if is_last else self.once.patterns.change
        for _ in range(TRIES_MAX):
            seen = self.record
            wanted = seen.model_copy(update=changes | {"revision": seen.revision + 1})
            put = pattern(wanted, seen.owner, seen.revision)
            found = await stored(self.stores, put, *writes)
            if found is None:
                self.record = wanted
                return
            self.record = self._still_mine(found)
        raise busy()

    def _still_mine(self, found: Item) -> R:
        """A write of ours that was given up for lost may have come through meanwhile; all else is a claim lost."""
        record = self.once.entity.from_item(found) if found else None
        if record is None or record.owner != self.record.owner or record.status is not OnceStatus.PROCESSING:
            raise LeaseLost(
                f"The claim on {self.record.spoken()} was lost: its lease ran out and another worker took it over. Nothing that was "
                "begun under it is written; leave it to the other."
            )
        return record


def _refuse_ours(changes: dict[str, Any]) -> None:
    if ours := sorted(changes.keys() & (OnceRecord.model_fields.keys() - CALLERS_OWN)):
        raise InvalidRequest(f"{', '.join(ours)} is written by the guarantee itself: leave it out.")


async def stored(stores: Stores, put: Put[R], *writes: Write[Any]) -> Item | None:
    """None when the put is done, and the writes with it; else the item that was in its way, empty if there is none."""
    for _ in range(TRIES_MAX):
        try:
            if writes:
                await stores.transact(*writes, put)
            else:
                await stores.run(put)
            return None
        except ConditionFailed as refused:
            return _in_the_way(put, refused.item)
        except TransactionCancelled as cancelled:
            own = cancelled.reasons[-1]
            if own.code == NOT_SO:
                return _in_the_way(put, own.item)
            codes = {reason.code for reason in cancelled.reasons}
            if NOT_SO in codes or not PASSING & codes:
                raise
        except (TransactionConflict, OutcomeUnknown):
            pass  # it is sent again: by its condition it cannot be done twice
        await asyncio.sleep(CHANCE.uniform(0, PAUSE_S_MAX))
    raise busy()


def _in_the_way(put: Put[R], item: Any) -> Item | None:
    """The put itself, where its first sending had arrived."""
    found = cast(Item, dict(item or {}))
    return None if found == put.item() else found


def busy() -> RetryLater:
    return RetryLater("The store is too busy for this record, or does not answer: come again in a moment.")
