"""Units of work on the SQLite layer: shared transactions, failed units, callbacks, and closing."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import ConditionFailed, InternalError, StoreBusy, StoreClosed, StoreFileError
from holdfast.stores.sqlite import CommitFuture, Database, Tuning, committer, write_lock
from holdfast.stores.sqlite.checkpoints import Checkpoints
from holdfast.stores.sqlite.store_files import StoreFiles
from holdfast.stores.sqlite.write_lock import WriteLock
from tests.sqlite_files import open_file
from tests.unit.stores.sqlite.pairs import half_a_pair, numbers_in, open_pairs, pair


class CommitterBlock:
    """A unit that blocks the committer, so that units submitted meanwhile share one transaction."""

    def __init__(self, database: Database) -> None:
        self._pulled = threading.Event()
        self._running = threading.Event()
        self.receipt: CommitFuture[None] = database.submit(self._wait)
        assert self._running.wait(30)

    def release(self) -> None:
        """Let the blocked committer continue."""
        self._pulled.set()

    def _wait(self, _: apsw.Connection) -> None:
        self._running.set()
        assert self._pulled.wait(30)


def test_the_result_of_a_unit_is_returned(database: Database) -> None:
    assert database.write(pair(5)) == 5
    assert database.submit(pair(6)).result(30) == 6


def test_failed_unit_is_rolled_back_and_raises_for_its_submitter(database: Database) -> None:
    refusal = ConditionFailed()
    with pytest.raises(ConditionFailed) as caught:
        database.write(half_a_pair(1, refusal))
    assert caught.value is refusal
    assert numbers_in(database) == set()


def test_maps_driver_errors_in_a_unit(database: Database) -> None:
    with pytest.raises(InternalError, match="no such table: absent") as caught:
        database.write(lambda connection: connection.execute("SELECT * FROM absent").get)
    assert isinstance(caught.value.__cause__, apsw.SQLError)


def test_failed_unit_does_not_fail_others_in_its_transaction(file_database: Database) -> None:
    plug = CommitterBlock(file_database)
    before = file_database.submit(pair(1))
    refused = file_database.submit(half_a_pair(2, ConditionFailed()))
    after = file_database.submit(pair(3))
    plug.release()

    assert (before.result(30), after.result(30)) == (1, 3)
    with pytest.raises(ConditionFailed):
        refused.result(30)
    assert file_database.committer.commits == 1
    assert numbers_in(file_database) == {1, 3}


def test_no_future_completes_before_the_commit(file_database: Database) -> None:
    observed: list[bool] = []
    plug = CommitterBlock(file_database)
    first = file_database.submit(pair(1))
    last = file_database.submit(lambda _: observed.append(first.done()))
    plug.release()
    last.result(30)

    assert observed == [False]
    assert first.done()


def test_unit_sees_earlier_units_of_its_transaction(file_database: Database) -> None:
    plug = CommitterBlock(file_database)
    file_database.submit(pair(1))
    count = file_database.submit(lambda connection: connection.execute("SELECT count(*) FROM pair").get)
    plug.release()
    assert count.result(30) == 2


def test_queued_units_commit_in_bounded_transactions(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(units_max=10, lock_hold_ms_max=60_000)) as database:
        plug = CommitterBlock(database)
        receipts = [database.submit(pair(number)) for number in range(29)]
        plug.release()
        assert [receipt.result(30) for receipt in receipts] == list(range(29))
        assert database.committer.commits == 3


def test_a_transaction_ends_once_it_held_the_write_lock_long_enough(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(lock_hold_ms_max=1)) as database:
        plug = CommitterBlock(database)
        later = database.submit(pair(1))
        threading.Timer(0.01, plug.release).start()
        later.result(30)
        assert database.committer.commits == 2


def test_a_lone_writer_has_a_transaction_for_each_write(file_database: Database) -> None:
    for number in range(20):
        file_database.write(pair(number))
    assert file_database.committer.commits == 20


def test_after_commit_callback_runs_before_the_result_is_returned(database: Database) -> None:
    happened: list[str] = []

    def unit(connection: apsw.Connection) -> None:
        pair(1)(connection)
        database.after_commit(lambda: happened.append("after"))
        happened.append("unit")

    database.write(unit)
    assert happened == ["unit", "after"]


def test_failed_unit_runs_no_after_commit_callback(file_database: Database) -> None:
    happened: list[str] = []

    def unit(_: apsw.Connection) -> None:
        file_database.after_commit(lambda: happened.append("refused"))
        raise ConditionFailed

    plug = CommitterBlock(file_database)
    file_database.submit(lambda _: file_database.after_commit(lambda: happened.append("kept")))
    refused = file_database.submit(unit)
    plug.release()
    with pytest.raises(ConditionFailed):
        refused.result(30)
    assert happened == ["kept"]


def test_failed_callback_is_logged_and_the_write_stays(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def unit(connection: apsw.Connection) -> int:
        database.after_commit(lambda: 1 // 0)  # type: ignore[arg-type]
        return pair(1)(connection)

    with caplog.at_level(logging.ERROR):
        assert database.write(unit) == 1
    assert "ZeroDivisionError" in caplog.text
    assert numbers_in(database) == {1}


def test_after_commit_outside_a_unit_is_an_internal_error(database: Database) -> None:
    with pytest.raises(InternalError, match="only a running unit of work"):
        database.after_commit(lambda: None)


def test_unit_that_submits_another_is_an_internal_error(database: Database) -> None:
    with pytest.raises(InternalError, match="must not submit another"):
        database.write(lambda _: database.write(pair(1)))
    database.write(pair(2))
    assert numbers_in(database) == {2}


def test_unit_that_ends_the_transaction_does_not_affect_later_units(database: Database) -> None:
    with pytest.raises(InternalError):
        database.write(lambda connection: connection.execute("COMMIT").get)
    database.write(pair(1))
    assert numbers_in(database) == {1}


def test_closing_finishes_accepted_units_and_refuses_later_ones(tmp_path: Path) -> None:
    database = open_pairs(tmp_path / "pairs.db")
    plug = CommitterBlock(database)
    receipts = [database.submit(pair(number)) for number in range(600)]
    closing = threading.Thread(target=database.close)
    closing.start()
    plug.release()
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


def test_recovers_after_another_program_holds_the_file(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(busy_ms_max=5)) as database:
        other = open_file(database.path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="locked by another program"):
            database.write(pair(1))
        other.close()
        database.write(pair(1))
        assert numbers_in(database) == {1}


def test_checkpoints_between_transactions(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(checkpoint_pages=10)) as database:
        for number in range(100):
            database.write(pair(number, bytes(3000)))
        assert Path(database.path + "-wal").stat().st_size < 40 * 8192
        assert Path(database.path).stat().st_size > 40 * 8192


def test_truncates_the_log_once_readers_release_it(tmp_path: Path) -> None:
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


def test_watch_reports_no_loss_while_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gave_up = threading.Semaphore(0)

    def describe(path: str) -> str:
        gave_up.release()
        return "a test holds it"

    path = tmp_path / "pairs.db"
    with open_pairs(path, Tuning(lock_wait_s_max=0.01)) as database:
        monkeypatch.setattr(write_lock, "describe_holder", describe)
        # From now on it always watches, and always sees a change.
        monkeypatch.setattr(committer, "WATCH_S", 0.01)
        monkeypatch.setattr(Checkpoints, "quiet_s", None)
        monkeypatch.setattr(StoreFiles, "is_unchanged", lambda files: False)
        database.write(pair(1))
        with WriteLock(str(path), wait_s_max=30):
            # The second time, the first has been handled.
            assert gave_up.acquire(timeout=30) and gave_up.acquire(timeout=30)
        database.write(pair(2))
    assert "changed by another program" not in caplog.text


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_deleted_moved_or_replaced_file_rejects_writes(tmp_path: Path, how: str) -> None:
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        database.write(pair(1))
        path.rename(tmp_path / "elsewhere.db")
        if how == "deleted":
            (tmp_path / "elsewhere.db").unlink()
        if how == "replaced":
            path.write_bytes(b"")
        with pytest.raises(StoreFileError, match="deleted, moved, truncated or replaced"):
            database.write(pair(2))
