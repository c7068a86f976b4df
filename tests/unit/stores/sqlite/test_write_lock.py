"""The write lock between processes: one holder at a time, timeouts, fairness, and dead processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.core.errors import StoreBusy
from holdfast.stores.sqlite import Tuning
from holdfast.stores.sqlite.write_lock import WriteLock
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[4]
PROCESSES = 4
PAIRS = 40_000 if os.environ.get("HOLDFAST_SOAK") == "1" else 4_000
HOLDER = """
import sys
from holdfast.stores.sqlite.write_lock import WriteLock
with WriteLock(sys.argv[1], wait_s_max=30):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "pairs.db")


def start_holder(path: str) -> subprocess.Popen[bytes]:
    """Start a process that holds the lock until its standard input closes."""
    command = [sys.executable, "-c", HOLDER, path]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"mine\n"
    return process


def test_only_one_holder_has_the_lock(path: str) -> None:
    inside: list[int] = []

    def take_turns() -> None:
        turn = WriteLock(path, wait_s_max=30)
        for _ in range(200):
            with turn:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()
        turn.close()

    failures: list[BaseException] = []
    threads = [threading.Thread(target=_collect_failures(take_turns, failures)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def _collect_failures(action: Callable[[], None], failures: list[BaseException]) -> Callable[[], None]:
    """Return the action as a thread's target that collects its errors."""

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    return run


def test_long_wait_for_another_process_is_reported(path: str) -> None:
    with start_holder(path) as holder:
        turn = WriteLock(path, wait_s_max=0.05)
        with (
            pytest.raises(StoreBusy, match=f"pairs.db within 0.05 s: process {holder.pid} has held it"),
            turn,
        ):
            pass
        holder.communicate()
    turn.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows in /proc that a process is stopped")
def test_stopped_holder_is_named(path: str) -> None:
    with start_holder(path) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
        turn = WriteLock(path, wait_s_max=0.05)
        with pytest.raises(StoreBusy, match=f"process {holder.pid}, which is stopped, has held it"), turn:
            pass
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate()
    turn.close()


def test_waiter_that_gave_up_does_not_keep_the_lock_and_can_retry(path: str) -> None:
    turn = WriteLock(path, wait_s_max=0.05)
    with start_holder(path) as holder:
        with pytest.raises(StoreBusy), turn:
            pass
        holder.communicate()
    other = WriteLock(path, wait_s_max=30)
    for one in (other, turn, other, turn):
        one._wait_s_max = 30
        with one:
            pass
    turn.close()
    other.close()


def test_a_lock_can_be_closed_while_its_helper_thread_waits(path: str) -> None:
    turn = WriteLock(path, wait_s_max=0.05)
    with start_holder(path) as holder:
        with pytest.raises(StoreBusy), turn:
            pass
        turn.close()
        holder.communicate()
    other = WriteLock(path, wait_s_max=30)
    with other:
        pass
    other.close()


def test_killed_process_releases_its_lock(path: str) -> None:
    with start_holder(path) as holder:
        holder.send_signal(signal.SIGKILL)
        turn = WriteLock(path, wait_s_max=30)
        with turn:
            pass
        turn.close()


def test_a_forked_child_does_not_keep_its_dead_parents_lock(path: str) -> None:
    script = HOLDER.replace(
        "    print", "    import os, time\n    if os.fork() == 0:\n        time.sleep(60)\n    print"
    )
    command = [sys.executable, "-c", script, path]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"mine\n"
        parent.kill()
        turn = WriteLock(path, wait_s_max=30)
        with turn:
            pass
        turn.close()
        os.killpg(parent.pid, signal.SIGKILL)


def test_write_that_waits_too_long_is_busy_and_the_next_succeeds(path: str) -> None:
    with open_pairs(path, Tuning(lock_wait_s_max=0.2)) as database:
        with start_holder(path) as holder:
            with pytest.raises(StoreBusy):
                database.write(pair(1))
            holder.communicate()
        database.write(pair(2))
        assert numbers_in(database) == {2}


def test_no_process_gets_less_than_half_its_fair_share(path: str) -> None:
    open_pairs(path).close()
    shares = _measure_shares(path)

    fair = sum(shares) / len(shares)
    assert min(shares) >= fair / 2, shares
    with open_pairs(path) as database:
        assert database.check() == []
        assert len(numbers_in(database)) == sum(shares)


def _measure_shares(path: str) -> list[int]:
    """Return how many pairs each of four processes wrote while they wrote `PAIRS` together."""
    shares, enough = [0] * PROCESSES, threading.Event()

    def count(place: int, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            shares[place] += line[:1].isdigit()
            if sum(shares) >= PAIRS:
                enough.set()

    with ExitStack() as running:
        processes = [running.enter_context(_writer(path, place * PAIRS * 10)) for place in range(PROCESSES)]
        counters = [threading.Thread(target=count, args=each) for each in enumerate(processes)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process, counter in zip(processes, counters, strict=True):
            assert process.stdin is not None
            counter.start()
            process.stdin.write(b"\n")
            process.stdin.flush()
        assert enough.wait(120)
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for counter in counters:
            counter.join(60)
    return shares


def _writer(path: str, first: int) -> subprocess.Popen[bytes]:
    """Start a process that writes pairs with two threads, numbered from `first`."""
    command = [
        sys.executable,
        "-m",
        "tests.unit.stores.sqlite.writer_process",
        path,
        str(first),
        "2",
        "1000000",
    ]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
