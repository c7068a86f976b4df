"""Trip Cortex under fire: employees ask, choose, cancel, say nothing; the portal fails, keeps silent, is away; and the processes
die at every boundary of a step and at random. Every booking comes to an end, each confirmed trip was sold once and nothing
else was, no employee ever has two under way, and everybody is told.

The size of the check is that of `make soak`; `make test` runs a tenth.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores, get_queue_reports, provision
from holdfast.core.errors import RetryLater
from holdfast.flows import Wait
from tests.conftest import SOAK
from tripcortex.demo.sample.policy_document import FILE_NAME, build_policy_pdf, build_policy_rules
from tripcortex.model import patterns
from tripcortex.model.entities import EmployeeId, Message
from tripcortex.model.notices import NOTICES
from tripcortex.policies.embedding import build_local_embedding
from tripcortex.policies.ingestion import ingest_pending
from tripcortex.policies.uploads import Upload, upload
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

from . import tripcortex_findings as findings
from .tripcortex_people import APPROVERS, DECLINED, Kind, People, trips
from .tripcortex_stage import Stage

TRIPS = 300 if SOAK else 30
EMPLOYEES = 40 if SOAK else 12
CREW = ("api 0", "api 1", "sender 0", *(f"workflow {number}" for number in range(3 if SOAK else 2)))
KILLS = 40 if SOAK else 4
DONE_S = 3000 if SOAK else 200
# So many moments of the book are open at a time: who dies all the time gets nowhere.
OPEN_MAX = 6
OUTAGE_S = 6.0 if SOAK else 1.0
LOOK_S, OBSERVE_S = 0.05, 0.2

# The moments of each state's step: one that leads to another step also sends it.
STEP = ("committing", "committed", "sent", "done")
END = ("committing", "committed", "done")
ASKED = ("committing", "committed", "sent")
STEPS = {
    **dict.fromkeys(("initiated", "retrieved", "planned", "user_selected"), STEP),
    "validated": END,
    "booking": (*END, "asked", "acted"),
}
BESIDE = {
    **dict.fromkeys(("request", "choose", "answer", "decide"), ASKED),
    "cancel": ("committing", "committed"),
    # The ends of waits that nobody has answered.
    **dict.fromkeys(("options_presented", "asking", "approving"), END),
    "notice": ("done",),
}
BESIDE_FEW = 5
# Who comes by it for certain, where a run has not.
PASSES: dict[str, Kind] = {
    "answer": "question",
    "cancel": "cancels when asked",
    "options_presented": "says nothing",
    "asking": "answers nothing",
    "decide": "approval",
    "approving": "approval",
}
FAULTS = {
    "failed_before": 0.06,
    "failed_after": 0.08,
    "silent_after": 0.05,
    "silence_s": 12.0,
    "too_many": 0.02,
}


@dataclass
class Run:
    stage: Stage
    stores: Stores
    random: Random
    people: People
    employees: list[str]
    fates: list[str]
    open: set[str] = field(default_factory=set)
    met: list[str] = field(default_factory=list)
    looks: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.mark.timeout(4000 if SOAK else 300)
@pytest.mark.proves("TC-69")
@pytest.mark.proves("TC-94")
@pytest.mark.proves("TC-X7")
@pytest.mark.proves("TC-X8")
@pytest.mark.proves("TC-X10")
def test_every_booking_ends_and_every_confirmed_trip_is_sold_once_whoever_is_killed(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    began = time.perf_counter()
    with Stage(tmp_path, TRIPCORTEX_CIRCUIT_RECOVERY_S="10", TRIPCORTEX_REQUESTS_A_MINUTE="1000") as stage:
        run, seen = asyncio.run(_run(stage, Random(seed)))
        print(f"{time.perf_counter() - began:.1f} s; {_told(run, seen)}")  # noqa: T201
        findings.judge_ends(seen)
        findings.judge_portal(seen)
        findings.judge_audit(seen)
        findings.judge_one_at_a_time(seen)
        findings.judge_told(seen, run.people.told)
        _judge_run(run, seen)


# --- the run ------------------------------------------------------------------------------------------------


async def _run(stage: Stage, random: Random) -> tuple[Run, findings.Findings]:
    employees = [f"emp-{100 + number}{DECLINED if number % 10 == 9 else ''}" for number in range(EMPLOYEES)]
    async with stage.stores() as stores, People(stage, random) as people:
        await provision(stores, SYSTEM)
        await upload(stores, Upload(FILE_NAME, build_policy_pdf(), "emp-1", _rules()))
        await ingest_pending(stores, build_local_embedding())
        run = Run(stage, stores, random, people, employees, _fates(random))
        for worker in [stage.add(name) for name in CREW]:
            await asyncio.to_thread(worker.until_ready)
        try:
            with stage.clock.jumping():
                await _played(run)
        except TimeoutError:
            places = await BOOKING_FLOW.list_executions(stores)
            raise AssertionError(f"it does not end: {places}; {people.seen}; {stage.said()[-20:]}") from None
        stage.stop_crew()
        return run, await findings.found(stores, stage.ledger())


async def _played(run: Run) -> None:
    """Everybody does what they do until nothing is under way any more."""
    async with asyncio.timeout(DONE_S), asyncio.TaskGroup() as tasks:
        phones = [tasks.create_task(run.people.listen(each)) for each in (*run.employees, *APPROVERS)]
        for task in (_tended, _observed, _doomed, _killed, _waited_out, _portal_away):
            tasks.create_task(task(run))
        await _travelled(run)
        for phone in phones:
            phone.cancel()


def _rules() -> dict[str, Any]:
    """An approver has an hour and no day: the issuer's keys are not what is to grow old."""
    rules = build_policy_rules()
    return rules | {"approval": rules["approval"] | {"soft_deadline_hours": 1, "hard_deadline_hours": 1}}


