"""An inbox: once, for an effect in SQL. A row in the effect's own transaction is the truth.

    INBOX = SqlInbox(pagw, "IN", rate=Rate("message"))

    done = await INBOX.once(stores, "enricher", received.announcement, advance(…), audit(…), OUTBOX.message(…))

    async with INBOX.taking(stores, "enricher", received.announcement) as taken:      # where a repeat needs the result
        if taken.is_new:
            taken.keep(await taken.run(withdraw("a-1", 7)))
    taken.result                                   # of this time, or as it was stored the first time

The row and the effect are committed together or not at all, so that there is nothing to fence: a worker that dies leaves
neither. A second worker with the same message waits for the first one's transaction to end, for as long as the store lets
a statement wait, and then is told `StatementTimedOut`: come again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.errors import ConditionFailed, IdempotencyMismatch, InProgress, InvalidRequest
from holdfast.guarantees.once.record import json_text
from holdfast.guarantees.pattern_sets import made_pattern, moment
from holdfast.guarantees.sql_outbox.ddl import check_names
from holdfast.model import Operation, Pattern, Rate, Schema, SqlChange, SqlOne, SqlRow, SqlWrite
from holdfast.model.patterns import Example
from holdfast.model.sql import SqlOperation
from holdfast.runtime import Stores
from holdfast.runtime.stores import SqlWork

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

TABLE: Final = "inbox"
SWEPT_AT_ONCE: Final = 1000
_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)


def inbox_ddl(schema: str, table: str = TABLE) -> list[str]:
    """Makes the inbox, for a system's migration: a message is known by its consumer and its id."""
    check_names(schema, table)
    place = f"{schema}.{table}"
    return [
        f"""CREATE TABLE {place} (
    consumer VARCHAR(100) NOT NULL,
    message_id TEXT NOT NULL,
    payload_sha256 VARCHAR(64),
    result TEXT,
    taken_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (consumer, message_id)
)""",
        # What a sweep removes.
        f"CREATE INDEX {table}_taken_at ON {place} (taken_at)",
    ]


@dataclass
class Taken:
    """What taking a message gave. `is_new`: do it, by `run`. Otherwise `result` is the one that was stored."""

    message_id: str
    is_new: bool
    sql: SqlWork
    result: Any = None

    @property
    def replayed(self) -> bool:
        return not self.is_new

    async def run(self, operation: SqlOperation[R]) -> R:
        """One statement of the effect, in the transaction of the row."""
        self._refuse_repeat()
        return await self.sql.run(operation)

    def keep(self, result: object) -> None:
        """The result that a repeat shall be given."""
        self._refuse_repeat()
        self.result = json.loads(json_text(result))

    def _refuse_repeat(self) -> None:
        if not self.is_new:
            raise InvalidRequest(
                f"{self.message_id} was done before, and has its result: give that, and do nothing."
            )


class Stored(SqlRow):
    payload_sha256: str | None
    result: str | None


@dataclass(frozen=True, eq=False)
class SqlInbox:
    """Messages that were taken, in a table of the schema in which their effects are."""

    schema: Schema
    prefix: str
    rate: Rate = field(kw_only=True)
    table: str = field(default=TABLE, kw_only=True)

    def __post_init__(self) -> None:
        check_names(self.schema.name, self.table)

    @cached_property
    def use(self) -> InboxPatterns:
        return InboxPatterns(self.schema, self.table, self.prefix, self.rate)

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.use.stored,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.use.take, self.use.keep, self.use.sweep)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    # --- a message as one write -----------------------------------------------------------------------------

    def taken(self, consumer: str, message_id: str, at: datetime) -> SqlChange:
        """The write that takes a message, for the transaction of its effect.

        A message that was taken before undoes the transaction with `ConditionFailed`; `was_taken` tells that from other
        conditions.
        """
        return self.use.take(consumer, message_id, None, at).expecting(1)

    async def was_taken(self, stores: Stores, consumer: str, message_id: str) -> bool:
        """Whether it was, with its effect."""
        return await stores.run(self.use.stored(consumer, message_id)) is not None

    async def once(self, stores: Stores, consumer: str, message_id: str, *effect: SqlWrite[Any]) -> bool:
        """The effect with the message, in one transaction; False if the message was taken before, and so it is done."""
        try:
            await stores.transact(self.taken(consumer, message_id, moment(stores.clock)), *effect)
        except ConditionFailed:
            if not await self.was_taken(stores, consumer, message_id):
                raise
            return False
        return True

    # --- a message with a result ----------------------------------------------------------------------------

    @asynccontextmanager
    async def taking(
        self, stores: Stores, consumer: str, message_id: str, payload_sha256: str | None = None
    ) -> AsyncIterator[Taken]:
        """A transaction with the message taken. The effect stands in the block, and is committed with the row."""
        async with stores.transaction() as sql:
            at = moment(stores.clock)
            is_new = await sql.run(self.use.take(consumer, message_id, payload_sha256, at)) == 1
            taken = Taken(message_id, is_new, sql)
            if not is_new:
                stored = await sql.run(self.use.stored(consumer, message_id))
                taken.result = _result(message_id, payload_sha256, stored)
            yield taken
            if is_new and taken.result is not None:
                await sql.run(self.use.keep(consumer, message_id, json_text(taken.result)))

    async def sweep(self, stores: Stores, older_than: timedelta) -> int:
        """Forgets what was taken longer ago than any message can be repeated, and gives how many."""
        before = moment(stores.clock) - older_than
        swept = 0
        while count := await stores.run(self.use.sweep(before, SWEPT_AT_ONCE)):
            swept += count
        return swept


