"""Executors of delayed actions are killed at random: each letter is sent once, a cancelled one never.

Executors are killed at random requests, and by the service between effect and response, while a person
approves, edits and cancels. Every letter that is not cancelled is sent exactly once, as last edited and not
before its time.

The service is an HTTP server with a ledger. Half of the letters it sends on every request; for the others it
knows the keys. Some calls fail after the letter was sent: with an error, a closed connection, or the death of
the caller.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import Conflict
from holdfast.guarantees import OnceStatus
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.faults.killed_processes import fail_after_effect, run_until_done, serve
from tests.processes import Process, preload
from tests.unit.guarantees.delayed_actions.delayed_letters import letters, make_letter
from tests.unit.guarantees.idempotency.once_records import counters, read_counter

from .delayed_action_process import queue

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
LETTERS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
EXECUTORS = 3
MAX_HOLD_S = 4.0
REVIEW_PAUSE_S = 0.02
DECISIONS = ("approve", "edit", "cancel")
# So many letters remain that the executors' work does not depend on how fast people are.
MAX_CANCELLED = LETTERS // 8
REFUSED_SHARE = 0.1
FAILING_SHARE = 0.15
EXECUTOR = "tests.faults.guarantees.delayed_action_process"

preload(EXECUTOR)


@dataclass(frozen=True)
class SentLetter:
    """A letter in the ledger, with the time it was sent."""

    id: str
    text: str
    at: float


class FakeService:
    """Ledger of the sent letters, in order."""

    def __init__(self, random: Random) -> None:
        self.ledger: list[SentLetter] = []
        self.failures: Tally[str] = Tally()
        self._answers: dict[str, Any] = {}
        self._random, self._turn = random, threading.Lock()

    def handle_post(self, body: dict[str, str], worker: int) -> tuple[int, Any] | None:
        """Send the letter, unless its key is known; refuse some requests, and fail after some effects."""
        with self._turn:
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            if not (accepts_key(body["id"]) and body["key"] in self._answers):
                self.ledger.append(SentLetter(body["id"], body["text"], time.time()))
                self._answers[body["key"]] = {"number": len(self.ledger)}
            if self._random.random() < FAILING_SHARE:
                return fail_after_effect(worker, self._random, self.failures)
            return 200, self._answers[body["key"]]

    def handle_get(self, key: str) -> tuple[int, Any]:
        """Return the outcome for a key, or 404."""
        with self._turn:
            return (200, self._answers[key]) if key in self._answers else (404, {})


def accepts_key(id: str) -> bool:
    """Return True if the service sends a letter with this id only once for each key."""
    return int(id.removeprefix("l-")) % 2 == 1


@pytest.mark.proves("AP-23")
def test_killed_executors_send_each_letter_once_and_no_cancelled_one(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path, service = tmp_path / "tables.db", FakeService(random)
    asyncio.run(hold_letters(path, random))
    with serve(service) as url, review(path, Random(seed)) as reviews:
        kills = run_executors(path, url, random)
    print(f"killed {kills} times; the service failed: {dict(service.failures)}; reviewed: {dict(reviews)}")  # noqa: T201

    asyncio.run(check_letters(path, service, reviews))
    assert kills >= KILLS // 2
    assert reviews["cancel"] and reviews["edit"] and reviews["approve"]


async def hold_letters(path: Path, random: Random) -> None:
    """Create the tables and delay every letter by a random time."""
    with open_tables(path) as tables:
        stores = Stores(tables)
        await create_tables(stores, [letters, counters])
        for number in range(LETTERS):
            await stores.run(
                queue.delay(stores, make_letter(f"l-{number}"), for_s=random.uniform(0, MAX_HOLD_S))
            )


@contextmanager
def review(path: Path, random: Random) -> Iterator[Tally[str]]:
    """Make one decision of each kind, then decide about random letters while the block runs; yield the counts
    of decisions.
    """
    reviews: Tally[str] = Tally()
    ended = threading.Event()

    async def decide_once_each() -> None:
        with open_tables(path) as tables:
            for number, how in enumerate(DECISIONS):
                reviews[await decide(Stores(tables), f"l-{number}", how)] += 1

    async def decide_at_random() -> None:
        with open_tables(path) as tables:
            while not ended.wait(REVIEW_PAUSE_S):
                can_cancel = reviews["cancel"] < MAX_CANCELLED
                how = random.choices(DECISIONS, (2, 3, can_cancel))[0]
                reviews[await decide(Stores(tables), f"l-{random.randrange(LETTERS)}", how)] += 1

    asyncio.run(decide_once_each())
    with ThreadPoolExecutor(1) as threads:
        reviewing = threads.submit(asyncio.run, decide_at_random())
        try:
            yield reviews
        finally:
            ended.set()
            reviewing.result()


async def decide(stores: Stores, id: str, how: str) -> str:
    """Approve, edit or cancel the letter; return the decision, or "too late" on a conflict."""
    seen = await stores.run(queue.pattern_set.one(make_letter(id)))
    assert seen is not None
    try:
        if how == "approve":
            await queue.approve(stores, seen, by="ann")
        elif how == "edit":
            await queue.edit(stores, seen, by="ann", text=f"{seen.text}!")
        else:
            await queue.cancel(stores, seen, by="ann")
    except Conflict:
        return "too late"
    return how


def run_executors(path: Path, url: str, random: Random) -> int:
    """Run several executors, replacing killed ones, until nothing waits; return the number of kills."""

    def start_executor(lives: int) -> Process:
        return Process(EXECUTOR, path, url, random.randrange(2**32), lives)

    return run_until_done(start_executor, random, several=EXECUTORS, kills_max=KILLS)


async def check_letters(path: Path, service: FakeService, reviews: Tally[str]) -> None:
    """Check status, ledger, text, time and result of every letter."""
    cancelled = 0
    with open_tables(path) as tables:
        stores = Stores(tables)
        for number in range(LETTERS):
            record = await stores.run(queue.pattern_set.one(make_letter(f"l-{number}")))
            assert record is not None and record.held_until is not None and record.queue is None
            sent = [each for each in service.ledger if each.id == record.id]
            recorded = await read_counter(stores, f"{record.id} recorded")
            if record.status is OnceStatus.CANCELLED:
                assert (sent, recorded) == ([], 0)
                cancelled += 1
                continue
            assert (record.status, record.executed) == (OnceStatus.PROCESSED, True), record
            assert [each.text for each in sent] == [record.text], record
            assert (sent[0].at >= record.held_until.timestamp(), recorded) == (True, 1)
            number_sent = service.ledger.index(sent[0]) + 1
            assert record.result == json.dumps({"number": number_sent}, separators=(",", ":"))
    assert cancelled == reviews["cancel"]
