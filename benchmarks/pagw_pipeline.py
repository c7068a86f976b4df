"""Requests brought to their end by PAGW's pipeline, beside a process that makes the same calls and the same durable writes.

Ours is one process with every stage, the publisher and the audit archive, as `holdfast up` starts it, on real files, with
the payer's sandbox in a process of its own that answers at once. The process is held while the requests are accepted; the
clock runs from when it goes on to when the last request is COMPLETED. The floor (`pagw_pipeline_floor.py`) is one process as
well: of each request as many SQL transactions, objects and messages as ours has, and one call of the payer. What those
numbers are is counted in a round of ours.
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

from benchmarks import pagw_gateway as gateway
from benchmarks.measure import Figure, figure_of, tell
from benchmarks.processes import HOLDFAST, served, started
from holdfast import Stores, open_stores, prepare
from pagw import PIPELINE, SYSTEM
from pagw.findable import Findable
from pagw.intake import Intake, Submission
from pagw.sandbox import register
from pagw.settings import PagwSettings

REQUESTS = 100
ROUNDS = 3
LOOK_S = 0.02
ROUND_S_MAX = 300.0
WORKING: Final = tuple(each.name for each in SYSTEM.components if each.process == PIPELINE)
COMPLETED: Final = "SELECT count(*) FROM pagw.request_tracker WHERE status = 'COMPLETED'"
UNSENT: Final = "SELECT count(*) FROM pagw.outbox WHERE NOT processed"
MESSAGES: Final = "SELECT count(*) FROM pagw.outbox"
STEPS: Final = "SELECT count(*) FROM pagw.inbox WHERE consumer <> 'pasorchestrator'"


@dataclass(frozen=True)
class Work:
    """What one request costs: steps with a transaction, objects and messages of queues."""

    steps: int
    objects: int
    messages: int


def run(folder: Path) -> Figure:
    gateway.client_token(folder)
    with ExitStack() as ends:
        sandbox = (*HOLDFAST, "run", "pagw", "--sandbox", "payer", "--port", "0")
        payer = ends.enter_context(served(*sandbox, folder=folder))
        variables = gateway.environ(folder, payer)
        ends.enter_context(gateway.set_here(variables))
        return asyncio.run(_compared(folder, payer, variables))


async def _compared(folder: Path, payer: str, variables: dict[str, str]) -> Figure:
    async with open_stores(SYSTEM, gateway.settings(folder)) as stores:
        await prepare(stores, SYSTEM)
        await register(stores, payer)
        with (
            started(*_pipeline(), folder=folder, **variables) as pipeline,
            psycopg.connect(gateway.conninfo(folder), autocommit=True) as looking,
        ):
            assert pipeline.stdout is not None
            assert pipeline.stdout.readline()
            ours = Ours(stores, pipeline, looking)
            await ours.round()
            work = ours.work_of_each(folder)
            rounds = []
            for number in range(ROUNDS):
                tell("rounds", number, ROUNDS)
                rate = await ours.round()
                rounds.append((rate, await asyncio.to_thread(_by_hand, folder, payer, work)))
    return figure_of("requests completed", rounds, None)


def _pipeline() -> tuple[str, ...]:
    named = [argument for name in WORKING for argument in ("--component", name)]
    return (*HOLDFAST, "run", "pagw", *named)


class Ours:
    def __init__(
        self, stores: Stores, pipeline: subprocess.Popen[str], looking: psycopg.Connection[Any]
    ) -> None:
        self._intake = Intake(stores, PagwSettings.load(), Findable.open())
        self._pipeline, self._looking = pipeline, looking
        self._numbers = itertools.count()
        self._accepted = 0

    async def round(self) -> float:
        await self._until(UNSENT, 0)
        self._pipeline.send_signal(signal.SIGSTOP)
        for number in itertools.islice(self._numbers, REQUESTS):
            await self._intake.accept(Submission(gateway.TENANT, f"bench-{number}", gateway.bundle(number)))
        self._accepted += REQUESTS
        begun = time.perf_counter()
        self._pipeline.send_signal(signal.SIGCONT)
        await self._until(COMPLETED, self._accepted)
        return REQUESTS / (time.perf_counter() - begun)

    async def _until(self, question: str, answer: int) -> None:
        ends = time.perf_counter() + ROUND_S_MAX
        while self._counted(question) != answer:
            assert time.perf_counter() < ends, "The pipeline does not come to its end."
            await asyncio.sleep(LOOK_S)

    def work_of_each(self, folder: Path) -> Work:
        """Of the round that is over; what the acceptance wrote is not the pipeline's."""
        objects = sum(1 for _ in (folder / "objects").rglob("*@"))
        each = self._accepted
        return Work(
            round(self._counted(STEPS) / each),
            round(objects / each) - 1,
            round(self._counted(MESSAGES) / each),
        )

    def _counted(self, question: str) -> int:
        found = self._looking.execute(question.encode()).fetchone()
        assert found is not None
        return int(found[0])


def _by_hand(folder: Path, payer: str, work: Work) -> float:
    """The process says when it is ready, and begins when its standard input ends."""
    counts = [REQUESTS, work.steps, work.objects, work.messages]
    command = [sys.executable, "-m", "benchmarks.pagw_pipeline_floor", gateway.conninfo(folder), payer]
    with subprocess.Popen(
        [*command, str(folder / "floor"), *map(str, counts)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline()
        begun = time.perf_counter()
        process.stdin.close()
        assert process.wait() == 0, "The floor has failed."
        return REQUESTS / (time.perf_counter() - begun)
