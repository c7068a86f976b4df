"""The messages of an outbox in SQL, for its relay: rows, claimed in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta

from holdfast.guarantees.messaging.messages import OutboxMessage
from holdfast.guarantees.messaging.relay import Claim, RelayReport
from holdfast.guarantees.messaging.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.runtime import Stores


class SqlStorage:
    """The rows of an outbox."""

    def __init__(self, pattern_set: SqlOutboxPatterns, stores: Stores) -> None:
        self._pattern_set, self._stores = pattern_set, stores

    async def claim(self, report: RelayReport) -> AsyncGenerator[Claim, None]:
        """Yield one claim of up to a batch of rows. On a queue without FIFO order each row is a lane."""
        settings, queues = self._pattern_set.settings, self._pattern_set.queues
        claim = Claim.start(self._stores, settings.lease_s)
        # Later than any pause or claim can end.
        beyond = claim.started_at + timedelta(seconds=2 * max(settings.lease_s, settings.max_retry_delay_s))
        rows = await self._stores.run(
            self._pattern_set.claim(claim.owner, claim.started_at, claim.until, beyond, settings.batch_size)
        )
        taken = sorted((row for row in rows if not row.is_behind), key=lambda row: row.id)
        # Rows that were set aside let the next claim look at others.
        report.more = len(taken) >= settings.batch_size or len(rows) > len(taken)
        lanes: dict[tuple[str, ...], list[OutboxMessage]] = defaultdict(list)
        for row in taken:
            lane = (row.queue_name, row.aggregate) if queues[row.queue_name].fifo else (str(row.id),)
            id = self._pattern_set.build_id(row.id, row.created_at)
            lanes[lane].append(
                OutboxMessage(
                    id, row.queue_name, row.aggregate, row.message_body, row.correlation_id, stored=row
                )
            )
        claim.lanes = list(lanes.values())
        yield claim

    async def mark_sent(self, claim: Claim, messages: Sequence[OutboxMessage]) -> bool:
        now = self._stores.now()
        marked = await self._stores.run(self._pattern_set.mark_sent(claim.owner, _get_ids(messages), now))
        return marked == len(messages)

    async def mark_failed(
        self, claim: Claim, messages: Sequence[OutboxMessage], reason: str, is_permanent: bool
    ) -> Sequence[bool]:
        now = self._stores.now()
        failed = self._pattern_set.mark_failed(claim.owner, _get_ids(messages), now, reason, is_permanent)
        return [row.is_dead for row in await self._stores.run(failed)]

    async def release(self, claim: Claim) -> None:
        if claim.untried:
            await self._stores.run(self._pattern_set.release(claim.owner, _get_ids(claim.untried)))


def _get_ids(messages: Iterable[OutboxMessage]) -> tuple[int, ...]:
    """Return the ids of the messages' rows."""
    return tuple(sorted(message.stored.id for message in messages))
