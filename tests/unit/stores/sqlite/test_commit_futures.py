"""Commit futures: waiting for a write in threads and event loops, timeouts, and cancelled tasks."""

from __future__ import annotations

import asyncio
import threading

import apsw
import pytest

from holdfast.core.errors import ConditionFailed
from holdfast.stores.sqlite import CommitFuture, Database
from holdfast.stores.sqlite.commit_futures import complete_all
from tests.unit.stores.sqlite.pairs import half_a_pair, numbers_in, pair


def complete(
    receipt: CommitFuture[int], value: int | None = None, error: BaseException | None = None
) -> None:
    """Set the outcome and publish it."""
    receipt.set_outcome(value, error)
    complete_all([receipt])


def test_outcome_is_hidden_until_it_is_published() -> None:
    receipt: CommitFuture[int] = CommitFuture()
    receipt.set_outcome(1, None)
    assert not receipt.done()
    with pytest.raises(TimeoutError, match="may still be"):
        receipt.result(0)
    complete_all([receipt])
    assert receipt.done()
    assert receipt.result() == 1


def test_many_threads_can_wait_for_one_future() -> None:
    receipt: CommitFuture[int] = CommitFuture()
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(receipt.result(30))) for _ in range(5)]
    for thread in threads:
        thread.start()
    complete(receipt, 7)
    for thread in threads:
        thread.join(30)
    assert results == [7] * 5


async def test_an_event_loop_awaits_a_write(database: Database) -> None:
    assert (await database.submit(pair(3))) == 3
    assert numbers_in(database) == {3}


async def test_a_refusal_is_raised_where_it_is_awaited(database: Database) -> None:
    async def write() -> None:
        await database.submit(half_a_pair(1, ConditionFailed()))

    with pytest.raises(ConditionFailed):
        await write()


async def test_many_tasks_await_their_writes_together(file_database: Database) -> None:
    async def write(number: int) -> int:
        return await file_database.submit(pair(number))

    assert list(await asyncio.gather(*(write(number) for number in range(100)))) == list(range(100))
    assert file_database.committer.commits < 50


async def test_an_event_loop_is_woken_once_for_all_futures_of_a_transaction() -> None:
    loop = asyncio.get_running_loop()
    wake_ups = 0
    original = loop.call_soon_threadsafe

    def count_wake_up(*arguments: object, **options: object) -> object:
        nonlocal wake_ups
        wake_ups += 1
        return original(*arguments, **options)  # type: ignore[arg-type]

    loop.call_soon_threadsafe = count_wake_up  # type: ignore[assignment,method-assign]
    receipts: list[CommitFuture[int]] = [CommitFuture() for _ in range(32)]
    tasks = [asyncio.ensure_future(_wait(receipt)) for receipt in receipts]
    await asyncio.sleep(0)
    thread = threading.Thread(target=complete_all, args=(receipts,))
    thread.start()
    await asyncio.gather(*tasks)
    thread.join()

    assert wake_ups == 1


async def _wait(receipt: CommitFuture[int]) -> int:
    return await receipt


async def test_cancelled_task_does_not_undo_its_write(file_database: Database) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(connection: apsw.Connection) -> int:
        entered.set()
        assert go_on.wait(30)
        return pair(1)(connection)

    task = asyncio.ensure_future(_wait(file_database.submit(slow)))
    await asyncio.to_thread(entered.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await file_database.submit(pair(2))
    assert numbers_in(file_database) == {1, 2}


async def test_closed_event_loop_does_not_disturb_the_committer(file_database: Database) -> None:
    go_on = threading.Event()

    def slow(connection: apsw.Connection) -> int:
        assert go_on.wait(30)
        return pair(1)(connection)

    receipt = file_database.submit(slow)
    task = asyncio.ensure_future(_wait(receipt))
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    assert receipt.result(30) == 1
    file_database.write(pair(2))
