"""Benchmark: requests completed per second by PAGW's pipeline, compared with the same writes by hand.

Ours is one process with every stage, the publisher and the audit archive, as `holdfast up` starts it, on real
files. The payer's sandbox runs in its own process and responds at once. The pipeline is stopped while the
requests are accepted; the time runs from when it continues until the last request is COMPLETED. The floor
(`pipeline_floor.py`) is one process as well. For each request it makes as many SQL transactions, objects and
messages as ours, and one call to the payer. A round of ours counts these numbers.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.harness.measurement import Figure, build_figure, report_progress
from benchmarks.harness.processes import HOLDFAST, run_process, run_server
from benchmarks.pagw import gateway
from holdfast import Stores, open_stores, provision
from holdfast_demo.pagw.sandbox import register
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from pagw.workers.stages.base_stage import PROCESS

REQUESTS = 100
ROUNDS = 3
POLL_S = 0.02
MAX_ROUND_S = 300.0
PIPELINE_COMPONENTS: Final = tuple(each.name for each in SYSTEM.components if each.process == PROCESS)
COUNT_COMPLETED: Final = "SELECT count(*) FROM pagw.request_tracker WHERE status = 'COMPLETED'"
COUNT_UNSENT: Final = "SELECT count(*) FROM pagw.outbox WHERE NOT processed"
COUNT_MESSAGES: Final = "SELECT count(*) FROM pagw.outbox"
COUNT_STEPS: Final = "SELECT count(*) FROM pagw.inbox WHERE consumer <> 'pasorchestrator'"


@dataclass(frozen=True)
class RequestWork:
    """The work of one request: steps with a transaction, objects, and queue messages."""

    steps: int
    objects: int
    messages: int


def run(folder: Path) -> Figure:
    """Start the payer's sandbox, and return the figure of the pipeline against its floor."""
    gateway.issue_client_token(folder)
    with ExitStack() as ends:
        sandbox = (*HOLDFAST, "run", "pagw", "--sandbox", "payer", "--port", "0")
        payer = ends.enter_context(run_server(*sandbox, folder=folder))
        variables = gateway.build_environment(folder, payer)
        ends.enter_context(gateway.set_environment(variables))
        return asyncio.run(_compare(folder, payer, variables))


async def _compare(folder: Path, payer: str, variables: dict[str, str]) -> Figure:
    """Start the pipeline, run a warm-up round that counts the work per request, then the compared rounds."""
    async with open_stores(SYSTEM, gateway.build_settings(folder)) as stores:
        await provision(stores, SYSTEM)
        await register(stores, payer)
        with (
            run_process(*_build_pipeline_command(), folder=folder, **variables) as pipeline,
            psycopg.connect(gateway.get_conninfo(folder), autocommit=True) as looking,
        ):
            assert pipeline.stdout is not None
            assert pipeline.stdout.readline()
            ours = MeasuredPipeline(stores, pipeline, looking)
            await ours.run_round()
            work = ours.count_work_per_request(folder)
            rounds = []
            for number in range(ROUNDS):
                report_progress("rounds", number, ROUNDS)
                rate = await ours.run_round()
                rounds.append((rate, await asyncio.to_thread(_measure_floor, folder, payer, work)))
    return build_figure("requests completed", rounds, None)


def _build_pipeline_command() -> tuple[str, ...]:
    named = [argument for name in PIPELINE_COMPONENTS for argument in ("--component", name)]
    return (*HOLDFAST, "run", "pagw", *named)


class MeasuredPipeline:
    """The running pipeline process, and an intake in this process that accepts its requests."""

    def __init__(
        self, stores: Stores, pipeline: subprocess.Popen[str], connection: psycopg.Connection[Any]
    ) -> None:
        self._intake = Intake(stores, PagwSettings.load(), RequestLookup.open())
        self._pipeline, self._connection = pipeline, connection
        self._numbers = itertools.count()
        self._accepted = 0

    async def run_round(self) -> float:
        """Accept requests while the pipeline is stopped, let it continue, and return requests completed per
        second.
        """
        await self._wait_until(COUNT_UNSENT, 0)
        self._pipeline.send_signal(signal.SIGSTOP)
        for number in itertools.islice(self._numbers, REQUESTS):
            await self._intake.accept(
                Submission(gateway.TENANT, f"bench-{number}", gateway.build_bundle(number))
            )
        self._accepted += REQUESTS
        started_at = time.perf_counter()
        self._pipeline.send_signal(signal.SIGCONT)
        await self._wait_until(COUNT_COMPLETED, self._accepted)
        return REQUESTS / (time.perf_counter() - started_at)

    async def _wait_until(self, query: str, expected: int) -> None:
        """Poll until the query returns the expected count. Raise `AssertionError` after `MAX_ROUND_S`."""
        deadline = time.perf_counter() + MAX_ROUND_S
        while self._count(query) != expected:
            assert time.perf_counter() < deadline, "The pipeline did not finish in time."
            await asyncio.sleep(POLL_S)

    def count_work_per_request(self, folder: Path) -> RequestWork:
        """Return the work per request of the finished round, without the writes of the intake."""
        objects = sum(1 for _ in (folder / "objects").rglob("*@"))
        each = self._accepted
        return RequestWork(
            round(self._count(COUNT_STEPS) / each),
            round(objects / each) - 1,
            round(self._count(COUNT_MESSAGES) / each),
        )

    def _count(self, query: str) -> int:
        found = self._connection.execute(query.encode()).fetchone()
        assert found is not None
        return int(found[0])


def _measure_floor(folder: Path, payer: str, work: RequestWork) -> float:
    """Run the floor's process and return its requests per second.

    The process prints a line when it is ready, and starts when its standard input ends.
    """
    counts = [REQUESTS, work.steps, work.objects, work.messages]
    command = [sys.executable, "-m", "benchmarks.pagw.pipeline_floor", gateway.get_conninfo(folder), payer]
    with subprocess.Popen(
        [*command, str(folder / "floor"), *map(str, counts)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline()
        started_at = time.perf_counter()
        process.stdin.close()
        assert process.wait() == 0, "The floor failed."
        return REQUESTS / (time.perf_counter() - started_at)
