"""Copies of a live file: one state of it, with right checksums, whatever is in its log."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import StoreFileError
from holdfast.core.progress import Progress, ignore_progress
from holdfast.stores.sqlite import Database, Migration, Schema, Tuning, file_copy
from holdfast.stores.sqlite.checksums import has_checksums
from holdfast.stores.sqlite.connections import open_unused
from holdfast.stores.sqlite.file_copy import LiveFile, has_data
from holdfast.stores.sqlite.verification import open_snapshot, verify_file

SCHEMA = Schema(7, (Migration(1, "CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"),))
# More than a connection's cache, so that pages are written before the first page is.
ROWS = 1500


def verify_rows(connection: apsw.Connection, progress: Progress) -> list[str]:
    found = [(id, text) for id, text in connection.execute("SELECT id, text FROM rows")]
    return [f"row {id}" for id, text in found if not str(text).startswith(f"row {id} ")]


def write_rows(database: Database, first: int, count: int) -> None:
    def write(connection: apsw.Connection) -> None:
        rows = [(id, f"row {id} " * 400) for id in range(first, first + count)]
        connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)

    database.write(write)


def check(path: Path) -> int:
    """Verify a copy and return the number of its rows."""
    assert verify_file(str(path), SCHEMA, verify_rows, ignore_progress, is_in_use=False) == []
    with open_snapshot(str(path), SCHEMA, is_in_use=False) as connection:
        count: int = connection.execute("SELECT count(*) FROM rows").get
        return count


@pytest.mark.parametrize("is_in_log", [True, False], ids=["in the log", "in the file"])
def test_copy_has_every_row_and_right_checksums(tmp_path: Path, is_in_log: bool) -> None:
    tuning = Tuning(checkpoint_pages=1_000_000, log_quiet_s=1000)
    with Database.open(tmp_path / "live.db", SCHEMA, tuning) as database:
        for first in range(0, ROWS, 100):
            write_rows(database, first, 100)
        if not is_in_log:
            assert database.compact()
        with LiveFile(tmp_path / "live.db", SCHEMA) as live:
            live.freeze()
            live.copy_to(tmp_path / "copy.db")

    assert check(tmp_path / "copy.db") == ROWS
    connection = open_unused(str(tmp_path / "copy.db"))
    assert has_checksums(connection)
    connection.close()


def test_copy_is_the_frozen_state_although_other_processes_write_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy, "PAGES_PER_STEP", 50)
    with Database.open(tmp_path / "live.db", SCHEMA) as database:
        for first in range(0, ROWS, 100):
            write_rows(database, first, 100)
        with LiveFile(tmp_path / "live.db", SCHEMA) as live:
            live.freeze()
            writes = iter(range(ROWS, 2 * ROWS))
            live.copy_to(tmp_path / "copy.db", lambda done, total: write_rows(database, next(writes), 1))
        written = next(writes) - ROWS

    assert written > 1
    assert check(tmp_path / "copy.db") == ROWS


def test_copy_of_a_file_without_checksums_is_the_same_file(tmp_path: Path) -> None:
    """An older version wrote it. A backup does not upgrade it."""
    with Database.open(tmp_path / "old.db", SCHEMA, Tuning(vfs=apsw.vfs_names()[0])) as database:
        write_rows(database, 0, ROWS)
        with LiveFile(tmp_path / "old.db", SCHEMA) as live:
            live.freeze()
            live.copy_to(tmp_path / "copy.db")

    assert check(tmp_path / "copy.db") == ROWS
    connection = open_unused(str(tmp_path / "copy.db"))
    assert not has_checksums(connection)
    connection.close()


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    with Database.open(tmp_path / "live.db", SCHEMA) as database:
        write_rows(database, 0, 3)
        database.write(lambda connection: connection.execute("UPDATE rows SET text = 'x' WHERE id = 1"))
        with LiveFile(tmp_path / "live.db", SCHEMA) as live:
            live.freeze()
            live.copy_to(tmp_path / "copy.db")

    problems = verify_file(str(tmp_path / "copy.db"), SCHEMA, verify_rows, ignore_progress, is_in_use=False)
    assert problems == ["row 1"]


def test_absent_and_empty_files_have_no_data(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    assert not has_data(tmp_path / "empty.db")
    assert not has_data(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == [tmp_path / "empty.db"]


def test_foreign_file_stays_as_it_is_without_files_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"these are notes, and no database" * 50)

    with pytest.raises(StoreFileError, match="notes.db"):
        LiveFile(tmp_path / "notes.db", SCHEMA)
    assert list(tmp_path.iterdir()) == [tmp_path / "notes.db"]


def test_reading_an_unused_file_creates_nothing_next_to_it(tmp_path: Path) -> None:
    with Database.open(tmp_path / "live.db", SCHEMA) as database, LiveFile(database.path, SCHEMA) as live:
        live.freeze()
        (tmp_path / "a folder?&#%").mkdir()
        live.copy_to(tmp_path / "a folder?&#%" / "copy.db")
    check(tmp_path / "a folder?&#%" / "copy.db")

    assert [path.name for path in (tmp_path / "a folder?&#%").iterdir()] == ["copy.db"]
