"""Executors are killed at random requests, and by the party between effect and answer, while a person approves, edits and
cancels: what was cancelled is never sent, all else exactly once, as it was last edited and not before its time.

The party is an HTTP server with a ledger. Half of the letters it sends as often as it is asked; of the others it knows
the keys. Some calls fail after the letter was sent: with an error, a closed connection, or the death of who asked.
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
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Stores, create_tables
from holdfast.errors import Conflict
from holdfast.guarantees import OnceStatus
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.held_records import letter, letters
from tests.unit.guarantees.once_records import counted, counters

from .hold_queue_process import queue

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
LETTERS = 400 if SOAK else 40
KILLS = 50 if SOAK else 5
EXECUTORS = 3
# An executor lives for about as many requests to the store.
REQUESTS_MAX = 60
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

    def posted(self, asked: dict[str, str], executor: int) -> tuple[int, Any] | None:
        """The answer; None where the connection is closed without one."""
        with self._turn:
            if self._random.random() < REFUSED_SHARE:
                return 429, {}
            if not (_takes_key(asked["id"]) and asked["key"] in self._answers):
                self.ledger.append(Sent(asked["id"], asked["text"], time.time()))
                self._answers[asked["key"]] = {"number": len(self.ledger)}
            if self._random.random() < FAILING_SHARE:
                return self._failed(executor)
            return 200, self._answers[asked["key"]]

    def _failed(self, executor: int) -> tuple[int, Any] | None:
        how = self._random.choice(["error", "closed", "killed"])
        self.failures[how] += 1
        if how == "killed":
            os.kill(executor, signal.SIGKILL)
        return (502, {}) if how == "error" else None

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
    with _served(party) as url, _reviewed(path, Random(seed)) as reviews:
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
            await stores.run(queue.held(stores, letter(f"l-{number}"), for_s=random.uniform(0, HOLD_S_MAX)))


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
    kills, began = 0, 0
    executors: list[subprocess.Popen[str]] = []
    try:
        while True:
            while len(executors) < EXECUTORS:
                lives = random.randrange(10, REQUESTS_MAX) if began < KILLS else 0
                executors.append(_executor(path, url, random, lives))
                began += 1
            ended = _first_ended(executors)
            if ended.returncode == 0:
                break
            assert ended.returncode == -signal.SIGKILL, ended.communicate()[1]
            kills += 1
            executors.remove(ended)
            ended.communicate()
    finally:
        for executor in executors:
            executor.kill()
            executor.communicate()
    return kills


def _executor(path: Path, url: str, random: Random, lives: int) -> subprocess.Popen[str]:
    arguments = [str(path), url, str(random.randrange(2**32)), str(lives)]
    command = [sys.executable, "-m", "tests.faults.hold_queue_process", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _first_ended(executors: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A process has ended when its end of the pipe is closed."""
    with selectors.DefaultSelector() as selector:
        for executor in executors:
            assert executor.stdout is not None
            selector.register(executor.stdout, selectors.EVENT_READ, executor)
        [(ready, _), *_] = selector.select()
    ended: subprocess.Popen[str] = ready.data
    ended.wait()
    return ended


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


@contextmanager
def _served(party: Party) -> Iterator[str]:
    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if asked:  # else the executor was killed before it had said what it wants
                self._answered(party.posted(json.loads(asked), int(self.headers["X-Worker"])))

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
                pass  # the executor was killed meanwhile

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
