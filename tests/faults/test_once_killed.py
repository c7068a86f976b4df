"""Workers are killed at random requests, and by the party between effect and answer; each effect happens exactly once.

The party is an HTTP server with a ledger and no idempotency: asked twice, it sends two letters. One call in ten fails
after the letter was sent, with an error, a closed connection, or the death of the worker that asked. In a test of its own
the worker sleeps instead, and wakes up when another has taken over.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Stores, create_tables
from holdfast.guarantees import Done
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.once_records import counted, counters, event, events

from .once_process import once

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
JOBS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
WORKERS = 4
# A worker lives for about as many requests to the store, so that all of them die before the work is done.
REQUESTS_MAX = 60
REFUSED_SHARE = 0.1
FAILING_SHARE = 0.1


class Party:
    """What was asked for, in the order it was done."""

    def __init__(self, random: Random) -> None:
        self.ledger: list[str] = []
        self.failures: Tally[str] = Tally()
        self.puts_to_sleep = False
        self.asleep = threading.Event()
        self._random, self._turn = random, threading.Lock()

    def posted(self, key: str, worker: int) -> tuple[int, Any] | None:
        """The answer; None where the connection is closed without one."""
        with self._turn:
            if self.puts_to_sleep:
                return self._put_to_sleep(key, worker)
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            self.ledger.append(key)
            if self._random.random() < FAILING_SHARE:
                return self._failed(worker)
            return 200, {"letter": self.ledger.index(key)}

    def _failed(self, worker: int) -> tuple[int, Any] | None:
        how = self._random.choice(["error", "closed", "killed"])
        self.failures[how] += 1
        if how == "killed":
            os.kill(worker, signal.SIGKILL)
        return (502, {}) if how == "error" else None

    def _put_to_sleep(self, key: str, worker: int) -> tuple[int, Any]:
        """The answer is there when it wakes up."""
        self.ledger.append(key)
        os.kill(worker, signal.SIGSTOP)
        self.asleep.set()
        return 200, {"letter": self.ledger.index(key)}

    def found(self, key: str) -> tuple[int, Any]:
        with self._turn:
            return (200, {"letter": self.ledger.index(key)}) if key in self.ledger else (404, {})


@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-X3")
def test_workers_killed_at_random_leave_each_effect_done_exactly_once(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path = tmp_path / "tables.db"
    party = Party(random)
    asyncio.run(_begun(path))
    with _served(party) as url:
        kills = _worked(path, url, random)
    print(f"killed {kills} times; the party failed: {dict(party.failures)}")  # noqa: T201

    letters = [f"job-{number}:letter" for number in range(JOBS)]
    assert sorted(party.ledger) == sorted(letters)
    asyncio.run(_judged(path, party))
    assert kills >= KILLS // 2


def test_a_worker_that_wakes_up_after_its_lease_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    party = Party(Random(0))
    party.puts_to_sleep = True
    asyncio.run(_begun(path))
    with _served(party) as url, _worker(path, url, Random(0), lives=0, jobs=1) as sleeper:
        assert party.asleep.wait(timeout=60)
        party.puts_to_sleep = False
        with _worker(path, url, Random(0), lives=0, jobs=1) as taker:
            assert taker.wait(timeout=60) == 0, taker.communicate()[1]
        asyncio.run(_judged(path, party, jobs=1))
        os.kill(sleeper.pid, signal.SIGCONT)
        assert sleeper.wait(timeout=60) == 0, sleeper.communicate()[1]

    assert party.ledger == ["job-0:letter"]
    asyncio.run(_judged(path, party, jobs=1))


async def _begun(path: Path) -> None:
    with open_tables(path) as tables:
        await create_tables(Stores(tables), [events, counters])


def _worked(path: Path, url: str, random: Random) -> int:
    """Several workers until all is done; who is killed is replaced. How many were."""
    kills, began = 0, 0
    workers: list[subprocess.Popen[str]] = []
    try:
        while True:
            while len(workers) < WORKERS:
                lives = random.randrange(10, REQUESTS_MAX) if began < KILLS else 0
                workers.append(_worker(path, url, random, lives))
                began += 1
            ended = _first_ended(workers)
            if ended.returncode == 0:
                break
            assert ended.returncode == -signal.SIGKILL, ended.communicate()[1]
            kills += 1
            workers.remove(ended)
            ended.communicate()
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return kills


def _worker(path: Path, url: str, random: Random, lives: int, jobs: int = JOBS) -> subprocess.Popen[str]:
    arguments = [str(path), url, str(jobs), str(random.randrange(2**32)), str(lives)]
    command = [sys.executable, "-m", "tests.faults.once_process", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _first_ended(workers: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A process has ended when its end of the pipe is closed."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.stdout is not None
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        [(ready, _), *_] = selector.select()
    ended: subprocess.Popen[str] = ready.data
    ended.wait()
    return ended


async def _judged(path: Path, party: Party, jobs: int = JOBS) -> None:
    with open_tables(path) as tables:
        stores = Stores(tables)
        for number in range(jobs):
            job = f"job-{number}"
            counts = [await counted(stores, f"{job}:{what}") for what in ("counted", "recorded", "handled")]
            assert counts == [1, 1, 1], f"{job}: {counts}"
            done = await once.claim(stores, event(f"{job}:event"))
            assert isinstance(done, Done)
            assert done.result == {"letter": party.ledger.index(f"{job}:letter")}


@contextmanager
def _served(party: Party) -> Iterator[str]:
    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if asked:  # else the worker was killed before it had said what it wants
                self._answered(party.posted(json.loads(asked)["key"], int(self.headers["X-Worker"])))

        def do_GET(self) -> None:
            self._answered(party.found(parse_qs(urlsplit(self.path).query)["key"][0]))

        def _answered(self, answer: tuple[int, Any] | None) -> None:
            if answer is None:
                return
            body = json.dumps(answer[1]).encode()
            try:
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                pass  # the worker was killed meanwhile

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
