"""Benchmark: PAGW requests accepted and completed with 200,000 stored requests, compared with 1,000.

Two databases of one PostgreSQL are filled with finished requests and everything they leave behind: audit,
sent outbox messages, inbox, lookup rows, deliveries. Then both accept and complete requests in turn, in this
process and with the payer in it, so that only the databases differ. The comparison uses the processor time of
this process and of the database per request, because elapsed time varies on a shared machine; elapsed time is
reported without a target.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg

from benchmarks.harness.measurement import Figure, build_figure, report_progress
from benchmarks.pagw import gateway
from holdfast import Pattern, Stores, open_stores, provision
from holdfast.stores.sql.postgres.values import register_types
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.sample.loader import build_stages
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from pagw.model import delivery_patterns, patterns
from pagw.model.entities import RequestRow, StageMessage
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission

FEW, MANY = 1_000, 200_000
ACCEPTED = 60
COMPLETED = 10
ROUNDS = 7
CONCURRENCY = 8
MUST_REACH: Final = 1 / 1.3
FILL_BATCH: Final = 50_000
MIN_PLANNED_ROWS: Final = 10_000
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

# The tables that grow with requests, and the patterns that use them while requests run and clients read.
LARGE_TABLES: Final = ("request_tracker", "audit_log", "outbox", "inbox", "request_lookup", "deliveries")
HOT: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.create_request,
    patterns.request,
    patterns.request_in_hand,
    patterns.advance,
    patterns.note,
    patterns.count_retry,
    patterns.requests_of,
    patterns.request_of_payer,
    patterns.found_by,
    patterns.audit_of,
    delivery_patterns.delivery,
    delivery_patterns.deliveries_of,
    delivery_patterns.note_delivery,
    *patterns.OUTBOX.relay.patterns[:4],
)

# The rows that a finished request leaves behind; `n` is its number.
FILL_STATEMENTS: Final = (
    """INSERT INTO pagw.request_tracker (pagw_id, tenant, correlation_id, status, stage, s3_bucket,
           s3_request_key, s3_response_key, provider_npi, payer_id, created_at, updated_at, completed_at,
           due_at, decision, decided_at, metadata)
       SELECT 'PAGW-' || lpad(n::text, 26, '0'), 'tenant-' || n % 20, md5(n::text), 'COMPLETED', 'done',
           'requests',
           '202610/PAGW-' || lpad(n::text, 26, '0') || '/request/original_bundle.json',
           '202610/PAGW-' || lpad(n::text, 26, '0') || '/response/fhir_claim_response.json',
           (1000000000 + n % 5000)::text, 'sandbox-payer', at, at, at, at + interval '7 days', 'approved', at,
           jsonb_build_object('idempotencyKey', 'tenant-' || n % 20 || ':' || n)
       FROM numbers""",
    """INSERT INTO pagw.audit_log (event_uuid, tenant, pagw_id, event_type, event_subtype, actor_type,
           actor_id, resource_type, resource_id, details, timestamp, service_name, service_version)
       SELECT md5(n || '-' || part)::uuid::text, 'tenant-' || n % 20, 'PAGW-' || lpad(n::text, 26, '0'),
           'STATUS', 'ENRICHED', 'service', 'pasrequestenricher', 'request',
           'PAGW-' || lpad(n::text, 26, '0'),
           '{"from": "VALIDATED"}', at, 'pasrequestenricher', '1.0.0'
       FROM numbers CROSS JOIN generate_series(1, 8) AS part""",
    """INSERT INTO pagw.outbox (queue_name, message_body, processed, processed_at, created_at,
           sequence_number, aggregate, next_attempt_at)
       SELECT 'pagw-request-enricher-queue', '{"pagwId": "PAGW-' || lpad(n::text, 26, '0') || '"}', TRUE,
           at, at, part, 'PAGW-' || lpad(n::text, 26, '0'), at
       FROM numbers CROSS JOIN generate_series(1, 15) AS part""",
    """INSERT INTO pagw.outbox_counter (aggregate, last)
       SELECT 'PAGW-' || lpad(n::text, 26, '0'), 15 FROM numbers""",
    """INSERT INTO pagw.inbox (consumer, message_id, taken_at)
       SELECT 'stage-' || part, 'PAGW-' || lpad(n::text, 26, '0') || ':1', at
       FROM numbers CROSS JOIN generate_series(1, 8) AS part""",
    """INSERT INTO pagw.request_lookup (tenant, kind, hash, pagw_id)
       SELECT 'tenant-' || n % 20, kind, md5(kind || n) || md5(n || kind), 'PAGW-' || lpad(n::text, 26, '0')
       FROM numbers CROSS JOIN unnest(ARRAY['member', 'claim', 'authorization']) AS kind""",
    """INSERT INTO pagw.deliveries (delivery_id, tenant, pagw_id, target, status, attempts, created_at,
           updated_at, delivered_at)
       SELECT 'PAGW-' || lpad(n::text, 26, '0') || '#callback', 'tenant-' || n % 20,
           'PAGW-' || lpad(n::text, 26, '0'), 'https://client.example/told', 'delivered', 1, at, at, at
       FROM numbers""",
)
NUMBERS_CLAUSE: Final = """WITH numbers AS (
    SELECT n, timestamptz '2026-10-01 08:00+00' + n * interval '3 seconds' AS at
    FROM generate_series({first}, {last}) AS n)
