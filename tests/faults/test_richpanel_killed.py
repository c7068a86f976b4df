"""Workers of the Richpanel middleware are killed in the middle of their work, events come several times and late, and the
help desk fails after taking effect: each effect happens exactly once, in order, is explained, and no personal word is kept.

The sizes of the check are those of `make soak`; `make test` runs a tenth.
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

from .richpanel_stage import SECRET, Stage, desk_client, queue_now
from .richpanel_traffic import EFFECTS, SWITCHES, Conversation, Effect, Written, expected, traffic

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
EVENTS, CONVERSATIONS = (5_000, 300) if SOAK else (500, 90)
KILLS = 60 if SOAK else 6
WORKERS = 4
COPIES_MAX = 4
FAILED_AFTER = 0.1
AT_ONCE = 12
# Beyond the window in which the queue itself knows a copy.
LATER_S = 600
# The share of copies that come after that.
MUCH_LATER_SHARE = 0.3
DONE_S = 1500 if SOAK else 200


@dataclass
class Run:
    """One run: what was sent, and what was seen on the way."""

    stage: Stage
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
        return {each.number: each.order for each in self.conversations if each.order}


@pytest.mark.timeout(3600 if SOAK else 280)
@pytest.mark.proves("RP-1")
@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-25")
@pytest.mark.proves("RP-31")
@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-42")
@pytest.mark.proves("RP-X3")
def test_each_effect_happens_exactly_once_in_order_is_explained_and_keeps_no_personal_word(
    tmp_path: Path,
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    conversations = traffic(random, EVENTS, CONVERSATIONS)
    with Stage(tmp_path) as stage:
        desk = stage.serve("--sandbox", "helpdesk")
        stage.variables["RICHPANEL_HELPDESK_URL"] = desk
        ingress = stage.serve("--component", "ingress")
        run = Run(stage, random, conversations, ingress, desk)
        ledger = asyncio.run(_run(run))
        print(_told(run, ledger))  # noqa: T201

        _judge_ledger(run, ledger)
        asyncio.run(_judge_records(run, ledger))
        _judge_command(run, ledger)
        _judge_kills(run)
        _judge_files(run)


# --- the run ------------------------------------------------------------------------------------------------


async def _run(run: Run) -> list[dict[str, Any]]:
    for _ in range(WORKERS):
        run.stage.add_worker()
    async with desk_client(run.desk) as desk, run.stage.stores() as stores:
        await _set_up(run, desk, stores)
        for worker in run.stage.workers:
            await asyncio.to_thread(run.stage.await_worker, worker)
        with run.stage.clock.jumping():
            much_later = await _delivered_and_worked_off(run, stores)
            run.stage.clock.advance(LATER_S)
            await _delivered(run, much_later)
            await _worked_off(run, stores)
        ledger: list[dict[str, Any]] = (await desk.get("/sandbox/ledger")).json()["ledger"]
    run.stage.stop_workers()
    return ledger


async def _set_up(run: Run, desk: httpx.AsyncClient, stores: Stores) -> None:
    """Switches, orders and tickets with all that will be written; then the help desk begins to fail."""
    await set_switches(
        stores.for_component("api"),
        safe_mode=SWITCHES.safe_mode,
        automation_enabled=SWITCHES.automation_enabled,
        channels=SWITCHES.channels,
        by="test",
    )
    turns = asyncio.Semaphore(AT_ONCE)

    async def opened(conversation: Conversation) -> None:
        async with turns:
            customer = {"email": conversation.email, "phone": conversation.phone, "name": conversation.name}
            ticket = {"id": conversation.id, "channel": conversation.channel, "customer": customer}
            await _posted(desk, "/sandbox/tickets", ticket)
            if conversation.order:
                await _posted(desk, "/sandbox/orders", conversation.order)
            for written in conversation.events:
                said = {"id": written.message_id, "text": written.text}
                await _posted(desk, f"/sandbox/tickets/{conversation.id}/messages", said)

    await asyncio.gather(*map(opened, run.conversations))
    await _posted(
        desk, "/sandbox/faults", {"failed_after": FAILED_AFTER, "seed": run.random.randrange(2**32)}
    )


async def _posted(client: httpx.AsyncClient, path: str, body: Any) -> None:
    (await client.post(path, json=body)).raise_for_status()


async def _delivered_and_worked_off(run: Run, stores: Stores) -> list[Written]:
    """First copies in order, others in none, workers killed meanwhile. Gives the copies that are to come much later."""
    copies = [
        each
        for conversation in run.conversations
        for each in conversation.events
        for _ in range(run.random.randrange(COPIES_MAX))
    ]
    run.random.shuffle(copies)
    cut = int(len(copies) * MUCH_LATER_SHARE)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_first_copies(run))
        tasks.create_task(_late_copies(run, copies[cut:]))
        tasks.create_task(_killed(run, stores, first))
    await _worked_off(run, stores)
    return copies[:cut]


async def _first_copies(run: Run) -> None:
    """Within a conversation, one is sent when the one before it was acknowledged: so their order is known."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:

        async def told(conversation: Conversation) -> None:
            for written in conversation.events:
                async with turns:
                    await _sent(run, client, written)
                run.acknowledged.add(written.key)

        await asyncio.gather(*map(told, run.conversations))


async def _late_copies(run: Run, copies: Sequence[Written]) -> None:
    """Each at some time after the first was acknowledged, out of order."""
    waiting = list(copies)
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:
        while waiting:
            due = [each for each in waiting if each.key in run.acknowledged]
            for written in due[:20]:
                waiting.remove(written)
                await _sent(run, client, written)
                run.copies += 1
            await asyncio.sleep(0.2)


