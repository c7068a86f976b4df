"""Transactions of the committer that end early: a unit fails after writing, or the turn's time is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import ConditionFailed, StoreIOError
from holdfast.stores.sqlite import CommitFuture, Database, Tuning, committer
from tests.unit.stores.sqlite.pairs import PATIENT, half_a_pair, numbers_in, open_pairs, pair


def submit_together(
    database: Database, *submissions: Callable[[], CommitFuture[int]] | Callable[[], CommitFuture[None]]
) -> list[CommitFuture[int] | CommitFuture[None]]:
    """Submit all while another unit holds the committer, so that they are queued together."""
    running, queued = threading.Event(), threading.Event()

    def hold(_: apsw.Connection) -> None:
        running.set()
        assert queued.wait(30)

    database.submit(hold)
    assert running.wait(30)
    receipts = [submit() for submit in submissions]
    queued.set()
    return receipts


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_pairs(tmp_path / "pairs.db", PATIENT)


def test_unit_that_fails_without_a_savepoint_fails_the_transaction(
    database: Database,
) -> None:
    with database:
        broken_word = ConditionFailed()
        receipts = submit_together(
            database,
            lambda: database.submit(pair(1), savepoint=False),
            lambda: database.submit(half_a_pair(2, broken_word), savepoint=False),
        )
        for receipt in receipts:
            with pytest.raises(StoreIOError, match="Nothing was written") as failed:
                receipt.result(30)
            assert failed.value.__cause__ is broken_word
        assert numbers_in(database) == set()
        assert database.committer.commits == 0
        assert database.write(pair(3)) == 3
        assert numbers_in(database) == {3}


def test_units_queued_behind_a_failed_transaction_run_in_the_next(
    database: Database,
) -> None:
    with database:
        broken, later = submit_together(
            database,
            lambda: database.submit(half_a_pair(1, ConditionFailed()), savepoint=False),
            lambda: database.submit(pair(2)),
        )
        with pytest.raises(StoreIOError):
            broken.result(30)
        assert later.result(30) == 2
        assert numbers_in(database) == {2}


def test_unit_that_refuses_before_writing_fails_alone(
    database: Database,
) -> None:
    def refuse(_: apsw.Connection) -> None:
        raise ConditionFailed

    with database:
        before, refused, after = submit_together(
            database,
            lambda: database.submit(pair(1), savepoint=False),
            lambda: database.submit(refuse, savepoint=False),
            lambda: database.submit(pair(3), savepoint=False),
        )
        assert (before.result(30), after.result(30)) == (1, 3)
        with pytest.raises(ConditionFailed):
            refused.result(30)
        assert database.committer.commits == 1
        assert numbers_in(database) == {1, 3}


def test_turn_without_time_commits_one_unit_per_transaction(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(lock_hold_ms_max=0)) as database:
        receipts = submit_together(
            database, *(lambda number=at: database.submit(pair(number)) for at in range(7))
        )
        assert [receipt.result(30) for receipt in receipts] == list(range(7))
        assert database.committer.commits == 1 + 7


def test_transaction_ends_after_ten_milliseconds_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock moves only with the units, four milliseconds each."""
    seconds = 0.0
    monkeypatch.setattr(committer, "perf_counter", lambda: seconds)

    def slow(number: int) -> Callable[[apsw.Connection], int]:
        def unit(connection: apsw.Connection) -> int:
            nonlocal seconds
            seconds += 0.004
            return pair(number)(connection)

        return unit

    with open_pairs(tmp_path / "pairs.db") as database:
        receipts = submit_together(
            database, *(lambda number=at: database.submit(slow(number)) for at in range(9))
        )
        assert [receipt.result(30) for receipt in receipts] == list(range(9))
        assert database.committer.commits == 3
