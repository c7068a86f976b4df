"""Each effect happens once while worker processes are killed and the sandbox help desk fails.

Events arrive several times and late, and the help desk fails after its effects. Each effect happens exactly
once, in order, is explained, and no personal data is stored. `make soak` runs the full sizes, `make test` a
tenth of them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import httpx
import pytest

from holdfast import Stores
from holdfast.guarantees import OnceStatus, scan_files
from holdfast.operations.queues import Redrive
from holdfast.web import sign
from richpanel.api.explain import explain_routing
from richpanel.model import patterns
from richpanel.model.entities import IdempotencyRecord, RecordKind, events
from richpanel.workers.feature_flags import set_switches

from .richpanel_processes import SECRET, RichpanelProcesses, get_queue_report, make_desk_client
from .richpanel_traffic import (
    EFFECTS,
    FLAGS,
    Conversation,
    CustomerEvent,
    Effect,
    list_expected_effects,
    make_traffic,
)

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
EVENTS, CONVERSATIONS = (5_000, 300) if SOAK else (500, 90)
KILLS = 60 if SOAK else 6
WORKERS = 4
MAX_COPIES = 4
FAILED_AFTER = 0.1
CONCURRENCY = 12
# Beyond the queue's deduplication window.
LATER_S = 600
# The share of copies sent after that.
MUCH_LATER_SHARE = 0.3
DONE_S = 1500 if SOAK else 200


@dataclass
class Run:
    """One run: the events sent and what happened on the way."""

    processes: RichpanelProcesses
    random: Random
    conversations: list[Conversation]
    ingress: str
    desk: str
    acknowledged: set[str] = field(default_factory=set)
    copies: int = 0
    kills: int = 0
    redriven: int = 0

    @property
    def orders(self) -> dict[str, dict[str, str]]:
        """The shop's orders by number."""
        return {each.number: each.order for each in self.conversations if each.order}


@pytest.mark.timeout(3600 if SOAK else 280)
@pytest.mark.proves("RP-1")
@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-25")
@pytest.mark.proves("RP-31")
@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-42")
@pytest.mark.proves("RP-X3")
async def test_each_effect_happens_once_in_order_and_is_explained(
    tmp_path: Path,
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    conversations = make_traffic(random, EVENTS, CONVERSATIONS)
    with RichpanelProcesses(tmp_path) as processes:
        desk = processes.serve("--sandbox", "helpdesk")
        processes.variables["RICHPANEL_HELPDESK_URL"] = desk
        ingress = processes.serve("--component", "ingress")
        run = Run(processes, random, conversations, ingress, desk)
        ledger = await _run(run)
        print(_summarise(run, ledger))  # noqa: T201

        _check_ledger(run, ledger)
        await _check_records(run, ledger)
        _check_command(run, ledger)
        await _check_kills(run)
        _check_files(run)


# --- the run ------------------------------------------------------------------------------------------------


async def _run(run: Run) -> list[dict[str, Any]]:
    """Send all events while workers are killed, wait until all are processed, and return the ledger."""
    for _ in range(WORKERS):
        run.processes.add()
    async with make_desk_client(run.desk) as desk, run.processes.open_stores() as stores:
        await _set_up(run, desk, stores)
        await asyncio.to_thread(run.processes.wait_until_ready)
        with run.processes.clock.allow_jumps():
            much_later = await _deliver_and_drain(run, stores)
            run.processes.clock.advance(LATER_S)
            await _deliver(run, much_later)
            await _drain(run, stores)
        ledger: list[dict[str, Any]] = (await desk.get("/sandbox/ledger")).json()["ledger"]
    run.processes.stop_workers()
    return ledger


async def _set_up(run: Run, desk: httpx.AsyncClient, stores: Stores) -> None:
    """Create switches, orders and tickets with all messages, then make the help desk fail."""
    await set_switches(
        stores.for_component("api"),
        safe_mode=FLAGS.safe_mode,
        automation_enabled=FLAGS.automation_enabled,
        channels=FLAGS.channels,
        by="test",
    )
    turns = asyncio.Semaphore(CONCURRENCY)

    async def open_ticket(conversation: Conversation) -> None:
        async with turns:
            customer = {"email": conversation.email, "phone": conversation.phone, "name": conversation.name}
            ticket = {"id": conversation.id, "channel": conversation.channel, "customer": customer}
            await _post(desk, "/sandbox/tickets", ticket)
            if conversation.order:
                await _post(desk, "/sandbox/orders", conversation.order)
            for written in conversation.events:
                said = {"id": written.message_id, "text": written.text}
                await _post(desk, f"/sandbox/tickets/{conversation.id}/messages", said)

    await asyncio.gather(*map(open_ticket, run.conversations))
    await _post(desk, "/sandbox/faults", {"failed_after": FAILED_AFTER, "seed": run.random.randrange(2**32)})


async def _post(client: httpx.AsyncClient, path: str, body: Any) -> None:
    (await client.post(path, json=body)).raise_for_status()


async def _deliver_and_drain(run: Run, stores: Stores) -> list[CustomerEvent]:
    """Send first copies in order and others in random order while workers are killed. Return the copies for
    later.
    """
    copies = [
        each
        for conversation in run.conversations
        for each in conversation.events
        for _ in range(run.random.randrange(MAX_COPIES))
    ]
    run.random.shuffle(copies)
    cut = int(len(copies) * MUCH_LATER_SHARE)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_send_first_copies(run))
        tasks.create_task(_send_late_copies(run, copies[cut:]))
        tasks.create_task(_kill_workers(run, stores, first))
    await _drain(run, stores)
    return copies[:cut]


