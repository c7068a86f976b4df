"""Benchmark: events handled per second by four durable workers, compared with the same writes by hand.

Ours are four processes of `holdfast run richpanel --component worker` on one tables file and one queues file,
route-only, with the help desk's sandbox in its own process and no faults. The time runs from the first
event's enqueueing to the empty queue. The floor is four processes as well (`events_floor.py`). For every
event they call the same sandbox as often and commit as many fsynced transactions to a shared file, with no
queue, no claim, no model and no decision.
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

from benchmarks.harness.http_client import build_post, measure_request_rate
from benchmarks.harness.measurement import Figure, build_figure
from benchmarks.harness.processes import HOLDFAST, run_process, run_server
from holdfast import Stores, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.operations.queues import DescribeQueue
from richpanel.domain.inbound_events import EventMessage, InboundEvent, build_event_message
from richpanel.model.entities import events
from richpanel.system import SYSTEM

WORKERS = 4
EVENTS = 400
ROUNDS = 3
CONVERSATIONS = 200
ENVIRONMENT: Final = "bench"
TEXT: Final = "I would like to return the shoes, they are too small for me."
# Without its actions: calls for ticket and message; writes of claim, plan, completion, receipt and deletion.
CALLS_PER_EVENT, WRITES_PER_EVENT = 2, 5
# Per action: one call; writes of claim, intent and outcome.
CALLS_PER_ACTION, WRITES_PER_ACTION = 1, 3
POLL_S = 0.02


def run(folder: Path) -> Figure:
    """Start the help desk's sandbox and the workers, and return the figure."""
    with ExitStack() as ends:
        sandbox = (*HOLDFAST, "run", "richpanel", "--sandbox", "helpdesk", "--port", "0")
        desk = ends.enter_context(run_server(*sandbox, folder=folder))
        _open_tickets(desk)
        workers = [
            ends.enter_context(
                run_process(*_build_worker_command(), folder=folder, **_build_environment(desk))
            )
            for _ in range(WORKERS)
        ]
        for each in workers:
            assert each.stdout is not None
            assert each.stdout.readline()
        return asyncio.run(_compare(folder, desk))


async def _compare(folder: Path, desk: str) -> Figure:
    """Run a warm-up round, which also counts the actions per event, and then the compared rounds."""
    numbers = itertools.count()
    settings = Settings(
        tables="sqlite:tables.db", queues="sqlite:queues.db", environment=ENVIRONMENT, base=folder
    )
    async with open_stores(SYSTEM, settings) as stores:
        await provision(stores, SYSTEM)
        await _measure_ours(stores, desk, numbers)
        actions = _count_effects(desk) / EVENTS
        rounds = []
        for _ in range(ROUNDS):
            ours = await _measure_ours(stores, desk, numbers)
            rounds.append((ours, await asyncio.to_thread(_measure_floor, folder, desk, actions)))
    return build_figure("events worked off, 4 workers", rounds, None)


# --- ours ---------------------------------------------------------------------------------------------------


def _build_worker_command() -> tuple[str, ...]:
    return (*HOLDFAST, "run", "richpanel", "--component", "worker")


def _build_environment(desk: str) -> dict[str, str]:
    return {
        "HOLDFAST_TABLES": "sqlite:tables.db",
        "HOLDFAST_QUEUES": "sqlite:queues.db",
        "HOLDFAST_ENVIRONMENT": ENVIRONMENT,
        "RICHPANEL_HELPDESK_URL": desk,
    }


async def _measure_ours(stores: Stores, desk: str, numbers: itertools.count[int]) -> float:
    """Send events to the queue and return how many per second the workers handle until it is empty."""
    messages = [_build_message(number) for number in itertools.islice(numbers, EVENTS)]
    _add_messages(desk, messages)
    started_at = time.perf_counter()
    for start in range(0, EVENTS, 10):
        await stores.run(events.send_batch(messages[start : start + 10]))
    while await _count_waiting(stores):
        await asyncio.sleep(POLL_S)
    return EVENTS / (time.perf_counter() - started_at)


def _build_message(number: int) -> EventMessage:
    """Return the queue message of the event with this number."""
    event = InboundEvent(
        conversation_id=_format_ticket_id(number),
        message_id=f"message-{number:09d}",
        channel="email",
        text=TEXT,
    )
    return build_event_message(event, datetime.now(UTC))


async def _count_waiting(stores: Stores) -> int:
    """Return the number of messages in the queue: visible, in flight and delayed."""
    found = await stores.engines.get("queues").run(DescribeQueue(events.physical_name(ENVIRONMENT)))
    return int(found.visible + found.in_flight + found.delayed)


# --- the help desk ------------------------------------------------------------------------------------------


def _format_ticket_id(number: int) -> str:
    return f"ticket-{number % CONVERSATIONS}"


def _open_tickets(desk: str) -> None:
    """Create the tickets in the help desk's sandbox; `desk` is its URL."""
    bodies = [
        {"id": _format_ticket_id(number), "customer": {"email": f"customer{number}@example.com"}}
        for number in range(CONVERSATIONS)
    ]
    measure_request_rate(
        desk, [build_post("/sandbox/tickets", msgspec.json.encode(body)) for body in bodies], 4
    )


def _add_messages(desk: str, messages: list[EventMessage]) -> None:
    """Add each event's message to its ticket in the help desk's sandbox."""
    with httpx.Client(base_url=desk) as client:
        for each in messages:
            path = f"/sandbox/tickets/{each.conversation_id}/messages"
            client.post(path, json={"id": each.source_message_id, "text": TEXT}).raise_for_status()


def _count_effects(desk: str) -> int:
    """Return the number of effects in the sandbox's ledger."""
    return len(httpx.get(f"{desk}/sandbox/ledger").json()["ledger"])


# --- the floor ----------------------------------------------------------------------------------------------


def _measure_floor(folder: Path, desk: str, actions: float) -> float:
    """Run the floor's processes and return their events per second. `actions` is the number of actions per
    event.

    Each process prints a line when it is ready, and starts when its standard input ends.
    """
    calls, writes = (
        CALLS_PER_EVENT + actions * CALLS_PER_ACTION,
        WRITES_PER_EVENT + actions * WRITES_PER_ACTION,
    )
    counts = [EVENTS // WORKERS, round(calls), round(writes)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.richpanel.events_floor",
        desk,
        str(folder / "floor.db"),
        *map(str, counts),
    ]
    root = Path(__file__).parents[2]
    processes = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(WORKERS)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline()
    started_at = time.perf_counter()
    for each in processes:
        assert each.stdin is not None
        each.stdin.close()
    assert not any(each.wait() for each in processes), "A process of the floor failed."
    for each in processes:
        assert each.stdout is not None
        each.stdout.close()
    return EVENTS / (time.perf_counter() - started_at)
