"""Syncs that reach the disk on each operating system, and locks on files."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core import disk
from holdfast.core.errors import SettingsError

# A command that no kernel knows, so that it refuses it.
UNKNOWN_COMMAND = 0x7FFF_FFF0


@pytest.fixture
def fsyncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the descriptors that are synced by fsync, and sync them."""
    found: list[int] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        found.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return found


@contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Yield a descriptor of the file, created if it is missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_a_full_sync_replaces_fsync_where_the_system_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsyncs: list[int]
) -> None:
    full_syncs: list[tuple[int, int]] = []
    monkeypatch.setattr(disk, "FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", lambda *arguments: full_syncs.append(arguments))
    with open_file(tmp_path / "a") as descriptor:
        disk.sync(descriptor)
        assert (full_syncs, fsyncs) == ([(descriptor, 51)], [])


def test_fsync_is_used_where_the_file_system_refuses_a_full_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsyncs: list[int]
) -> None:
    monkeypatch.setattr(disk, "FULL_SYNC", UNKNOWN_COMMAND)
    with open_file(tmp_path / "a") as descriptor:
        disk.sync(descriptor)
        assert fsyncs == [descriptor]


def test_a_failed_full_sync_is_not_hidden_by_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsyncs: list[int]
) -> None:
    def fail(*arguments: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk, "FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", fail)
    with open_file(tmp_path / "a") as descriptor, pytest.raises(OSError, match="Input/output error"):
        disk.sync(descriptor)
    assert fsyncs == []


def test_syncs_a_file_and_its_folder_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    file = tmp_path / "a"
    file.touch()
    disk.sync_path(file)
    disk.sync_path(tmp_path)
    assert synced == [file.stat().st_ino, tmp_path.stat().st_ino]


def test_an_exclusive_lock_waits_for_all_shared_ones(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with open_file(path) as first, open_file(path) as second, open_file(path) as third:
        disk.lock(first, shared=True)
        disk.lock(second, shared=True)
        disk.unlock(first)
        assert not disk.try_lock(third)
        disk.unlock(second)
        assert disk.try_lock(third)


def test_only_windows_lacks_posix_files(monkeypatch: pytest.MonkeyPatch) -> None:
    disk.require_posix("A file", "a service")
    monkeypatch.setattr(disk, "HAS_LOCKS", False)
    with pytest.raises(SettingsError, match="^A file needs Linux or macOS; on Windows, use a service.$"):
        disk.require_posix("A file", "a service")
