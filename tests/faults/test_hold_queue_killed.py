"""Executors are killed at random requests, and by the party between effect and answer, while a person approves, edits and
cancels: what was cancelled is never sent, all else exactly once, as it was last edited and not before its time.

The party is an HTTP server with a ledger. Half of the letters it sends as often as it is asked; of the others it knows
the keys. Some calls fail after the letter was sent: with an error, a closed connection, or the death of who asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores, create_tables
from holdfast.core.errors import Conflict
from holdfast.guarantees import OnceStatus
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.held_records import letter, letters
from tests.unit.guarantees.once_records import counted, counters

from .hold_queue_process import queue
from .killing import Process, failed_after_the_effect, outlived, process_of, served

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
LETTERS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
EXECUTORS = 3
HOLD_S_MAX = 4.0
REVIEW_PAUSE_S = 0.02
REFUSED_SHARE = 0.1
FAILING_SHARE = 0.15


@dataclass(frozen=True)
class Sent:
    id: str
    text: str
    at: float


class Party:
    """What was sent, in the order it was."""

    def __init__(self, random: Random) -> None:
        self.ledger: list[Sent] = []
        self.failures: Tally[str] = Tally()
        self._answers: dict[str, Any] = {}
        self._random, self._turn = random, threading.Lock()

    def posted(self, asked: dict[str, str], worker: int) -> tuple[int, Any] | None:
        with self._turn:
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            if not (_takes_key(asked["id"]) and asked["key"] in self._answers):
                self.ledger.append(Sent(asked["id"], asked["text"], time.time()))
                self._answers[asked["key"]] = {"number": len(self.ledger)}
            if self._random.random() < FAILING_SHARE:
                return failed_after_the_effect(worker, self._random, self.failures)
            return 200, self._answers[asked["key"]]

    def found(self, key: str) -> tuple[int, Any]:
        with self._turn:
            return (200, self._answers[key]) if key in self._answers else (404, {})


def _takes_key(id: str) -> bool:
    return int(id.removeprefix("l-")) % 2 == 1


@pytest.mark.proves("AP-23")
def test_executors_killed_at_random_send_each_letter_once_and_no_cancelled_one(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path, party = tmp_path / "tables.db", Party(random)
    asyncio.run(_held(path, random))
    with served(party) as url, _reviewed(path, Random(seed)) as reviews:
        kills = _executed(path, url, random)
    print(f"killed {kills} times; the party failed: {dict(party.failures)}; reviewed: {dict(reviews)}")  # noqa: T201

    asyncio.run(_judged(path, party, reviews))
    assert kills >= KILLS // 2
    assert reviews["cancel"] and reviews["edit"] and reviews["approve"]


async def _held(path: Path, random: Random) -> None:
    with open_tables(path) as tables:
        stores = Stores(tables)
        await create_tables(stores, [letters, counters])
        for number in range(LETTERS):
            await stores.run(queue.delay(stores, letter(f"l-{number}"), for_s=random.uniform(0, HOLD_S_MAX)))


@contextmanager
def _reviewed(path: Path, random: Random) -> Iterator[Tally[str]]:
    """A person decides now and then about one of the letters, for as long as the block runs. What was done, how often."""
    reviews: Tally[str] = Tally()
    ended = threading.Event()

    async def reviewing() -> None:
        with open_tables(path) as tables:
            stores = Stores(tables)
            while not ended.wait(REVIEW_PAUSE_S):
                how = await _decided(stores, f"l-{random.randrange(LETTERS)}", random)
                reviews[how] += 1

    reviewer = threading.Thread(target=lambda: asyncio.run(reviewing()))
    reviewer.start()
    try:
        yield reviews
    finally:
        ended.set()
        reviewer.join()


async def _decided(stores: Stores, id: str, random: Random) -> str:
    how = random.choice(["approve", "approve", "edit", "edit", "edit", "cancel"])
    seen = await stores.run(queue.patterns.one(letter(id)))
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


def _executed(path: Path, url: str, random: Random) -> int:
    """Several executors until nothing waits; who is killed is replaced. How many were."""

    def executor(lives: int) -> Process:
        return process_of("hold_queue_process", path, url, random.randrange(2**32), lives)

    return outlived(executor, random, several=EXECUTORS, kills_max=KILLS)


async def _judged(path: Path, party: Party, reviews: Tally[str]) -> None:
    cancelled = 0
    with open_tables(path) as tables:
        stores = Stores(tables)
        for number in range(LETTERS):
            record = await stores.run(queue.patterns.one(letter(f"l-{number}")))
            assert record is not None and record.held_until is not None and record.queue is None
            sent = [each for each in party.ledger if each.id == record.id]
            recorded = await counted(stores, f"{record.id} recorded")
            if record.status is OnceStatus.CANCELLED:
                assert (sent, recorded) == ([], 0)
                cancelled += 1
                continue
            assert (record.status, record.executed) == (OnceStatus.PROCESSED, True), record
            assert [each.text for each in sent] == [record.text], record
            assert (sent[0].at >= record.held_until.timestamp(), recorded) == (True, 1)
            number_sent = party.ledger.index(sent[0]) + 1
            assert record.result == json.dumps({"number": number_sent}, separators=(",", ":"))
    assert cancelled == reviews["cancel"]
