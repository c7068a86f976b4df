"""Reads of a SQLite database, on a file and in memory: snapshots, threads, closing and errors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import apsw
import pytest

from holdfast.core.errors import ConditionFailed, InternalError, StoreClosed
from holdfast.stores.sqlite import Database
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

COUNT = "SELECT count(*) FROM pair"


def run_in_thread(action: Callable[[], object]) -> None:
    """Run the action in another thread and raise its error here."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_every_way_to_read_sees_a_write(database: Database) -> None:
    database.write(pair(1))

    assert database.reader().execute(COUNT).get == 2
    with database.read_connection() as connection:
        assert connection.execute(COUNT).get == 2
    with database.snapshot() as connection:
        assert connection.execute(COUNT).get == 2


def test_a_write_of_one_thread_is_seen_by_another(database: Database) -> None:
    run_in_thread(lambda: database.write(pair(1)))
    run_in_thread(lambda: database.write(pair(2)))
    assert numbers_in(database) == {1, 2}


@pytest.mark.parametrize(
    "statement", ["SELECT 1 WHERE 0", "SELECT 1", "SELECT 1, 2", "VALUES (1), (2)", "VALUES (1,2), (3,4)"]
)
def test_rows_read_alike_from_file_and_memory(file_database: Database, statement: str) -> None:
    expected = file_database.reader()
    with open_pairs(":memory:") as memory:
        found = memory.reader()
        assert found.execute(statement).get == expected.execute(statement).get
        assert found.execute(statement).fetchone() == expected.execute(statement).fetchone()
        assert found.execute(statement).fetchall() == expected.execute(statement).fetchall()
        assert list(found.execute(statement)) == list(expected.execute(statement))


def test_uncommitted_unit_is_invisible(database: Database) -> None:
    written, seen = threading.Event(), []

    def slow(connection: apsw.Connection) -> None:
        pair(1)(connection)
        written.set()
        # In memory the reader waits for this unit; on a file it reads concurrently.
        reader.join(0.05)
        raise ConditionFailed

    def read() -> None:
        assert written.wait(30)
        seen.append(database.reader().execute(COUNT).get)

    reader = threading.Thread(target=read)
    reader.start()
    with pytest.raises(ConditionFailed):
        database.write(slow)
    reader.join(30)
    assert seen == [0]


def test_snapshot_does_not_see_later_writes(file_database: Database) -> None:
    with file_database.snapshot() as connection:
        assert connection.execute(COUNT).get == 0
        file_database.write(pair(1))
        assert connection.execute(COUNT).get == 0
    assert file_database.reader().execute(COUNT).get == 2


def test_a_snapshot_in_a_snapshot_is_the_same_one(database: Database) -> None:
    with database.snapshot() as outer:
        with database.snapshot() as inner:
            assert inner is outer
        assert outer.in_transaction
    assert not outer.in_transaction


def test_a_snapshot_ends_when_its_reader_fails(database: Database) -> None:
    with pytest.raises(InternalError), database.snapshot() as connection:
        connection.execute("SELECT * FROM absent")
    with database.read_connection() as connection:
        assert not connection.in_transaction


@pytest.mark.parametrize("way", ["read_connection", "snapshot"])
def test_maps_driver_errors(database: Database, way: str) -> None:
    with pytest.raises(InternalError, match="no such table: absent"), getattr(database, way)() as connection:
        connection.execute("SELECT * FROM absent")


def test_a_reader_of_a_file_cannot_write(file_database: Database) -> None:
    with (
        pytest.raises(Exception, match="readonly|cannot be written"),
        file_database.read_connection() as connection,
    ):
        pair(1)(connection)


def test_each_thread_has_a_connection_of_its_own_that_ends_with_it(file_database: Database) -> None:
    file_database.reader()
    before = len(file_database.connections())

    def read() -> None:
        assert file_database.reader() is file_database.reader()
        assert len(file_database.connections()) == before + 1

    run_in_thread(read)
    gc.collect()
    assert len(file_database.connections()) == before


def test_closed_database_refuses_reads(database: Database) -> None:
    database.reader()
    database.close()
    for way in (database.reader, database.read_connection, database.snapshot):
        with pytest.raises(StoreClosed, match="was closed"):
            way()


def test_running_read_finishes_after_the_database_is_closed(file_database: Database) -> None:
    reading, closed, counted = threading.Event(), threading.Event(), []

    def pause(*_: object) -> int:
        reading.set()
        assert closed.wait(30)
        return 5

    def read() -> None:
        with file_database.read_connection() as connection:
            connection.create_scalar_function("pause", pause)
            counted.append(connection.execute("SELECT pause()").get)

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(30)
    file_database.close()
    closed.set()
    thread.join(30)
    assert counted == [5]


def test_a_database_in_memory_is_used_by_many_threads_at_once() -> None:
    with open_pairs(":memory:") as database:

        def work(first: int) -> None:
            for number in range(first, first + 100):
                database.write(pair(number))
                assert number in numbers_in(database)

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100, 200, 300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert numbers_in(database) == set(range(400))


def test_snapshot_that_ends_after_close_is_refused(file_database: Database) -> None:
    with pytest.raises(StoreClosed, match="was closed"), file_database.snapshot():
        run_in_thread(file_database.close)


def test_snapshot_that_begins_after_close_is_refused(file_database: Database) -> None:
    snapshot = file_database.snapshot()
    run_in_thread(file_database.close)
    with pytest.raises(StoreClosed, match="was closed"), snapshot:
        pass


def test_reader_error_takes_precedence_over_a_closed_file(file_database: Database) -> None:
    def close_and_fail() -> None:
        run_in_thread(file_database.close)
        raise ConditionFailed

    with pytest.raises(ConditionFailed), file_database.snapshot():
        close_and_fail()
