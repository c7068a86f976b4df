"""`Database.open` and `close` on SQLite files: new, foreign, damaged, shared and older files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import InternalError, SettingsError, StoreBusy, StoreFileError
from holdfast.stores.sqlite import Database, Migration, Schema, Tuning
from holdfast.stores.sqlite.connections import open_reader, require_sqlite
from tests.unit.stores.sqlite.pairs import APPLICATION, SCHEMA, numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[4]


def test_new_file_has_application_id_and_version(tmp_path: Path) -> None:
    open_pairs(tmp_path / "pairs.db").close()

    connection = apsw.Connection(str(tmp_path / "pairs.db"))
    assert connection.pragma("application_id") == APPLICATION
    assert connection.pragma("user_version") == 1
    connection.close()


def test_data_survives_reopening(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))
    with open_pairs(tmp_path / "pairs.db") as database:
        assert numbers_in(database) == {1}


def test_every_commit_is_synced_in_a_write_ahead_log(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        assert database.write(lambda connection: connection.pragma("journal_mode")) == "wal"
        assert database.write(lambda connection: connection.pragma("synchronous")) == 2


def test_the_tuning_is_applied(tmp_path: Path) -> None:
    tuning = Tuning(page_bytes=4096, secure_delete=True)
    with open_pairs(tmp_path / "pairs.db", tuning) as database:
        assert database.write(lambda connection: connection.pragma("page_size")) == 4096
        assert database.write(lambda connection: connection.pragma("secure_delete")) == 1


def test_an_empty_file_is_taken_as_new(tmp_path: Path) -> None:
    (tmp_path / "pairs.db").touch()
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))


def test_file_without_a_first_transaction_is_taken_as_new(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "pairs.db"))
    connection.pragma("journal_mode", "wal")
    connection.close()
    assert (tmp_path / "pairs.db").stat().st_size
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_an_sqlite_that_can_corrupt_the_file_is_refused(version: str) -> None:
    with pytest.raises(SettingsError, match=rf"SQLite {version} is too old.*resetting the WAL.*3\.51\.3"):
        require_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_an_sqlite_that_is_safe_for_several_writers_is_accepted(version: str) -> None:
    require_sqlite(version)


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="The folder .*absent does not exist. Create it"):
        open_pairs(tmp_path / "absent" / "pairs.db")
    assert not (tmp_path / "absent").exists()


def test_a_folder_given_as_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a folder. Give the path of a file in it"):
        open_pairs(tmp_path)


def test_something_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="pipe is not a regular file"):
        open_pairs(tmp_path / "pipe")


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """Run as an unprivileged user in a folder, because root may write every file."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        if was_root := os.geteuid() == 0:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if was_root:
                os.seteuid(0)


def test_a_file_that_may_not_be_written_is_refused(unprivileged_folder: Path) -> None:
    path = unprivileged_folder / "pairs.db"
    open_pairs(path).close()
    path.chmod(0o444)
    with pytest.raises(SettingsError, match="No permission to read and write .*pairs.db"):
        open_pairs(path)


def test_a_folder_that_may_not_be_written_is_refused(unprivileged_folder: Path) -> None:
    folder = unprivileged_folder / "data"
    folder.mkdir(0o555)
    with pytest.raises(SettingsError, match="No permission to write in the folder .*data"):
        open_pairs(folder / "pairs.db")


@pytest.mark.parametrize("content", [b"x", b"not a database, but rather long", bytes(8192)])
def test_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreFileError, match="notes.txt is not a Holdfast file.*was not changed"):
        open_pairs(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreFileError, match="is not a Holdfast file of this kind"):
        open_pairs(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["other.db"]


def test_a_file_that_was_cut_off_is_reported_and_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        for number in range(100):
            database.submit(pair(number, bytes(1000)))
    content = path.read_bytes()[:5000]
    path.write_bytes(content)
    with pytest.raises(StoreFileError, match=r"pairs\.db.*damaged.*restore"):
        open_pairs(path)
    assert path.read_bytes() == content


def test_sound_file_reports_no_problems(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))
        assert database.check() == []


def test_a_file_held_by_another_program_is_busy(tmp_path: Path) -> None:
    open_pairs(tmp_path / "pairs.db").close()
    other = apsw.Connection(str(tmp_path / "pairs.db"))
    other.pragma("locking_mode", "exclusive")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy, match="locked by another program"):
        open_pairs(tmp_path / "pairs.db", Tuning(busy_ms_max=1))
    other.close()


