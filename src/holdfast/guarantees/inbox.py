"""An inbox: once, for an effect in SQL. A row in the effect's own transaction is the truth.

    inbox = Inbox("inbox")
    await inbox.create(connection)

    async with inbox.taking(connection, key, payload_sha256) as taken:
        if taken.is_new:
            await connection.execute("UPDATE accounts SET …")
            taken.keep({"balance": 7})
    taken.result                                   # of this time, or as it was stored the first time

The row and the effect are committed together or not at all, so that there is nothing to fence: a worker that dies leaves
neither. A second worker with the same key waits for the first one's transaction to end, for as long as `wait_s`, and then
is told `InProgress`. The connection is psycopg's `AsyncConnection`, or one that has what `SqlConnection` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import DeclarationError, IdempotencyMismatch, InProgress, InvalidRequest
from holdfast.guarantees.once.record import json_text

LIFETIME_S: Final = 30 * 24 * 3600.0
WAIT_S: Final = 5.0
SWEPT_ROWS_MAX: Final = 1000

# What PostgreSQL calls it when another transaction is in the way: a lock not had in time, a serialization failure, a
# deadlock. Told by their SQLSTATE, so that no driver needs to be imported.
IN_THE_WAY: Final = frozenset({"55P03", "40001", "40P01"})

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


class SqlCursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    async def fetchone(self) -> Any: ...


class SqlConnection(Protocol):
    """What an inbox needs of a connection: statements with `%s`, and transactions that may stand in each other."""

    async def execute(self, query: Any, params: Any = ..., /) -> SqlCursor: ...

    def transaction(self) -> AbstractAsyncContextManager[Any]: ...


@dataclass
class Taken:
    """What taking a key gave. `is_new`: do it, in this transaction. Otherwise `result` is the one that was stored."""

    key: str
    is_new: bool
    result: Any = None

    @property
    def replayed(self) -> bool:
        return not self.is_new

    def keep(self, result: object) -> None:
        """The result that a repeat shall be given."""
        if not self.is_new:
            raise InvalidRequest(
                f"{self.key} was done before, and has its result: give that, and do nothing."
            )
        self.result = json.loads(json_text(result))


class Inbox:
    """Keys that were taken, in a table of the database in which the effects are."""

    def __init__(
        self,
        table: str = "inbox",
        *,
        lifetime_s: float = LIFETIME_S,
        wait_s: float = WAIT_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not _NAME.fullmatch(table):
            raise DeclarationError(
                f"{table!r} is no name for an inbox: use small letters, digits and _, with a schema before it if need be."
            )
        if lifetime_s <= 0 or wait_s <= 0:
            raise DeclarationError(
                f"The inbox {table} keeps keys for {lifetime_s:g} s and waits {wait_s:g} s: declare both above 0."
            )
        self.table, self.lifetime_s, self.wait_s, self.clock = table, lifetime_s, wait_s, clock

    async def create(self, connection: SqlConnection) -> None:
        """Makes the table and its index, where they are not there."""
        index = self.table.replace(".", "_") + "_expires_at"
        async with connection.transaction():
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.table} (key text PRIMARY KEY, payload_sha256 text NOT NULL, "
                "result text, created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL)"
            )
            await connection.execute(f"CREATE INDEX IF NOT EXISTS {index} ON {self.table} (expires_at)")

    @asynccontextmanager
    async def taking(self, connection: SqlConnection, key: str, payload_sha256: str) -> AsyncIterator[Taken]:
        """A transaction with the key taken. The effect stands in the block, and is committed with the row."""
        async with connection.transaction():
            taken = await self._taken(connection, key, payload_sha256)
            yield taken
            if taken.is_new and taken.result is not None:
                await connection.execute(
                    f"UPDATE {self.table} SET result = %s WHERE key = %s", (json_text(taken.result), key)
                )

    async def do(
        self,
        connection: SqlConnection,
        key: str,
        payload_sha256: str,
        effect: Callable[[], Awaitable[object]],
    ) -> Taken:
        """Does it once, in a transaction with its key; what `effect` returns is the result."""
        async with self.taking(connection, key, payload_sha256) as taken:
            if taken.is_new:
                taken.keep(await effect())
        return taken

    async def sweep(self, connection: SqlConnection, rows_max: int = SWEPT_ROWS_MAX) -> int:
        """Removes keys whose lifetime is over, and gives their number. Those in use are passed over."""
        async with connection.transaction():
            swept = await connection.execute(
                f"DELETE FROM {self.table} WHERE key IN (SELECT key FROM {self.table} WHERE expires_at < %s "
                "ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED)",
                (self._now, rows_max),
            )
            return swept.rowcount

    # --- one key ----------------------------------------------------------------------------------------------

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    async def _taken(self, connection: SqlConnection, key: str, payload_sha256: str) -> Taken:
        if await self._is_inserted(connection, key, payload_sha256):
            return Taken(key, is_new=True)
        found = await connection.execute(
            f"SELECT payload_sha256, result FROM {self.table} WHERE key = %s", (key,)
        )
        row = await found.fetchone()
        if row is None:  # swept, or given back, between the two statements
            raise _in_progress(key, self.wait_s)
        sha256, result = _values(row)
        if sha256 != payload_sha256:
            raise IdempotencyMismatch(
                f"{key} was used before with another payload: the same key stands for the same content. Use a new key "
                "for new content."
            )
        return Taken(key, is_new=False, result=None if result is None else json.loads(result))

    async def _is_inserted(self, connection: SqlConnection, key: str, payload_sha256: str) -> bool:
        """A row that another transaction has inserted and not committed is waited for; one that has expired is renewed."""
        now = self._now
        values = (key, payload_sha256, now, now + timedelta(seconds=self.lifetime_s), now)
        try:
            async with connection.transaction(), _lock_wait(connection, self.wait_s):
                inserted = await connection.execute(
                    f"INSERT INTO {self.table} AS old (key, payload_sha256, created_at, expires_at) "
                    "VALUES (%s, %s, %s, %s) ON CONFLICT (key) DO UPDATE SET payload_sha256 = excluded.payload_sha256, "
                    "result = NULL, created_at = excluded.created_at, expires_at = excluded.expires_at "
                    "WHERE old.expires_at < %s",
                    values,
                )
        except Exception as error:
            if getattr(error, "sqlstate", None) not in IN_THE_WAY:
                raise
            raise _in_progress(key, self.wait_s) from error
        return inserted.rowcount == 1


@asynccontextmanager
async def _lock_wait(connection: SqlConnection, wait_s: float) -> AsyncIterator[None]:
    """The effect that follows waits for locks as the caller has set it, and not as we do."""
    asked = await connection.execute("SELECT current_setting('lock_timeout')")
    [before] = _values(await asked.fetchone())
    set_local = "SELECT set_config('lock_timeout', %s, true)"
    await connection.execute(set_local, (f"{max(1, round(wait_s * 1000))}ms",))
    yield
    await connection.execute(set_local, (before,))


def _values(row: Any) -> tuple[Any, ...]:
    """A row's values in their order, whichever form the connection gives rows in."""
    return tuple(row.values() if isinstance(row, Mapping) else row)


def _in_progress(key: str, wait_s: float) -> InProgress:
    return InProgress(
        f"{key} is being worked on in another transaction: come again, and do not acknowledge it before.",
        retry_after_s=wait_s,
    )
