"""Lost, cut and replaced files: nothing is acknowledged into them, and no store starts empty over data."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import apsw
import pytest

from holdfast.core.disk import sync
from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import IDENTITY_BYTES, get_marker_path
from holdfast.stores.sqlite import Database, Migration, Schema, Tuning, commit_record, log_index
from holdfast.stores.sqlite.checkpoints import Checkpoints
from holdfast.stores.sqlite.commit_record import CommitRecord
from holdfast.stores.sqlite.store_files import StoreFiles, check_files
from tests.sqlite_files import open_file
from tests.unit.stores.sqlite.pairs import SCHEMA, numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[4]
FILLING = bytes(3000)
PAIRS = 40
RECORD_AT = IDENTITY_BYTES
INDEX_HEAD_BYTES = 136
HASH_AT = 16384
# The log is neither truncated nor checkpointed while the test looks at it.
KEEP_LOG = Tuning(log_quiet_s=1000, log_s_max=1000, checkpoint_pages=100_000)
WRITE_AND_DIE = """
import os, sys
from tests.unit.stores.sqlite.pairs import open_pairs, pair
database = open_pairs(sys.argv[1])
for number in range(int(sys.argv[2])):
    database.write(pair(number, bytes(3000)))
os._exit(9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pairs.db"


@pytest.fixture(scope="module")
def crashed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a process that died with its commits in the log."""
    folder = tmp_path_factory.mktemp("crashed")
    command = [sys.executable, "-c", WRITE_AND_DIE, str(folder / "pairs.db"), str(PAIRS)]
    subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    return folder


@pytest.fixture
def crashed(crashed_folder: Path, tmp_path: Path) -> Path:
    """Return the path of a copy of the crashed store, with its log and its marker."""
    folder = tmp_path / "copy"
    shutil.copytree(crashed_folder, folder)
    return folder / "pairs.db"


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def fill(path: Path) -> None:
    """Write pairs to a store and close it."""
    with open_pairs(path) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))


def cut(path: Path, part: float) -> None:
    os.truncate(path, int(path.stat().st_size * part))


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file, which may be open."""
    with path.open("r+b", buffering=0) as file:
        file.seek(offset)
        changed = file.read(1)[0] ^ 1
        file.seek(offset)
        file.write(bytes([changed]))


@pytest.mark.parametrize("part", [0, 0.5])
def test_file_truncated_while_open_acknowledges_nothing(path: Path, part: float) -> None:
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        cut(path, part)
        with pytest.raises(StoreFileError, match="truncated"):
            database.write(pair(1000))


@pytest.mark.parametrize("part", [0, 0.5])
def test_log_truncated_while_open_acknowledges_nothing(path: Path, part: float) -> None:
    with open_pairs(path, KEEP_LOG) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))
        cut(log_of(path), part)
        with pytest.raises(StoreFileError):
            database.write(pair(1000))
    with pytest.raises(StoreFileError, match="acknowledged transactions are lost"):
        open_pairs(path)


def test_log_removed_while_open_is_noticed_and_still_moved_into_the_file(path: Path) -> None:
    with open_pairs(path, KEEP_LOG) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))
        log_of(path).unlink()
        assert database._files is not None
        database._files._look_at = 0
        with pytest.raises(StoreFileError, match="deleted"):
            database.write(pair(1000))
    with open_pairs(path) as database:
        assert numbers_in(database) == set(range(PAIRS))


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_no_write_is_acknowledged_after_a_loss_was_reported(path: Path, damage: str) -> None:
    with open_pairs(path, KEEP_LOG) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))
        files = database._files
        assert files is not None
        if damage == "removed":
            log_of(path).unlink()
            files._look_at = 0
        elif damage == "cut":
            cut(log_of(path), 0.5)
        else:
            flip(log_of(path), log_of(path).stat().st_size // 2)
            # As in a quiet moment.
            with pytest.raises(StoreFileError):
                files.truncate_log(database._writer)
        for number in range(1000, 1010):
            with pytest.raises(StoreFileError):
                database.write(pair(number))
        with pytest.raises(StoreFileError):
            database.compact()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-turn"])
def test_store_is_not_opened_with_other_files_than_those_in_use(path: Path, suffix: str) -> None:
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1000))
        file = path.with_name(path.name + suffix)
        os.replace(shutil.copy(file, path.with_name("copy")), file)
        with pytest.raises(StoreFileError, match="Another process has"):
            open_pairs(path)


