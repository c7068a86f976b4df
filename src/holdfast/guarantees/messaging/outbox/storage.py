"""The messages of an outbox in tables, for its relay: items, claimed by turns of aggregates.

Only the holder of an aggregate's turn sends its items. A sent item is deleted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import ConditionFailed, Conflict
from holdfast.core.rng import RNG
from holdfast.guarantees.messaging.messages import OutboxMessage, OutboxStatus
from holdfast.guarantees.messaging.outbox.items import OutboxItem, OutboxTurn
from holdfast.guarantees.messaging.outbox.patterns import OutboxPatterns
from holdfast.guarantees.messaging.relay import Claim, RelayReport
from holdfast.model.operations import Operation
from holdfast.runtime import Stores

CONCURRENT_AGGREGATES: Final = 8


class TableStorage:
    """The items of all aggregates, or of one."""

    def __init__(self, pattern_set: OutboxPatterns, stores: Stores, aggregate: str | None = None) -> None:
        self._pattern_set, self._settings, self._stores = pattern_set, pattern_set.settings, stores
        self._aggregate = aggregate
        self._turns: list[OutboxTurn] = []
        # Aggregates of whose items the last page was not the last.
        self._continued: set[str] = set()

    # --- claims ---------------------------------------------------------------------------------------------

    async def claim(self, report: RelayReport) -> AsyncGenerator[Claim, None]:
        """Yield claims of up to eight aggregates, with a batch of items each."""
        async for aggregates in self._find_due(report):
            while aggregates:
                claim = Claim.start(self._stores, self._settings.lease_s)
                some, aggregates = aggregates[:CONCURRENT_AGGREGATES], aggregates[CONCURRENT_AGGREGATES:]
                try:
                    lanes = await gather_or_cancel(self._claim_lane(claim, each, report) for each in some)
                except BaseException:
                    await self.release(claim)
                    raise
                claim.lanes = [lane for lane in lanes if lane]
                yield claim
                # A page that was tried to its end may have items behind it.
                tried = [lane[0].aggregate for lane in claim.lanes if lane[-1] not in claim.untried]
                aggregates += [aggregate for aggregate in tried if aggregate in self._continued]

    async def _find_due(self, report: RelayReport) -> AsyncIterator[list[str]]:
        """Yield the aggregates with items to send, by shard; leave out paused ones and those with a dead
        item.

        The shards are in random order, so that concurrent relays do not all compete for the same aggregates.
        The index may lag behind; the holder of the turn reads again. This only saves turns.
        """
        if self._aggregate is not None:
            yield [self._aggregate]
            return
        for shard in RNG.sample(range(self._pattern_set.shards), self._pattern_set.shards):
            rows = await self._stores.all(self._pattern_set.waiting(OutboxStatus.PENDING, shard))
            if not rows:
                continue
            dead = await self._stores.all(self._pattern_set.waiting(OutboxStatus.DEAD, shard))
            blocked = {row[OutboxItem.aggregate] for row in dead}
            paused = {
                row[OutboxItem.aggregate]
                for row in rows
                if self._is_paused(row[OutboxItem.id], row[OutboxItem.not_before])
            }
            found = dict.fromkeys(row[OutboxItem.aggregate] for row in rows)
            report.blocked += len(found.keys() & blocked)
            yield [each for each in found if each not in blocked | paused]

    async def _claim_lane(self, claim: Claim, aggregate: str, report: RelayReport) -> list[OutboxMessage]:
        """Take the turn of an aggregate and return its first items, up to one that is dead or paused."""
        turn = OutboxTurn(
            outbox=self._pattern_set.name, aggregate=aggregate, owner=claim.owner, until=claim.until
        )
        if not await self._take_turn(turn, claim.started_at):
            report.busy += 1
            return []
        self._turns.append(turn)
        lane: list[OutboxMessage] = []
        page = await self._stores.run(self._pattern_set.items(aggregate))
        self._continued.discard(aggregate)
        if page.cursor is not None:
            self._continued.add(aggregate)
        for item in page:
            report.blocked += item.status is OutboxStatus.DEAD
            if item.status is OutboxStatus.DEAD or self._is_paused(item.id, item.not_before):
                break
            lane.append(self._pattern_set.to_claimed(item))
        return lane

    async def _take_turn(self, turn: OutboxTurn, now: datetime) -> bool:
        """Take the turn if it is free; return False if another relay has it.

        A turn that ends later than a turn lasts is free once this process has seen it unchanged for as long.
        """
        try:
            await self._stores.run(self._pattern_set.take_turn(turn, now))
            return True
        except ConditionFailed as refused:
            seen = OutboxTurn.from_item(dict(refused.item)) if refused.item else None
        except Conflict:
            return False
        if seen is None or self._compute_left_s(seen) > 0:
            return False
        return await self._try(self._pattern_set.take_turn(turn, now, seen))

    def _compute_left_s(self, seen: OutboxTurn) -> float:
        """Return the seconds until another relay's turn ends."""
        key, version = (seen.outbox, seen.aggregate), (seen.owner, seen.until)
        max_s, ends_at = self._settings.lease_s, seen.until.timestamp()
        return self._stores.deadlines.compute_left_s(key, version, ends_at, max_s)

    async def release(self, claim: Claim) -> None:
        """Release the turns, unless another relay has taken them meanwhile."""
        turns, self._turns = self._turns, []
        await gather_or_cancel(self._try(self._pattern_set.give_turn(turn)) for turn in turns)

    # --- marks ----------------------------------------------------------------------------------------------

    async def mark_sent(self, claim: Claim, messages: Sequence[OutboxMessage]) -> bool:
        """Delete the items."""
        removals = [self._pattern_set.remove(each.stored) for each in messages]
        return all(await gather_or_cancel(map(self._try, removals)))

    async def mark_failed(
        self, claim: Claim, messages: Sequence[OutboxMessage], reason: str, is_permanent: bool
    ) -> Sequence[bool]:
        """Keep the items for another attempt after a pause, or mark them dead, with the reason."""
        settings, marked = self._settings, []
        for item in (each.stored for each in messages):
            is_dead = is_permanent or item.attempts + 1 >= settings.max_attempts
            pause_s = min(settings.retry_delay_s * 2 ** min(item.attempts, 30), settings.max_retry_delay_s)
            changes = {
                "attempts": item.attempts + 1,
                "status": OutboxStatus.DEAD if is_dead else OutboxStatus.PENDING,
                "not_before": self._stores.now() + timedelta(seconds=pause_s),
                "reason": reason,
            }
            if await self._try(self._pattern_set.keep(item.model_copy(update=changes), item)):
                marked.append(is_dead)
        return marked

    # --- helpers --------------------------------------------------------------------------------------------

    def _is_paused(self, id: str, not_before: datetime | None) -> bool:
        """Return True until the time of the next attempt on the item with this id."""
        if not_before is None:
            return False
        max_s, moment = self._settings.max_retry_delay_s, not_before.timestamp()
        return self._stores.deadlines.compute_left_s(id, moment, moment, max_s) > 0

    async def _try(self, write: Operation[Any]) -> bool:
        """Run a conditional write; return False if another relay or operator was faster."""
        try:
            await self._stores.run(write)
        except Conflict:
            return False
        return True
