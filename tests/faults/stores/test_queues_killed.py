"""Senders and receivers on one queue file are killed at random: nothing lost, doubled or out of order.

No message is received by two at once, and each group keeps its order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from random import Random, SystemRandom

import pytest

from holdfast.core.clock import RunClock
from holdfast.operations.queues import CreateQueue, DeleteMessages, QueueDefinition, ReceiveMessages
from holdfast.stores.queues.embedded import open_queues

from .queues_process import BATCH, GROUPS, QUEUE

ROOT = Path(__file__).parents[3]
KILLS = 200 if os.environ.get("HOLDFAST_SOAK") == "1" else 20
SENDERS, RECEIVERS = ("s1", "s2"), ("r1", "r2", "r3")
# Short, so that even a slowly restarted sender repeats its batch within the five minutes.
VISIBILITY_S = 1
# Only the parent moves the clock, after each kill, so that the dead one's messages become visible.
PASSING = "passing"
PASSED = "passed"
LINES_WAIT_S = 60


class Stage:
    """The processes, the pipe that they all write into, and the lines read from it, in order."""

    def __init__(self, folder: Path) -> None:
        self.path, self._clock_path = folder / "queues.db", folder / "clock"
        self.clock = RunClock(self._clock_path, start=1_800_000_000)
        self.lines: list[list[str]] = []
        self._changed = threading.Condition()
        self._read_end, self._write_end = os.pipe()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def start(self, name: str) -> None:
        """Start the sender or receiver of this name; a sender continues after its last acknowledged batch."""
        role = ["sender", name, str(self._next_number(name))] if name in SENDERS else ["receiver", name]
        command = [sys.executable, "-m", "tests.faults.stores.queues_process"]
        places = [str(self.path), str(self._clock_path), str(self._write_end)]
        self._running[name] = subprocess.Popen(
            [*command, *places, *role], cwd=ROOT, pass_fds=(self._write_end,)
        )

    def kill(self, name: str) -> None:
        """Kill the process; fail if it had ended by itself."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        with process:
            pass
        assert process.returncode == -signal.SIGKILL, f"{name} ended by itself"

    def pass_time(self) -> None:
        """Move the clock past the visibility timeout, and mark in the lines where."""
        os.write(self._write_end, f"{PASSING}\n".encode())
        self.clock.advance(VISIBILITY_S + 1)
        os.write(self._write_end, f"{PASSED}\n".encode())

    def wait_for(self, lines: int) -> None:
        """Wait until there are this many lines; fail after a minute."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.lines) >= lines, LINES_WAIT_S), (
                "the processes hang"
            )

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)
        os.close(self._write_end)
        self._reading.join()

    def _next_number(self, sender: str) -> int:
        """Return the first number to send: an unacknowledged batch is sent again under the same ids."""
        sent = [int(words[2]) for words in list(self.lines) if words[:2] == ["sent", sender]]
        return (max(sent) // BATCH) * BATCH if sent else 0

    def _read(self) -> None:
        with os.fdopen(self._read_end) as lines:
            for line in lines:
                with self._changed:
                    self.lines.append(line.split())
                    self._changed.notify_all()


@pytest.mark.proves("RP-42")
def test_killed_senders_and_receivers_lose_and_reorder_nothing(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    stage = Stage(tmp_path)
    with open_queues(stage.path, clock=stage.clock) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name=QUEUE, fifo=True, visibility_s=VISIBILITY_S)))
    try:
        for name in (*SENDERS, *RECEIVERS):
            stage.start(name)
        for _ in range(KILLS):
            stage.wait_for(len(stage.lines) + random.randrange(20, 300))
            name = random.choice((*SENDERS, *RECEIVERS))
            stage.kill(name)
            stage.pass_time()
            stage.start(name)
    finally:
        stage.close()

    check_one_holder(stage.lines)
    check_group_order(stage.lines)
    check_ids(stage.lines)
    check_none_missing(stage, drain(stage))


def check_one_holder(lines: list[list[str]]) -> None:
    """Check that the visibility timeout passed between two receivers of a message."""
    asked_in: dict[str, int] = {}
    holds: dict[str, list[tuple[int, int]]] = {}
    # A request during a clock move may use the time before; a response, the time after.
    passing = passed = 0
    for word, *rest in lines:
        if word == PASSING:
            passing += 1
        elif word == PASSED:
            passed += 1
        elif word == "asking":
            asked_in[rest[0]] = passed
        elif word == "got":
            name, body = rest[0], rest[1]
            asked = asked_in[name]
            # A receiver paused before its report may report after the next one: both orders are legal.
            doubled = [each for each in holds.get(body, []) if each[0] >= passing and asked >= each[1]]
            assert not doubled, f"{body} was received by two at once"
            holds.setdefault(body, []).append((asked, passing))
    assert holds


def check_group_order(lines: list[list[str]]) -> None:
    """Check that a message comes only after the previous one of its group was being deleted."""
    deleting: set[str] = set()
    for word, *rest in lines:
        if word == "deleting":
            deleting.add(rest[1])
        elif word == "got":
            sender, number = rest[1].split(":")
            before = int(number) - GROUPS
            assert before < 0 or f"{sender}:{before}" in deleting, f"{rest[1]} came before {sender}:{before}"


def check_ids(lines: list[list[str]]) -> None:
    """Check that a repeated send is the same message, and that none is deleted twice."""
    ids: dict[str, set[str]] = defaultdict(set)
    deleted: list[str] = []
    for word, *rest in lines:
        if word == "got":
            ids[rest[1]].add(rest[2])
        elif word == "deleted":
            deleted.append(rest[1])
    assert all(len(each) == 1 for each in ids.values())
    assert len(deleted) == len(set(deleted)) > 0


def drain(stage: Stage) -> list[str]:
    """Receive what is left in the file, in order."""
    stage.clock.advance(VISIBILITY_S + 1)
    bodies: list[str] = []
    with open_queues(stage.path, clock=stage.clock) as queues:
        assert queues.database.check() == []
        while received := queues.run_blocking(ReceiveMessages(QUEUE, 10)):
            bodies += [each.body for each in received]
            queues.run_blocking(DeleteMessages(QUEUE, tuple(each.receipt for each in received)))
    return bodies


def check_none_missing(stage: Stage, rest: list[str]) -> None:
    """Check that every acknowledged message was received or is left, and that the rest is in order."""
    said: dict[str, set[str]] = defaultdict(set)
    for word, *words in stage.lines:
        if word in ("begun", "sent"):
            said[word].add(f"{words[0]}:{words[1]}")
        elif word == "deleting":
            said[word].add(words[1])
    assert said["sent"] <= said["deleting"] | set(rest)
    assert set(rest) <= said["begun"]
    assert len(rest) == len(set(rest))
    deleted = {words[2] for words in stage.lines if words[0] == "deleted"}
    assert not deleted & set(rest)
    for sender in SENDERS:
        for group in range(GROUPS):
            numbers = [
                int(body.split(":")[1])
                for body in rest
                if body.startswith(f"{sender}:") and int(body.split(":")[1]) % GROUPS == group
            ]
            assert numbers == sorted(numbers)