def test_readers_refuse_after_a_loss_was_found(path: Path) -> None:
    """Their connections still have the file that was removed."""
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        assert len(numbers_in(database)) == PAIRS
        path.unlink()
        assert database._files is not None
        database._files._look_at = 0
        with pytest.raises(StoreFileError):
            database.write(pair(1000))
        with pytest.raises(StoreFileError, match="deleted"):
            numbers_in(database)


def test_older_content_with_the_same_times_is_noticed(path: Path) -> None:
    """As `cp -p` or `rsync --inplace --times` writes it."""
    fill(path)
    older = path.read_bytes()
    with open_pairs(path) as database:
        database.write(lambda connection: connection.execute("UPDATE pair SET id = id + 1000").get)
    assert path.stat().st_size == len(older)
    with open_pairs(path, KEEP_LOG) as database:
        times = path.stat()
        with path.open("r+b") as file:
            file.write(older)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(StoreFileError, match="older copy"):
            database.write(pair(5000))


def test_removed_marker_is_written_again_soon_with_its_record(path: Path) -> None:
    fill(path)
    marker = Path(get_marker_path(path))
    with open_pairs(path, KEEP_LOG) as database, open_pairs(path, KEEP_LOG) as other:
        database.write(pair(1000))
        before = commit_record.read_last_commit(str(path))
        assert before.generation > 0
        marker.unlink()
        assert database._files is not None
        assert not database._files.is_unchanged(), "an idle process does not look at it"
        database._files._look_at = 0
        database.write(pair(1001))
        after = commit_record.read_last_commit(str(path))
        assert after.frames > before.frames
        assert after.generation == before.generation
        database._files.truncate_log(database._writer)
        # The other process still has the former marker, which names a longer log.
        assert other._files is not None
        other._files._look_at = float("inf")
        other.write(pair(1002))
        assert commit_record.read_last_commit(str(path)).frames > 0
        killed = copy_killed(path)
    log_of(killed).unlink()
    with pytest.raises(StoreFileError, match="acknowledged transactions are lost"):
        open_pairs(killed)


def test_reader_does_not_recreate_a_removed_file(path: Path) -> None:
    fill(path)
    with open_pairs(path) as database:
        path.unlink()
        with pytest.raises(StoreFileError, match="deleted"):
            numbers_in(database)
        assert not path.exists()


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: cut(path, 0)])
def test_store_does_not_start_empty_where_data_was(path: Path, loss: Callable[[Path], None]) -> None:
    fill(path)
    loss(path)
    for name in ("pairs.db-wal", "pairs.db-shm"):
        path.with_name(name).unlink()
    with pytest.raises(StoreFileError, match="says that it held data"):
        open_pairs(path)
    os.unlink(get_marker_path(path))
    with open_pairs(path) as database:
        assert numbers_in(database) == set()


def test_file_truncated_before_the_start_is_refused(path: Path) -> None:
    fill(path)
    cut(path, 0.5)
    with pytest.raises(StoreFileError):
        open_pairs(path)


def test_another_store_at_the_path_is_refused(path: Path, tmp_path: Path) -> None:
    fill(path)
    other = tmp_path / "other.db"
    fill(other)
    shutil.copy(other, path)
    with pytest.raises(StoreFileError, match="replaced by another store"):
        open_pairs(path)


def test_copy_of_a_store_opens_without_its_marker(path: Path, tmp_path: Path) -> None:
    fill(path)
    copy = tmp_path / "copy" / "pairs.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    with open_pairs(copy) as database:
        assert len(numbers_in(database)) == PAIRS


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda log: cut(log, 0), lambda log: cut(log, 0.5), lambda log: cut(log, 0.97)]
)
def test_log_lost_after_a_crash_is_refused_and_can_be_put_back(
    crashed: Path, damage: Callable[[Path], None]
) -> None:
    log = log_of(crashed)
    saved = log.read_bytes()
    damage(log)
    with pytest.raises(StoreFileError, match="acknowledged transactions are lost"):
        open_pairs(crashed)
    log.write_bytes(saved)
    with open_pairs(crashed) as database:
        assert numbers_in(database) == set(range(PAIRS))


