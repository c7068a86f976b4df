"""Damage of the write-ahead log: a damaged log is refused and left alone, what a crash leaves is accepted."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import StoreFileError
from holdfast.stores.sqlite import Database, Schema, Tuning
from holdfast.stores.sqlite.checksums import CHECKSUM_VFS
from holdfast.stores.sqlite.connections import open_reader
from tests.unit.stores.sqlite.pairs import APPLICATION, SCHEMA, numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[4]
PAIRS = 40
PAGE_BYTES = Tuning().page_bytes
HEADER_BYTES, FRAME_BYTES = 32, 24 + PAGE_BYTES
WRITE_AND_DIE = """
import os, sys
from tests.unit.stores.sqlite.pairs import open_pairs, pair
database = open_pairs(sys.argv[1])
for number in range(int(sys.argv[2])):
    database.write(pair(number, bytes([number]) * 100))
os._exit(9)
"""


@pytest.fixture(scope="module")
def crashed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the file of a process that died: nearly all data is in the log."""
    folder = tmp_path_factory.mktemp("crashed")
    command = [sys.executable, "-c", WRITE_AND_DIE, str(folder / "pairs.db"), str(PAIRS)]
    subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    return folder


@pytest.fixture
def path(crashed_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the crashed file with its log."""
    for name in ("pairs.db", "pairs.db-wal"):
        shutil.copy(crashed_folder / name, tmp_path / name)
    return tmp_path / "pairs.db"


def log_of(path: Path) -> Path:
    """Return the path of the write-ahead log."""
    return path.with_name(path.name + "-wal")


def frames_in(log: Path) -> int:
    """Return the number of whole frames in the log."""
    return (log.stat().st_size - HEADER_BYTES) // FRAME_BYTES


def offset(frame: int) -> int:
    """Return where the frame with this number begins."""
    return HEADER_BYTES + (frame - 1) * FRAME_BYTES


def damage(log: Path, at: int, count: int = 10) -> None:
    """Invert `count` bytes of the log from the offset `at` on."""
    with log.open("r+b") as file:
        file.seek(at)
        old = file.read(count)
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in old))


def refusal(path: Path, schema: Schema = SCHEMA) -> str:
    """Return the message of the refusal to open the file; both files must be unchanged."""
    before = path.read_bytes() if path.exists() else b"", log_of(path).read_bytes()
    with pytest.raises(StoreFileError) as refused:
        Database.open(path, schema)
    assert (path.read_bytes() if path.exists() else b"", log_of(path).read_bytes()) == before
    return refused.value.message


def test_the_log_of_a_killed_process_is_sound(path: Path) -> None:
    with open_pairs(path) as database:
        assert numbers_in(database) == set(range(PAIRS))


@pytest.mark.parametrize(
    "at",
    [offset(12) + 1000, offset(12) + 4, offset(12) + 8, offset(12) + 16, offset(1) + 500, offset(1) + 8],
    ids=["page", "page count", "salts", "checksum", "first page", "first salts"],
)
def test_a_damaged_frame_with_transactions_behind_it_is_refused(path: Path, at: int) -> None:
    damage(log_of(path), at, 4)
    message = refusal(path)
    assert f"The write-ahead log {log_of(path)} is damaged after frame" in message
    assert "Nothing was changed: restore a backup" in message


@pytest.mark.parametrize("at", [0, 8, 16, 24], ids=["magic", "page size", "salts", "checksum"])
def test_a_log_whose_head_is_damaged_is_refused(path: Path, at: int) -> None:
    damage(log_of(path), at, 4)
    assert "is damaged after frame 0" in refusal(path)


def test_finds_transactions_behind_many_damaged_frames(path: Path) -> None:
    damage(log_of(path), offset(12), 5 * FRAME_BYTES)
    assert "is damaged after frame" in refusal(path)


def test_a_refused_file_is_refused_again(path: Path) -> None:
    damage(log_of(path), offset(12) + 1000)
    assert refusal(path) == refusal(path)


@pytest.mark.parametrize(
    "tear",
    [
        lambda log: damage(log, offset(frames_in(log)) + 1000),
        lambda log: damage(log, offset(frames_in(log)) + 16),
        lambda log: log.write_bytes(log.read_bytes()[:-100]),
    ],
    ids=["page", "checksum", "cut"],
)
def test_torn_last_transaction_is_not_damage(path: Path, tear: Callable[[Path], None]) -> None:
    tear(log_of(path))
    with open_pairs(path) as database:
        assert numbers_in(database) == set(range(PAIRS - 1))


def test_log_about_to_be_restarted_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        for number in range(5):
            database.write(pair(number))
        frames = log_of(path).read_bytes()
        other = apsw.Connection(str(path), vfs=CHECKSUM_VFS)
        assert other.execute("SELECT count(*) FROM pair").get == 10
        other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        # As if it had died before truncating the log: to SQLite the log is empty, although its frames are
        # valid.
        log_of(path).write_bytes(frames)
        with open_pairs(path) as again:
            assert numbers_in(again) == set(range(5))
        other.close()


def test_leftovers_of_killed_writers_are_not_damage(tmp_path: Path) -> None:
    """Each writer wrote over the one before, behind the same end: no transaction depends on any of it."""
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        database.write(pair(1))
        log = log_of(path)
        salts = log.read_bytes()[16:24]
        with log.open("ab") as file:
            for page_number in range(2, 6):
                file.write(struct.pack(">II8sII", page_number, 9, salts, page_number, 7) + bytes(PAGE_BYTES))
        with open_pairs(path) as again:
            assert numbers_in(again) == {1}


def test_a_file_that_others_write_can_be_opened_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "pairs.db"
    command = [
        sys.executable,
        "-m",
        "tests.unit.stores.sqlite.writer_process",
        str(path),
        "0",
        "2",
        "1000000",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        writer.stdout.readline()
        for number in range(-30, 0):
            with open_pairs(path) as database:
                database.write(pair(number))
        writer.communicate(timeout=60)


@pytest.mark.parametrize("lose", [lambda path: path.write_bytes(b""), Path.unlink], ids=["empty", "missing"])
def test_an_empty_file_with_a_log_is_not_taken_as_new(path: Path, lose: Callable[[Path], None]) -> None:
    lose(path)
    message = refusal(path)
    assert f"{path} is empty or missing, but its write-ahead log {log_of(path)} exists" in message


def test_a_file_that_is_not_ours_keeps_its_log(path: Path) -> None:
    assert "is not a Holdfast file of this kind" in refusal(path, Schema(APPLICATION + 1, SCHEMA.migrations))


def test_reader_leaves_the_log_alone(path: Path) -> None:
    before = log_of(path).read_bytes()
    reader = open_reader(str(path), Tuning())
    assert reader.execute("SELECT count(*) FROM pair").get == 2 * PAIRS
    reader.close()
    assert log_of(path).read_bytes() == before
