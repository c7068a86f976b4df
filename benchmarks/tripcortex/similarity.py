"""Benchmark: similarity searches (A1) per second over 1,000 or 100,000 chunks, compared with raw psycopg.

Ours is the pattern through `stores`, by 8 tasks at a time, with rows read into their model. By hand, threads
with a pool of the same size run the statement, and rows stay dictionaries. The document wants 95 of 100
answers within 10 ms at 1,000 vectors: the name of the figure reports how long one search takes alone, without
a target.

Vectors are clustered like texts and generated from a fixed seed. COPY loads them before the index is built,
which at 100,000 takes minutes and a gigabyte: that one is among the benchmarks of scale.
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

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure, report_progress
from holdfast import Stores, System, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.stores.sql.postgres import EmbeddedServer
from tripcortex.model.policies.patterns import similar_chunks
from tripcortex.model.policies.schema import DIMENSIONS, SimilarChunk, tripcortex

CONCURRENCY: Final = 8
QUESTIONS: Final = 200
ALONE: Final = 300
CLUSTERS: Final = 50
THRESHOLD: Final = 0.3
BATCH: Final = 2_000
INDEX: Final = "idx_policy_chunks_embedding"

SYSTEM: Final = System("similarity", "Policies", tables=[], patterns=[], schemas=[tripcortex])

Work = Callable[[], Awaitable[object]]


def run(folder: Path) -> Figure:
    """Measure at 1,000 chunks."""
    return uvloop.run(_measure(folder, 1_000))


def run_at_scale(folder: Path) -> Figure:
    """Measure at 100,000 chunks, which takes minutes."""
    return uvloop.run(_measure(folder, 100_000))


async def _measure(folder: Path, chunks: int) -> Figure:
    """Load this many chunks, compare searches with raw psycopg, and measure the latency of one alone."""
    settings = Settings(tables="sqlite::memory:", sql=f"postgres:{folder / 'postgres'}")
    async with open_stores(SYSTEM, settings) as stores:
        await provision(stores, SYSTEM)
        conninfo = _get_conninfo(folder / "postgres")
        questions = await asyncio.to_thread(_fill, conninfo, chunks)
        with ConnectionPool(
            conninfo, min_size=CONCURRENCY, kwargs={"autocommit": True, "row_factory": dict_row}, open=True
        ) as pool:
            raw = RawPsycopg(pool)
            ours, floor = _generate_calls(stores, questions), raw.generate_calls(questions)
            await _measure_rate(ours), await _measure_rate(floor)
            rounds = [(await _measure_rate(ours), await _measure_rate(floor)) for _ in range(ROUNDS)]
            p50, p95, answered = await _measure_latency(stores, questions)
    name = (
        f"similarity (A1) at {chunks:,} chunks, p50 {p50:.1f} ms, p95 {p95:.1f} ms, "
        f"{answered:.0%} of questions answered"
    )
    return build_figure(name, rounds, None)


async def _measure_rate(calls: Iterator[Work]) -> float:
    """Run the next 200 searches by 8 tasks and return how many are done per second."""
    ready = iter(list(itertools.islice(calls, QUESTIONS)))

    async def task() -> None:
        for work in ready:
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(CONCURRENCY)))
    return QUESTIONS / (time.perf_counter() - started)


async def _measure_latency(stores: Stores, questions: list[str]) -> tuple[float, float, float]:
    """Return the median and the 95th percentile in milliseconds, and the share of questions that find a
    chunk.

    The searches run one at a time. Every question has near chunks. The index is approximate and misses more
    the more it holds.
    """
    took: list[float] = []
    answered = 0
    for question in itertools.islice(itertools.cycle(questions), ALONE):
        started = time.perf_counter()
        found = await stores.run(similar_chunks(question, threshold=THRESHOLD))
        took.append((time.perf_counter() - started) * 1000)
        answered += bool(found)
    cuts = statistics.quantiles(took, n=20)
    return cuts[9], cuts[18], answered / ALONE


# --- ours and by hand ---------------------------------------------------------------------------------------


def _generate_calls(stores: Stores, questions: list[str]) -> Iterator[Work]:
    """Yield searches through the stores, for each question in turn, without end."""
    for question in itertools.cycle(questions):
        yield lambda question=question: stores.run(similar_chunks(question, threshold=THRESHOLD))  # type: ignore[misc]


class RawPsycopg:
    """The same statement by hand: threads with a pool of psycopg connections."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool, self._threads = pool, ThreadPoolExecutor(CONCURRENCY)

    def generate_calls(self, questions: list[str]) -> Iterator[Work]:
        """Yield the same searches by hand, without end."""
        ready = [similar_chunks(question, threshold=THRESHOLD) for question in questions]
        for each in itertools.cycle((one.text.encode(), one.parameters) for one in ready):
            yield lambda each=each: self._run_in_thread(*each)  # type: ignore[misc]

    async def _run_in_thread(self, text: bytes, parameters: Any) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, text, parameters)

    def _run(self, text: bytes, parameters: Any) -> object:
        with self._pool.connection() as connection:
            rows = connection.execute(text, parameters).fetchall()
        assert not rows or rows[0].keys() == SimilarChunk.model_fields.keys()
        return rows


