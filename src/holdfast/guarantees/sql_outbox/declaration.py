"""An outbox in SQL as a system declares it: in which schema it is, which queues it announces on, how patient it is.

    OUTBOX = SqlOutbox(pagw, queues=(enricher, converter), prefix="OB", rate=Rate("request"))

    await stores.transact(
        advance(pagw_id, Status.PARSED, Status.VALIDATED),
        OUTBOX.message(stores, pagw_id, enricher, StageMessage(pagw_id=pagw_id)),
    )

    Component("publisher", writes=OUTBOX.publishing, schedules=(OUTBOX.schedule(),))

The message is part of the transaction, and so is there exactly if the change is. Publishers are woken by the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from holdfast.correlation import correlation_id
from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.outbox import OutboxStatus, Waiting
from holdfast.guarantees.pattern_sets import moment
from holdfast.guarantees.sql_outbox.ddl import TABLE, check_names
from holdfast.guarantees.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.sql_outbox.publishing import Publisher, PublishReport
from holdfast.guarantees.sql_outbox.rows import Announced, Backlog, Claimed, SendRows, WaitingRow
from holdfast.model import Pattern, Queue, Rate, Schedule, Schema, SqlChange
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check
from holdfast.stores.sql.port import SqlNotices

M = TypeVar("M", bound=BaseModel)

BATCH: Final = 25
POLL_S: Final = 5.0
TRIES_MAX: Final = 5
LEASE_S: Final = 30.0
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 300.0
LISTED_AT_ONCE: Final = 500
SWEPT_AT_ONCE: Final = 1000


@dataclass(frozen=True, eq=False)
class SqlOutbox:
    """Announcements on several queues, as rows beside the state that they tell about.

    `batch` is how many a round claims, `lease_s` how long a publisher that gives no sign of life keeps others from them:
    several times longer than a send takes. `poll_s` is how often a schedule looks that nobody woke. A send that fails is
    tried again after a pause that grows from `pause_s` to `pause_s_max`; after `tries_max`, or at once where the queue
    refuses the message for good, the row is dead, and what is behind it, of its aggregate for its queue, waits for
    `holdfast outbox redrive`.
    """

    schema: Schema
    queues: Sequence[Queue[Any]] = field(kw_only=True)
    prefix: str = field(kw_only=True)
    rate: Rate = field(kw_only=True)
    table: str = field(default=TABLE, kw_only=True)
    batch: int = field(default=BATCH, kw_only=True)
    poll_s: float = field(default=POLL_S, kw_only=True)
    tries_max: int = field(default=TRIES_MAX, kw_only=True)
    lease_s: float = field(default=LEASE_S, kw_only=True)
    pause_s: float = field(default=PAUSE_S, kw_only=True)
    pause_s_max: float = field(default=PAUSE_S_MAX, kw_only=True)

    def __post_init__(self) -> None:
        check_names(self.schema.name, self.table)
        _refuse_strange(self)

    @property
    def name(self) -> str:
        return f"{self.schema.name}.{self.table}"

    @property
    def channel(self) -> str:
        """Where commits are announced, and part of the ids by which a queue knows copies."""
        return f"{self.schema.name}_{self.table}"

    @cached_property
    def use(self) -> SqlOutboxPatterns:
        return SqlOutboxPatterns(
            self.schema, self.table, self.queues, self.prefix, self.rate, channel=self.channel
        )

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def append(self) -> Pattern[[Announced], SqlChange]:
        return self.use.append

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """To look at what waits; a publisher does without."""
        return (self.use.waiting, self.use.backlog)

    @property
    def publishing(self) -> tuple[Pattern[..., Any], ...]:
        """What a publisher writes; it can append nothing."""
        use = self.use
        return (use.claim, use.sent, use.failed, use.release, *use.sends.values())

    @property
    def tending(self) -> tuple[Pattern[..., Any], ...]:
        """What an operator and a sweeper write."""
        return (self.use.redrive, self.use.discard, self.use.sweep, self.use.sweep_counters)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.use.append, *self.publishing, *self.tending)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    # --- announcing -----------------------------------------------------------------------------------------

    def message(self, stores: Stores, aggregate: str, queue: Queue[M], message: M) -> SqlChange:
        """The write of an announcement, for the transaction of what it announces: `transact`, or in a `transaction`.

        Its number in the aggregate is given in the transaction, which from then on keeps other announcements of the
        aggregate waiting: put it last where several writes follow each other. A message that the queue would refuse is
        refused here, before the change is made.
        """
        if queue not in self.queues:
            raise InvalidRequest(
                f"The outbox {self.name} does not announce on {queue.name}: declare the queue with the outbox."
            )
        if not aggregate:
            raise InvalidRequest(f"An announcement in {self.name} needs an aggregate: what it tells about.")
        announced = Announced(
            queue_name=queue.name,
            aggregate=aggregate,
            body=queue.outgoing(message).body,
            correlation_id=correlation_id(),
            at=moment(stores.clock),
        )
        check(SendRows(queue, self.channel, (_as_claimed(announced),)).request(stores.environment))
        return self.append(announced)

    # --- publishing -----------------------------------------------------------------------------------------

    async def publish(self, stores: Stores) -> PublishReport:
        """One round: sends up to a batch of what waits. Safe in several processes at once."""
        return await Publisher(self, stores).round()

    def wakes(self, stores: Stores) -> AbstractAsyncContextManager[SqlNotices]:
        """Hears of commits that announce something."""
        return stores.notices(self.channel)

    def schedule(self, name: str = "publish") -> Schedule:
        """Publishes when something is committed, and looks every `poll_s` for what nobody was woken for."""
        return Schedule(name, self.poll_s, self.publish, wakes=self.wakes)

    # --- what waits, and what is over -----------------------------------------------------------------------

    async def backlog(self, stores: Stores) -> tuple[Backlog, ...]:
        """For each queue that something waits for: how much is pending, how much dead, since when the oldest waits."""
        return await stores.run(self.use.backlog())

    async def waiting(self, stores: Stores, *statuses: OutboxStatus) -> list[Waiting]:
        """What is not with its queue: all of it, or of these statuses; oldest first."""
        found: list[Waiting] = []
        after = 0
        while rows := await stores.run(self.use.waiting(after, LISTED_AT_ONCE)):
            found += [self._as_waiting(row) for row in rows]
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
        """Makes dead rows pending again, of one aggregate, of these ids, for one queue, or all, and gives how many."""
        chosen = None if ids is None else tuple(ids)
        return await stores.run(self.use.redrive(aggregate, chosen, queue))

    async def discard(self, stores: Stores, ids: Sequence[int]) -> int:
        """Gives dead rows up for good, so that what is behind them goes on; they are swept with those that were sent."""
        return await stores.run(self.use.discard(tuple(ids), moment(stores.clock)))

    async def sweep(self, stores: Stores, older_than: timedelta) -> int:
        """Removes what was sent longer ago, and gives how many."""
        before = moment(stores.clock) - older_than
        swept = 0
        while count := await stores.run(self.use.sweep(before, SWEPT_AT_ONCE)):
            swept += count
        return swept

    async def sweep_counters(self, stores: Stores, older_than: timedelta) -> int:
        """Forgets the numbers of aggregates that announced nothing since and have nothing waiting; gives how many.

        One that announces again begins at 1. Nothing is ordered or known by these numbers but rows that stand side by
        side: `older_than` is longer than `sweep` keeps rows.
        """
        before = moment(stores.clock) - older_than
        swept, after = 0, ""
        while True:
            [looked] = await stores.run(self.use.sweep_counters(before, after, SWEPT_AT_ONCE))
            swept += looked.removed
            if looked.last is None:
                return swept
            after = looked.last

    def _as_waiting(self, row: WaitingRow) -> Waiting:
        return Waiting(
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


def _as_claimed(announced: Announced) -> Claimed:
    """As it will be sent, with the largest id that there can be."""
    return Claimed(
        id=2**63 - 1,
        queue_name=announced.queue_name,
        aggregate=announced.aggregate,
        message_body=announced.body,
        correlation_id=announced.correlation_id,
        created_at=announced.at,
    )


def _refuse_strange(outbox: SqlOutbox) -> None:
    names = [queue.name for queue in outbox.queues]
    if not names or len(set(names)) < len(names):
        raise DeclarationError(
            f"The outbox {outbox.name} announces on {', '.join(names) or 'no queue'}: declare each queue once, one at least."
        )
    if outbox.batch < 1 or outbox.tries_max < 1:
        raise DeclarationError(
            f"The outbox {outbox.name} claims {outbox.batch} at once and tries {outbox.tries_max} times: declare one at least."
        )
    if not (outbox.poll_s > 0 and outbox.lease_s > 0 and 0 < outbox.pause_s <= outbox.pause_s_max):
        raise DeclarationError(
            f"The outbox {outbox.name} has a poll, a lease or pauses that are no times: all must be above 0, and the "
            "pause not longer than the longest."
        )
