"""Benchmark: SQL patterns of PAGW per second, compared with raw psycopg on the same PostgreSQL.

Measured are a row by its key, and a compare-and-set with its outbox. Ours are patterns of PAGW through
`stores`, by 16 tasks at a time: the row is read into its model; a step of a stage (inbox, compare-and-set,
audit, two outbox messages) is one `transact`. By hand, threads with a pool of the same size run the same
statements with prepared parameters: rows stay dictionaries, the transaction is one pipeline and its commit.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvloop
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure
from benchmarks.pagw import gateway
from holdfast import Stores, open_stores, provision
from holdfast.model.sql import SqlWrite
from pagw.domain.statuses import Stage, Status
from pagw.model import patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import QUEUES, NewRequest, StageMessage
from pagw.system import SYSTEM

CONCURRENCY = 16
READS = 2_000
STEPS = 400
REQUESTS = 500
STAGE: Final = Stage.request_enricher
MOMENT: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)

Parameters = Mapping[str, Any]
Statements = Sequence[tuple[bytes, Parameters]]


def run(folder: Path) -> list[Figure]:
    """Return two figures: a row by its key, and a step with its outbox."""
    return uvloop.run(_measure(folder))


async def _measure(folder: Path) -> list[Figure]:
    async with open_stores(SYSTEM, gateway.build_settings(folder)) as stores:
        await provision(stores, SYSTEM)
        for number in range(REQUESTS):
            await stores.run(patterns.create_request(_build_request(number)))
        with ConnectionPool(
            gateway.get_conninfo(folder),
            min_size=10,
            kwargs={"autocommit": True, "row_factory": dict_row},
            open=True,
        ) as pool:
            raw = RawPsycopg(pool)
            numbers = itertools.count()
            return [
                await _compare(
                    "SQL: a row by its key",
                    _generate_reads(stores, numbers),
                    raw.generate_reads(stores, numbers),
                    READS,
                ),
                await _compare(
                    "SQL: a step with its outbox",
                    _generate_steps(stores, numbers),
                    raw.generate_steps(stores, numbers),
                    STEPS,
                ),
            ]


async def _compare(name: str, ours: Iterator[Work], floor: Iterator[Work], count: int) -> Figure:
    """Run a warm-up of both, and build the figure of alternating rounds."""
    await _measure_rate(ours, count), await _measure_rate(floor, count)
    return build_figure(
        name,
        [(await _measure_rate(ours, count), await _measure_rate(floor, count)) for _ in range(ROUNDS)],
        None,
    )


Work = Callable[[], Awaitable[object]]


async def _measure_rate(calls: Iterator[Work], count: int) -> float:
    """Run the next `count` calls by concurrent tasks and return how many are done per second."""
    ready = iter(list(itertools.islice(calls, count)))

    async def task() -> None:
        for work in ready:
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(CONCURRENCY)))
    return count / (time.perf_counter() - started)


# --- ours ---------------------------------------------------------------------------------------------------


def _generate_reads(stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
    """Yield calls that read one request by its key through the stores."""
    for number in numbers:
        yield lambda number=number: stores.run(  # type: ignore[misc]
            patterns.request(gateway.TENANT, _format_id(number % REQUESTS))
        )


def _generate_steps(stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
    """Yield calls that commit one step through the stores."""
    for number in numbers:
        yield lambda number=number: stores.transact(*_build_step(stores, number))  # type: ignore[misc]


def _build_step(stores: Stores, number: int) -> list[SqlWrite[Any]]:
    """Return the writes of one step: inbox, compare-and-set, audit and outbox."""
    pagw_id = _format_id(number % REQUESTS)
    event = AuditEvent(
        type="STATUS",
        subtype=Status.VALIDATED,
        actor=Actor.service(STAGE.service),
        service=STAGE.service,
        tenant=gateway.TENANT,
        pagw_id=pagw_id,
        details={"from": Status.VALIDATED},
    )
    message = StageMessage(pagw_id=pagw_id, tenant=gateway.TENANT, stage=STAGE)
    return [
        patterns.INBOX.take(STAGE.service, f"message-{number}", MOMENT),
        patterns.note(pagw_id, Status.VALIDATED, STAGE, MOMENT),
        *build_audit_writes(stores, event),
        patterns.OUTBOX.enqueue(stores, pagw_id, message, queue=QUEUES[STAGE]),
    ]


def _build_request(number: int) -> NewRequest:
    return NewRequest(
        pagw_id=_format_id(number),
        tenant=gateway.TENANT,
        s3_bucket="requests",
        s3_request_key=f"202611/{_format_id(number)}/request/original_bundle.json",
        provider_npi="1234567893",
        payer_id="sandbox-payer",
        created_at=MOMENT,
        due_at=MOMENT,
    )


def _format_id(number: int) -> str:
    return f"PAGW-{number:026d}"


# --- by hand ------------------------------------------------------------------------------------------------


class RawPsycopg:
    """The same statements by hand: threads with a pool of psycopg connections."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool, self._threads = pool, ThreadPoolExecutor(10)

    def generate_reads(self, stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
        for number in numbers:
            read = patterns.request(gateway.TENANT, _format_id(number % REQUESTS))
            statement = (read.text.encode(), read.parameters)
            yield lambda statement=statement: self._run_in_thread(self._read, statement)  # type: ignore[misc]

    def generate_steps(self, stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
        for number in numbers:
            writes = [
                (each.text.encode(), _wrap_json(each.parameters)) for each in _build_step(stores, number)
            ]
            yield lambda writes=writes: self._run_in_thread(self._write, writes)  # type: ignore[misc]

    async def _run_in_thread(self, work: Callable[[Any], object], argument: object) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, argument)

    def _read(self, statement: tuple[bytes, Parameters]) -> object:
        with self._pool.connection() as connection:
            row: object = connection.execute(*statement).fetchone()
            return row

    def _write(self, statements: Statements) -> None:
        """Run the statements in one transaction and pipeline; check that the compare-and-set took effect."""
        with self._pool.connection() as connection, connection.transaction(), connection.pipeline():
            cursors = [connection.execute(*each) for each in statements]
        assert cursors[1].rowcount == 1


def _wrap_json(parameters: Parameters) -> Parameters:
    """Wrap maps in `Jsonb`, as psycopg needs it without our stores."""
    return {name: Jsonb(value) if isinstance(value, dict) else value for name, value in parameters.items()}
