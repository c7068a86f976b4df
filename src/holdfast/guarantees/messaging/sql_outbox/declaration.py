"""`SqlOutbox`: declares an outbox in SQL for several queues; enqueues and sweeps its messages.

    OUTBOX = SqlOutbox(pagw, queues=(enricher, converter), prefix="OB", rate=Rate("request"))

    await stores.transact(
        advance(pagw_id, Status.PARSED, Status.VALIDATED),
        OUTBOX.enqueue(stores, pagw_id, StageMessage(pagw_id=pagw_id), queue=enricher),
    )

    Component("relay", uses=(OUTBOX.relay,), schedules=(OUTBOX.schedule(),))

The message is part of the transaction, so it exists exactly if the change does. The commit wakes the relays.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.guarantees.messaging.messages import (
    Backlog,
    OutboxMessage,
    OutboxStatus,
    SendOutboxMessages,
    UnsentMessage,
)
from holdfast.guarantees.messaging.sql_outbox.ddl import TABLE, check_names
from holdfast.guarantees.messaging.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.messaging.sql_outbox.storage import SqlStorage
from holdfast.guarantees.pattern_sets import Patterns
from holdfast.model.components import Schedule
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema, SqlChange
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check
from holdfast.stores.sql.port import SqlNotifications

M = TypeVar("M", bound=BaseModel)

LIST_BATCH: Final = 500
SWEEP_BATCH: Final = 1000


@dataclass(eq=False)
class SqlOutbox(BaseOutbox):
    """An outbox for several queues, in the schema of the state. `RelaySettings` explains the limits."""

    schema: Schema
    queues: Sequence[Queue[Any]] = field(kw_only=True)
    table: str = field(default=TABLE, kw_only=True)

    def __post_init__(self) -> None:
        self.name = f"{self.schema.name}.{self.table}"
        check_names(self.schema.name, self.table)
        self._check_settings()
        names = [queue.name for queue in self.queues]
        if not names or len(set(names)) < len(names):
            raise DeclarationError(
                f"Invalid queues of outbox {self.name}: {', '.join(names) or 'none'}. Declare at least one, "
                "each once."
            )
        self.pattern_set: SqlOutboxPatterns = SqlOutboxPatterns(self.schema, self.table, self.queues, self)
        # The PostgreSQL channel that commits notify.
        self.channel = self.pattern_set.channel

    @property
    def append(self) -> Pattern[[Sequence[OutboxMessage], datetime], SqlChange]:
        """The pattern that enqueues."""
        return self.pattern_set.append

    @property
    def figure_patterns(self) -> Patterns:
        return (self.pattern_set.backlog,)

    def open_storage(self, stores: Stores) -> SqlStorage:
        return SqlStorage(self.pattern_set, stores)

    def enqueue(self, stores: Stores, aggregate: str, message: M, *, queue: Queue[M]) -> SqlChange:
        """Return the write of a message, for the transaction of the change it announces. Sends nothing.

        The transaction is a `transact` or an `sql_transaction`. It numbers the message, and from then on
        blocks other messages of the aggregate: put this write last where several follow each other. A message
        that the queue would refuse is refused here, before the change is made.
        """
        return self.enqueue_all(stores, aggregate, (message, queue))

    def enqueue_all(self, stores: Stores, aggregate: str, *messages: tuple[Any, Queue[Any]]) -> SqlChange:
        """Return the one write of several messages of an aggregate, each with its queue, like `enqueue`."""
        now = stores.now()
        built = tuple(self._build(stores, aggregate, message, queue, now) for message, queue in messages)
        return self.append(built, now)

    def _build(
        self, stores: Stores, aggregate: str, message: M, queue: Queue[M], now: datetime
    ) -> OutboxMessage:
        """Build a message; raise `InvalidRequest` for one that its queue or this outbox refuses."""
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
        # The largest possible id: a message with any other is not larger.
        id = self.pattern_set.build_id(2**63 - 1, now)
        body = queue.build_outgoing(message).body
        new = OutboxMessage(id, queue.name, aggregate, body, get_correlation_id())
        check(SendOutboxMessages(queue, (new,)).build_request(stores.environment))
        return new

    def listen(self, stores: Stores) -> AbstractAsyncContextManager[SqlNotifications]:
        """Listen for commits that enqueue messages."""
        return stores.listen(self.channel)

    def schedule(self, name: str = "relay") -> Schedule:
        """Return a schedule that sends after each commit, and every `poll_s` seconds."""
        return Schedule(name, self.poll_s, self.send_unsent, wake_source=self.listen)

    async def backlog(self, stores: Stores) -> tuple[Backlog, ...]:
        return await stores.run(self.pattern_set.backlog())

    async def list_unsent(self, stores: Stores, *statuses: OutboxStatus) -> list[UnsentMessage]:
        found: list[UnsentMessage] = []
        after = 0
        while rows := await stores.run(self.pattern_set.waiting(after, LIST_BATCH)):
            found += [each for each in rows if not statuses or each.status in statuses]
            after = int(rows[-1].id)
        return found

    async def redrive(
        self,
        stores: Stores,
        aggregate: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
    ) -> int:
        chosen = None if ids is None else _parse_ids(ids)
        return await stores.run(self.pattern_set.redrive(aggregate, chosen, queue))

    async def discard(self, stores: Stores, ids: Sequence[str]) -> int:
        # A sweep removes them like sent rows.
        return await stores.run(self.pattern_set.discard(_parse_ids(ids), stores.now()))

    async def sweep(self, stores: Stores, older_than: timedelta) -> int:
        """Remove rows that were sent or discarded more than `older_than` ago, and return their number."""
        before = stores.now() - older_than
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
        before = stores.now() - older_than
        swept, after = 0, ""
        while True:
            [looked] = await stores.run(self.pattern_set.sweep_counters(before, after, SWEEP_BATCH))
            swept += looked.removed
            if looked.last is None:
                return swept
            after = looked.last


def _parse_ids(ids: Sequence[str]) -> tuple[int, ...]:
    """Return the ids that are row numbers; those of an outbox in tables are skipped."""
    return tuple(int(each) for each in ids if each.isascii() and each.isdigit())
