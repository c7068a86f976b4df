"""From the table to the queue: an aggregate at a time under a lease, its items in order, each removed when it is sent.

A relay that dies after a send and before the removal sends again: the item's id tells the queue that it is a copy.
Nobody but the holder of an aggregate's turn sends its items. One that slept through the end of its lease can send the
item it was about to send once more, never one that was not sent before it: what follows, it must keep the turn for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from holdfast.errors import (
    ComponentRefused,
    Conflict,
    DeclarationError,
    HoldfastError,
    NotFound,
    RequestError,
    error_label,
)
from holdfast.guarantees.outbox.items import OutboxItem, OutboxStatus, OutboxTurn
from holdfast.guarantees.outbox.patterns import OutboxPatterns
from holdfast.guarantees.pattern_sets import moment
from holdfast.model import Ulids
from holdfast.runtime import Stores
from holdfast.runtime.stores import together

AGGREGATES_AT_ONCE: Final = 8
REASON_CHARS_MAX: Final = 500


@dataclass
class RelayReport:
    """What one relay did: `blocked` aggregates wait behind a dead item, `busy` ones are another relay's."""

    sent: int = 0
    failed: int = 0
    died: int = 0
    blocked: int = 0
    busy: int = 0


class Terms(Protocol):
    """What a relay knows of its outbox."""

    @property
    def name(self) -> str: ...
    @property
    def use(self) -> OutboxPatterns: ...
    @property
    def shards(self) -> int: ...
    @property
    def lease_s(self) -> float: ...
    @property
    def attempts_max(self) -> int: ...
    @property
    def pause_s(self) -> float: ...
    @property
    def pause_s_max(self) -> float: ...


class Relay:
    """One pass over an outbox, or over one aggregate of it."""

    def __init__(self, outbox: Terms, stores: Stores) -> None:
        self._outbox, self._use, self._stores = outbox, outbox.use, stores
        self.report = RelayReport()

    async def sweep(self) -> None:
        """Every aggregate that has something waiting, in no order between them."""
        # Not everybody in the same order: several relays at once would follow on each other's heels.
        for shard in random.sample(range(self._outbox.shards), self._outbox.shards):
            aggregates = await self._due(shard)
            for start in range(0, len(aggregates), AGGREGATES_AT_ONCE):
                await together(map(self.aggregate, aggregates[start : start + AGGREGATES_AT_ONCE]))

    async def _due(self, shard: int) -> list[str]:
        """The aggregates of a shard that have something to send, and neither pause nor wait behind a dead item.

        By the index, which may lag behind: who takes the turn looks again. It spares the turns of those that wait.
        """
        rows = await self._stores.all(self._use.waiting(OutboxStatus.PENDING, shard))
        if not rows:
            return []
        dead = await self._stores.all(self._use.waiting(OutboxStatus.DEAD, shard))
        held_up = {row[OutboxItem.aggregate] for row in dead}
        paused = {row[OutboxItem.aggregate] for row in rows if self._is_paused(row[OutboxItem.not_before])}
        found = dict.fromkeys(row[OutboxItem.aggregate] for row in rows)
        self.report.blocked += len(found.keys() & held_up)
        return [each for each in found if each not in held_up and each not in paused]

    async def aggregate(self, aggregate: str) -> None:
        """What waits in one aggregate, in order, up to the first that cannot be sent."""
        turn = await self._taken(aggregate)
        if turn is None:
            self.report.busy += 1
            return
        try:
            await self._in_order(turn)
        finally:
            await self._given(turn)

    async def _in_order(self, turn: OutboxTurn) -> None:
        async for item in self._stores.each(self._use.of_aggregate(turn.aggregate)):
            if item.status is OutboxStatus.DEAD:
                self.report.blocked += 1
                return
            if self._is_paused(item.not_before):
                return
            kept = await self._kept(turn)
            if kept is None or not await self._sent(item):
                return
            turn = kept

    async def _sent(self, item: OutboxItem) -> bool:
        """Whether it is with the queue and out of the table: then it is the next one's turn."""
        try:
            await self._stores.run(self._use.send(item))
        except ComponentRefused:
            raise
        except HoldfastError as error:
            await self._failed(item, error)
            return False
        self.report.sent += 1
        try:
            await self._stores.run(self._use.remove(item))
        except Conflict:
            return False  # another relay has it in hand
        return True

    async def _failed(self, item: OutboxItem, error: HoldfastError) -> None:
        attempts = item.attempts + 1
        is_dead = _is_hopeless(error) or attempts >= self._outbox.attempts_max
        pause = min(self._outbox.pause_s * 2 ** min(item.attempts, 30), self._outbox.pause_s_max)
        changes: dict[str, Any] = {
            "attempts": attempts,
            "status": OutboxStatus.DEAD if is_dead else OutboxStatus.PENDING,
            "not_before": self._now() + timedelta(seconds=pause),
            "reason": f"{error_label(error)}: {error.message}"[:REASON_CHARS_MAX],
        }
        try:
            await self._stores.run(self._use.keep(item.model_copy(update=changes), item))
        except Conflict:
            return  # another relay has it in hand
        self.report.failed += 1
        self.report.died += is_dead

    def _is_paused(self, not_before: datetime | None) -> bool:
        return not_before is not None and not_before > self._now()

    # --- the turn -------------------------------------------------------------------------------------------

    async def _taken(self, aggregate: str) -> OutboxTurn | None:
        owner = Ulids(self._stores.clock).new()
        turn = OutboxTurn(outbox=self._outbox.name, aggregate=aggregate, owner=owner, until=self._end())
        return turn if await self._put(turn) else None

    async def _kept(self, turn: OutboxTurn) -> OutboxTurn | None:
        """The turn with time enough for a send; None if it was lost."""
        if turn.until - self._now() > timedelta(seconds=self._outbox.lease_s / 2):
            return turn
        longer = turn.model_copy(update={"until": self._end()})
        return longer if await self._put(longer) else None

    async def _put(self, turn: OutboxTurn) -> bool:
        try:
            await self._stores.run(self._use.take_turn(turn, self._now()))
        except Conflict:
            return False
        return True

    async def _given(self, turn: OutboxTurn) -> None:
        try:
            await self._stores.run(self._use.give_turn(turn))
        except Conflict:
            pass  # it ran out, and another has it

    def _now(self) -> datetime:
        return moment(self._stores.clock)

    def _end(self) -> datetime:
        return self._now() + timedelta(seconds=self._outbox.lease_s)


async def redriven(use: OutboxPatterns, stores: Stores, aggregate: str) -> int:
    """The dead items of an aggregate, made pending; how many."""
    fresh = {"status": OutboxStatus.PENDING, "attempts": 0, "not_before": None, "reason": None}
    count = 0
    async for item in stores.each(use.of_aggregate(aggregate)):
        if item.status is OutboxStatus.DEAD:
            await stores.run(use.keep(item.model_copy(update=fresh), item))
            count += 1
    return count


def _is_hopeless(error: HoldfastError) -> bool:
    """Refused for what it is: the same message will always be. A queue that is not there yet may come."""
    return isinstance(error, RequestError | DeclarationError) and not isinstance(error, NotFound)