class InboxPatterns:
    """`take` touches no row where the message was taken before; `stored` and `keep` are for results."""

    def __init__(self, schema: Schema, table: str, prefix: str, rate: Rate) -> None:
        self._schema, self._table = schema, f"{schema.name}.{table}"
        self._spoken, self._prefix, self._rate = f"{schema.name}_{table}", prefix, rate
        self.take, self.stored = self._take(), self._stored()
        self.keep, self.sweep = self._keep(), self._sweep()

    def _made(
        self, number: int, name: str, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        id = f"{self._prefix}{number}"
        return made_pattern(
            function,
            id,
            f"{self._spoken}_{name}",
            f"{purpose} ({self._table})",
            rate=self._rate,
            example=example,
        )

    def _take(self) -> Pattern[[str, str, str | None, datetime], SqlChange]:
        # Waits for another transaction that has taken it and not ended.
        text = f"""
INSERT INTO {self._table} (consumer, message_id, payload_sha256, taken_at)
VALUES (%(consumer)s, %(message_id)s, %(payload_sha256)s, %(at)s)
ON CONFLICT (consumer, message_id) DO NOTHING"""

        def take(consumer: str, message_id: str, payload_sha256: str | None, at: datetime) -> SqlChange:
            parameters = {"consumer": consumer, "message_id": message_id, "at": at}
            return SqlChange(self._schema, text, {**parameters, "payload_sha256": payload_sha256})

        return self._made(
            1, "take", "Take a message with its effect", take, example=("c", "m-1", None, _TIME)
        )

    def _stored(self) -> Pattern[[str, str], SqlOne[Stored]]:
        text = f"""
SELECT {Stored.columns()} FROM {self._table}
WHERE consumer = %(consumer)s AND message_id = %(message_id)s"""

        def stored(consumer: str, message_id: str) -> SqlOne[Stored]:
            return SqlOne(self._schema, text, {"consumer": consumer, "message_id": message_id}, Stored)

        return self._made(2, "stored", "What came of a message", stored, example=("c", "m-1"))

    def _keep(self) -> Pattern[[str, str, str], SqlChange]:
        text = f"""
UPDATE {self._table} SET result = %(result)s
WHERE consumer = %(consumer)s AND message_id = %(message_id)s"""

        def keep(consumer: str, message_id: str, result: str) -> SqlChange:
            parameters = {"consumer": consumer, "message_id": message_id, "result": result}
            return SqlChange(self._schema, text, parameters)

        return self._made(3, "keep", "Keep the result of a message", keep, example=("c", "m-1", "{}"))

    def _sweep(self) -> Pattern[[datetime, int], SqlChange]:
        text = f"""
DELETE FROM {self._table} WHERE (consumer, message_id) IN (
    SELECT consumer, message_id FROM {self._table} WHERE taken_at < %(before)s
    ORDER BY taken_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""

        def sweep(before: datetime, count: int) -> SqlChange:
            return SqlChange(self._schema, text, {"before": before, "count": count}, is_repeatable=True)

        return self._made(4, "sweep", "Forget messages of long ago", sweep, example=(_TIME, SWEPT_AT_ONCE))


def _result(message_id: str, payload_sha256: str | None, stored: Stored | None) -> Any:
    if stored is None:  # swept between the two statements
        raise InProgress(f"{message_id} was forgotten at this very moment: come again.", retry_after_s=0.0)
    if stored.payload_sha256 != payload_sha256:
        raise IdempotencyMismatch(
            f"{message_id} was used before with another payload: the same id stands for the same content. Use a new id "
            "for new content."
        )
    return None if stored.result is None else json.loads(stored.result)