def _fates(random: Random) -> list[str]:
    """Every moment of every step, and those beside the steps: all of them twice, or some."""
    steps = [f"{where} {moment}" for where, moments in STEPS.items() for moment in moments]
    beside = [f"{where} {moment}" for where, moments in BESIDE.items() for moment in moments]
    chosen = 2 * (steps + beside) if SOAK else steps + random.sample(beside, BESIDE_FEW)
    random.shuffle(chosen)
    return chosen


async def _travelled(run: Run) -> None:
    """Everybody makes their trips, one after the other; then those are made that come by the moments still open."""
    stage, random = run.stage, run.random
    stage.tell("portal", "/sandbox/faults", {**FAULTS, "seed": random.randrange(2**32)})
    kinds = trips(random, TRIPS)

    async def made(employee: str) -> None:
        while kinds:
            await run.people.travel(employee, kinds.pop())

    await asyncio.gather(*map(made, run.employees))
    while left := {*run.fates, *run.open}:
        kinds.extend(sorted({PASSES.get(each.split()[0], "books") for each in left}))
        await asyncio.gather(*map(made, run.employees))
    await _settled(run)
    run.done.set()


async def _tended(run: Run) -> None:
    """Who is dead is replaced, for as long as the run lasts."""
    while not run.done.is_set():
        for name in run.stage.fallen():
            run.stage.add(name)
        await asyncio.sleep(LOOK_S)


async def _observed(run: Run) -> None:
    """Again and again: no employee has two bookings under way."""
    while not run.done.is_set():
        for employee in run.employees:
            with suppress(RetryLater):
                active = await run.stores.all(patterns.active_bookings_of(EmployeeId(employee)))
                assert len(active) <= 1, (employee, [each.booking_id for each in active])
                run.looks += 1
        await asyncio.sleep(OBSERVE_S)


async def _doomed(run: Run) -> None:
    """The moments are written into the book, a few at a time: who comes to one dies there."""
    while not run.done.is_set():
        written = {each.name for each in run.stage.book.iterdir()}
        run.met += sorted(run.open - written)
        run.open &= written
        for fate in [each for each in dict.fromkeys(run.fates) if each not in run.open][
            : OPEN_MAX - len(run.open)
        ]:
            run.fates.remove(fate)
            run.open.add(fate)
            (run.stage.book / fate).touch()
        await asyncio.sleep(LOOK_S)


