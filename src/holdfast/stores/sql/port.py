"""The port of a SQL store: it runs statements, alone or several in one transaction, and hears what is
announced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.operations.sql import Answer, Statement
from holdfast.operations.sql.descriptions import ResultColumn, SchemaState


class SqlTransaction(Protocol):
    """Statements of one transaction: committed when its context is left, undone if that is by an error."""

    async def run(self, statement: Statement) -> Answer: ...


class SqlNotices(Protocol):
    """What is announced on one channel (LISTEN). A notice may be lost with a connection: keep a poll beside
    it.
    """

    async def wait(self, timeout_s: float) -> str | None:
        """The payload of the next notice, or None when the time is over."""
        ...


class Sql(Protocol):
    async def run(self, operation: Statement) -> Answer:
        """Do one statement. Whatever it raises is a `HoldfastError`."""
        ...

    async def run_all(self, statements: Sequence[Statement]) -> list[Answer]:
        """All or nothing, in this order."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[SqlTransaction]: ...

    def notices(self, channel: str) -> AbstractAsyncContextManager[SqlNotices]: ...

    async def migrate(
        self,
        schema: str,
        migrations: str,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[str]:
        """Brings a schema to the newest of its migrations; gives what was done, or with `dry_run` the SQL of
        it.

        `progress` is told which revision is done, how many are, and how many there will be, on a thread of
        the engine's.
        """
        ...

    async def state(self, schema: str, migrations: str) -> SchemaState:
        """How far a schema is: nothing is changed, and a role that may only read may ask."""
        ...

    async def describe(self, statement: Statement) -> tuple[ResultColumn, ...]:
        """What a statement would give, asked of the server without running it."""
        ...

    def close(self) -> None: ...