def test_two_databases_of_one_process_share_a_file(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as one, open_pairs(tmp_path / "pairs.db") as other:
        receipts = [
            database.submit(pair(number)) for number in range(100) for database in [(one, other)[number % 2]]
        ]
        for receipt in receipts:
            receipt.result(30)
        assert numbers_in(one) == numbers_in(other) == set(range(100))


# Takes the lock that SQLite has on an open file, if it is free.
LOCK_TAKEN = """
import fcntl, sys
with open(sys.argv[1], "rb+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""


def test_opening_a_file_again_does_not_drop_the_locks_this_process_has_on_it(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        with pytest.raises(StoreFileError):
            Database.open(database.path, Schema(APPLICATION + 1, SCHEMA.migrations))
        command = [sys.executable, "-c", LOCK_TAKEN, database.path]
        other = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "BlockingIOError" in other.stderr


def test_a_closed_database_leaves_nothing_in_the_log(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))
    assert (tmp_path / "pairs.db-wal").stat().st_size == 0


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    for path in (tmp_path / "pairs.db", ":memory:"):
        database = open_pairs(path)
        database.close()
        database.close()


def test_many_processes_can_make_the_same_file_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.unit.stores.sqlite.writer_process", str(tmp_path / "pairs.db")]
    processes = [
        subprocess.Popen(
            [*command, str(first), "1", "5"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for first in range(0, 60, 10)
    ]
    for process in processes:
        process.communicate(b"\n", timeout=60)
    assert [process.returncode for process in processes] == [0] * 6
    with open_pairs(tmp_path / "pairs.db") as database:
        assert database.check() == []


def test_a_script_that_forgets_to_close_still_ends_cleanly(tmp_path: Path) -> None:
    """Its write is committed, and the log is moved into the file."""
    script = (
        "import sys; from tests.unit.stores.sqlite.pairs import *; d = open_pairs(sys.argv[1]); "
        "d.submit(pair(1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "pairs.db")],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "pairs.db-wal").stat().st_size == 0
    with open_pairs(tmp_path / "pairs.db") as database:
        assert numbers_in(database) == {1}


SECOND = Migration(2, "ALTER TABLE pair ADD COLUMN colour TEXT")


def with_step(step: Migration) -> Schema:
    """Return the schema of pairs with one more migration."""
    return Schema(APPLICATION, (*SCHEMA.migrations, step))


def version_of(path: Path) -> object:
    """Return the schema version of the file."""
    connection = open_reader(str(path), Tuning())
    try:
        return connection.pragma("user_version")
    finally:
        connection.close()


def test_an_older_file_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))
    with Database.open(tmp_path / "pairs.db", with_step(SECOND)) as database:
        assert numbers_in(database) == {1}
        with database.read_connection() as connection:
            assert connection.execute("SELECT count(colour) FROM pair").get == 0
    assert version_of(tmp_path / "pairs.db") == 2


def test_a_migration_can_be_a_function(tmp_path: Path) -> None:
    def add_a_pair(connection: apsw.Connection) -> None:
        pair(7)(connection)

    with Database.open(tmp_path / "pairs.db", with_step(Migration(2, add_a_pair))) as database:
        assert numbers_in(database) == {7}


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    step = Migration(2, "INSERT INTO pair VALUES (1, 'left', NULL); INSERT INTO absent VALUES (1)")
    with pytest.raises(InternalError, match="absent"):
        Database.open(tmp_path / "pairs.db", with_step(step))
    assert version_of(tmp_path / "pairs.db") == 1
    with open_pairs(tmp_path / "pairs.db") as database:
        assert numbers_in(database) == set()


def test_a_file_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    Database.open(tmp_path / "pairs.db", with_step(SECOND)).close()
    with pytest.raises(StoreFileError, match="newer Holdfast .schema 2; this one supports up to 1"):
        open_pairs(tmp_path / "pairs.db")


def test_a_file_migrated_while_it_is_open_takes_no_more_writes_from_the_older(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as older:
        with Database.open(tmp_path / "pairs.db", with_step(SECOND)):
            pass
        with pytest.raises(StoreFileError, match="migrated .*pairs.db to schema 2"):
            older.write(pair(1))


def test_migrations_must_be_numbered_without_a_gap() -> None:
    with pytest.raises(InternalError, match="without a gap"):
        Schema(APPLICATION, (Migration(2, ""),))
    with pytest.raises(InternalError, match="without a gap"):
        Schema(APPLICATION, ())