async def _killed(run: Run) -> None:
    """Whenever some more bookings have ended, somebody is killed."""
    points = sorted(run.random.uniform(0.05, 0.9) * TRIPS for _ in range(KILLS))
    for point in points:
        while run.people.ended < point:
            await asyncio.sleep(LOOK_S)
        victim = run.random.choice(run.stage.workers)
        if not victim.is_over.is_set():
            run.stage.kill(victim)
            run.stage.add(victim.name)


async def _portal_away(run: Run) -> None:
    """For a while in the middle of it. What has been asked of it already is looked up when it is back."""
    while run.people.ended < TRIPS * 0.4:
        await asyncio.sleep(LOOK_S)
    run.stage.tell("portal", "/sandbox/outage", {"is_down": True})
    await asyncio.sleep(OUTAGE_S)
    run.stage.tell("portal", "/sandbox/outage", {"is_down": False})


async def _waited_out(run: Run) -> None:
    """When all that is under way waits for somebody who will not answer, time passes until the first deadline."""
    while not run.done.is_set():
        with suppress(RetryLater):
            places = await BOOKING_FLOW.list_executions(run.stores)
            dues = [each.due.timestamp() for each in places if each.due is not None]
            if places and all(_is_silent(run, each) for each in places):
                run.stage.clock.advance(max(0.0, min(dues) - run.stage.clock.now()) + 1)
        await asyncio.sleep(0.2)


def _is_silent(run: Run, place: Any) -> bool:
    is_wait = isinstance(BOOKING_FLOW.get_state(place.state).action, Wait)
    return is_wait and place.key.partition("#")[2] in run.people.silent


async def _settled(run: Run) -> None:
    """Until nothing moves and nothing waits, seen twice."""
    quiet = 0
    while quiet < 2:
        with suppress(RetryLater):
            quiet = quiet + 1 if await _is_quiet(run) else 0
        await asyncio.sleep(LOOK_S)


async def _is_quiet(run: Run) -> bool:
    reports = await get_queue_reports(run.stores, SYSTEM.queues)
    unread = [each async for each in run.stores.each(Message.scan(reason="A test looks at all of them"))]
    waiting = [
        *await BOOKING_FLOW.outbox.list_unsent(run.stores),
        *await NOTICES.list_unsent(run.stores),
        *unread,
    ]
    places = await BOOKING_FLOW.list_executions(run.stores)
    return not (waiting or places or any(each.waiting.backlog for each in reports))


# --- the judgement ------------------------------------------------------------------------------------------


def _told(run: Run, seen: findings.Findings) -> str:
    again = sum(times > 1 for each in run.people.told.values() for times in each.times.values())
    count = sum(len(each.frames) for each in run.people.told.values())
    return (
        f"{len(seen.bookings)} bookings: {dict(seen.ends)}; {len(seen.ledger)} sold; "
        f"{len(run.stage.deaths)} deaths {dict(Counter(each.split()[0] for each in run.stage.deaths))}; "
        f"{count} messages, {again} came again; {run.looks} looks; {dict(run.people.seen)}; "
        f"the clock was moved on {run.stage.clock.jumps} times"
    )


def _judge_run(run: Run, seen: findings.Findings) -> None:
    """That what was to be tried was."""
    assert len(run.met) == len(_fates(run.random)) and {*STEPS} <= {each.split()[0] for each in run.met}
    assert len(run.stage.deaths) >= len(run.met) + KILLS / 2
    assert len(seen.bookings) >= TRIPS and run.looks > EMPLOYEES
    # Neither of the latter asks the portal, which may be away.
    assert {"confirmed", "failed: out_of_policy", "cancelled: question_expired"} <= seen.ends.keys()
    assert len(seen.ledger) >= TRIPS / 10
    assert not any("Traceback" in line or "parked" in line for line in run.stage.said()), run.stage.said()[
        -20:
    ]
