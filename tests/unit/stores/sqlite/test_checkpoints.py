"""Checkpoints of a SQLite file: when the write-ahead log is emptied, so that it keeps no deleted data."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

from holdfast.stores.sqlite import Database, Tuning
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

SECRET = b"the words of a customer"
SOON = Tuning(log_quiet_s=0.01, secure_delete=True)


def _wal_path(database: Database) -> Path:
    """Return the path of the write-ahead log."""
    return Path(database.path + "-wal")


def _wait_until_emptied(database: Database) -> None:
    """Wait until the committer's thread has emptied the log, which it does not announce."""
    while _wal_path(database).stat().st_size:
        time.sleep(0.005)


def _delete_all(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM pair")


@pytest.mark.proves("RP-2")
def test_deleted_data_leaves_all_files_soon_after_the_last_write(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", SOON) as database:
        database.write(pair(1, SECRET))
        database.write(_delete_all)
        _wait_until_emptied(database)

        assert [each for each in tmp_path.iterdir() if SECRET in each.read_bytes()] == []


def test_log_is_not_emptied_before_the_quiet_period(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(log_quiet_s=1000)) as database:
        database.write(pair(1, SECRET))

        assert SECRET in _wal_path(database).read_bytes()


def test_the_log_of_a_process_that_was_killed_is_emptied_without_a_write(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning(log_quiet_s=1000)) as killed:
        killed.write(pair(1))
        assert _wal_path(killed).stat().st_size
        with open_pairs(tmp_path / "pairs.db", SOON) as heir:
            _wait_until_emptied(heir)
            assert numbers_in(heir) == {1}


def test_log_is_emptied_once_its_reader_ends(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", SOON) as database:
        database.write(pair(1))
        with database.snapshot() as reading:
            assert reading.execute("SELECT count(*) FROM pair").get == 2
            for number in range(2, 5):
                database.write(pair(number))
            assert _wal_path(database).stat().st_size
            assert reading.execute("SELECT count(*) FROM pair").get == 2

        _wait_until_emptied(database)
        assert numbers_in(database) == {1, 2, 3, 4}


def test_writes_that_never_pause_do_not_keep_the_log_for_ever(tmp_path: Path) -> None:
    sizes: list[int] = []

    with open_pairs(tmp_path / "pairs.db", Tuning(log_quiet_s=1000, log_s_max=0)) as database:
        for number in range(3):
            database.write(pair(number))
            # A unit checks before its own commit writes to the log.
            database.write(lambda _: sizes.append(_wal_path(database).stat().st_size))
        assert numbers_in(database) == {0, 1, 2}

    assert sizes == [0, 0, 0]


def test_a_quiet_file_is_emptied_once_and_then_left_alone(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", SOON) as database:
        database.write(pair(1))
        _wait_until_emptied(database)
        modified_ns = (tmp_path / "pairs.db").stat().st_mtime_ns
        time.sleep(0.1)

        assert (tmp_path / "pairs.db").stat().st_mtime_ns == modified_ns
