"""Processes by their id: from `/proc` as on Linux, and from psutil as on macOS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import SettingsError
from holdfast.stores.sql.postgres import accounts, embedded
from holdfast.stores.sql.postgres.embedded import EmbeddedServer, find_running_server, get_sync_configuration
from holdfast.stores.sql.postgres.processes import RunningProcess, ask_psutil, exists, find_process, read_proc
from tests.postgres import new_folder

SOURCES = [
    pytest.param(
        read_proc, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc"), id="proc"
    ),
    pytest.param(ask_psutil, id="psutil"),
]
Source = Callable[[int], RunningProcess | None]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in a folder until its input is closed."""
    with subprocess.Popen(
        ["cat", "-"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"started\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"started\n"
        yield process


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_has_its_name_folder_and_arguments(
    source: Source, waiting: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = source(waiting.pid)
    assert found is not None
    assert (found.name, found.folder, found.arguments[:2]) == ("cat", tmp_path.resolve(), ("cat", "-"))


@pytest.mark.parametrize("source", [*SOURCES, pytest.param(find_process, id="platform")])
def test_a_process_that_has_ended_is_not_found(source: Source, waiting: subprocess.Popen[bytes]) -> None:
    assert source(waiting.pid) is not None and exists(waiting.pid)
    waiting.communicate()
    assert source(waiting.pid) is None and not exists(waiting.pid)


def test_an_id_that_no_process_can_have_does_not_exist() -> None:
    assert not exists(10**30)
    assert exists(os.getpid())


def test_the_server_is_started_found_and_stopped_through_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the embedded server as macOS does, which has no `/proc`."""
    monkeypatch.setattr(embedded, "find_process", ask_psutil)
    with new_folder() as folder:
        server = EmbeddedServer(folder, configuration=embedded.TEMPORARY_CONFIGURATION)
        server.use()
        assert find_running_server(folder) == server.ensure_running()
        server.release()
        assert find_running_server(folder) is None


def test_on_macos_postgresql_writes_the_cache_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get_sync_configuration("linux") == {}
    monkeypatch.setattr(sys, "platform", "darwin")
    assert EmbeddedServer(tmp_path)._configuration["wal_sync_method"] == "fsync_writethrough"


def test_on_macos_root_is_asked_to_use_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts._find_or_add_account.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SettingsError, match="does not run as root: run this as an ordinary user"):
        accounts.get_server_uid()
