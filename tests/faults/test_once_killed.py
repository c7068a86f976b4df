"""Workers are killed at random requests, and by the party between effect and answer; each effect happens exactly once.

The party is an HTTP server with a ledger and no idempotency: asked twice, it sends two letters. One call in ten fails
after the letter was sent, with an error, a closed connection, or the death of the worker that asked. In a test of its own
the worker sleeps instead, and wakes up when another has taken over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter as Tally
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores, create_tables
from holdfast.guarantees import Completion
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.once_records import counted, counters, event, events

from .killing import Process, failed_after_the_effect, outlived, process_of, served
from .once_process import once

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
JOBS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
WORKERS = 4
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

    def posted(self, asked: dict[str, str], worker: int) -> tuple[int, Any] | None:
        key = asked["key"]
        with self._turn:
            if self.puts_to_sleep:
                return self._put_to_sleep(key, worker)
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            self.ledger.append(key)
            if self._random.random() < FAILING_SHARE:
                return failed_after_the_effect(worker, self._random, self.failures)
            return 200, {"letter": self.ledger.index(key)}

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
    with served(party) as url:
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
    with served(party) as url, _worker(path, url, Random(0), lives=0, jobs=1) as sleeper:
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
    return outlived(lambda lives: _worker(path, url, random, lives), random, several=WORKERS, kills_max=KILLS)


def _worker(path: Path, url: str, random: Random, lives: int, jobs: int = JOBS) -> Process:
    return process_of("once_process", path, url, jobs, random.randrange(2**32), lives)


async def _judged(path: Path, party: Party, jobs: int = JOBS) -> None:
    with open_tables(path) as tables:
        stores = Stores(tables)
        for number in range(jobs):
            job = f"job-{number}"
            counts = [await counted(stores, f"{job}:{what}") for what in ("counted", "recorded", "handled")]
            assert counts == [1, 1, 1], f"{job}: {counts}"
            done = await once.claim(stores, event(f"{job}:event"))
            assert isinstance(done, Completion)
            assert done.result == {"letter": party.ledger.index(f"{job}:letter")}
