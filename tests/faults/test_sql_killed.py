"""PostgreSQL and the processes that use it are killed while they write: what was acknowledged is there, and once."""

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

import psycopg
import pytest

from holdfast.stores.sql.postgres.embedded import EmbeddedServer, Postmaster, running_server
from tests.conftest import SOAK
from tests.postgres import new_folder

from .killing import Process, process_of

ROWS = 3_000 if SOAK else 300
KILLS = 12 if SOAK else 2


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One for all, each test with names of its own: making one takes longer than most of them."""
    with new_folder() as made:
        yield made


class Writer:
    """One process, and what it said."""

    def __init__(self, folder: Path, name: str, rows: int = ROWS) -> None:
        self.process: Process = process_of("sql_process", folder, name, rows)
        self.said: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.said.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def until(self, lines: int) -> None:
        """Until it has said so many lines, or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.said) >= lines or self.process.poll() is not None, 60)
        assert len(self.said) >= lines, self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def end(self) -> None:
        assert self.process.wait(60) == 0, self.process.communicate()
        self._end()

    def _end(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def written(folder: Path, *names: str) -> list[str]:
    """The rows by these writers."""
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


def postmaster(folder: Path) -> Postmaster:
    found = running_server(folder)
    assert found is not None
    return found


def is_gone(folder: Path) -> bool:
    return running_server(folder) is None


def has_ended(pid: int) -> bool:
    """A process that has ended has no command line, also while its parent has not asked for its end."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


def acknowledged(*writers: Writer) -> set[str]:
    return {line for writer in writers for line in writer.said if line != "ready"}


def test_postgresql_killed_under_load_is_started_again_and_loses_and_repeats_nothing(folder: Path) -> None:
    random = Random(7)
    writers = [Writer(folder, name) for name in ("a", "b")]
    for kill in range(KILLS):
        writers[0].until(2 + (kill + 1) * ROWS // (KILLS + 2) + random.randrange(5))
        # What they said may be of before the last kill: it must have been started again.
        _until(lambda: running_server(folder) is not None)
        os.kill(postmaster(folder).pid, signal.SIGKILL)
    for writer in writers:
        writer.end()
    found = written(folder, "a", "b")
    assert len(found) == len(set(found))
    assert set(found) == acknowledged(*writers) == {f"{name}-{n}" for name in "ab" for n in range(ROWS)}
    assert is_gone(folder)


def test_a_process_that_is_killed_harms_nobody_and_the_last_one_stops_the_server(folder: Path) -> None:
    first = Writer(folder, "c", 100_000)
    first.until(10)
    # Only now: on a slow machine it would else have ended before the first is killed, and not be the last one.
    second = Writer(folder, "d")
    second.until(1)
    pid = postmaster(folder).pid
    first.kill()
    second.end()
    assert is_gone(folder)
    _until(lambda: has_ended(pid))
    found = written(folder, "c", "d")
    assert len(found) == len(set(found))
    assert acknowledged(first, second) <= set(found)


def test_a_server_that_a_killed_process_left_is_adopted(folder: Path) -> None:
    writer = Writer(folder, "e", 100_000)
    writer.until(10)
    pid = postmaster(folder).pid
    writer.kill()
    assert postmaster(folder).pid == pid
    found = written(folder, "e")
    assert acknowledged(writer) <= set(found)
    assert is_gone(folder)


def test_a_process_killed_while_it_makes_the_folder_leaves_nothing_that_is_in_the_way() -> None:
    with new_folder() as folder:
        writer = Writer(folder, "a", 10)
        _until(lambda: any(folder.glob("server.new-*/PG_VERSION")))
        writer.kill()
        assert not (folder / "server").exists()
        again = Writer(folder, "b", 10)
        again.end()
        assert set(written(folder, "b")) == acknowledged(again)


def test_a_server_outlives_the_interrupt_of_its_process_group_and_is_stopped_in_order(folder: Path) -> None:
    """As Ctrl-C does it: to every process of the group."""
    command = (
        "import asyncio, sys; from pathlib import Path; from tests.faults.sql_process import main; "
        f"asyncio.run(main(Path({str(folder)!r}), 'f', 10**6))"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    assert started.stdout is not None
    for _ in range(10):
        started.stdout.readline()
    os.killpg(started.pid, signal.SIGINT)
    started.communicate()
    assert is_gone(folder)
    log = (folder / "server" / "server.log").read_text()
    assert "database system is shut down" in log.splitlines()[-1]


def _until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.005)
