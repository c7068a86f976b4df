"""The relay of an outbox: sends the items of an aggregate to the queue in order, and removes each when sent.

A relay that dies between a send and the removal sends again; the queue recognises the copy by the item's id.
Only the holder of an aggregate's turn sends its items. A relay that slept past the end of its turn can repeat
the item that it was about to send, but never send a later one first: it must renew the turn before the next
item.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import (
    ComponentRefused,
    Conflict,
    DeclarationError,
    HoldfastError,
    NotFound,
    RequestError,
    error_label,
)
from holdfast.guarantees.messaging.outbox.items import OutboxItem, OutboxStatus, OutboxTurn
from holdfast.guarantees.messaging.outbox.patterns import OutboxPatterns
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.model import UlidGenerator
from holdfast.runtime import Stores

CONCURRENT_AGGREGATES: Final = 8
MAX_REASON_CHARS: Final = 500


@dataclass
class RelayReport:
    """Counts of one relay.

    `sent`, `failed` and `died` count items; `blocked` aggregates wait behind a dead item; another relay has
    the `busy` ones.
    """

    sent: int = 0
    failed: int = 0
    died: int = 0
    blocked: int = 0
    busy: int = 0


class RelaySettings(Protocol):
    """The settings of an outbox that its relay needs."""

    @property
    def name(self) -> str: ...
    @property
    def pattern_set(self) -> OutboxPatterns: ...
    @property
    def shards(self) -> int: ...
    @property
    def lease_s(self) -> float: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def pause_s(self) -> float: ...
    @property
    def max_pause_s(self) -> float: ...


class Relay:
    """One pass over an outbox, or over one of its aggregates."""

    def __init__(self, outbox: RelaySettings, stores: Stores) -> None:
        self._outbox, self._pattern_set, self._stores = outbox, outbox.pattern_set, stores
        self.report = RelayReport()

    async def sweep(self) -> None:
        """Relay every aggregate with items to send: the shards in random order, up to eight aggregates at a
        time.
        """
        # Random order, so that concurrent relays do not all compete for the same aggregates.
        for shard in random.sample(range(self._outbox.shards), self._outbox.shards):
            aggregates = await self._find_due(shard)
            for start in range(0, len(aggregates), CONCURRENT_AGGREGATES):
                await gather_or_cancel(
                    map(self.relay_aggregate, aggregates[start : start + CONCURRENT_AGGREGATES])
                )

    async def _find_due(self, shard: int) -> list[str]:
        """Return the aggregates of a shard that have items to send and are neither paused nor blocked by a
        dead item.

        Counts the blocked ones in the report. The index may lag behind; the holder of the turn reads again.
        This only saves turns of blocked aggregates.
        """
        rows = await self._stores.all(self._pattern_set.waiting(OutboxStatus.PENDING, shard))
        if not rows:
            return []
        dead = await self._stores.all(self._pattern_set.waiting(OutboxStatus.DEAD, shard))
        held_up = {row[OutboxItem.aggregate] for row in dead}
        paused = {row[OutboxItem.aggregate] for row in rows if self._is_paused(row[OutboxItem.not_before])}
        found = dict.fromkeys(row[OutboxItem.aggregate] for row in rows)
        self.report.blocked += len(found.keys() & held_up)
        return [each for each in found if each not in held_up and each not in paused]

    async def relay_aggregate(self, aggregate: str) -> None:
        """Send the items of one aggregate in order, up to the first that fails; do nothing if another relay
        has its turn.
        """
        turn = await self._take_turn(aggregate)
        if turn is None:
            self.report.busy += 1
            return
        try:
            await self._send_in_order(turn)
        finally:
            await self._release_turn(turn)

    async def _send_in_order(self, turn: OutboxTurn) -> None:
        """Send the aggregate's items; stop at a dead, paused or failed one, or if the turn is lost."""
        async for item in self._stores.each(self._pattern_set.items(turn.aggregate)):
            if item.status is OutboxStatus.DEAD:
                self.report.blocked += 1
                return
            if self._is_paused(item.not_before):
                return
            kept = await self._extend_turn(turn)
            if kept is None or not await self._try_send(item):
                return
            turn = kept

    async def _try_send(self, item: OutboxItem) -> bool:
        """Send the item and remove it, or record the failure. Return True if the next item may be sent."""
        try:
            await self._stores.run(self._pattern_set.send(item))
        except ComponentRefused:
            raise
        except HoldfastError as error:
            await self._record_failure(item, error)
            return False
        self.report.sent += 1
        try:
            await self._stores.run(self._pattern_set.remove(item))
        except Conflict:
            return False  # another relay has taken it
        return True

    async def _record_failure(self, item: OutboxItem, error: HoldfastError) -> None:
        """Keep the item for another attempt after a pause, or mark it dead, with the reason."""
        attempts = item.attempts + 1
        is_dead = _is_permanent(error) or attempts >= self._outbox.max_attempts
        pause = min(self._outbox.pause_s * 2 ** min(item.attempts, 30), self._outbox.max_pause_s)
        changes: dict[str, Any] = {
            "attempts": attempts,
            "status": OutboxStatus.DEAD if is_dead else OutboxStatus.PENDING,
            "not_before": self._now() + timedelta(seconds=pause),
            "reason": f"{error_label(error)}: {error.message}"[:MAX_REASON_CHARS],
        }
        try:
            await self._stores.run(self._pattern_set.keep(item.model_copy(update=changes), item))
        except Conflict:
            return  # another relay has taken it
        self.report.failed += 1
        self.report.died += is_dead

    def _is_paused(self, not_before: datetime | None) -> bool:
        """Return True until the time of the next attempt."""
        return not_before is not None and not_before > self._now()

    # --- the turn -------------------------------------------------------------------------------------------

    async def _take_turn(self, aggregate: str) -> OutboxTurn | None:
        """Take the turn of the aggregate for `lease_s` seconds; return None if another relay has it."""
        owner = UlidGenerator(self._stores.clock).new()
        turn = OutboxTurn(
            outbox=self._outbox.name, aggregate=aggregate, owner=owner, until=self._compute_end()
        )
        return turn if await self._try_put(turn) else None

    async def _extend_turn(self, turn: OutboxTurn) -> OutboxTurn | None:
        """Renew the turn if half of its time has passed, and return it; None if it was lost."""
        if turn.until - self._now() > timedelta(seconds=self._outbox.lease_s / 2):
            return turn
        longer = turn.model_copy(update={"until": self._compute_end()})
        return longer if await self._try_put(longer) else None

    async def _try_put(self, turn: OutboxTurn) -> bool:
        """Write the turn; return False if another relay has it."""
        try:
            await self._stores.run(self._pattern_set.take_turn(turn, self._now()))
        except Conflict:
            return False
        return True

    async def _release_turn(self, turn: OutboxTurn) -> None:
        """Delete the turn, unless another relay has taken it meanwhile."""
        try:
            await self._stores.run(self._pattern_set.give_turn(turn))
        except Conflict:
            pass  # it expired, and another relay has it

    def _now(self) -> datetime:
        return utc_now(self._stores.clock)

    def _compute_end(self) -> datetime:
        """Return the end of a turn that is taken or renewed now."""
        return self._now() + timedelta(seconds=self._outbox.lease_s)


async def redrive(pattern_set: OutboxPatterns, stores: Stores, aggregate: str) -> int:
    """Make the dead items of an aggregate pending, with no attempts counted, and return their number."""
    fresh = {"status": OutboxStatus.PENDING, "attempts": 0, "not_before": None, "reason": None}
    count = 0
    async for item in stores.each(pattern_set.items(aggregate)):
        if item.status is OutboxStatus.DEAD:
            await stores.run(pattern_set.keep(item.model_copy(update=fresh), item))
            count += 1
    return count


def _is_permanent(error: HoldfastError) -> bool:
    """Return True if a retry cannot succeed: the message itself is refused.

    A missing queue may still be created.
    """
    return isinstance(error, RequestError | DeclarationError) and not isinstance(error, NotFound)
