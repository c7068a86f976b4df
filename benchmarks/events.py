"""Events worked off by four workers, durable, beside processes that only make the same writes and the same calls.

Ours are four processes of `holdfast run richpanel --component worker` on one tables file and one queues file, route-only,
with the help desk's sandbox in a process of its own and no faults. The clock runs from the first event's enqueueing to the
empty queue. The floor is four processes as well (`events_floor.py`), which for every event call the same sandbox as often
and commit as many fsynced transactions to a file that they share, with no queue, no claim, no model and no decision.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2 as httpx
import msgspec

from benchmarks.keep_alive import posted, rate_of
from benchmarks.measure import Figure, figure_of
from benchmarks.processes import HOLDFAST, served, started
from holdfast import Stores, open_stores, prepare
from holdfast.operations.queues import DescribeQueue
from holdfast.settings import Settings
from richpanel import SYSTEM
from richpanel.model import events
from richpanel.payloads import EventMessage, InboundEvent, event_message

WORKERS = 4
EVENTS = 400
ROUNDS = 3
CONVERSATIONS = 200
ENVIRONMENT: Final = "bench"
TEXT: Final = "I would like to return the shoes, they are too small for me."
# Beside those of its actions: ticket and message; claim, plan, completion, receipt and deletion.
CALLS_EACH, WRITES_EACH = 2, 5
# Of an action: the call; claim, intent, outcome.
ACTION_CALLS, ACTION_WRITES = 1, 3
LOOK_S = 0.02


def run(folder: Path) -> Figure:
    with ExitStack() as ends:
        sandbox = (*HOLDFAST, "run", "richpanel", "--sandbox", "helpdesk", "--port", "0")
        desk = ends.enter_context(served(*sandbox, folder=folder))
        _open_tickets(desk)
        workers = [
            ends.enter_context(started(*_worker(), folder=folder, **_settings(desk))) for _ in range(WORKERS)
        ]
        for each in workers:
            assert each.stdout is not None
            assert each.stdout.readline()
        return asyncio.run(_compared(folder, desk))


async def _compared(folder: Path, desk: str) -> Figure:
    numbers = itertools.count()
    settings = Settings(
        tables="sqlite:tables.db", queues="sqlite:queues.db", environment=ENVIRONMENT, base=folder
    )
    async with open_stores(SYSTEM, settings) as stores:
        await prepare(stores, SYSTEM)
        await _worked_off(stores, desk, numbers)
        actions = _effects(desk) / EVENTS
        rounds = []
        for _ in range(ROUNDS):
            ours = await _worked_off(stores, desk, numbers)
            rounds.append((ours, await asyncio.to_thread(_by_hand, folder, desk, actions)))
    return figure_of("events worked off, 4 workers", rounds, None)


# --- ours ---------------------------------------------------------------------------------------------------


def _worker() -> tuple[str, ...]:
    return (*HOLDFAST, "run", "richpanel", "--component", "worker")


def _settings(desk: str) -> dict[str, str]:
    return {
        "HOLDFAST_TABLES": "sqlite:tables.db",
        "HOLDFAST_QUEUES": "sqlite:queues.db",
        "HOLDFAST_ENVIRONMENT": ENVIRONMENT,
        "RICHPANEL_HELPDESK_URL": desk,
    }


async def _worked_off(stores: Stores, desk: str, numbers: itertools.count[int]) -> float:
    messages = [_message(number) for number in itertools.islice(numbers, EVENTS)]
    _hear(desk, messages)
    begun = time.perf_counter()
    for start in range(0, EVENTS, 10):
        await stores.run(events.send_all(messages[start : start + 10]))
    while await _waiting(stores):
        await asyncio.sleep(LOOK_S)
    return EVENTS / (time.perf_counter() - begun)


def _message(number: int) -> EventMessage:
    event = InboundEvent(
        conversation_id=_ticket(number), message_id=f"message-{number:09d}", channel="email", text=TEXT
    )
    return event_message(event, datetime.now(UTC))


async def _waiting(stores: Stores) -> int:
    found = await stores.engines.of("queues").run(DescribeQueue(events.physical_name(ENVIRONMENT)))
    return int(found.visible + found.in_flight + found.delayed)


# --- the help desk ------------------------------------------------------------------------------------------


def _ticket(number: int) -> str:
    return f"ticket-{number % CONVERSATIONS}"


def _open_tickets(desk: str) -> None:
    bodies = [
        {"id": _ticket(number), "customer": {"email": f"customer{number}@example.com"}}
        for number in range(CONVERSATIONS)
    ]
    rate_of(desk, [posted("/sandbox/tickets", msgspec.json.encode(body)) for body in bodies], 4)


def _hear(desk: str, messages: list[EventMessage]) -> None:
    with httpx.Client(base_url=desk) as client:
        for each in messages:
            path = f"/sandbox/tickets/{each.conversation_id}/messages"
            client.post(path, json={"id": each.source_message_id, "text": TEXT}).raise_for_status()


def _effects(desk: str) -> int:
    return len(httpx.get(f"{desk}/sandbox/ledger").json()["ledger"])


# --- the floor ----------------------------------------------------------------------------------------------


def _by_hand(folder: Path, desk: str, actions: float) -> float:
    """Each process says when it is ready, and begins when its standard input ends."""
    calls, writes = CALLS_EACH + actions * ACTION_CALLS, WRITES_EACH + actions * ACTION_WRITES
    counts = [EVENTS // WORKERS, round(calls), round(writes)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.events_floor",
        desk,
        str(folder / "floor.db"),
        *map(str, counts),
    ]
    root = Path(__file__).parents[1]
    processes = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(WORKERS)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline()
    begun = time.perf_counter()
    for each in processes:
        assert each.stdin is not None
        each.stdin.close()
    assert not any(each.wait() for each in processes), "The floor has failed."
    for each in processes:
        assert each.stdout is not None
        each.stdout.close()
    return EVENTS / (time.perf_counter() - begun)