async def _send_first_copies(run: Run) -> None:
    """Send each event of a conversation after the previous one is acknowledged, so that their order is
    known.
    """
    turns = asyncio.Semaphore(CONCURRENCY)
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:

        async def send_conversation(conversation: Conversation) -> None:
            for written in conversation.events:
                async with turns:
                    await _send(run, client, written)
                run.acknowledged.add(written.key)

        await asyncio.gather(*map(send_conversation, run.conversations))


async def _send_late_copies(run: Run, copies: Sequence[CustomerEvent]) -> None:
    """Send each copy some time after the first was acknowledged, out of order."""
    waiting = list(copies)
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:
        while waiting:
            due = [each for each in waiting if each.key in run.acknowledged]
            for written in due[:20]:
                waiting.remove(written)
                await _send(run, client, written)
                run.copies += 1
            await asyncio.sleep(0.2)


async def _deliver(run: Run, copies: Sequence[CustomerEvent]) -> None:
    """Send copies one after the other."""
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:
        for written in copies:
            await _send(run, client, written)
            run.copies += 1


async def _send(run: Run, client: httpx.AsyncClient, written: CustomerEvent) -> None:
    """Send the signed webhook of an event. Check that it was accepted under the event's key."""
    body = json.dumps(written.payload).encode()
    headers = {"x-richpanel-signature": sign(SECRET, body, run.processes.clock.now())}
    answer = await client.post("/webhooks/richpanel", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["event_id"] == written.key


async def _kill_workers(run: Run, stores: Stores, first: asyncio.Task[None]) -> None:
    """Kill a worker whenever some more events are done, and start another."""
    points = sorted(run.random.uniform(0.05, 0.85) * EVENTS for _ in range(KILLS))
    async for done in _watch_progress(run, stores):
        while points and done >= points[0]:
            points.pop(0)
            run.processes.kill(run.random.choice(list(run.processes.workers)))
            run.processes.add()
            run.kills += 1
        if not points:
            break
    await first


async def _watch_progress(run: Run, stores: Stores) -> AsyncIterator[int]:
    """Yield how many acknowledged events have left the queue."""
    while True:
        yield len(run.acknowledged) - (await get_queue_report(stores)).waiting.backlog
        await asyncio.sleep(0.1)


async def _drain(run: Run, stores: Stores) -> None:
    """Wait until the queue is empty. Dead letters are redriven."""
    async with asyncio.timeout(DONE_S):
        while True:
            report = await get_queue_report(stores)
            if report.waiting.backlog == 0 and not report.dead:
                return
            if report.dead:
                back = Redrive(events.physical_name("test", dead_letter=True), events.physical_name("test"))
                run.redriven += await stores.engines.get("queues").run(back)
            await asyncio.sleep(0.1)


# --- checks -------------------------------------------------------------------------------------------------


def _summarise(run: Run, ledger: Sequence[dict[str, Any]]) -> str:
    """Return the numbers of the run as one line."""
    said = run.processes.read_logs()
    dropped = sum("Dropped duplicate of" in line for line in said)
    retried = sum(" will be retried in " in line for line in said)
    return (
        f"{EVENTS} events, {run.copies} copies of them, {len(ledger)} effects; killed {run.kills} workers; "
        f"{retried} retries, {dropped} copies dropped by their record, {run.copies - dropped} by the queue; "
        f"{run.redriven} redriven; the clock was moved on {run.processes.clock.jumps} times"
    )


def _check_ledger(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """Check that the ledger has exactly the effects of the rules, each once and in order per conversation."""
    found = [_build_effect(each) for each in ledger]
    references = Counter(each.reference for each in found)
    assert [each for each, count in references.items() if count > 1] == []
    assert len({each.effect for each in found}) == len(set(EFFECTS.values())), (
        "not every kind of effect occurred"
    )
    for conversation in run.conversations:
        wanted = list_expected_effects(conversation, run.orders)
        assert [each for each in found if each.ticket_id == conversation.id] == wanted
    assert len(found) == sum(len(list_expected_effects(each, run.orders)) for each in run.conversations)


def _build_effect(entry: dict[str, Any]) -> Effect:
    return Effect(entry["ticket_id"], entry["effect"], entry["value"], entry["reference"])


async def _check_records(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """Check that every acknowledged webhook is processed and that the audit explains exactly the effects."""
    async with run.processes.open_stores() as stores:
        for conversation in run.conversations:
            for written in conversation.events:
                assert written.key in run.acknowledged
                record = await stores.run(patterns.record(written.key))
                assert record is not None and record.status is OnceStatus.PROCESSED, written.key
            explained = (await explain_routing(stores.for_component("api"), conversation.id)).data
            effects = [each for each in ledger if each["ticket_id"] == conversation.id]
            _check_explanation(explained, effects)
        report = await get_queue_report(stores)
        assert (report.waiting.backlog, report.dead) == (0, 0)


def _check_explanation(explained: Sequence[dict[str, Any]], effects: Sequence[dict[str, Any]]) -> None:
    """Check that the audit explains each effect once, in the order of the ledger."""
    by_key = {each["key"]: each for each in explained}
    assert len(by_key) == len(explained) == len(effects)
    at = ""
    for effect in effects:
        entry = by_key[effect["reference"]]
        assert EFFECTS[entry["action"]] == effect["effect"]
        assert effect["effect"] in ("message", "note") or entry["target"] == effect["value"]
        assert entry["reasons"]
        assert not entry["shadow"]
        assert entry["result"] == {"ok": True, "reason": None}
        # In the order of the ledger; two within one tick of the clock have the same time.
        assert entry["at"] >= at
        at = entry["at"]


def _check_command(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """Check the explanations of `holdfast why`."""
    conversation = run.random.choice(run.conversations)
    lines = run.processes.run_command("why", "richpanel", conversation.id).splitlines()
    references = [each["reference"] for each in ledger if each["ticket_id"] == conversation.id]
    assert len(lines) == len(references)
    for reference in references:
        assert any(f"[{reference}]" in line and " because " in line for line in lines)


async def _check_kills(run: Run) -> None:
    """Check that kills interrupted work. Every attempt ends by completion, by a logged release, or with its
    worker.
    """
    given_back = sum(
        " will be retried in " in line or " failed on receive " in line for line in run.processes.read_logs()
    )
    attempts = await _count_attempts(run)
    cut_off = attempts - EVENTS - given_back
    print(f"{cut_off} events were in progress when their worker was killed")  # noqa: T201
    assert run.kills == KILLS
    assert cut_off >= KILLS // 2


async def _count_attempts(run: Run) -> int:
    """Return the attempts of all events together."""
    async with run.processes.open_stores() as stores:
        scan = IdempotencyRecord.scan(reason="A test counts attempts").where(
            IdempotencyRecord.kind == RecordKind.event
        )
        return sum([record.attempts async for record in stores.each(scan)])


def _check_files(run: Run) -> None:
    """Check that stores and logs hold no personal data, and that the scanner finds planted lines."""
    personal = sorted({each for conversation in run.conversations for each in conversation.personal})
    assert (run.processes.data / "tables.db-wal").exists()
    assert scan_files([run.processes.data, run.processes.logs], needles=personal) == []

    planted = {
        run.processes.logs / f"planted-{number}.log": word for number, word in enumerate(personal[::50])
    }
    for file, word in planted.items():
        file.write_text(f"a worker said: {word}")
    assert {each.file for each in scan_files([run.processes.logs], needles=personal)} == set(
        map(str, planted)
    )