"""


def run(folder: Path) -> list[Figure]:
    """Fill two databases and return figures for accepting and completing requests."""
    with gateway.set_environment(gateway.build_environment(folder)):
        return asyncio.run(_compare(folder))


async def _compare(folder: Path) -> list[Figure]:
    """Measure both gateways in alternating rounds, after a warm-up round."""
    few = await Gateway.open(folder, "few", FEW)
    many = await Gateway.open(folder, "many", MANY)
    try:
        figures = []
        for name, count, work in (
            ("accepted", ACCEPTED, Gateway.accept),
            ("completed", COMPLETED, Gateway.complete),
        ):
            rounds = []
            for _ in range(ROUNDS + 1):
                rounds.append((await many.measure_cost(count, work), await few.measure_cost(count, work)))
            # The first round is a warm-up.
            figures += _build_figures(f"request {name}, {MANY:,} tracked", rounds[1:])
        return figures
    finally:
        await few.close()
        await many.close()


@dataclass(frozen=True)
class Cost:
    """The cost of one request, in seconds."""

    processor: float
    clock: float


def _build_figures(name: str, rounds: list[tuple[Cost, Cost]]) -> list[Figure]:
    """Return two figures: processor time per request, with a target, and elapsed time, without one."""
    processor = [(1 / many.processor, 1 / few.processor) for many, few in rounds]
    clock = [(1 / many.clock, 1 / few.clock) for many, few in rounds]
    return [build_figure(f"{name}: work", processor, MUST_REACH), build_figure(f"{name}: time", clock, None)]


class Gateway:
    """One database and the stores over it. A payer in this process responds at once."""

    def __init__(self, stores: Stores, connection: psycopg.Connection[Any]) -> None:
        self.stores, self._connection = stores, connection
        self._findable = RequestLookup.open()
        self._intake = Intake(stores, PagwSettings(), self._findable)
        self._numbers = itertools.count()
        payer = PayerSandbox(client_id=sandbox.CLIENT_ID, client_secret=sandbox.CLIENT_SECRET)
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(build_payer_app(payer)))
        self._stages = build_stages(stores, self._http)

    @classmethod
    async def open(cls, folder: Path, name: str, tracked: int) -> Gateway:
        """Open a gateway whose database has this many finished requests.

        Its files and database are its own; the PostgreSQL server is shared.
        """
        files = {store: f"{kind}:{name}/{place}" for store, kind, place in _STORE_FILES}
        (folder / name).mkdir()
        stores = open_stores(SYSTEM, gateway.build_settings(folder, **files, sql_database=name))
        await provision(stores, SYSTEM)
        await sandbox.register(stores, gateway.NO_PAYER_URL)
        looking = psycopg.connect(gateway.get_conninfo(folder, name), autocommit=True)
        await asyncio.to_thread(_fill, looking, tracked)
        _refuse_scans(looking, tracked)
        return cls(stores, looking)

    async def measure_cost(self, count: int, work: Callable[[Gateway, int], Any]) -> Cost:
        """Run the work for this many new requests, several at a time, and return the cost of one."""
        numbers = iter(list(itertools.islice(self._numbers, count)))

        async def task() -> None:
            for number in numbers:
                await work(self, number)

        processor, clock = self._measure_processor_s(), time.perf_counter()
        await asyncio.gather(*(task() for _ in range(CONCURRENCY)))
        return Cost((self._measure_processor_s() - processor) / count, (time.perf_counter() - clock) / count)

    async def accept(self, number: int) -> str:
        """Accept a new request with this number and return its id."""
        body = gateway.build_bundle(number)
        return (await self._intake.accept(Submission(gateway.TENANT, f"bench-{number}", body))).pagw_id

    async def complete(self, number: int) -> None:
        """Accept a request and run each stage as its consumer would, one after the other."""
        pagw_id = await self.accept(number)
        while (request := await self._load_request(pagw_id)).stage in self._stages:
            stage = self._stages[request.stage]
            message = StageMessage(pagw_id=pagw_id, tenant=request.tenant, stage=stage.stage)
            step = await stage.run(request, message)
            if step is not None:
                await stage.write_result(request, message, step)

    async def _load_request(self, pagw_id: str) -> RequestRow:
        found = await self.stores.run(patterns.request(gateway.TENANT, pagw_id))
        assert found is not None
        return found

    def _measure_processor_s(self) -> float:
        """Return the processor time of this process and of the server's processes for this database."""
        query = (
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        pids = [row[0] for row in self._connection.execute(query.encode())]
        return time.process_time() + sum(_read_processor_s(pid) for pid in pids)

    async def close(self) -> None:
        self._connection.close()
        await self._http.aclose()
        await self.stores.close()


_STORE_FILES: Final = (
    ("tables", "sqlite", "tables.db"),
    ("queues", "sqlite", "queues.db"),
    ("objects", "file", "objects"),
    ("keys", "file", "keys.json"),
)


def _fill(connection: psycopg.Connection[Any], tracked: int) -> None:
    """Insert this many finished requests with everything that they leave behind."""
    connection.execute("SET statement_timeout = 0")
    for first in range(1, tracked + 1, FILL_BATCH):
        last = min(first + FILL_BATCH - 1, tracked)
        report_progress("requests", first - 1, tracked)
        for statement in FILL_STATEMENTS:
            table, rest = statement.split("SELECT", 1)
            text = f"{table} {NUMBERS_CLAUSE.format(first=first, last=last)} SELECT {rest}"
            connection.execute(text.encode())
    connection.execute("VACUUM ANALYZE")


def _refuse_scans(connection: psycopg.Connection[Any], tracked: int) -> None:
    """Raise `AssertionError` if a pattern of a running request scans a large table.

    The registries and subscriptions are small.
    """
    register_types(connection)
    # PostgreSQL scans small tables whatever indexes they have: there, only check that an index would do.
    connection.execute(
        "SET enable_seqscan = on" if tracked >= MIN_PLANNED_ROWS else "SET enable_seqscan = off"
    )
    cursor = psycopg.ClientCursor(connection)
    for pattern in HOT:
        example = pattern.build_example()
        cursor.execute(b"EXPLAIN " + example.text.encode(), example.parameters)
        plan = "\n".join(row[0] for row in cursor)
        assert not any(f"Seq Scan on {each}" in plan for each in LARGE_TABLES), (
            f"{pattern.id} reads a whole table:\n{plan}"
        )


def _read_processor_s(pid: int) -> float:
    """Return the processor time of a process in seconds, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
