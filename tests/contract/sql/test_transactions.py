"""Transactions that wait for their caller, and what is announced."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import threading

import pytest

from holdfast.core.errors import InvalidRequest, RowAlreadyExists, StoreBusy, StoreClosed
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, executing
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.listening import Listener, Notices

from .conftest import Opened
from .test_statements import MADE, add, count, read, write

ASLEEP = read(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
)


async def until_asleep(engine: PostgresSql, number: int) -> None:
    """Until so many sessions sleep in PostgreSQL."""
    while (await engine.run(ASLEEP)).rows[0]["n"] != number:
        await asyncio.sleep(0.01)


def test_what_was_done_is_kept_at_the_end_and_seen_by_nobody_before(engine: PostgresSql) -> None:
    async def story() -> None:
        await engine.run(write(MADE))
        async with engine.transaction() as transaction:
            await transaction.run(add(1, "a"))
            (row,) = (await transaction.run(read("SELECT name FROM patient"))).rows
            await transaction.run(add(2, row["name"] + "b"))
            assert await count(engine) == 0
        assert await count(engine) == 2

    asyncio.run(story())


def test_an_error_of_the_caller_undoes_it(engine: PostgresSql) -> None:
    async def story() -> None:
        await engine.run(write(MADE))
        with pytest.raises(LookupError):
            await _begin_and_give_up(engine)
        assert await count(engine) == 0

    asyncio.run(story())


async def _begin_and_give_up(engine: PostgresSql) -> None:
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        raise LookupError


def test_an_error_that_the_caller_overlooks_keeps_nothing_and_says_so(engine: PostgresSql) -> None:
    async def story() -> None:
        await engine.run(write(MADE))
        with pytest.raises(InvalidRequest, match="nothing of it is kept"):
            await _overlook(engine)
        assert await count(engine) == 0

    asyncio.run(story())


async def _overlook(engine: PostgresSql) -> None:
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        with pytest.raises(RowAlreadyExists):
            await transaction.run(add(1, "b"))
        with pytest.raises(InvalidRequest, match="does nothing more"):
            await transaction.run(add(2, "c"))


def test_a_transaction_that_is_over_takes_no_statement(engine: PostgresSql) -> None:
    async def story() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(read("SELECT 1"))
        with pytest.raises(InvalidRequest, match="over"):
            await transaction.run(read("SELECT 1"))

    asyncio.run(story())


def test_a_task_that_is_cancelled_in_a_statement_is_undone_and_gives_its_connection_back(
    opened: Opened,
) -> None:
    engine = opened(sizes=PoolSizes(min=1, max=2))

    async def sleeping() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(add(1, "a"))
            await transaction.run(read("SELECT pg_sleep(60)"))

    async def story() -> None:
        await engine.run(write(MADE))
        # More often than there are connections: had one stayed away, the last would find none.
        for _ in range(3):
            task = asyncio.create_task(sleeping())
            await until_asleep(engine, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until_asleep(engine, 0)
        assert await count(engine) == 0
        async with engine.transaction() as one, engine.transaction() as other:
            await one.run(read("SELECT 1"))
            await other.run(read("SELECT 1"))

    asyncio.run(story())


def test_a_task_that_is_cancelled_in_its_commit_ends_when_that_is_decided(
    engine: PostgresSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing, go_on = threading.Event(), threading.Event()
    really = executing.commit

    def slowly(connection: Connection) -> None:
        committing.set()
        go_on.wait()
        really(connection)

    monkeypatch.setattr(executing, "commit", slowly)

    async def adding() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(add(1, "a"))

    async def story() -> None:
        await engine.run(write(MADE))
        task = asyncio.create_task(adding())
        await asyncio.to_thread(committing.wait)
        try:
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert not task.done()
        finally:
            go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await count(engine) == 1

    asyncio.run(story())


def test_many_statements_at_once_in_one_transaction_take_no_thread_from_the_others(opened: Opened) -> None:
    engine = opened(sizes=PoolSizes(min=1, max=2))

    async def story() -> None:
        async with engine.transaction() as crowded, engine.transaction() as other:
            await crowded.run(read("SELECT pg_advisory_lock(1)"))
            crowd = [asyncio.create_task(crowded.run(read("SELECT pg_sleep(0.5)"))) for _ in range(6)]
            await asyncio.sleep(0)
            await other.run(read("SELECT 1"))
            assert not any(each.done() for each in crowd)
            for each in crowd:
                each.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
            raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(story())


def test_a_task_that_is_cancelled_while_it_waits_for_a_connection_leaves_none_behind(opened: Opened) -> None:
    engine = opened(sizes=PoolSizes(min=1, max=1))

    async def begin() -> None:
        async with engine.transaction():
            raise AssertionError("it has waited in vain")

    async def story() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(read("SELECT 1"))
            tasks = [asyncio.create_task(begin()) for _ in range(3)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        async with engine.transaction() as transaction:
            await transaction.run(read("SELECT 1"))

    asyncio.run(story())


def test_who_finds_all_connections_lent_is_told_to_come_again(opened: Opened) -> None:
    engine = opened(sizes=PoolSizes(min=1, max=1))
    engine._patience_s = 0.2

    async def story() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(read("SELECT 1"))
            with pytest.raises(StoreBusy):
                await engine.run(read("SELECT 1"))
            # Who has one can go on, however many wait.
            await transaction.run(read("SELECT 1"))
        await engine.run(read("SELECT 1"))

    asyncio.run(story())


def test_closing_undoes_what_is_open_and_ends_what_runs(opened: Opened) -> None:
    engine, other = opened(), opened()

    async def story() -> None:
        await other.run(write(MADE))
        with pytest.raises(StoreClosed):
            await _closed_within(engine)
        assert await count(other) == 0

    asyncio.run(story())


async def _closed_within(engine: PostgresSql) -> None:
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        engine.close()
        await transaction.run(add(2, "b"))


def test_what_is_announced_is_heard_by_everybody_on_the_channel_once_it_is_committed(opened: Opened) -> None:
    engine, other = opened(), opened()

    async def story() -> None:
        async with (
            engine.notices("woken") as first,
            engine.notices("woken") as second,
            engine.notices("else") as stranger,
        ):
            async with other.transaction() as transaction:
                await transaction.run(read("SELECT pg_notify('woken', 'one')"))
                assert await first.wait(0.05) is None
            await other.run(read("SELECT pg_notify('woken', 'two')"))
            assert [await first.wait(30), await first.wait(30)] == ["one", "two"]
            assert [await second.wait(30), await second.wait(30)] == ["one", "two"]
            assert await stranger.wait(0) is None
        async with engine.notices("later") as later:
            await engine.run(read("SELECT pg_notify('later', '')"))
            assert await later.wait(30) == ""

    for _ in range(2):
        asyncio.run(story())


def test_everybody_is_woken_after_the_connection_that_listens_was_lost(opened: Opened) -> None:
    engine = opened()
    end = "SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"

    async def story() -> None:
        async with engine.notices("woken") as notices:
            assert (await engine.run(read(end))).rows == ({"ended": True},)
            assert await notices.wait(30) == ""
            await engine.run(read("SELECT pg_notify('woken', 'again')"))
            assert await notices.wait(30) == "again"

    asyncio.run(story())


def test_notices_are_heard_however_many_files_are_open(opened: Opened) -> None:
    engine = opened()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]

    async def story() -> None:
        async with engine.notices("woken") as notices:
            await engine.run(read("SELECT pg_notify('woken', 'one')"))
            assert await notices.wait(30) == "one"

    try:
        asyncio.run(story())
    finally:
        for each in files:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_notice_that_comes_while_another_channel_is_begun_is_not_held_back(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = opened(), opened()
    really = Listener._listen_to_new

    announced: list[str] = []

    def announced_meanwhile(listener: Listener, connection: Connection, listened: set[str]) -> None:
        if "else" in listener._waiting and not announced:
            announced.append("one")
            asyncio.run(other.run(read("SELECT pg_notify('woken', 'one')")))
            arrived = select.poll()
            arrived.register(connection.fileno(), select.POLLIN)
            arrived.poll()
        really(listener, connection, listened)

    monkeypatch.setattr(Listener, "_listen_to_new", announced_meanwhile)

    async def story() -> None:
        async with engine.notices("woken") as notices, engine.notices("else"):
            assert await notices.wait(30) == "one"

    asyncio.run(story())


def test_a_listening_thread_that_died_is_begun_anew_and_a_surprise_does_not_end_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    really_listening, really_following = Listener._listen, Listener._follow
    begun: list[str] = []

    def dying(listener: Listener) -> None:
        begun.append("thread")
        if begun != ["thread"]:
            really_listening(listener)

    def surprised(listener: Listener, connection: Connection, *, is_first: bool) -> None:
        begun.append("connection")
        if begun.count("connection") == 1:
            raise ValueError("a surprise")
        really_following(listener, connection, is_first=is_first)

    monkeypatch.setattr(Listener, "_listen", dying)
    monkeypatch.setattr(Listener, "_follow", surprised)

    async def story() -> None:
        engine._listener._add(Notices("woken"))
        thread = engine._listener._thread
        assert thread is not None
        await asyncio.to_thread(thread.join)
        async with engine.notices("woken") as notices:
            await engine.run(read("SELECT pg_notify('woken', 'one')"))
            while (heard := await notices.wait(30)) == "":
                pass
            assert heard == "one"

    asyncio.run(story())


def test_refuses_a_channel_that_is_no_name(engine: PostgresSql) -> None:
    async def story() -> None:
        async with engine.notices('a"; DROP TABLE patient; --'):
            pass

    with pytest.raises(InvalidRequest, match="no name of a channel"):
        asyncio.run(story())