def test_older_log_after_a_crash_is_refused(crashed: Path) -> None:
    """A log of another store has other salts."""
    other = crashed.with_name("other.db")
    with open_pairs(other, KEEP_LOG) as database:
        database.write(pair(1))
        log_of(crashed).write_bytes(log_of(other).read_bytes())
    with pytest.raises(StoreFileError, match="cut, replaced or damaged"):
        open_pairs(crashed)


@pytest.mark.parametrize("is_open", [False, True])
def test_copy_from_before_a_checkpoint_is_refused(path: Path, is_open: bool) -> None:
    """Also after one that did not truncate the log, which the next commit then starts again."""
    with open_pairs(path, KEEP_LOG) as database:
        copies = []
        for number in range(3):
            database.write(pair(number, FILLING))
            assert database._files is not None
            database._files.move_log(database._writer)
            copies.append(path.read_bytes())
        assert len(set(copies)) == 3
        place = path if is_open else copy_killed(path)
        place.write_bytes(copies[1])
        with pytest.raises(StoreFileError, match="older copy"):
            database.write(pair(1000)) if is_open else open_pairs(place)
        place.write_bytes(copies[2])
        if not is_open:
            with open_pairs(place) as killed:
                assert numbers_in(killed) == {0, 1, 2}


def test_checkpoint_of_a_process_that_died_is_recorded_by_the_next_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process goes on: its next commit starts the log again."""
    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1, FILLING))
        connection = open_file(path)
        connection.execute("UPDATE store_identity SET generation = generation + 7")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        connection.close()
        recorded: list[commit_record.LastCommit] = []
        write = CommitRecord.write

        def record(self: CommitRecord, last: commit_record.LastCommit) -> None:
            recorded.append(last)
            write(self, last)

        monkeypatch.setattr(CommitRecord, "write", record)
        database.write(pair(2))
        assert [(last.frames > 0, last.generation) for last in recorded] == [(False, 7), (True, 7)]
        killed = copy_killed(path)
    with open_pairs(killed) as database:
        assert numbers_in(database) == {1, 2}


@pytest.mark.parametrize("part", [1, 0.5])
def test_log_of_before_the_last_checkpoint_is_refused(crashed: Path, part: float) -> None:
    """SQLite would read its pages over the newer ones of the database."""
    log = log_of(crashed)
    older = log.read_bytes()
    with open_pairs(crashed) as database:
        database.write(pair(1000, FILLING))
    log.write_bytes(older[: int(len(older) * part)])
    for refuse in (open_pairs, check_files):
        with pytest.raises(StoreFileError, match="older than the file"):
            refuse(str(crashed))
    log.unlink()
    with open_pairs(crashed) as database:
        assert numbers_in(database) == {*range(PAIRS), 1000}


def test_part_of_a_log_that_is_in_the_database_is_refused(path: Path) -> None:
    with open_pairs(path, KEEP_LOG) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))
        assert database._files is not None
        database._files.move_log(database._writer)
        killed = copy_killed(path)
    cut(log_of(killed), 0.5)
    with pytest.raises(StoreFileError, match="older than the file"):
        open_pairs(killed)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_process_that_dies_with_its_first_transaction_leaves_a_sound_store(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, is_recorded: bool
) -> None:
    """The record of an empty log names no salts, until the first transaction has them."""
    fill(path)
    killed: list[Path] = []
    start = StoreFiles._next_generation

    def record_first(files: StoreFiles, connection: apsw.Connection) -> int:
        generation = start(files, connection)
        if not killed:
            killed.append(copy_killed(path))
        return generation

    with open_pairs(path, KEEP_LOG) as database:
        monkeypatch.setattr(StoreFiles, "_next_generation", record_first)
        database.write(pair(1000))
        assert killed, "the first commit has not started the log"
        if is_recorded:
            shutil.rmtree(killed.pop().parent)
            killed.append(copy_killed(path))
    with open_pairs(killed[0]) as database:
        assert numbers_in(database) == set(range(PAIRS)) | ({1000} if is_recorded else set())


def test_log_with_data_is_refused_where_an_empty_one_was(path: Path) -> None:
    """A process opened the store, wrote nothing and was killed; then an older log was put next to it."""
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1000, FILLING))
        log = log_of(path).read_bytes()
    with open_pairs(path, KEEP_LOG):
        killed = copy_killed(path)
    log_of(killed).write_bytes(log)
    with pytest.raises(StoreFileError, match="older than the file"):
        open_pairs(killed)


def test_process_that_dies_while_it_migrates_leaves_a_sound_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the migration is not recorded: the store is not open yet."""
    fill(path)
    newer = Schema(SCHEMA.application, (*SCHEMA.migrations, Migration(2, "CREATE TABLE later (id INTEGER)")))

    def die(*_: object, **__: object) -> None:
        copy_killed(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.stores.sqlite.database.StoreFiles", die)
        with pytest.raises(KeyboardInterrupt):
            Database.open(path, newer)
    killed = path.parent / "killed" / path.name
    assert log_of(killed).stat().st_size > 0
    with Database.open(killed, newer) as database:
        assert numbers_in(database) == set(range(PAIRS))


def read_in_snapshot(database: Database) -> set[int]:
    with database.snapshot() as connection:
        return {int(str(number)) for (number,) in connection.execute("SELECT id FROM pair")}


@pytest.mark.parametrize("lost_bytes", [100, 1_000_000])
def test_reader_of_a_cut_database_does_not_miss_what_was_there(path: Path, lost_bytes: int) -> None:
    """SQLite reads zeros for the end of a page that is not there, and finds no table in an empty file."""
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        os.truncate(path, max(0, path.stat().st_size - lost_bytes))
        with pytest.raises(StoreFileError):
            read_in_snapshot(database)


def test_index_of_the_log_overwritten_while_open_acknowledges_nothing(path: Path) -> None:
    """It says that the log is empty: the next commit would be written over those in it."""
    fill(path)
    index = path.with_name(path.name + "-shm")
    with open_pairs(path, KEEP_LOG) as database:
        empty = index.read_bytes()
        database.write(pair(1000))
        with index.open("r+b") as file:
            file.write(empty)
        for number in (1001, 1002):
            with pytest.raises(StoreFileError, match="the index of the write-ahead log, was changed"):
                database.write(pair(number))
        with pytest.raises(StoreFileError):
            numbers_in(database)
    with open_pairs(path) as database:
        assert numbers_in(database) == {*range(PAIRS), 1000}


def zero_blocks(index: Path) -> None:
    """Write zeros over everything but the head of the index."""
    with index.open("r+b") as file:
        file.seek(INDEX_HEAD_BYTES)
        file.write(bytes(index.stat().st_size - INDEX_HEAD_BYTES))


def clear_last_slot(index: Path) -> None:
    """Remove the frame that the hash table names last: one page is then read in its former state."""
    content = index.read_bytes()
    used = [at for at in range(HASH_AT, len(content), 2) if content[at : at + 2] != bytes(2)]
    with index.open("r+b") as file:
        file.seek(max(used, key=lambda at: int.from_bytes(content[at : at + 2], sys.byteorder)))
        file.write(bytes(2))


def wait_for_later_file_time(index: Path) -> None:
    """Return once the file system gives files a later time than the index has."""
    probe = index.with_name("probe")
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > index.stat().st_ctime_ns:
            return


INDEX_DAMAGES: list[Callable[[Path], None]] = [
    zero_blocks,
    clear_last_slot,
    lambda index: os.truncate(index, 200),
    lambda index: os.truncate(index, HASH_AT),
]


@pytest.mark.parametrize("time_step_s", [log_index.TIME_STEP_S, 0.0])
@pytest.mark.parametrize("damage", INDEX_DAMAGES)
def test_index_of_the_log_damaged_while_open_acknowledges_nothing(
    path: Path, damage: Callable[[Path], None], time_step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next commit would build on pages in their former state. The content of a file that was not changed
    for a while is not compared, until its time changes.
    """
    monkeypatch.setattr(log_index, "TIME_STEP_S", time_step_s)
    fill(path)
    index = path.with_name(path.name + "-shm")
    with open_pairs(path, KEEP_LOG) as database:
        for number in (1000, 1001):
            wait_for_later_file_time(index)
            database.write(pair(number))
        wait_for_later_file_time(index)
        damage(index)
        with pytest.raises(StoreFileError, match="the index of the write-ahead log, was changed"):
            database.write(pair(1002))
    with open_pairs(path) as database:
        assert numbers_in(database) == {*range(PAIRS), 1000, 1001}


def test_store_whose_index_was_damaged_by_another_program_is_not_opened(path: Path) -> None:
    """The process that has it open has not noticed it yet."""
    fill(path)
    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1000))
        zero_blocks(path.with_name(path.name + "-shm"))
        with pytest.raises(StoreFileError, match="the index of the write-ahead log, was changed"):
            open_pairs(path, KEEP_LOG)
    with open_pairs(path) as database:
        assert numbers_in(database) == {*range(PAIRS), 1000}


def test_two_processes_that_write_in_turns_find_each_others_frames_in_the_index(path: Path) -> None:
    """Frames that another one has added are no damage, nor is a log that it has started again."""
    with open_pairs(path, KEEP_LOG) as one, open_pairs(path, KEEP_LOG) as other:
        for number in range(0, 40, 2):
            one.write(pair(number))
            other.write(pair(number + 1))
            if number % 10 == 0:
                assert other.compact(rewrite=False)
        assert numbers_in(one) == set(range(40))


def test_log_overwritten_while_open_acknowledges_nothing(crashed: Path) -> None:
    log = log_of(crashed).read_bytes()
    with open_pairs(crashed) as database:
        database.write(pair(1000))
        assert database._files is not None
        database._files.truncate_log(database._writer)
        database.write(pair(1001))
        with log_of(crashed).open("r+b") as file:
            file.write(log)
        with pytest.raises(StoreFileError, match="replaced while it was open"):
            database.write(pair(1002))


def test_loss_of_the_log_can_be_accepted(crashed: Path) -> None:
    log_of(crashed).unlink()
    os.unlink(get_marker_path(crashed))
    with open_pairs(crashed) as database:
        assert numbers_in(database) < set(range(PAIRS))


def test_log_that_was_restarted_after_a_record_of_an_older_version_is_accepted(crashed: Path) -> None:
    """A process of that version may have died after its commit and before it recorded it."""
    marker = Path(get_marker_path(crashed))
    salts = int.from_bytes(log_of(crashed).read_bytes()[16:20], "big")
    write_older_record(marker, (salts - 1).to_bytes(4, "big") + b"salt", 999)
    with open_pairs(crashed, KEEP_LOG) as database:
        assert numbers_in(database) == set(range(PAIRS))
        database.write(pair(PAIRS))


def write_older_record(marker: Path, salts: bytes, frames: int) -> None:
    """Write a record as older versions did, into the marker of a closed store."""
    content = struct.pack("<8sIQI", salts, frames, 0, 1)
    record = content + struct.pack("<I", crc32(content))
    marker.write_bytes(marker.read_bytes()[:RECORD_AT] + record.ljust(256 - RECORD_AT, b"\0"))


@pytest.fixture
def restarting(path: Path) -> Iterator[Database]:
    """Yield a store whose next commit starts the log again."""
    with open_pairs(path, Tuning(log_quiet_s=1000, log_s_max=1000, checkpoint_pages=1)) as database:
        database.write(pair(1, FILLING))
        # The checkpoint after the commit above comes before this unit.
        database.write(lambda connection: None)
        yield database


def copy_killed(path: Path) -> Path:
    """Copy the files of an open store as they were if its process was killed now; return the new path."""
    folder = path.parent / "killed"
    folder.mkdir()
    for file in (path, log_of(path), Path(get_marker_path(path))):
        shutil.copy(file, folder)
    return folder / path.name


def test_process_that_dies_between_its_commit_and_its_record_leaves_a_sound_store(
    restarting: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = CommitRecord.write
    killed: list[Path] = []

    def record(self: CommitRecord, last: commit_record.LastCommit) -> None:
        if last.frames and not killed:
            killed.append(copy_killed(path))
        write(self, last)

    salts = log_of(path).read_bytes()[16:24]
    monkeypatch.setattr(CommitRecord, "write", record)
    restarting.write(pair(2))
    assert log_of(path).read_bytes()[16:24] != salts, "the log was not restarted"
    with open_pairs(killed[0]) as database:
        assert numbers_in(database) == {1, 2}


def test_log_cut_after_it_was_restarted_with_a_longer_transaction_is_refused(
    restarting: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of frames shows that the log was not restarted."""
    # It would move the log into the database before the copy is made, or after.
    monkeypatch.setattr(Checkpoints, "run_if_due", lambda _: None)
    restarting.write(pair(2, FILLING * 50))
    killed = copy_killed(path)
    cut(log_of(killed), 0.5)
    with pytest.raises(StoreFileError, match="acknowledged transactions are lost"):
        open_pairs(killed)


def test_record_is_cleared_on_disk_before_the_log_is_truncated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure could leave the record of a log that is rightly gone."""
    log_sizes: list[int] = []

    def sync_record(descriptor: int) -> None:
        log_sizes.append(log_of(path).stat().st_size)
        sync(descriptor)

    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1))
        monkeypatch.setattr(commit_record, "sync", sync_record)
    assert len(log_sizes) == 1
    assert log_sizes[0] > 0
    assert log_of(path).stat().st_size == 0


def test_log_that_is_lost_while_it_is_truncated_is_not_missed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the record is cleared, the database alone has everything."""
    copy = path.parent / "killed"

    def sync_record(descriptor: int) -> None:
        copy.mkdir()
        shutil.copy(path, copy)
        shutil.copy(get_marker_path(path), copy)

    with open_pairs(path, KEEP_LOG) as database:
        for number in range(PAIRS):
            database.write(pair(number, FILLING))
        monkeypatch.setattr(commit_record, "sync", sync_record)
    with open_pairs(copy / "pairs.db") as database:
        assert numbers_in(database) == set(range(PAIRS))


@pytest.mark.parametrize("place", [60, 100])
def test_one_torn_copy_of_the_record_is_ignored(crashed: Path, place: int) -> None:
    flip(Path(get_marker_path(crashed)), place)
    log = log_of(crashed)
    saved = log.read_bytes()
    cut(log, 0.5)
    with pytest.raises(StoreFileError, match="acknowledged transactions are lost"):
        open_pairs(crashed)
    log.write_bytes(saved)
    with open_pairs(crashed) as database:
        assert numbers_in(database) == set(range(PAIRS))


def damage_both_copies(marker: Path) -> None:
    flip(marker, 60)
    flip(marker, 100)


def damage_older_record(marker: Path) -> None:
    write_older_record(marker, b"the salt", 3)
    flip(marker, 60)


@pytest.mark.parametrize(
    "damage", [damage_both_copies, damage_older_record, lambda marker: os.truncate(marker, 60)]
)
def test_damaged_record_is_refused_and_not_overwritten(crashed: Path, damage: Callable[[Path], None]) -> None:
    marker = Path(get_marker_path(crashed))
    damage(marker)
    for _ in range(2):
        with pytest.raises(StoreFileError, match="record of the last commit .* then remove"):
            open_pairs(crashed)
        with pytest.raises(StoreFileError, match="record of the last commit"):
            check_files(str(crashed))
    marker.unlink()
    with open_pairs(crashed) as database:
        assert numbers_in(database) == set(range(PAIRS))


def test_marker_without_a_record_is_accepted(crashed: Path) -> None:
    """As a restored store has it."""
    os.truncate(get_marker_path(crashed), RECORD_AT)
    with open_pairs(crashed) as database:
        assert numbers_in(database) == set(range(PAIRS))


def test_record_erased_while_open_acknowledges_nothing(path: Path) -> None:
    with open_pairs(path, KEEP_LOG) as database:
        database.write(pair(1))
        with open(get_marker_path(path), "r+b", buffering=0) as file:
            file.seek(RECORD_AT)
            file.write(bytes(80))
        with pytest.raises(StoreFileError, match="record of the last commit"):
            database.write(pair(2))


def test_damaged_marker_says_what_to_do(path: Path) -> None:
    fill(path)
    marker = Path(get_marker_path(path))
    marker.write_bytes(b"something else")
    with pytest.raises(StoreFileError, match="Check that the store is whole, then remove"):
        open_pairs(path)


@pytest.mark.parametrize("umask", [0, 0o277])
def test_files_are_private_whatever_the_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with open_pairs(path) as database:
            database.write(pair(1))
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert len(modes) == 6
