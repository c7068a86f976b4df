"""Transactions of the caller, and LISTEN/NOTIFY, on both SQL engines: errors, cancellation, closing."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import threading

import pytest

from holdfast.core.errors import InvalidRequest, RowAlreadyExists, StoreBusy, StoreClosed
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, execution
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.notifications import Listener, Subscription

from .conftest import OpenEngine
from .test_statements import MADE, add, count, read, write

ASLEEP = read(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
)


async def wait_until_asleep(engine: PostgresSql, number: int) -> None:
    """Wait until `number` sessions sleep in PostgreSQL."""
    while (await engine.run(ASLEEP)).rows[0]["n"] != number:
        await asyncio.sleep(0.01)


async def test_changes_are_visible_only_after_commit(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        (row,) = (await transaction.run(read("SELECT name FROM patient"))).rows
        await transaction.run(add(2, row["name"] + "b"))
        assert await count(engine) == 0
    assert await count(engine) == 2


async def test_caller_error_rolls_back(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    with pytest.raises(LookupError):
        await _begin_and_give_up(engine)
    assert await count(engine) == 0


async def _begin_and_give_up(engine: PostgresSql) -> None:
    """Insert a row in a transaction and raise `LookupError` inside it."""
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        raise LookupError


async def test_ignored_statement_error_rolls_back_and_raises(engine: PostgresSql) -> None:
    await engine.run(write(MADE))
    with pytest.raises(InvalidRequest, match="was rolled back"):
        await _ignore_error(engine)
    assert await count(engine) == 0


async def _ignore_error(engine: PostgresSql) -> None:
    """Catch the error of a statement inside a transaction, then try to continue."""
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        with pytest.raises(RowAlreadyExists):
            await transaction.run(add(1, "b"))
        with pytest.raises(InvalidRequest, match="runs no more"):
            await transaction.run(add(2, "c"))


async def test_finished_transaction_rejects_statements(engine: PostgresSql) -> None:
    async with engine.transaction() as transaction:
        await transaction.run(read("SELECT 1"))
    with pytest.raises(InvalidRequest, match="has ended"):
        await transaction.run(read("SELECT 1"))


async def test_cancelled_statement_rolls_back_and_returns_its_connection(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=2))

    async def sleeping() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(add(1, "a"))
            await transaction.run(read("SELECT pg_sleep(60)"))

    await engine.run(write(MADE))
    # More often than there are connections: if one leaked, the last would find none.
    for _ in range(3):
        task = asyncio.create_task(sleeping())
        await wait_until_asleep(engine, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until_asleep(engine, 0)
    assert await count(engine) == 0
    async with engine.transaction() as one, engine.transaction() as other:
        await one.run(read("SELECT 1"))
        await other.run(read("SELECT 1"))


async def test_cancelled_commit_waits_for_its_outcome(
    engine: PostgresSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing, go_on = threading.Event(), threading.Event()
    really = execution.commit

    def slowly(connection: Connection) -> None:
        committing.set()
        go_on.wait()
        really(connection)

    monkeypatch.setattr(execution, "commit", slowly)

    async def adding() -> None:
        async with engine.transaction() as transaction:
            await transaction.run(add(1, "a"))

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


async def test_concurrent_statements_of_a_transaction_do_not_block_others(open_engine: OpenEngine) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=2))

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
        await story()


async def test_cancelled_wait_for_a_connection_leaks_none(open_engine: OpenEngine) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=1))

    async def begin() -> None:
        async with engine.transaction():
            raise AssertionError("it has waited in vain")

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


async def test_exhausted_pool_is_retryable(open_engine: OpenEngine) -> None:
    engine = open_engine(sizes=PoolSizes(min=1, max=1))
    usual_s = engine._max_retry_s

    async with engine.transaction() as transaction:
        await transaction.run(read("SELECT 1"))
        # Only now: opening the connection may take longer.
        engine._max_retry_s = 0.2
        with pytest.raises(StoreBusy):
            await engine.run(read("SELECT 1"))
        engine._max_retry_s = usual_s
        # A caller with a connection continues, however many wait.
        await transaction.run(read("SELECT 1"))
    await engine.run(read("SELECT 1"))


async def test_closing_rolls_back_open_transactions_and_stops_statements(open_engine: OpenEngine) -> None:
    engine, other = open_engine(), open_engine()

    await other.run(write(MADE))
    with pytest.raises(StoreClosed):
        await _close_within(engine)
    assert await count(other) == 0


async def _close_within(engine: PostgresSql) -> None:
    """Close the engine inside a transaction, then try to continue."""
    async with engine.transaction() as transaction:
        await transaction.run(add(1, "a"))
        engine.close()
        await transaction.run(add(2, "b"))


async def test_notifies_every_listener_after_commit(open_engine: OpenEngine) -> None:
    engine, other = open_engine(), open_engine()

    async def story() -> None:
        async with (
            engine.listen("woken") as first,
            engine.listen("woken") as second,
            engine.listen("else") as stranger,
        ):
            async with other.transaction() as transaction:
                await transaction.run(read("SELECT pg_notify('woken', 'one')"))
                assert await first.wait(0.05) is None
            await other.run(read("SELECT pg_notify('woken', 'two')"))
            assert [await first.wait(30), await first.wait(30)] == ["one", "two"]
            assert [await second.wait(30), await second.wait(30)] == ["one", "two"]
            assert await stranger.wait(0) is None
        async with engine.listen("later") as later:
            await engine.run(read("SELECT pg_notify('later', '')"))
            assert await later.wait(30) == ""

    for _ in range(2):
        await story()


async def test_wakes_every_listener_after_the_listening_connection_is_lost(open_engine: OpenEngine) -> None:
    engine = open_engine()
    end = "SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"  # noqa: E501

    async with engine.listen("woken") as notices:
        assert (await engine.run(read(end))).rows == ({"ended": True},)
        assert await notices.wait(30) == ""
        await engine.run(read("SELECT pg_notify('woken', 'again')"))
        assert await notices.wait(30) == "again"


async def test_listens_with_many_open_files(open_engine: OpenEngine) -> None:
    """File descriptors above 1023 work, which `select` would not support."""
    engine = open_engine()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]

    async def story() -> None:
        async with engine.listen("woken") as notices:
            await engine.run(read("SELECT pg_notify('woken', 'one')"))
            assert await notices.wait(30) == "one"

    try:
        await story()
    finally:
        for each in files:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_notification_during_another_subscribe_is_not_delayed(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = open_engine(), open_engine()
    really = Listener._listen_to_new

    announced: list[str] = []

    def announce_during_follow(listener: Listener, connection: Connection, listened: set[str]) -> None:
        if "else" in listener._subscriptions and not announced:
            announced.append("one")
            asyncio.run(other.run(read("SELECT pg_notify('woken', 'one')")))
            arrived = select.poll()
            arrived.register(connection.fileno(), select.POLLIN)
            arrived.poll()
        really(listener, connection, listened)

    monkeypatch.setattr(Listener, "_listen_to_new", announce_during_follow)

    async def story() -> None:
        async with engine.listen("woken") as notices, engine.listen("else"):
            assert await notices.wait(30) == "one"

    asyncio.run(story())


async def test_listening_thread_restarts_and_survives_unexpected_errors(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    really_listening, really_following = Listener._listen, Listener._deliver_from
    begun: list[str] = []

    def dying(listener: Listener) -> None:
        begun.append("thread")
        if begun != ["thread"]:
            really_listening(listener)

    def fail_once(listener: Listener, connection: Connection, *, is_first: bool) -> None:
        begun.append("connection")
        if begun.count("connection") == 1:
            raise ValueError("a surprise")
        really_following(listener, connection, is_first=is_first)

    monkeypatch.setattr(Listener, "_listen", dying)
    monkeypatch.setattr(Listener, "_deliver_from", fail_once)

    engine._listener._add(Subscription("woken"))
    thread = engine._listener._thread
    assert thread is not None
    await asyncio.to_thread(thread.join)
    async with engine.listen("woken") as notices:
        await engine.run(read("SELECT pg_notify('woken', 'one')"))
        while (heard := await notices.wait(30)) == "":
            pass
        assert heard == "one"


async def test_rejects_an_invalid_channel_name(engine: PostgresSql) -> None:
    async def story() -> None:
        async with engine.listen('a"; DROP TABLE patient; --'):
            pass

    with pytest.raises(InvalidRequest, match="Invalid channel name"):
        await story()
