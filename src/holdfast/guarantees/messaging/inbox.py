"""SQL inbox: runs the effect of a message once, by a row written in the effect's own transaction.

    INBOX = SqlInbox(pagw, prefix="IN", rate=Rate("message"))

    done = await INBOX.run_once(stores, "enricher", received.announcement_id, advance(…), OUTBOX.enqueue(…))

    async with INBOX.receive(stores, "enricher", received.announcement_id) as message:
        if message.is_new:
            message.store_result(await message.run(withdraw("a-1", 7)))
    message.result                                 # of this run, or as stored by the first one

Use `receive` if a repeat needs the result. The row and the effect are committed together or not at all, so no
fencing is needed: a worker that dies leaves neither. A second worker with the same message waits for the
first one's transaction, for as long as the store allows a statement to wait, and then gets
`StatementTimedOut`: retry.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from holdfast.core.errors import (
    ConditionFailed,
    IdempotencyMismatch,
    InProgress,
    InvalidRequest,
    OutcomeUnknown,
    RetryLater,
)
from holdfast.guarantees.idempotency.record import encode_json
from holdfast.guarantees.messaging.pattern_builder import BuiltPatterns, PatternBuilder
from holdfast.guarantees.messaging.sql_outbox.ddl import check_names
from holdfast.guarantees.pattern_sets import Guarantee, Patterns
from holdfast.model.patterns import Rate
from holdfast.model.sql import Schema, SqlChange, SqlOne, SqlOperation, SqlRow, SqlTransact, SqlWrite
from holdfast.runtime import Stores
from holdfast.runtime.stores import SqlSession

R = TypeVar("R")

TABLE: Final = "inbox"
SWEEP_BATCH: Final = 1000
_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)


def inbox_ddl(schema: str, table: str = TABLE) -> list[str]:
    """Return the statements that create the inbox, for a system's migration.

    Its key is the consumer and the message id.
    """
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
        # Rows that a sweep removes.
        f"CREATE INDEX {table}_taken_at ON {place} (taken_at)",
    ]


@dataclass
class InboxMessage:
    """A received message. If `is_new`, run the effect with `run`; otherwise `result` is the stored one."""

    message_id: str
    is_new: bool
    sql: SqlSession
    result: Any = None

    @property
    def replayed(self) -> bool:
        """True if the message was taken before."""
        return not self.is_new

    async def run(self, operation: SqlOperation[R]) -> R:
        """Run one statement of the effect, in the transaction of the row.

        Raises `InvalidRequest` for a repeat.
        """
        self._check_new()
        return await self.sql.run(operation)

    def store_result(self, result: object) -> None:
        """Set the result that a repeat returns, as JSON. Raises `InvalidRequest` for a repeat."""
        self._check_new()
        self.result = json.loads(encode_json(result))

    def _check_new(self) -> None:
        """Raise `InvalidRequest` if the message is a repeat."""
        if not self.is_new:
            raise InvalidRequest(
                f"Message {self.message_id} was done before. Return its stored result, and run nothing."
            )


class StoredMessage(SqlRow):
    """The stored payload hash and result of a message."""

    payload_sha256: str | None
    result: str | None


class SqlInbox(Guarantee):
    """The messages taken, in a table of the schema that their effects write to."""

    def __init__(self, schema: Schema, *, prefix: str, rate: Rate, table: str = TABLE) -> None:
        check_names(schema.name, table)
        self.name = f"{schema.name}.{table}"
        self.pattern_set: InboxPatterns = InboxPatterns(schema, table, prefix, rate)

    @property
    def consumer(self) -> Patterns:
        """The role that takes messages."""
        return (self.pattern_set.stored, self.pattern_set.take, self.pattern_set.keep)

    @property
    def operator(self) -> Patterns:
        """The role that sweeps."""
        return (self.pattern_set.sweep,)

    # --- a message without a result -------------------------------------------------------------------------

    def take(self, consumer: str, message_id: str, at: datetime) -> SqlChange:
        """Return the write that takes a message, for the transaction of its effect. Runs nothing.

        If the message was taken before, the transaction fails with `ConditionFailed`; `is_taken`
        distinguishes that from other conditions.
        """
        return self.pattern_set.take(consumer, message_id, None, at).expect_rows(1)

    async def is_taken(self, stores: Stores, consumer: str, message_id: str) -> bool:
        """Return whether the message was taken, and with it its effect committed."""
        return await stores.run(self.pattern_set.stored(consumer, message_id)) is not None

    async def run_once(
        self,
        stores: Stores,
        consumer: str,
        message_id: str,
        *effect: SqlWrite[Any],
        are_independent: bool = False,
    ) -> bool:
        """Commit the effect and the inbox row in one transaction and return True; False if the message was
        taken before.

        `are_independent` declares that no write of the effect touches the rows of another: they may be sent
        as one statement, which takes less work and is repeated after a lost connection. Raises
        `ConditionFailed` if a condition of the effect itself fails.
        """
        try:
            writes = (self.take(consumer, message_id, stores.now()), *effect)
            # Its own row makes a repeat harmless.
            await stores.run(
                SqlTransact(writes, are_independent=are_independent, is_idempotent=are_independent)
            )
        except OutcomeUnknown as unknown:
            if not are_independent:
                raise
            raise RetryLater(
                f"The outcome of message {message_id} is unknown. Retry: it is done at most once."
            ) from unknown
        except ConditionFailed:
            if not await self.is_taken(stores, consumer, message_id):
                raise
            return False
        return True

    # --- a message with a result ----------------------------------------------------------------------------

    @asynccontextmanager
    async def receive(
        self, stores: Stores, consumer: str, message_id: str, payload_sha256: str | None = None
    ) -> AsyncIterator[InboxMessage]:
        """Open a transaction that takes the message. Whatever the block runs is committed with the row.

        A repeat yields a message with the stored result and `is_new` False. Raises `IdempotencyMismatch` if
        the message id was used with another `payload_sha256`.
        """
        async with stores.sql_transaction() as sql:
            at = stores.now()
            is_new = await sql.run(self.pattern_set.take(consumer, message_id, payload_sha256, at)) == 1
            taken = InboxMessage(message_id, is_new, sql)
            if not is_new:
                stored = await sql.run(self.pattern_set.stored(consumer, message_id))
                taken.result = _parse_result(message_id, payload_sha256, stored)
            yield taken
            if is_new and taken.result is not None:
                await sql.run(self.pattern_set.keep(consumer, message_id, encode_json(taken.result)))

    async def sweep(self, stores: Stores, older_than: timedelta) -> int:
        """Remove messages taken more than `older_than` ago, and return their number.

        No message may be repeated after that time.
        """
        before = stores.now() - older_than
        swept = 0
        while count := await stores.run(self.pattern_set.sweep(before, SWEEP_BATCH)):
            swept += count
        return swept


class InboxPatterns(BuiltPatterns):
    """The patterns of an inbox.

    `take` changes no row if the message was taken before; `stored` and `keep` are for results.
    """

    def __init__(self, schema: Schema, table: str, prefix: str, rate: Rate) -> None:
        self._schema, self._table = schema, f"{schema.name}.{table}"
        build = PatternBuilder(prefix, f"{schema.name}_{table}", self._table, rate).build
        purpose = "Record a message in the transaction of its effect"
        self.take = build(1, "take", purpose, self._take, ("c", "m-1", None, _TIME))
        self.stored = build(2, "stored", "Result of a message", self._get_stored, ("c", "m-1"))
        self.keep = build(3, "keep", "Store the result of a message", self._keep, ("c", "m-1", "{}"))
        self.sweep = build(4, "sweep", "Remove old messages", self._sweep, (_TIME, SWEEP_BATCH))

    def _take(self, consumer: str, message_id: str, payload_sha256: str | None, at: datetime) -> SqlChange:
        """Insert the row of a message; change nothing if there is one already.

        Wait for another open transaction that has taken the message.
        """
        text = f"""
