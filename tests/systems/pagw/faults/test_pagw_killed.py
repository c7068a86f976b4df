"""Every request ends, and its payer acts once, while processes and PostgreSQL are killed.

Requests arrive in concurrent copies for two payers of different formats, the payers and the clients' servers
fail, and processes and PostgreSQL are killed at random and at crash points. Clients get one body per id, the
audit is complete, no file is left over, and no patient data leaks. `make soak` runs the full sizes, `make
test` a tenth of them.
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

from holdfast import Stores, provision
from holdfast.core.errors import RetryLater
from holdfast.operations.queues import Redrive
from holdfast.runtime import get_queue_reports
from pagw.system import SYSTEM
from pagw.workers.sweeper import MIN_AGE_S, sweep
from tests.conftest import SOAK

from . import pagw_findings as findings
from .pagw_processes import PagwProcesses
from .pagw_traffic import ClientRequest, Clients, make_traffic

REQUESTS = 1_000 if SOAK else 100
PEOPLE = 40
PIPELINES, APIS = (3, 2) if SOAK else (2, 2)
# Processes killed from outside, and processes with a crash point.
PIPELINE_KILLS, API_KILLS, POSTGRES_KILLS = (20, 10, 10) if SOAK else (1, 1, 2)
PIPELINE_CRASHES, API_CRASHES = (36, 12) if SOAK else (4, 2)
CONCURRENCY = 16
DONE_S = 3000 if SOAK else 300
REPEATED_SHARE = 0.1

# The latest count of each crash point: acts are rare, publications frequent.
PIPELINE_CRASH_POINTS = {
    "act after": 6,
    "object after": 25,
    "record before": 20,
    "record after": 20,
    "commit before": 40,
    "commit after": 40,
    "publish after": 40,
    "done before": 60,
}
API_CRASH_POINTS = {"record after": 12, "object after": 6, "commit before": 6, "commit after": 6}
PAYER_FAULTS = {
    "too_many": 0.04,
    "failed_before": 0.06,
    "failed_after": 0.06,
    "silent_after": 0.02,
    "silence_s": 12.0,
    "callback_copies": 2,
}
# Two payers of different formats.
PAYERS = ("payer", "pas-payer")
CLIENT_FAULTS = {"too_many": 0.05, "failed_before": 0.1, "failed_after": 0.1}


@dataclass
class Run:
    """One run: the requests sent and what happened on the way."""

    processes: PagwProcesses
    random: Random
    requests: list[ClientRequest]
    clients: Clients
    crash_points: dict[str, list[str]]
    redriven: int = 0
    swept: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def completed(self) -> int:
        """The number of ended requests; 0 while PostgreSQL is down."""
        with suppress(psycopg.Error, AssertionError):  # PostgreSQL is down
            [row] = self.processes.query("SELECT count(completed_at) AS n FROM pagw.request_tracker")
            return int(row["n"])
        return 0


@pytest.mark.timeout(4000 if SOAK else 400)
@pytest.mark.proves(
    "PG-14",
    "PG-23",
    "PG-27",
    "PG-42",
    "PG-45",
    "PG-46",
    "PG-47",
    "PG-57",
    "PG-X1",
    "PG-X6",
    "PG-X21",
    "PG-X26",
)
async def test_every_request_ends_once_despite_kills(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with PagwProcesses(tmp_path, apis=APIS) as processes:
        run, seen = await _run(processes, random)
        print(_summarise(run, seen))  # noqa: T201
        findings.check_requests(seen, run.requests)
        findings.check_outcomes(seen, run.requests)
        findings.check_payer(seen)
        findings.check_clients(seen, processes.urls, run.clients.subscriptions)
        findings.check_audit(seen)
        findings.check_objects(seen)
        findings.check_privacy(processes, PEOPLE)
        _check_kills(run)


# --- the run ------------------------------------------------------------------------------------------------


async def _run(processes: PagwProcesses, random: Random) -> tuple[Run, findings.Findings]:
    """Send all requests while processes are killed, wait until all have ended, sweep, and collect the
    findings.
    """
    crash_points = {"pipeline": list(_draw_crash_points(random, PIPELINE_CRASH_POINTS, PIPELINE_CRASHES))}
    crash_points["api"] = list(_draw_crash_points(random, API_CRASH_POINTS, API_CRASHES))
    async with Clients(processes, random) as clients, processes.open_stores() as stores:
        run = Run(processes, random, make_traffic(random, REQUESTS), clients, crash_points)
        # From now on this process keeps PostgreSQL running too.
        await provision(stores, SYSTEM)
        await _set_up(run)
        with processes.clock.allow_jumps():
            async with asyncio.timeout(DONE_S), asyncio.TaskGroup() as tasks:
                tasks.create_task(_replace_crashed(run))
                tasks.create_task(_kill_at_random(run))
                tasks.create_task(_send_and_settle(run, stores))
        processes.stop_workers(may_be_killed=True)
        seen = await findings.collect_findings(processes, stores)
        processes.clock.advance(MIN_AGE_S + 1)
        run.swept = (await sweep(stores)).files
        if run.swept:
            await _archive_sweep(run, stores)
        # The keys have expired by now.
        return run, replace(await findings.collect_findings(processes, stores), records=seen.records)


def _draw_crash_points(random: Random, latest: dict[str, int], count: int) -> Iterator[str]:
    """Draw crash points of each kind in turn."""
    kinds = list(latest)
    random.shuffle(kinds)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield f"{kind} {random.randint(2, latest[kind])}"


async def _set_up(run: Run) -> None:
    """Start all processes and subscribe, then make the external services fail."""
    processes = run.processes
    first = [
        processes.add("api 0"),
        *(
            processes.add(f"pipeline {number}", _next_crash_point(run, "pipeline"))
            for number in range(PIPELINES)
        ),
    ]
    await asyncio.to_thread(processes.wait_until_ready, *first)
    await run.clients.subscribe()
    others = [processes.add(f"api {number}", _next_crash_point(run, "api")) for number in range(1, APIS)]
    await asyncio.to_thread(processes.wait_until_ready, *others)
    processes.subscribe_to_payer()
    for payer in PAYERS:
        processes.post(payer, "/sandbox/faults", {**PAYER_FAULTS, "seed": run.random.randrange(2**32)})
    faults = {**CLIENT_FAULTS, "seed": run.random.randrange(2**32)}
    processes.post("client", "/sandbox/behaviour", {"faults": faults})


def _next_crash_point(run: Run, kind: str) -> str:
    """Return the next crash point of an `api` or `pipeline` process; empty if all are used."""
    return run.crash_points[kind].pop() if run.crash_points[kind] else ""


async def _replace_crashed(run: Run) -> None:
    """Replace dead processes as long as the run lasts."""
    while not run.done.is_set():
        for name in run.processes.take_dead():
            _replace(run, name)
        await asyncio.sleep(0.1)


def _replace(run: Run, name: str) -> None:
    """Start a new process in the place of a dead one."""
    run.processes.add(name, _next_crash_point(run, name.split(maxsplit=1)[0]))


async def _kill_at_random(run: Run) -> None:
    """Kill a process whenever some more requests are done."""
    whom = ["pipeline"] * PIPELINE_KILLS + ["api"] * API_KILLS + ["postgres"] * POSTGRES_KILLS
    run.random.shuffle(whom)
    points = sorted(run.random.uniform(0.02, 0.7) * REQUESTS for _ in whom)
    for point, kind in zip(points, whom, strict=True):
        while (run.clients.acknowledged + await asyncio.to_thread(lambda: run.completed)) / 2 < point:
            await asyncio.sleep(0.1)
        while not _kill(run, kind):
            await asyncio.sleep(0.1)


def _kill(run: Run, kind: str) -> bool:
    """Kill PostgreSQL, or a random process of this kind, and replace it. Return False if none is running."""
    if kind == "postgres":
        return run.processes.kill_postgres()
    alive = [each for each, name in run.processes.workers.items() if name.startswith(kind) and each.is_alive]
    if not alive:
        return False
    _replace(run, run.processes.kill(run.random.choice(alive)))
    return True


async def _send_and_settle(run: Run, stores: Stores) -> None:
    """Send all requests, wait until all have ended, and repeat some of them."""
    turns = asyncio.Semaphore(CONCURRENCY)
    sent = {each: asyncio.Event() for each in run.requests}

    async def send_one(each: ClientRequest) -> None:
        if each.former is not None:
            await sent[each.former].wait()
        async with turns:
            await run.clients.send(each)
        sent[each].set()

    await asyncio.gather(*map(send_one, run.requests))
    await _wait_until_settled(run, stores)
    known = [each for each in run.requests if each.pagw_id]
    for each in run.random.sample(known, int(len(known) * REPEATED_SHARE)):
        await run.clients.send_again(each)
    await _wait_until_settled(run, stores)
    run.done.set()


async def _wait_until_settled(run: Run, stores: Stores) -> None:
    """Wait until nothing moves or waits, seen twice. Dead letters are redriven."""
    quiet = 0
    while quiet < 2:
        with suppress(psycopg.Error, AssertionError, RetryLater):
            quiet = quiet + 1 if await _is_quiet(run, stores) else 0
        await asyncio.sleep(0.2)


async def _is_quiet(run: Run, stores: Stores) -> bool:
    """Return whether nothing waits in queues, outbox, deliveries, requests or at the payer. Redrive dead
    letters.
    """
    payers = [run.processes.get(each, "/sandbox/callbacks") for each in PAYERS]
    waiting = sum(each["owed"] + each["pending"] for each in payers)
    for report in await get_queue_reports(stores, SYSTEM.queues):
        waiting += report.waiting.backlog + (report.dead or 0)
        if report.dead:
            queue = next(each for each in SYSTEM.queues if each.name == report.queue)
            back = Redrive(queue.physical_name("test", dead_letter=True), report.physical)
            run.redriven += await stores.engines.get("queues").run(back)
    [row] = run.processes.query(
        """SELECT (SELECT count(*) FROM pagw.outbox WHERE NOT processed) AS unsent,
                  (SELECT count(*) FROM pagw.deliveries WHERE status = 'waiting') AS untold,
                  (SELECT count(*) FROM pagw.request_tracker WHERE completed_at IS NULL) AS open"""
    )
    return not (waiting or any(row.values()))


async def _archive_sweep(run: Run, stores: Stores) -> None:
    """Archive the audit rows that the sweeper wrote."""
    await asyncio.to_thread(run.processes.wait_until_ready, run.processes.add("pipeline 0"))
    with run.processes.clock.allow_jumps():
        await _wait_until_settled(run, stores)
    run.processes.stop_workers()


def _summarise(run: Run, seen: findings.Findings) -> str:
    """Return the numbers of the run as one line."""
    statuses: dict[str, int] = {}
    for row in seen.requests.values():
        statuses[row["status"]] = statuses.get(row["status"], 0) + 1
    return (
        f"{len(run.requests)} requests, {run.clients.acknowledged} acknowledged, {statuses}; "
        f"responses {dict(run.clients.seen)}; "
        f"{len(run.processes.deaths)} deaths: {run.processes.deaths}; {run.redriven} redriven, {run.swept} "
        "files swept; "
        f"{len(seen.audit)} audit events, {sum(each.times for each in seen.received.values())} calls for "
        f"{len(seen.deliveries)} deliveries; the clock was moved on {run.processes.clock.jumps} times"
    )


def _check_kills(run: Run) -> None:
    """Check that all kills happened and that clients saw duplicates in progress and mismatches."""
    deaths = run.processes.deaths
    assert sum("PostgreSQL" in each for each in deaths) == POSTGRES_KILLS
    assert sum(each.endswith("killed") for each in deaths) == PIPELINE_KILLS + API_KILLS + POSTGRES_KILLS
    assert any("kill point" in each for each in deaths)
    assert run.clients.seen["409"] and run.clients.seen["422"]
