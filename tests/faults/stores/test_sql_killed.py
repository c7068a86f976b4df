"""PostgreSQL and its clients are killed while they write: every acknowledged row is stored exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import psutil
import psycopg
import pytest

from holdfast.stores.sql.postgres.embedded import EmbeddedServer, Postmaster, find_running_server
from tests.conftest import SOAK
from tests.postgres import new_folder
from tests.processes import Process, preload

ROWS = 3_000 if SOAK else 300
KILLS = 12 if SOAK else 2
WRITER = "tests.faults.stores.sql_process"

preload(WRITER)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield one database folder for all tests, each with its own names.

    Creating one takes longer than most tests.
    """
    with new_folder() as made:
        yield made


class Writer:
    """One writing process and its output."""

    def __init__(self, folder: Path, name: str, rows: int = ROWS) -> None:
        self.process = Process(WRITER, folder, name, rows)
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for_lines(self, lines: int) -> None:
        """Wait until the process has printed so many lines or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.lines) >= lines or not self.process.is_alive, 60)
        assert len(self.lines) >= lines, self.process.read_log()

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def end(self) -> None:
        """Wait until the process ends by itself with exit code 0."""
        assert self.process.wait() == 0, self.process.read_log()
        self._end()

    def _end(self) -> None:
        self._reader.join()
        self.process.close()


def read_rows(folder: Path, *names: str) -> list[str]:
    """Read the ids of the rows by these writers."""
    server = EmbeddedServer(folder)
    server.use()
    try:
        running = server.ensure_running()
        with psycopg.connect(
            host=running.socket_folder, port=running.port, user="postgres", dbname="holdfast"
        ) as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM ledger")]
            return [id for id in ids if id.partition("-")[0] in names]
    finally:
        server.release()


def get_postmaster(folder: Path) -> Postmaster:
    """Return the running server of the folder; fail if there is none."""
    found = find_running_server(folder)
    assert found is not None
    return found


def is_gone(folder: Path) -> bool:
    """Return True if no server runs in the folder."""
    return find_running_server(folder) is None


def has_ended(pid: int) -> bool:
    """Return True if a process has ended, even before its parent waited for it."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def list_acknowledged(*writers: Writer) -> set[str]:
    """Return the ids that the writers printed as stored."""
    return {line for writer in writers for line in writer.lines if line != "ready"}


def test_killed_postgresql_restarts_without_loss_or_duplicates(folder: Path) -> None:
    random = Random(7)
    writers = [Writer(folder, name) for name in ("a", "b")]
    for kill in range(KILLS):
        writers[0].wait_for_lines(2 + (kill + 1) * ROWS // (KILLS + 2) + random.randrange(5))
        # The output may be from before the last kill: the server must have been restarted.
        _wait_until(lambda: find_running_server(folder) is not None)
        os.kill(get_postmaster(folder).pid, signal.SIGKILL)
    for writer in writers:
        writer.end()
    found = read_rows(folder, "a", "b")
    assert len(found) == len(set(found))
    assert set(found) == list_acknowledged(*writers) == {f"{name}-{n}" for name in "ab" for n in range(ROWS)}
    assert is_gone(folder)


def test_killed_client_harms_no_other_and_the_last_one_stops_the_server(folder: Path) -> None:
    first = Writer(folder, "c", 100_000)
    first.wait_for_lines(10)
    # Started only now: on a slow machine it could otherwise end before the first is killed.
    second = Writer(folder, "d")
    second.wait_for_lines(1)
    pid = get_postmaster(folder).pid
    first.kill()
    second.end()
    assert is_gone(folder)
    _wait_until(lambda: has_ended(pid))
    found = read_rows(folder, "c", "d")
    assert len(found) == len(set(found))
    assert list_acknowledged(first, second) <= set(found)


def test_next_process_adopts_and_stops_the_server_of_a_killed_one(folder: Path) -> None:
    writer = Writer(folder, "e", 100_000)
    writer.wait_for_lines(10)
    pid = get_postmaster(folder).pid
    writer.kill()
    assert get_postmaster(folder).pid == pid
    found = read_rows(folder, "e")
    assert list_acknowledged(writer) <= set(found)
    assert is_gone(folder)


def test_process_killed_during_setup_leaves_a_usable_folder() -> None:
    with new_folder() as folder:
        writer = Writer(folder, "a", 10)
        _wait_until(lambda: any(folder.glob("server.new-*/PG_VERSION")))
        writer.kill()
        assert not (folder / "server").exists()
        again = Writer(folder, "b", 10)
        again.end()
        assert set(read_rows(folder, "b")) == list_acknowledged(again)


def test_server_survives_ctrl_c_and_stops_in_order(folder: Path) -> None:
    """Ctrl-C reaches every process of the group."""
    command = (
        "import asyncio; from pathlib import Path; from tests.faults.stores.sql_process import main; "
        f"asyncio.run(main(Path({str(folder)!r}), 'f', 10**6))"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[3],
    )
    assert started.stdout is not None
    for _ in range(10):
        started.stdout.readline()
    os.killpg(started.pid, signal.SIGINT)
    started.communicate()
    assert is_gone(folder)
    log = (folder / "server" / "server.log").read_text()
    assert "database system is shut down" in log.splitlines()[-1]


def _wait_until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.005)
