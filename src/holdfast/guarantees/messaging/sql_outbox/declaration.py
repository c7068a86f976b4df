"""`SqlOutbox`: declares an outbox in SQL for several queues; enqueues, publishes, lists and redrives.

    OUTBOX = SqlOutbox(pagw, queues=(enricher, converter), prefix="OB", rate=Rate("request"))

    await stores.transact(
        advance(pagw_id, Status.PARSED, Status.VALIDATED),
        OUTBOX.enqueue(stores, pagw_id, enricher, StageMessage(pagw_id=pagw_id)),
    )

    Component("publisher", uses=OUTBOX.publish_patterns, schedules=(OUTBOX.schedule(),))

The message is part of the transaction, so it exists exactly if the change does. The commit wakes the
publishers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.messaging.outbox import OutboxStatus, UnsentMessage
from holdfast.guarantees.messaging.sql_outbox.ddl import TABLE, check_names
from holdfast.guarantees.messaging.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.messaging.sql_outbox.publisher import Publisher, PublishReport
from holdfast.guarantees.messaging.sql_outbox.rows import Backlog, ClaimedRow, NewMessage, SendRows, UnsentRow
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.model import Pattern, Queue, Rate, Schedule, Schema, SqlChange
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check
from holdfast.stores.sql.port import SqlNotifications

M = TypeVar("M", bound=BaseModel)

BATCH: Final = 25
POLL_S: Final = 5.0
MAX_ATTEMPTS: Final = 5
LEASE_S: Final = 30.0
PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0
LIST_BATCH: Final = 500
SWEEP_BATCH: Final = 1000


@dataclass(frozen=True, eq=False)
class SqlOutbox:
    """An outbox for several queues, as rows next to the state that they announce.

    `batch` is the number of rows claimed per round. A publisher that does not mark its rows within `lease_s`
    seconds loses them; choose it several times longer than a send takes. A schedule polls every `poll_s`
    seconds for rows without a wake-up. A failed send is retried after a pause that grows from `pause_s` to
    `max_pause_s`. After `max_attempts`, or at once if the queue refuses the message permanently, the row is
    dead, and the later rows of its aggregate for its queue wait for `holdfast outbox redrive`.
    """

    schema: Schema
    queues: Sequence[Queue[Any]] = field(kw_only=True)
    prefix: str = field(kw_only=True)
    rate: Rate = field(kw_only=True)
    table: str = field(default=TABLE, kw_only=True)
    batch: int = field(default=BATCH, kw_only=True)
    poll_s: float = field(default=POLL_S, kw_only=True)
    max_attempts: int = field(default=MAX_ATTEMPTS, kw_only=True)
    lease_s: float = field(default=LEASE_S, kw_only=True)
    pause_s: float = field(default=PAUSE_S, kw_only=True)
    max_pause_s: float = field(default=MAX_PAUSE_S, kw_only=True)

    def __post_init__(self) -> None:
        check_names(self.schema.name, self.table)
        _check_declaration(self)

    @property
    def name(self) -> str:
        return f"{self.schema.name}.{self.table}"

    @property
    def channel(self) -> str:
        """The PostgreSQL channel that commits notify; also part of the deduplication ids."""
        return f"{self.schema.name}_{self.table}"

    @cached_property
    def pattern_set(self) -> SqlOutboxPatterns:
        return SqlOutboxPatterns(
            self.schema, self.table, self.queues, self.prefix, self.rate, channel=self.channel
        )

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def append(self) -> Pattern[[NewMessage], SqlChange]:
        """The pattern that enqueues, to grant to a component that writes messages."""
        return self.pattern_set.append

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns to inspect unsent rows; a publisher does not need them."""
        return (self.pattern_set.waiting, self.pattern_set.backlog)

    @property
    def publish_patterns(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that a publisher writes with; they cannot append."""
        use = self.pattern_set
        return (use.claim, use.mark_sent, use.mark_failed, use.release, *use.sends.values())

    @property
    def admin_patterns(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that an operator and a sweeper write with."""
        return (
            self.pattern_set.redrive,
            self.pattern_set.discard,
            self.pattern_set.sweep,
            self.pattern_set.sweep_counters,
        )

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that write, to grant to a component."""
        return (self.pattern_set.append, *self.publish_patterns, *self.admin_patterns)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All patterns, for the system's declaration."""
        return (*self.reads, *self.writes)

    # --- enqueue --------------------------------------------------------------------------------------------

    def enqueue(self, stores: Stores, aggregate: str, queue: Queue[M], message: M) -> SqlChange:
        """Return the write of a message, for the transaction of the change it announces. Sends nothing.

        The transaction is a `transact` or an `sql_transaction`. It numbers the message, and from then on
        blocks other messages of the aggregate: put this write last where several follow each other. A message
        that the queue would refuse is refused here, before the change is made.
        """
        if queue not in self.queues:
            raise InvalidRequest(
                f"Invalid queue {queue.name} for outbox {self.name}: it is not one of its queues. Declare it "
                "there."
            )
        if not aggregate:
            raise InvalidRequest(
                f"Invalid aggregate '' in outbox {self.name}: a message needs an aggregate. Pass the id of "
                "the thing that changed."
            )
        announced = NewMessage(
            queue_name=queue.name,
            aggregate=aggregate,
            body=queue.build_outgoing(message).body,
            correlation_id=get_correlation_id(),
            at=utc_now(stores.clock),
        )
        check(SendRows(queue, self.channel, (_to_claimed_row(announced),)).build_request(stores.environment))
        return self.append(announced)

    # --- publish --------------------------------------------------------------------------------------------

    async def publish(self, stores: Stores) -> PublishReport:
        """Run one round: send up to `batch` unsent rows, and return the counts.

        Safe in several processes at once.
        """
        return await Publisher(self, stores).run_round()

    def listen(self, stores: Stores) -> AbstractAsyncContextManager[SqlNotifications]:
        """Listen for commits that enqueue messages."""
        return stores.listen(self.channel)

    def schedule(self, name: str = "publish") -> Schedule:
        """Return a schedule that publishes after each commit, and every `poll_s` seconds."""
        return Schedule(name, self.poll_s, self.publish, wake_source=self.listen)

    # --- inspection and cleanup -----------------------------------------------------------------------------

    async def backlog(self, stores: Stores) -> tuple[Backlog, ...]:
        """Return for each queue with unsent rows how many are pending, how many dead, and when the oldest was
        written.
        """
        return await stores.run(self.pattern_set.backlog())

    async def list_unsent(self, stores: Stores, *statuses: OutboxStatus) -> list[UnsentMessage]:
        """Return the unsent messages, pending and dead, or only those with the given statuses, oldest
        first.
        """
        found: list[UnsentMessage] = []
        after = 0
        while rows := await stores.run(self.pattern_set.waiting(after, LIST_BATCH)):
            found += [self._to_unsent_message(row) for row in rows]
            after = rows[-1].id
        return [each for each in found if not statuses or each.status in statuses]

    async def redrive(
        self,
        stores: Stores,
        aggregate: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        queue: str | None = None,
    ) -> int:
        """Make dead rows pending again and return their number: all, or those that match every given
        filter.
        """
        chosen = None if ids is None else tuple(ids)
        return await stores.run(self.pattern_set.redrive(aggregate, chosen, queue))

    async def discard(self, stores: Stores, ids: Sequence[int]) -> int:
        """Give up dead rows permanently, so that the rows behind them are sent; return their number.

        A sweep removes them like sent rows.
        """
        return await stores.run(self.pattern_set.discard(tuple(ids), utc_now(stores.clock)))

    async def sweep(self, stores: Stores, older_than: timedelta) -> int:
        """Remove rows that were sent or discarded more than `older_than` ago, and return their number."""
        before = utc_now(stores.clock) - older_than
        swept = 0
        while count := await stores.run(self.pattern_set.sweep(before, SWEEP_BATCH)):
            swept += count
        return swept

    async def sweep_counters(self, stores: Stores, older_than: timedelta) -> int:
        """Remove counters of aggregates that are idle for `older_than` and have no unsent rows; return their
        number.

        An aggregate that enqueues again starts at 1. The numbers only order rows that exist at the same time,
        so `older_than` must be longer than `sweep` keeps rows.
        """
        before = utc_now(stores.clock) - older_than
        swept, after = 0, ""
        while True:
            [looked] = await stores.run(self.pattern_set.sweep_counters(before, after, SWEEP_BATCH))
            swept += looked.removed
            if looked.last is None:
                return swept
            after = looked.last

    def _to_unsent_message(self, row: UnsentRow) -> UnsentMessage:
        """Return the row as an unsent message: dead if it has a time of death, otherwise pending."""
        return UnsentMessage(
            outbox=self.name,
            queue=row.queue_name,
            aggregate=row.aggregate,
            sequence=row.sequence_number,
            part=0,
            id=str(row.id),
            status=OutboxStatus.PENDING if row.dead_at is None else OutboxStatus.DEAD,
            created_at=row.created_at,
            attempts=row.retry_count,
            reason=row.last_error,
        )


def _to_claimed_row(announced: NewMessage) -> ClaimedRow:
    """Return the message as a row with the largest possible id, to check its size before it is written."""
    return ClaimedRow(
        id=2**63 - 1,
        queue_name=announced.queue_name,
        aggregate=announced.aggregate,
        message_body=announced.body,
        correlation_id=announced.correlation_id,
        created_at=announced.at,
    )


def _check_declaration(outbox: SqlOutbox) -> None:
    """Raise `DeclarationError` for no queues, a queue listed twice, or settings out of range."""
    names = [queue.name for queue in outbox.queues]
    if not names or len(set(names)) < len(names):
        raise DeclarationError(
            f"Invalid queues of outbox {outbox.name}: {', '.join(names) or 'none'}. Declare at least one, "
            "each once."
        )
    if outbox.batch < 1 or outbox.max_attempts < 1:
        raise DeclarationError(
            f"Invalid outbox {outbox.name}: batch={outbox.batch}, max_attempts={outbox.max_attempts}. Both "
            "must be at least 1."
        )
    if not (outbox.poll_s > 0 and outbox.lease_s > 0 and 0 < outbox.pause_s <= outbox.max_pause_s):
        raise DeclarationError(
            f"Invalid outbox {outbox.name}: poll_s, lease_s and pause_s must be above 0, and pause_s not "
            "above max_pause_s."
        )
