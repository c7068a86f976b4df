"""Transactions of the committer that end early: a unit that breaks its word, and a turn that has lasted long enough."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import ConditionFailed, StoreIOError
from holdfast.stores.sqlite import Database, Receipt, Tuning, committer
from tests.unit.sqlite.pairs import PATIENT, half_a_pair, numbers_in, open_pairs, pair


def all_at_once(
    database: Database, *submissions: Callable[[], Receipt[int]] | Callable[[], Receipt[None]]
) -> list[Receipt[int] | Receipt[None]]:
    """Submitted while the committer is held in a unit of its own, so that all of them are queued together."""
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


def test_a_unit_that_raises_after_writing_without_a_savepoint_takes_the_whole_transaction_down(
    database: Database,
) -> None:
    with database:
        broken_word = ConditionFailed()
        receipts = all_at_once(
            database,
            lambda: database.submit(pair(1), savepoint=False),
            lambda: database.submit(half_a_pair(2, broken_word), savepoint=False),
        )
        for receipt in receipts:
            with pytest.raises(StoreIOError, match="Nothing of it was kept") as told:
                receipt.result(30)
            assert told.value.__cause__ is broken_word
        assert numbers_in(database) == set()
        assert database.committer.commits == 0
        assert database.write(pair(3)) == 3
        assert numbers_in(database) == {3}


def test_what_was_queued_behind_a_transaction_that_was_given_up_is_done_in_the_next(
    database: Database,
) -> None:
    with database:
        broken, later = all_at_once(
            database,
            lambda: database.submit(half_a_pair(1, ConditionFailed()), savepoint=False),
            lambda: database.submit(pair(2)),
        )
        with pytest.raises(StoreIOError):
            broken.result(30)
        assert later.result(30) == 2
        assert numbers_in(database) == {2}


def test_a_unit_that_refuses_before_writing_without_a_savepoint_leaves_its_neighbours_alone(
    database: Database,
) -> None:
    def refuse(_: apsw.Connection) -> None:
        raise ConditionFailed

    with database:
        before, refused, after = all_at_once(
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


def test_a_turn_of_no_time_is_one_unit_long_though_many_wait(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(turn_ms_max=0)) as database:
        receipts = all_at_once(
            database, *(lambda number=at: database.submit(pair(number)) for at in range(7))
        )
        assert [receipt.result(30) for receipt in receipts] == list(range(7))
        assert database.committer.commits == 1 + 7


def test_the_turn_is_given_up_after_ten_milliseconds_though_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that only the units move, four milliseconds each."""
    seconds = 0.0
    monkeypatch.setattr(committer, "perf_counter", lambda: seconds)

    def slow(number: int) -> Callable[[apsw.Connection], int]:
        def unit(connection: apsw.Connection) -> int:
            nonlocal seconds
            seconds += 0.004
            return pair(number)(connection)

        return unit

    with open_pairs(tmp_path / "pairs.db") as database:
        receipts = all_at_once(
            database, *(lambda number=at: database.submit(slow(number)) for at in range(9))
        )
        assert [receipt.result(30) for receipt in receipts] == list(range(9))
        assert database.committer.commits == 3
