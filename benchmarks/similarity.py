"""A1, the similarity search of a booking, beside raw psycopg doing the same statement: at 1,000 chunks and at 100,000.

Ours is the pattern through `stores`, by 8 tasks at once: its rows are read into their model. By hand the statement is run in threads
of a pool of the same size, and its rows stay dictionaries. The document wants 95 of 100 answers within 10 ms at 1,000 vectors: how
long one takes alone, without others beside it, is told with the name of the figure, and not judged.

Vectors are clustered as texts are, and made from a fixed seed. They are brought in by COPY before the index is built, which at 100,000
takes minutes and a gigabyte: that one is among the benchmarks of scale.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import psycopg
import uvloop
from numpy.typing import NDArray
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from benchmarks.measure import ROUNDS, Figure, figure_of, tell
from holdfast import Stores, System, open_stores, prepare
from holdfast.settings import Settings
from holdfast.stores.sql.postgres import EmbeddedServer
from tripcortex.knowledge.patterns import similar_chunks
from tripcortex.knowledge.schema import DIMENSIONS, SimilarChunk, tripcortex

AT_ONCE: Final = 8
QUESTIONS: Final = 200
ALONE: Final = 300
CLUSTERS: Final = 50
THRESHOLD: Final = 0.3
BATCH: Final = 2_000
INDEX: Final = "idx_policy_chunks_embedding"

SYSTEM: Final = System("similarity", "Policies", tables=[], patterns=[], schemas=[tripcortex])

Work = Callable[[], Awaitable[object]]


def run(folder: Path) -> Figure:
    return uvloop.run(_figure(folder, 1_000))


def at_scale(folder: Path) -> Figure:
    return uvloop.run(_figure(folder, 100_000))


async def _figure(folder: Path, chunks: int) -> Figure:
    settings = Settings(tables="sqlite::memory:", sql=f"postgres:{folder / 'postgres'}")
    async with open_stores(SYSTEM, settings) as stores:
        await prepare(stores, SYSTEM)
        conninfo = _conninfo(folder / "postgres")
        questions = await asyncio.to_thread(_filled, conninfo, chunks)
        with ConnectionPool(
            conninfo, min_size=AT_ONCE, kwargs={"autocommit": True, "row_factory": dict_row}, open=True
        ) as pool:
            raw = Raw(pool)
            ours, floor = _ours(stores, questions), raw.asked(questions)
            await _rate(ours), await _rate(floor)
            rounds = [(await _rate(ours), await _rate(floor)) for _ in range(ROUNDS)]
            p50, p95, answered = await _alone(stores, questions)
    name = f"similarity (A1) at {chunks:,} chunks, p50 {p50:.1f} ms, p95 {p95:.1f} ms, {answered:.0%} of questions answered"
    return figure_of(name, rounds, None)


async def _rate(works: Iterator[Work]) -> float:
    ready = iter(list(itertools.islice(works, QUESTIONS)))

    async def task() -> None:
        for work in ready:
            await work()

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(AT_ONCE)))
    return QUESTIONS / (time.perf_counter() - begun)


async def _alone(stores: Stores, questions: list[str]) -> tuple[float, float, float]:
    """In milliseconds the median, and what 95 of 100 stay below; and how many of the questions, which all have near chunks, find one:
    the index is approximate, and misses more the more there is."""
    took: list[float] = []
    answered = 0
    for question in itertools.islice(itertools.cycle(questions), ALONE):
        begun = time.perf_counter()
        found = await stores.run(similar_chunks(question, threshold=THRESHOLD))
        took.append((time.perf_counter() - begun) * 1000)
        answered += bool(found)
    cuts = statistics.quantiles(took, n=20)
    return cuts[9], cuts[18], answered / ALONE


# --- ours and by hand -----------------------------------------------------------------------------------------------


def _ours(stores: Stores, questions: list[str]) -> Iterator[Work]:
    for question in itertools.cycle(questions):
        yield lambda question=question: stores.run(similar_chunks(question, threshold=THRESHOLD))  # type: ignore[misc]


class Raw:
    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool, self._threads = pool, ThreadPoolExecutor(AT_ONCE)

    def asked(self, questions: list[str]) -> Iterator[Work]:
        ready = [similar_chunks(question, threshold=THRESHOLD) for question in questions]
        for each in itertools.cycle((one.text.encode(), one.parameters) for one in ready):
            yield lambda each=each: self._in_thread(*each)  # type: ignore[misc]

    async def _in_thread(self, text: bytes, parameters: Any) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, text, parameters)

    def _run(self, text: bytes, parameters: Any) -> object:
        with self._pool.connection() as connection:
            rows = connection.execute(text, parameters).fetchall()
        assert not rows or rows[0].keys() == SimilarChunk.model_fields.keys()
        return rows


# --- the chunks -----------------------------------------------------------------------------------------------------


def _conninfo(folder: Path) -> str:
    """Of the server that the stores have started."""
    running = EmbeddedServer(folder).running()
    assert running is not None
    return f"host={running.socket_folder} port={running.port} user=postgres dbname=holdfast"


def _filled(conninfo: str, chunks: int) -> list[str]:
    chance = np.random.default_rng(5)
    centres = _unit(chance.normal(size=(CLUSTERS, DIMENSIONS)))
    with psycopg.connect(conninfo, autocommit=True) as connection, _indexed_after(connection):
        policy_id = uuid4()
        connection.execute(
            "INSERT INTO tripcortex.policies (id, source_s3_uri, file_name, status, serves, total_chunks) "
            "VALUES (%s, 's3://b/k', 'policy.md', 'ready', true, %s)",
            (policy_id, chunks),
        )
        for done in range(0, chunks, BATCH):
            rows = _near(chance, centres, min(BATCH, chunks - done))
            _copied(connection, policy_id, rows, done)
            tell("chunks", done + len(rows), chunks)
    return [_shown(row) for row in _near(chance, centres, QUESTIONS)]


@contextmanager
def _indexed_after(connection: psycopg.Connection[Any]) -> Iterator[None]:
    definition = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexname = %s", (INDEX,)
    ).fetchone()
    assert definition is not None
    connection.execute(f"DROP INDEX tripcortex.{INDEX}".encode())
    yield
    tell("index", 0, 1)
    # Of what is kept in memory, an index is built many times quicker.
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute(definition[0].encode())
    connection.execute("ANALYZE tripcortex.policy_chunks")


def _near(chance: np.random.Generator, centres: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    chosen = centres[chance.integers(0, len(centres), count)]
    return _unit(chosen + 0.03 * chance.normal(size=(count, DIMENSIONS)))


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _copied(
    connection: psycopg.Connection[Any], policy_id: object, rows: NDArray[np.float64], done: int
) -> None:
    columns = (
        "policy_id, content_type, content_text, section_title, source_page, bda_entity_subtype, embedding"
    )
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY tripcortex.policy_chunks ({columns}) FROM STDIN".encode()) as copy,
    ):
        for number, row in enumerate(rows, start=done):
            text = f"Passage {number} of the policy says what an employee may do on the trip number {number}."
            copy.write_row(
                (policy_id, "text", text, f"Section {number % 97}", number, "PARAGRAPH", _shown(row))
            )


def _shown(row: NDArray[np.float64]) -> str:
    return f"[{','.join(f'{value:.6g}' for value in row)}]"