# --- the chunks ---------------------------------------------------------------------------------------------


def _get_conninfo(folder: Path) -> str:
    """Return the connection string of the server that the stores started."""
    running = EmbeddedServer(folder).find_running()
    assert running is not None
    return f"host={running.socket_folder} port={running.port} user=postgres dbname=holdfast"


def _fill(conninfo: str, chunks: int) -> list[str]:
    """Load this many chunks of one policy and return the vectors of the questions."""
    rng = np.random.default_rng(5)
    centres = _normalize(rng.normal(size=(CLUSTERS, DIMENSIONS)))
    with psycopg.connect(conninfo, autocommit=True) as connection, _rebuild_index_after(connection):
        policy_id = uuid4()
        connection.execute(
            "INSERT INTO tripcortex.policies (id, source_s3_uri, file_name, status, serves, total_chunks) "
            "VALUES (%s, 's3://b/k', 'policy.md', 'ready', true, %s)",
            (policy_id, chunks),
        )
        for done in range(0, chunks, BATCH):
            rows = _generate_near(rng, centres, min(BATCH, chunks - done))
            _copy_chunks(connection, policy_id, rows, done)
            report_progress("chunks", done + len(rows), chunks)
    return [_format_vector(row) for row in _generate_near(rng, centres, QUESTIONS)]


@contextmanager
def _rebuild_index_after(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Drop the vector index, and build it and analyze the table after the block."""
    definition = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexname = %s", (INDEX,)
    ).fetchone()
    assert definition is not None
    connection.execute(f"DROP INDEX tripcortex.{INDEX}".encode())
    yield
    report_progress("index", 0, 1)
    # The index is built many times faster if its vectors fit in memory.
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute(definition[0].encode())
    connection.execute("ANALYZE tripcortex.policy_chunks")


def _generate_near(rng: np.random.Generator, centres: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return this many unit vectors, each near a randomly chosen centre."""
    chosen = centres[rng.integers(0, len(centres), count)]
    return _normalize(chosen + 0.03 * rng.normal(size=(count, DIMENSIONS)))


def _normalize(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _copy_chunks(
    connection: psycopg.Connection[Any], policy_id: object, rows: NDArray[np.float64], done: int
) -> None:
    """Insert a chunk for each vector with COPY, numbered from `done`."""
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
                (policy_id, "text", text, f"Section {number % 97}", number, "PARAGRAPH", _format_vector(row))
            )


def _format_vector(row: NDArray[np.float64]) -> str:
    return f"[{','.join(f'{value:.6g}' for value in row)}]"
