"""The gateway under fire: requests come several times at once, the payer and the clients' servers fail, and its processes
and PostgreSQL itself are killed at random and at chosen moments. Every request comes to its end, the payer is asked once
for each, clients are told the same under the same id, the audit is whole, no file is left over, no patient is named.

The sizes of the check are those of `make soak`; `make test` runs a tenth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random, SystemRandom

import psycopg
import pytest

from holdfast import Stores, get_queue_reports, provision
from holdfast.core.errors import RetryLater
from holdfast.operations.queues import Redrive
from pagw.system import SYSTEM
from pagw.workers.sweeper import MIN_AGE_S, sweep
from tests.conftest import SOAK

from . import pagw_findings as findings
from .pagw_stage import Stage
from .pagw_traffic import Asked, Clients, traffic

REQUESTS = 1_000 if SOAK else 100
PEOPLE = 40
PIPELINES, APIS = (3, 2) if SOAK else (2, 2)
# Those killed from outside, and those that die at a moment of their own.
PIPELINE_KILLS, API_KILLS, POSTGRES_KILLS = (20, 10, 10) if SOAK else (1, 1, 2)
PIPELINE_FATES, API_FATES = (36, 12) if SOAK else (4, 2)
AT_ONCE = 16
DONE_S = 3000 if SOAK else 300
AGAIN_SHARE = 0.1

# How far into a process's life a moment lies: an act comes seldom, a publication often.
PIPELINE_MOMENTS = {
    "act after": 6,
    "object after": 25,
    "record before": 20,
    "record after": 20,
    "commit before": 40,
    "commit after": 40,
    "publish after": 40,
    "done before": 60,
}
API_MOMENTS = {"record after": 12, "object after": 6, "commit before": 6, "commit after": 6}
PAYER_FAULTS = {
    "too_many": 0.04,
    "failed_before": 0.06,
    "failed_after": 0.06,
    "silent_after": 0.02,
    "silence_s": 12.0,
    "callback_copies": 2,
}
CLIENT_FAULTS = {"too_many": 0.05, "failed_before": 0.1, "failed_after": 0.1}


@dataclass
class Run:
    """One run: what was asked, and what was seen on the way."""

    stage: Stage
    random: Random
    asked: list[Asked]
    clients: Clients
    fates: dict[str, list[str]]
    redriven: int = 0
    swept: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def completed(self) -> int:
        with suppress(psycopg.Error, AssertionError):  # PostgreSQL is down
            [row] = self.stage.rows("SELECT count(completed_at) AS n FROM pagw.request_tracker")
            return int(row["n"])
        return 0


@pytest.mark.timeout(4000 if SOAK else 400)
@pytest.mark.proves("PG-14")
@pytest.mark.proves("PG-23")
@pytest.mark.proves("PG-27")
@pytest.mark.proves("PG-42")
@pytest.mark.proves("PG-45")
@pytest.mark.proves("PG-46")
@pytest.mark.proves("PG-47")
@pytest.mark.proves("PG-57")
@pytest.mark.proves("PG-X1")
@pytest.mark.proves("PG-X6")
@pytest.mark.proves("PG-X21")
@pytest.mark.proves("PG-X26")
def test_every_request_comes_to_its_end_once_whoever_is_killed_over_it(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with Stage(tmp_path, apis=APIS) as stage:
        run, seen = asyncio.run(_run(stage, random))
        print(_told(run, seen))  # noqa: T201
        findings.judge_requests(seen, run.asked)
        findings.judge_outcomes(seen, run.asked)
        findings.judge_payer(seen)
        findings.judge_clients(seen, stage.parties, run.clients.subscriptions)
        findings.judge_audit(seen)
        findings.judge_objects(seen)
        findings.judge_privacy(stage, PEOPLE)
        _judge_kills(run)


# --- the run ------------------------------------------------------------------------------------------------


async def _run(stage: Stage, random: Random) -> tuple[Run, findings.Findings]:
    fates = {"pipeline": list(_fates(random, PIPELINE_MOMENTS, PIPELINE_FATES))}
    fates["api"] = list(_fates(random, API_MOMENTS, API_FATES))
    async with Clients(stage, random) as clients, stage.stores() as stores:
        run = Run(stage, random, traffic(random, REQUESTS), clients, fates)
        # From now on this process, too, is one that keeps PostgreSQL up.
        await provision(stores, SYSTEM)
        await _set_up(run)
        with stage.clock.jumping():
            async with asyncio.timeout(DONE_S), asyncio.TaskGroup() as tasks:
                tasks.create_task(_tended(run))
                tasks.create_task(_killed(run))
                tasks.create_task(_asked_and_settled(run, stores))
        stage.stop_crew()
        seen = await findings.found(stage, stores)
        stage.clock.advance(MIN_AGE_S + 1)
        run.swept = (await sweep(stores)).files
        if run.swept:
            await _archived(run, stores)
        # Keys have ended by now.
        return run, replace(await findings.found(stage, stores), records=seen.records)


def _fates(random: Random, moments: dict[str, int], count: int) -> Iterator[str]:
    """Each kind in turn, at some moment."""
    kinds = list(moments)
    random.shuffle(kinds)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield f"{kind} {random.randint(2, moments[kind])}"


async def _set_up(run: Run) -> None:
    """Everybody is there, and who subscribes has done so, before the parties begin to fail and the first dies."""
    stage = run.stage
    first = [
        stage.add_api(),
        *(stage.add_pipeline(number, _fate(run, "pipeline")) for number in range(PIPELINES)),
    ]
    for process in first:
        await asyncio.to_thread(stage.first_line, process)
    await run.clients.subscribe()
    for number in range(1, APIS):
        await asyncio.to_thread(stage.first_line, stage.add_api(number, _fate(run, "api")))
    stage.tell("payer", "/sandbox/faults", {**PAYER_FAULTS, "seed": run.random.randrange(2**32)})
    faults = {**CLIENT_FAULTS, "seed": run.random.randrange(2**32)}
    stage.tell("client", "/sandbox/behaviour", {"faults": faults})


def _fate(run: Run, kind: str) -> str:
    return run.fates[kind].pop() if run.fates[kind] else ""


async def _tended(run: Run) -> None:
    """Who is dead is replaced, for as long as the run lasts."""
    while not run.done.is_set():
        for name in run.stage.fallen():
            _replace(run, name)
        await asyncio.sleep(0.1)


def _replace(run: Run, name: str) -> None:
    kind, number = name.split()
    add = run.stage.add_api if kind == "api" else run.stage.add_pipeline
    add(int(number), _fate(run, kind))


async def _killed(run: Run) -> None:
    """Whenever some more requests are done, somebody is killed."""
    whom = ["pipeline"] * PIPELINE_KILLS + ["api"] * API_KILLS + ["postgres"] * POSTGRES_KILLS
    run.random.shuffle(whom)
    points = sorted(run.random.uniform(0.02, 0.7) * REQUESTS for _ in whom)
    for point, kind in zip(points, whom, strict=True):
        while (run.clients.acknowledged + await asyncio.to_thread(lambda: run.completed)) / 2 < point:
            await asyncio.sleep(0.1)
        while not _kill(run, kind):
            await asyncio.sleep(0.1)


def _kill(run: Run, kind: str) -> bool:
    if kind == "postgres":
        return run.stage.kill_postgres()
    alive = [
        each for each, name in run.stage.workers.items() if name.startswith(kind) and each.poll() is None
    ]
    if not alive:
        return False
    _replace(run, run.stage.kill(run.random.choice(alive)))
    return True


async def _asked_and_settled(run: Run, stores: Stores) -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    sent = {each: asyncio.Event() for each in run.asked}

    async def told(each: Asked) -> None:
        if each.former is not None:
            await sent[each.former].wait()
        async with turns:
            await run.clients.send(each)
        sent[each].set()

    await asyncio.gather(*map(told, run.asked))
    await _settled(run, stores)
    known = [each for each in run.asked if each.pagw_id]
    for each in run.random.sample(known, int(len(known) * AGAIN_SHARE)):
        await run.clients.again(each)
    await _settled(run, stores)
    run.done.set()


async def _settled(run: Run, stores: Stores) -> None:
    """Until nothing moves and nothing waits, seen twice. What went to the dead letters comes back, and is done then."""
    quiet = 0
    while quiet < 2:
        with suppress(psycopg.Error, AssertionError, RetryLater):
            quiet = quiet + 1 if await _is_quiet(run, stores) else 0
        await asyncio.sleep(0.2)


async def _is_quiet(run: Run, stores: Stores) -> bool:
    payer = run.stage.ask("payer", "/sandbox/callbacks")
    waiting = 0
    for report in await get_queue_reports(stores, SYSTEM.queues):
        waiting += report.waiting.backlog + (report.dead or 0)
        if report.dead:
            queue = next(each for each in SYSTEM.queues if each.name == report.queue)
            back = Redrive(queue.physical_name("test", dead_letter=True), report.physical)
            run.redriven += await stores.engines.get("queues").run(back)
    [row] = run.stage.rows(
        """SELECT (SELECT count(*) FROM pagw.outbox WHERE NOT processed) AS unsent,
                  (SELECT count(*) FROM pagw.deliveries WHERE status = 'waiting') AS untold,
                  (SELECT count(*) FROM pagw.request_tracker WHERE completed_at IS NULL) AS open"""
    )
    return not (waiting or payer["owed"] or payer["pending"] or any(row.values()))


async def _archived(run: Run, stores: Stores) -> None:
    """The sweeper has written to the audit: somebody brings that to its bucket as well."""
    process = run.stage.add_pipeline()
    await asyncio.to_thread(run.stage.first_line, process)
    with run.stage.clock.jumping():
        await _settled(run, stores)
    run.stage.stop_crew()


# --- the judgement ------------------------------------------------------------------------------------------


def _told(run: Run, seen: findings.Findings) -> str:
    statuses: dict[str, int] = {}
    for row in seen.requests.values():
        statuses[row["status"]] = statuses.get(row["status"], 0) + 1
    return (
        f"{len(run.asked)} asked, {run.clients.acknowledged} acknowledged, {statuses}; answers {dict(run.clients.seen)}; "
        f"{len(run.stage.deaths)} deaths: {run.stage.deaths}; {run.redriven} redriven, {run.swept} files swept; "
        f"{len(seen.audit)} audit events, {sum(each.times for each in seen.received.values())} calls for "
        f"{len(seen.deliveries)} deliveries; the clock was moved on {run.stage.clock.jumps} times"
    )


def _judge_kills(run: Run) -> None:
    """That what was to be tried was: all were killed, and clients saw copies that were under way or done."""
    deaths = run.stage.deaths
    assert sum("PostgreSQL" in each for each in deaths) == POSTGRES_KILLS
    assert sum(each.endswith("killed") for each in deaths) == PIPELINE_KILLS + API_KILLS + POSTGRES_KILLS
    assert any("fate" in each for each in deaths)
    assert run.clients.seen["409"] and run.clients.seen["422"]
