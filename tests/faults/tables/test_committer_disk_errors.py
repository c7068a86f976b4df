"""The disk of a SQLite store is full or fails: callers get the error, nothing is kept, work continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import StoreFileError, StoreFull, StoreIOError
from holdfast.stores.sqlite import CommitFuture, Database, Tuning
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair


class FailingDisk(apsw.VFS):
    """VFS that raises `failure` from the call named `at`, while both are set."""

    def __init__(self) -> None:
        super().__init__("failing", "")
        self.at = ""
        self.failure: type[apsw.Error] | None = None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def fail(self, at: str) -> None:
        """Raise the configured error if the call of this name is to fail."""
        if self.failure is not None and at == self.at:
            raise self.failure("made to fail")


class _File(apsw.VFSFile):
    """A file of the failing disk: write, sync and read may raise."""

    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.fail("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.fail("sync")
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.fail("read")
        return super().xRead(amount, offset)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


@pytest.fixture
def database(disk: FailingDisk, tmp_path: Path) -> Iterator[Database]:
    with open_pairs(tmp_path / "pairs.db", Tuning(vfs="failing", lock_hold_ms_max=60_000)) as database:
        yield database


@pytest.mark.parametrize(
    ("at", "failure", "expected"),
    [
        ("write", apsw.FullError, StoreFull),
        ("write", apsw.IOError, StoreIOError),
        ("sync", apsw.IOError, StoreIOError),
    ],
)
def test_failed_commit_keeps_nothing_and_fails_every_submitter(
    disk: FailingDisk, database: Database, at: str, failure: type[apsw.Error], expected: type[Exception]
) -> None:
    database.write(pair(0))
    receipts = submit_together(database, 5, before_commit=lambda: set_failure(disk, at, failure))

    errors = [get_error(receipt) for receipt in receipts]
    disk.failure = None

    assert [type(error) for error in errors] == [expected] * 5
    assert len({id(error) for error in errors}) == 5
    assert all(database.path in str(error) for error in errors)
    assert numbers_in(database) == {0}


def test_failed_read_raises_store_io_error(disk: FailingDisk, database: Database) -> None:
    database.write(pair(1))
    set_failure(disk, "read", apsw.IOError)
    with pytest.raises(StoreIOError, match="The disk of .* failed"), database.read_connection() as connection:
        connection.execute("SELECT * FROM pair").fetchall()
    disk.failure = None
    assert numbers_in(database) == {1}


def test_committer_continues_after_a_failed_commit(disk: FailingDisk, database: Database) -> None:
    set_failure(disk, "sync", apsw.IOError)
    with pytest.raises(StoreIOError):
        database.write(pair(1))
    disk.failure = None

    database.write(pair(1))

    assert numbers_in(database) == {1}


def test_full_disk_fails_only_its_own_transaction(tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db") as database:
        database.write(pair(1))
        database.write(lambda connection: connection.pragma("max_page_count", 20))

        with pytest.raises(StoreFull, match="Free some space"):
            database.write(pair(2, bytes(1_000_000)))
        database.write(pair(3))

        assert numbers_in(database) == {1, 3}


def test_damaged_file_is_reported_on_read_and_write_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "pairs.db"
    with open_pairs(path) as database:
        for number in range(200):
            database.submit(pair(number, bytes(500)))
    content = bytearray(path.read_bytes())
    content[8192 * 5 :] = b"\xa5" * (len(content) - 8192 * 5)
    path.write_bytes(content)

    with open_pairs(path) as database:
        assert database.check() != []
        with (
            pytest.raises(StoreFileError, match="damaged.*restore"),
            database.read_connection() as connection,
        ):
            connection.execute("SELECT sum(length(filling)) FROM pair").fetchall()
        with pytest.raises(StoreFileError, match="damaged"):
            database.write(lambda connection: connection.execute("UPDATE pair SET filling = NULL").fetchall())
    assert path.stat().st_size == len(content)


def set_failure(disk: FailingDisk, at: str, failure: type[apsw.Error]) -> None:
    """Make the disk raise this error from the calls named `at`: "write", "sync" or "read"."""
    disk.at, disk.failure = at, failure


def submit_together(
    database: Database, count: int, before_commit: Callable[[], None]
) -> list[CommitFuture[int]]:
    """Submit `count` units into one transaction: the first waits until the others are queued.

    `before_commit` is called inside the transaction.
    """
    queued = threading.Event()

    def first(connection: apsw.Connection) -> int:
        assert queued.wait(10)
        before_commit()
        return pair(1)(connection)

    receipts = [database.submit(first)]
    receipts += [database.submit(pair(number)) for number in range(2, count + 1)]
    queued.set()
    return receipts


def get_error(receipt: CommitFuture[int]) -> Exception:
    """Return the error that the submitted unit ends with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        receipt.result(10)
    return caught.value