async def _delivered(run: Run, copies: Sequence[Written]) -> None:
    async with httpx.AsyncClient(base_url=run.ingress, timeout=30) as client:
        for written in copies:
            await _sent(run, client, written)
            run.copies += 1


async def _sent(run: Run, client: httpx.AsyncClient, written: Written) -> None:
    body = json.dumps(written.payload).encode()
    headers = {"x-richpanel-signature": sign(SECRET, body, run.stage.clock.now())}
    answer = await client.post("/webhooks/richpanel", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["event_id"] == written.key


async def _killed(run: Run, stores: Stores, first: asyncio.Task[None]) -> None:
    """A worker is killed whenever some more events are done, and another begins in its place."""
    points = sorted(run.random.uniform(0.05, 0.85) * EVENTS for _ in range(KILLS))
    async for done in _progress(run, stores):
        while points and done >= points[0]:
            points.pop(0)
            run.stage.kill(run.random.choice(run.stage.workers))
            run.stage.add_worker()
            run.kills += 1
        if not points:
            break
    await first


async def _progress(run: Run, stores: Stores) -> AsyncIterator[int]:
    """How many events were taken out of the queue again."""
    while True:
        yield len(run.acknowledged) - (await queue_now(stores)).waiting.backlog
        await asyncio.sleep(0.1)


async def _worked_off(run: Run, stores: Stores) -> None:
    """Until nothing waits. What went to the dead letters comes back, and is done then."""
    async with asyncio.timeout(DONE_S):
        while True:
            report = await queue_now(stores)
            if report.waiting.backlog == 0 and not report.dead:
                return
            if report.dead:
                back = Redrive(events.physical_name("test", dead_letter=True), events.physical_name("test"))
                run.redriven += await stores.engines.get("queues").run(back)
            await asyncio.sleep(0.1)


# --- the judgement ------------------------------------------------------------------------------------------


def _told(run: Run, ledger: Sequence[dict[str, Any]]) -> str:
    said = run.stage.said()
    dropped = sum("is dropped." in line for line in said)
    retried = sum(" will be retried in " in line for line in said)
    return (
        f"{EVENTS} events, {run.copies} copies of them, {len(ledger)} effects; killed {run.kills} workers; "
        f"{retried} retries, {dropped} copies dropped by their record, {run.copies - dropped} by the queue; "
        f"{run.redriven} redriven; the clock was moved on {run.stage.clock.jumps} times"
    )


def _judge_ledger(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """The same effects as the rules alone give, each once, and of each conversation in the same order."""
    found = [_effect(each) for each in ledger]
    references = Counter(each.reference for each in found)
    assert [each for each, count in references.items() if count > 1] == []
    assert len({each.effect for each in found}) == len(set(EFFECTS.values())), (
        "not every kind of effect occurred"
    )
    for conversation in run.conversations:
        wanted = expected(conversation, run.orders)
        assert [each for each in found if each.ticket_id == conversation.id] == wanted
    assert len(found) == sum(len(expected(each, run.orders)) for each in run.conversations)


def _effect(entry: dict[str, Any]) -> Effect:
    return Effect(entry["ticket_id"], entry["effect"], entry["value"], entry["reference"])


async def _judge_records(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """Every webhook that was acknowledged is processed, and the audit explains every effect and nothing else."""
    async with run.stage.stores() as stores:
        for conversation in run.conversations:
            for written in conversation.events:
                assert written.key in run.acknowledged
                record = await stores.run(patterns.record(written.key))
                assert record is not None and record.status is OnceStatus.PROCESSED, written.key
            explained = (await explain_routing(stores.for_component("api"), conversation.id)).data
            effects = [each for each in ledger if each["ticket_id"] == conversation.id]
            _judge_explanation(explained, effects)
        report = await queue_now(stores)
        assert (report.waiting.backlog, report.dead) == (0, 0)


def _judge_explanation(explained: Sequence[dict[str, Any]], effects: Sequence[dict[str, Any]]) -> None:
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


def _judge_command(run: Run, ledger: Sequence[dict[str, Any]]) -> None:
    """The same by `holdfast why`."""
    conversation = run.random.choice(run.conversations)
    lines = run.stage.command("why", "richpanel", conversation.id).splitlines()
    references = [each["reference"] for each in ledger if each["ticket_id"] == conversation.id]
    assert len(lines) == len(references)
    for reference in references:
        assert any(f"[{reference}]" in line and " because " in line for line in lines)


def _judge_kills(run: Run) -> None:
    """A claim ends with its completion, with a line in the log when it is given back, or with its worker."""
    given_back = sum(
        " will be retried in " in line or " failed on receive " in line for line in run.stage.said()
    )
    attempts = asyncio.run(_attempts(run))
    cut_off = attempts - EVENTS - given_back
    print(f"{cut_off} events were in work when their worker was killed")  # noqa: T201
    assert run.kills == KILLS
    assert cut_off >= KILLS // 2


async def _attempts(run: Run) -> int:
    async with run.stage.stores() as stores:
        scan = IdempotencyRecord.scan(reason="A test counts attempts").where(
            IdempotencyRecord.kind == RecordKind.event
        )
        return sum([record.attempts async for record in stores.each(scan)])


def _judge_files(run: Run) -> None:
    """Nothing personal in tables, queues, their logs and free pages, and in no process' log; the scanner can see."""
    personal = sorted({each for conversation in run.conversations for each in conversation.personal})
    assert (run.stage.data / "tables.db-wal").exists()
    assert scan_files([run.stage.data, run.stage.logs], needles=personal) == []

    planted = {run.stage.logs / f"planted-{number}.log": word for number, word in enumerate(personal[::50])}
    for file, word in planted.items():
        file.write_text(f"a worker said: {word}")
    assert {each.file for each in scan_files([run.stage.logs], needles=personal)} == set(map(str, planted))