INSERT INTO {self._table} (consumer, message_id, payload_sha256, taken_at)
VALUES (%(consumer)s, %(message_id)s, %(payload_sha256)s, %(at)s)
ON CONFLICT (consumer, message_id) DO NOTHING"""
        parameters = {"consumer": consumer, "message_id": message_id, "at": at}
        return SqlChange(self._schema, text, {**parameters, "payload_sha256": payload_sha256})

    def _get_stored(self, consumer: str, message_id: str) -> SqlOne[StoredMessage]:
        text = f"""
SELECT {StoredMessage.columns()} FROM {self._table}
WHERE consumer = %(consumer)s AND message_id = %(message_id)s"""
        return SqlOne(self._schema, text, {"consumer": consumer, "message_id": message_id}, StoredMessage)

    def _keep(self, consumer: str, message_id: str, result: str) -> SqlChange:
        text = f"""
UPDATE {self._table} SET result = %(result)s
WHERE consumer = %(consumer)s AND message_id = %(message_id)s"""
        parameters = {"consumer": consumer, "message_id": message_id, "result": result}
        return SqlChange(self._schema, text, parameters)

    def _sweep(self, before: datetime, count: int) -> SqlChange:
        """Delete up to `count` messages taken before a time."""
        text = f"""
DELETE FROM {self._table} WHERE (consumer, message_id) IN (
    SELECT consumer, message_id FROM {self._table} WHERE taken_at < %(before)s
    ORDER BY taken_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""
        return SqlChange(self._schema, text, {"before": before, "count": count}, is_idempotent=True)


def _parse_result(message_id: str, payload_sha256: str | None, stored: StoredMessage | None) -> Any:
    """Return the stored result of a repeated message; raise `IdempotencyMismatch` if its payload differs."""
    if stored is None:  # swept between the two statements
        raise InProgress(f"Message {message_id} was just swept. Retry.", retry_after_s=0.0)
    if stored.payload_sha256 != payload_sha256:
        raise IdempotencyMismatch(
            f"Message id {message_id} was used before with a different payload. Use a new id for new content."
        )
    return None if stored.result is None else json.loads(stored.result)
