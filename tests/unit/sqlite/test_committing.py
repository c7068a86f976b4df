"""Units of work: shared transactions, refusals that hit one unit alone, and what follows a commit."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import ConditionFailed, InternalError, StoreBusy, StoreClosed, StoreFileError
from holdfast.stores.sqlite import Database, Receipt, Tuning
from tests.unit.sqlite.pairs import half_a_pair, numbers_in, open_pairs, pair


class Plug:
    """Holds the committer in a unit, so that what is submitted meanwhile goes into the same transaction."""

    def __init__(self, database: Database) -> None:
        self._pulled = threading.Event()
        self._running = threading.Event()
        self.receipt: Receipt[None] = database.submit(self._wait)
        assert self._running.wait(30)

    def pull(self) -> None:
        self._pulled.set()

    def _wait(self, _: apsw.Connection) -> None:
        self._running.set()
        assert self._pulled.wait(30)


def test_the_result_of_a_unit_is_returned(database: Database) -> None:
    assert database.write(pair(5)) == 5
    assert database.submit(pair(6)).result(30) == 6


def test_a_unit_that_raises_is_undone_and_raises_at_its_submitter(database: Database) -> None:
    refusal = ConditionFailed()
    with pytest.raises(ConditionFailed) as caught:
        database.write(half_a_pair(1, refusal))
    assert caught.value is refusal
    assert numbers_in(database) == set()


def test_an_error_of_the_driver_in_a_unit_is_told_as_ours(database: Database) -> None:
    with pytest.raises(InternalError, match="no such table: absent") as caught:
        database.write(lambda connection: connection.execute("SELECT * FROM absent").get)
    assert isinstance(caught.value.__cause__, apsw.SQLError)


def test_a_refused_unit_does_not_take_its_neighbours_down(file_database: Database) -> None:
    plug = Plug(file_database)
    before = file_database.submit(pair(1))
    refused = file_database.submit(half_a_pair(2, ConditionFailed()))
    after = file_database.submit(pair(3))
    plug.pull()

    assert (before.result(30), after.result(30)) == (1, 3)
    with pytest.raises(ConditionFailed):
        refused.result(30)
    assert file_database.committer.commits == 1
    assert numbers_in(file_database) == {1, 3}


def test_no_receipt_is_settled_before_the_commit(file_database: Database) -> None:
    observed: list[bool] = []
    plug = Plug(file_database)
    first = file_database.submit(pair(1))
    last = file_database.submit(lambda _: observed.append(first.done()))
    plug.pull()
    last.result(30)

    assert observed == [False]
    assert first.done()


def test_a_unit_sees_what_its_neighbours_wrote_before_it(file_database: Database) -> None:
    plug = Plug(file_database)
    file_database.submit(pair(1))
    count = file_database.submit(lambda connection: connection.execute("SELECT count(*) FROM pair").get)
    plug.pull()
    assert count.result(30) == 2


def test_what_waited_goes_in_transactions_of_bounded_size(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(units_max=10, turn_ms_max=60_000)) as database:
        plug = Plug(database)
        receipts = [database.submit(pair(number)) for number in range(29)]
        plug.pull()
        assert [receipt.result(30) for receipt in receipts] == list(range(29))
        assert database.committer.commits == 3


def test_a_transaction_ends_when_its_turn_has_lasted_long_enough(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(turn_ms_max=1)) as database:
        plug = Plug(database)
        later = database.submit(pair(1))
        threading.Timer(0.01, plug.pull).start()
        later.result(30)
        assert database.committer.commits == 2


def test_a_lone_writer_has_a_transaction_for_each_write(file_database: Database) -> None:
    for number in range(20):
        file_database.write(pair(number))
    assert file_database.committer.commits == 20


def test_what_follows_a_commit_happens_before_its_submitter_hears_of_it(database: Database) -> None:
    happened: list[str] = []

    def unit(connection: apsw.Connection) -> None:
        pair(1)(connection)
        database.after_commit(lambda: happened.append("after"))
        happened.append("unit")

    database.write(unit)
    assert happened == ["unit", "after"]


def test_what_a_refused_unit_wanted_after_its_commit_does_not_happen(file_database: Database) -> None:
    happened: list[str] = []

    def unit(_: apsw.Connection) -> None:
        file_database.after_commit(lambda: happened.append("refused"))
        raise ConditionFailed

    plug = Plug(file_database)
    file_database.submit(lambda _: file_database.after_commit(lambda: happened.append("kept")))
    refused = file_database.submit(unit)
    plug.pull()
    with pytest.raises(ConditionFailed):
        refused.result(30)
    assert happened == ["kept"]


def test_a_callback_that_fails_is_logged_and_the_write_stands(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def unit(connection: apsw.Connection) -> int:
        database.after_commit(lambda: 1 // 0)  # type: ignore[arg-type]
        return pair(1)(connection)

    with caplog.at_level(logging.ERROR):
        assert database.write(unit) == 1
    assert "ZeroDivisionError" in caplog.text
    assert numbers_in(database) == {1}


def test_asking_for_something_after_a_commit_outside_a_unit_is_a_mistake(database: Database) -> None:
    with pytest.raises(InternalError, match="only a unit of work"):
        database.after_commit(lambda: None)


def test_a_unit_that_submits_another_is_a_mistake(database: Database) -> None:
    with pytest.raises(InternalError, match="must not submit another"):
        database.write(lambda _: database.write(pair(1)))
    database.write(pair(2))
    assert numbers_in(database) == {2}


def test_a_unit_that_ends_the_transaction_is_a_mistake_that_stops_nobody_later(database: Database) -> None:
    with pytest.raises(InternalError):
        database.write(lambda connection: connection.execute("COMMIT").get)
    database.write(pair(1))
    assert numbers_in(database) == {1}


def test_closing_finishes_what_was_accepted_and_refuses_what_comes_later(tmp_path: Path) -> None:
    database = open_pairs(tmp_path / "pairs.db")
    plug = Plug(database)
    receipts = [database.submit(pair(number)) for number in range(600)]
    closing = threading.Thread(target=database.close)
    closing.start()
    plug.pull()
    closing.join(30)

    assert [receipt.result(0) for receipt in receipts] == list(range(600))
    with pytest.raises(StoreClosed, match="was closed"):
        database.submit(pair(600))
    with open_pairs(tmp_path / "pairs.db") as again:
        assert numbers_in(again) == set(range(600))


def test_a_database_in_memory_refuses_writes_once_closed() -> None:
    database = open_pairs(":memory:")
    database.close()
    with pytest.raises(StoreClosed, match="was closed"):
        database.submit(pair(1))


def test_a_program_that_holds_the_file_too_long_makes_it_busy_and_then_it_goes_on(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(busy_ms_max=5)) as database:
        other = apsw.Connection(database.path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="held by another program"):
            database.write(pair(1))
        other.close()
        database.write(pair(1))
        assert numbers_in(database) == {1}


def test_the_log_goes_back_into_the_file_between_transactions(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(checkpoint_pages=10)) as database:
        for number in range(100):
            database.write(pair(number, bytes(3000)))
        assert Path(database.path + "-wal").stat().st_size < 40 * 8192
        assert Path(database.path).stat().st_size > 40 * 8192


def test_a_log_that_readers_hold_open_is_cut_once_they_let_go(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(checkpoint_pages=10)) as database:
        with database.snapshot() as connection:
            connection.execute("SELECT * FROM pair").fetchall()
            for number in range(40):
                database.write(pair(number, bytes(3000)))
            held = Path(database.path + "-wal").stat().st_size
        for number in range(40, 60):
            database.write(pair(number, bytes(3000)))
        assert held > 80 * 8192
        assert Path(database.path + "-wal").stat().st_size < held / 2
        assert numbers_in(database) == set(range(60))


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_is_gone_takes_no_more_writes(tmp_path: Path, how: str) -> None:
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        database.write(pair(1))
        path.rename(tmp_path / "elsewhere.db")
        if how == "deleted":
            (tmp_path / "elsewhere.db").unlink()
        if how == "replaced":
            path.write_bytes(b"")
        with pytest.raises(StoreFileError, match="deleted, moved or replaced"):
            database.write(pair(2))
