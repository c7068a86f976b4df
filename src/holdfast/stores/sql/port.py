"""The port of a SQL store: statements, transactions, notifications and migrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.operations.sql import Statement, StatementResult
from holdfast.operations.sql.descriptions import ResultColumn, SchemaState


class SqlTransaction(Protocol):
    """The statements of one transaction: committed when its context exits, rolled back if it exits with an
    error.
    """

    async def run(self, statement: Statement) -> StatementResult:
        """Run one statement in this transaction."""
        ...


class SqlNotifications(Protocol):
    """The notifications on one channel (LISTEN). A lost connection may lose some: poll in addition."""

    async def wait(self, timeout_s: float) -> str | None:
        """Return the payload of the next notification, or None when the time is over."""
        ...


class Sql(Protocol):
    """A SQL store."""

    async def run(self, operation: Statement) -> StatementResult:
        """Run one statement. Every error it raises is a `HoldfastError`."""
        ...

    async def run_all(self, statements: Sequence[Statement]) -> list[StatementResult]:
        """Run the statements in this order, in one transaction."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[SqlTransaction]:
        """Return a context that commits its statements when it exits, or rolls back if it exits with an
        error.
        """
        ...

    def listen(self, channel: str) -> AbstractAsyncContextManager[SqlNotifications]:
        """Listen to a channel for the time of the context."""
        ...

    async def migrate(
        self,
        schema: str,
        migrations: str,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[str]:
        """Migrate a schema to its newest revision.

        Return the revisions that were run, or with `dry_run` their SQL. The engine calls `progress`, on one
        of its threads, with the revision just done, the number done and the total.
        """
        ...

    async def get_schema_state(self, schema: str, migrations: str) -> SchemaState:
        """Return how far a schema is migrated. Changes nothing; a role that may only read can call it."""
        ...

    async def describe(self, statement: Statement) -> tuple[ResultColumn, ...]:
        """Return the columns that a statement would return. The server prepares it without running it."""
        ...

    def close(self) -> None:
        """Close all connections; an embedded server stops when no other process uses it."""
        ...
