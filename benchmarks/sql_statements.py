"""SQL patterns beside raw psycopg on the same PostgreSQL: a row by its key, and a compare-and-set with its outbox.

Ours are patterns of PAGW through `stores`, by 16 tasks at once: the row is read into its model; a step of a stage (inbox,
compare-and-set, audit, two announcements) is one `transact`. By hand the same statements are run in threads of a pool of the
same size, with parameters that are ready: rows stay dictionaries, the transaction is one pipeline and its commit.
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

from benchmarks import pagw_gateway as gateway
from benchmarks.measure import ROUNDS, Figure, figure_of
from holdfast import SqlWrite, Stores, open_stores, prepare
from pagw import SYSTEM, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.model import QUEUES, NewRequest, StageMessage
from pagw.statuses import Stage, Status

AT_ONCE = 16
READS = 2_000
STEPS = 400
REQUESTS = 500
STAGE: Final = Stage.request_enricher
MOMENT: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)

Parameters = Mapping[str, Any]
Statements = Sequence[tuple[bytes, Parameters]]


def run(folder: Path) -> list[Figure]:
    return uvloop.run(_figures(folder))


async def _figures(folder: Path) -> list[Figure]:
    async with open_stores(SYSTEM, gateway.settings(folder)) as stores:
        await prepare(stores, SYSTEM)
        for number in range(REQUESTS):
            await stores.run(patterns.create_request(_request(number)))
        with ConnectionPool(
            gateway.conninfo(folder),
            min_size=10,
            kwargs={"autocommit": True, "row_factory": dict_row},
            open=True,
        ) as pool:
            raw = Raw(pool)
            numbers = itertools.count()
            return [
                await _compared(
                    "SQL: a row by its key", _reads(stores, numbers), raw.reads(stores, numbers), READS
                ),
                await _compared(
                    "SQL: a step with its outbox", _steps(stores, numbers), raw.steps(stores, numbers), STEPS
                ),
            ]


async def _compared(name: str, ours: Iterator[Work], floor: Iterator[Work], count: int) -> Figure:
    await _rate(ours, count), await _rate(floor, count)
    return figure_of(
        name, [(await _rate(ours, count), await _rate(floor, count)) for _ in range(ROUNDS)], None
    )


Work = Callable[[], Awaitable[object]]


async def _rate(works: Iterator[Work], count: int) -> float:
    ready = iter(list(itertools.islice(works, count)))

    async def task() -> None:
        for work in ready:
            await work()

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - begun)


# --- ours ---------------------------------------------------------------------------------------------------


def _reads(stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
    for number in numbers:
        yield lambda number=number: stores.run(patterns.request(gateway.TENANT, _id(number % REQUESTS)))  # type: ignore[misc]


def _steps(stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
    for number in numbers:
        yield lambda number=number: stores.transact(*_step(stores, number))  # type: ignore[misc]


def _step(stores: Stores, number: int) -> list[SqlWrite[Any]]:
    pagw_id = _id(number % REQUESTS)
    event = AuditEvent(
        type="STATUS",
        subtype=Status.VALIDATED,
        actor=Actor.service(STAGE.service),
        service=STAGE.service,
        tenant=gateway.TENANT,
        pagw_id=pagw_id,
        details={"from": Status.VALIDATED},
    )
    told = StageMessage(pagw_id=pagw_id, tenant=gateway.TENANT, stage=STAGE)
    return [
        patterns.INBOX.taken(STAGE.service, f"message-{number}", MOMENT),
        patterns.note(pagw_id, Status.VALIDATED, STAGE, MOMENT),
        *audited(stores, event),
        patterns.OUTBOX.message(stores, pagw_id, QUEUES[STAGE], told),
    ]


def _request(number: int) -> NewRequest:
    return NewRequest(
        pagw_id=_id(number),
        tenant=gateway.TENANT,
        s3_bucket="requests",
        s3_request_key=f"202611/{_id(number)}/request/original_bundle.json",
        provider_npi="1234567893",
        payer_id="sandbox-payer",
        created_at=MOMENT,
        due_at=MOMENT,
    )


def _id(number: int) -> str:
    return f"PAGW-{number:026d}"


# --- by hand ------------------------------------------------------------------------------------------------


class Raw:
    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool, self._threads = pool, ThreadPoolExecutor(10)

    def reads(self, stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
        for number in numbers:
            read = patterns.request(gateway.TENANT, _id(number % REQUESTS))
            statement = (read.text.encode(), read.parameters)
            yield lambda statement=statement: self._in_thread(self._read, statement)  # type: ignore[misc]

    def steps(self, stores: Stores, numbers: Iterator[int]) -> Iterator[Work]:
        for number in numbers:
            writes = [(each.text.encode(), _plain(each.parameters)) for each in _step(stores, number)]
            yield lambda writes=writes: self._in_thread(self._write, writes)  # type: ignore[misc]

    async def _in_thread(self, work: Callable[[Any], object], given: object) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, given)

    def _read(self, statement: tuple[bytes, Parameters]) -> object:
        with self._pool.connection() as connection:
            row: object = connection.execute(*statement).fetchone()
            return row

    def _write(self, statements: Statements) -> None:
        with self._pool.connection() as connection, connection.transaction(), connection.pipeline():
            cursors = [connection.execute(*each) for each in statements]
        assert cursors[1].rowcount == 1


def _plain(parameters: Parameters) -> Parameters:
    """Maps as psycopg is told by hand that they are JSON."""
    return {name: Jsonb(value) if isinstance(value, dict) else value for name, value in parameters.items()}
