"""Workers are killed or paused at random requests: each effect of `Once` happens exactly once.

They are also killed by the service between effect and response. The service is an HTTP server with a ledger
and no idempotency: each request sends a letter. One call in ten fails after the letter was sent, with an
error, a closed connection, or the death of the calling worker. In another test the worker is paused instead,
and wakes up when another has taken over.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter as Tally
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores
from holdfast.guarantees import Completion
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.faults.killed_processes import fail_after_effect, run_until_done, serve
from tests.faults.stopped_processes import stop_outside_writes
from tests.processes import Process, preload
from tests.unit.guarantees.idempotency.once_records import counters, events, make_event, read_counter

from .once_process import once

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
JOBS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
WORKERS = 4
REFUSED_SHARE = 0.1
FAILING_SHARE = 0.1
WORKER = "tests.faults.guarantees.once_process"

preload(WORKER)


class FakeService:
    """Ledger of the requested letters, in order."""

    def __init__(self, random: Random, folder: Path) -> None:
        self._folder = folder
        self.ledger: list[str] = []
        self.failures: Tally[str] = Tally()
        self.pauses_workers = False
        self.has_paused = threading.Event()
        self._random, self._turn = random, threading.Lock()

    def handle_post(self, body: dict[str, str], worker: int) -> tuple[int, Any] | None:
        """Send a letter; refuse some requests, and fail after some effects, or pause the worker."""
        key = body["key"]
        with self._turn:
            if self.pauses_workers:
                return self._pause_worker(key, worker)
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            self.ledger.append(key)
            if self._random.random() < FAILING_SHARE:
                return fail_after_effect(worker, self._random, self.failures)
            return 200, {"letter": self.ledger.index(key)}

    def _pause_worker(self, key: str, worker: int) -> tuple[int, Any]:
        """Pause the worker; the response is there when it wakes up."""
        self.ledger.append(key)
        stop_outside_writes(worker, self._folder)
        self.has_paused.set()
        return 200, {"letter": self.ledger.index(key)}

    def handle_get(self, key: str) -> tuple[int, Any]:
        """Return the letter of a key, or 404."""
        with self._turn:
            return (200, {"letter": self.ledger.index(key)}) if key in self.ledger else (404, {})


@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-X3")
async def test_killed_workers_do_each_effect_exactly_once(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path = tmp_path / "tables.db"
    service = FakeService(random, tmp_path)
    await create_stores(path)
    with serve(service) as url:
        kills = run_workers(path, url, random)
    print(f"killed {kills} times; the service failed: {dict(service.failures)}")  # noqa: T201

    letters = [f"job-{number}:letter" for number in range(JOBS)]
    assert sorted(service.ledger) == sorted(letters)
    await check_effects(path, service)
    assert kills >= KILLS // 2


async def test_worker_that_wakes_after_its_lease_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    service = FakeService(Random(0), tmp_path)
    service.pauses_workers = True
    await create_stores(path)
    with serve(service) as url, start_worker(path, url, Random(0), lives=0, jobs=1) as sleeper:
        assert service.has_paused.wait(timeout=60)
        service.pauses_workers = False
        with start_worker(path, url, Random(0), lives=0, jobs=1) as taker:
            assert taker.wait() == 0, taker.read_log()
        await check_effects(path, service, jobs=1)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert sleeper.wait() == 0, sleeper.read_log()

    assert service.ledger == ["job-0:letter"]
    await check_effects(path, service, jobs=1)


async def create_stores(path: Path) -> None:
    with open_tables(path) as tables:
        await create_tables(Stores(tables), [events, counters])


def run_workers(path: Path, url: str, random: Random) -> int:
    """Run several workers, replacing killed ones, until all is done; return the number of kills."""
    return run_until_done(
        lambda lives: start_worker(path, url, random, lives), random, several=WORKERS, kills_max=KILLS
    )


def start_worker(path: Path, url: str, random: Random, lives: int, jobs: int = JOBS) -> Process:
    """Start a worker that lives for `lives` requests; 0 means without limit."""
    return Process(WORKER, path, url, jobs, random.randrange(2**32), lives)


async def check_effects(path: Path, service: FakeService, jobs: int = JOBS) -> None:
    """Check that every job was counted, recorded and handled once, with its letter's number as result."""
    with open_tables(path) as tables:
        stores = Stores(tables)
        for number in range(jobs):
            job = f"job-{number}"
            counts = [
                await read_counter(stores, f"{job}:{what}") for what in ("counted", "recorded", "handled")
            ]
            assert counts == [1, 1, 1], f"{job}: {counts}"
            done = await once.claim(stores, make_event(f"{job}:event"))
            assert isinstance(done, Completion)
            assert done.result == {"letter": service.ledger.index(f"{job}:letter")}
