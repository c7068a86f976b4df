"""One more request of PAGW, accepted and brought to its end, at 200,000 tracked requests beside 1,000.

Two databases of one PostgreSQL are filled with requests that are over, with all that such requests leave behind: audit,
sent announcements, inbox, findability, deliveries. Then requests are accepted and completed in both in turn, in this process
and with a payer in it, so that nothing but the databases differs. What is compared is the processor time of this process
and of the database's for each request, since a shared machine makes the time itself wander; the time is told beside it.
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

from benchmarks import pagw_gateway as gateway
from benchmarks.measure import Figure, figure_of, tell
from holdfast import Pattern, Stores, open_secrets, open_stores, prepare
from holdfast.stores.sql.postgres.values import teach
from pagw import SYSTEM, notices, patterns, sandbox
from pagw.findable import Findable
from pagw.intake import Intake, Submission
from pagw.model import StageMessage, Tracked
from pagw.pipeline.attaching import AttachmentHandler
from pagw.pipeline.building import ResponseBuilder
from pagw.pipeline.calling_back import CallbackHandler
from pagw.pipeline.connecting import Connector
from pagw.pipeline.converting import Converter
from pagw.pipeline.enriching import Enricher
from pagw.pipeline.staging import StageHandler
from pagw.pipeline.subscribing import SubscriptionHandler
from pagw.sandbox.payer import PayerSandbox, payer_app
from pagw.settings import PagwSettings
from pagw.statuses import Stage

FEW, MANY = 1_000, 200_000
ACCEPTED = 60
COMPLETED = 10
ROUNDS = 7
AT_ONCE = 8
MUST_REACH: Final = 1 / 1.3
FILLED_AT_ONCE: Final = 50_000
PLANNED_MIN: Final = 10_000
TICKS: Final = os.sysconf("SC_CLK_TCK")

# The tables that grow with requests, and what is asked of them while requests run and while clients look.
LARGE: Final = ("request_tracker", "audit_log", "outbox", "inbox", "request_lookup", "deliveries")
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
    notices.delivery,
    notices.deliveries_of,
    notices.note_delivery,
    *patterns.OUTBOX.publishing[:4],
)

# What a request leaves behind that is over; `n` is its number.
FILLING: Final = (
    """INSERT INTO pagw.request_tracker (pagw_id, tenant, correlation_id, status, stage, s3_bucket, s3_request_key,
           s3_response_key, provider_npi, payer_id, created_at, updated_at, completed_at, due_at, decision, decided_at,
           metadata)
       SELECT 'PAGW-' || lpad(n::text, 26, '0'), 'tenant-' || n % 20, md5(n::text), 'COMPLETED', 'done', 'requests',
           '202610/PAGW-' || lpad(n::text, 26, '0') || '/request/original_bundle.json',
           '202610/PAGW-' || lpad(n::text, 26, '0') || '/response/fhir_claim_response.json',
           (1000000000 + n % 5000)::text, 'sandbox-payer', at, at, at, at + interval '7 days', 'approved', at,
           jsonb_build_object('idempotencyKey', 'tenant-' || n % 20 || ':' || n)
       FROM numbers""",
    """INSERT INTO pagw.audit_log (event_uuid, tenant, pagw_id, event_type, event_subtype, actor_type, actor_id,
           resource_type, resource_id, details, timestamp, service_name, service_version)
       SELECT md5(n || '-' || part)::uuid::text, 'tenant-' || n % 20, 'PAGW-' || lpad(n::text, 26, '0'), 'STATUS',
           'ENRICHED', 'service', 'pasrequestenricher', 'request', 'PAGW-' || lpad(n::text, 26, '0'),
           '{"from": "VALIDATED"}', at, 'pasrequestenricher', '1.0.0'
       FROM numbers CROSS JOIN generate_series(1, 8) AS part""",
    """INSERT INTO pagw.outbox (queue_name, message_body, processed, processed_at, created_at, sequence_number, aggregate,
           next_attempt_at)
       SELECT 'pagw-request-enricher-queue', '{"pagwId": "PAGW-' || lpad(n::text, 26, '0') || '"}', TRUE, at, at, part,
           'PAGW-' || lpad(n::text, 26, '0'), at
       FROM numbers CROSS JOIN generate_series(1, 15) AS part""",
    """INSERT INTO pagw.outbox_counter (aggregate, last)
       SELECT 'PAGW-' || lpad(n::text, 26, '0'), 15 FROM numbers""",
    """INSERT INTO pagw.inbox (consumer, message_id, taken_at)
       SELECT 'stage-' || part, 'PAGW-' || lpad(n::text, 26, '0') || ':1', at
       FROM numbers CROSS JOIN generate_series(1, 8) AS part""",
    """INSERT INTO pagw.request_lookup (tenant, kind, hash, pagw_id)
       SELECT 'tenant-' || n % 20, kind, md5(kind || n) || md5(n || kind), 'PAGW-' || lpad(n::text, 26, '0')
       FROM numbers CROSS JOIN unnest(ARRAY['member', 'claim', 'authorization']) AS kind""",
    """INSERT INTO pagw.deliveries (delivery_id, tenant, pagw_id, target, status, attempts, created_at, updated_at,
           delivered_at)
       SELECT 'PAGW-' || lpad(n::text, 26, '0') || '#callback', 'tenant-' || n % 20,
           'PAGW-' || lpad(n::text, 26, '0'), 'https://client.example/told', 'delivered', 1, at, at, at
       FROM numbers""",
)
NUMBERS: Final = """WITH numbers AS (
    SELECT n, timestamptz '2026-10-01 08:00+00' + n * interval '3 seconds' AS at
    FROM generate_series({first}, {last}) AS n)
"""


def run(folder: Path) -> list[Figure]:
    with gateway.set_here(gateway.environ(folder)):
        return asyncio.run(_compared(folder))


async def _compared(folder: Path) -> list[Figure]:
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
                rounds.append((await many.cost(count, work), await few.cost(count, work)))
            # The first of them warmed both up.
            figures += _figures(f"request {name}, {MANY:,} tracked", rounds[1:])
        return figures
    finally:
        await few.close()
        await many.close()


@dataclass(frozen=True)
class Cost:
    """Of one request, in seconds."""

    processor: float
    clock: float


def _figures(name: str, rounds: list[tuple[Cost, Cost]]) -> list[Figure]:
    processor = [(1 / many.processor, 1 / few.processor) for many, few in rounds]
    clock = [(1 / many.clock, 1 / few.clock) for many, few in rounds]
    return [figure_of(f"{name}: work", processor, MUST_REACH), figure_of(f"{name}: time", clock, None)]


class Gateway:
    """One database and the stores over it; a payer in this process answers at once."""

    def __init__(self, stores: Stores, looking: psycopg.Connection[Any]) -> None:
        self.stores, self._looking = stores, looking
        self._findable = Findable.open()
        self._intake = Intake(stores, PagwSettings(), self._findable)
        self._numbers = itertools.count()
        payer = PayerSandbox(client_id=sandbox.CLIENT_ID, client_secret=sandbox.CLIENT_SECRET)
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(payer_app(payer)))
        self._stages: dict[Stage, StageHandler] = {
            Stage.request_enricher: Enricher(stores),
            Stage.attachment_handler: AttachmentHandler(stores),
            Stage.request_converter: Converter(stores),
            Stage.api_connector: Connector(stores, self._http, open_secrets()),
            Stage.response_builder: ResponseBuilder(stores, self._findable),
            Stage.callback_handler: CallbackHandler(stores),
            Stage.subscription_handler: SubscriptionHandler(stores),
        }

    @classmethod
    async def open(cls, folder: Path, name: str, tracked: int) -> Gateway:
        """With so many requests of before. Files and database are its own, the server is shared."""
        files = {store: f"{kind}:{name}/{place}" for store, kind, place in _FILES}
        (folder / name).mkdir()
        stores = open_stores(SYSTEM, gateway.settings(folder, **files, sql_database=name))
        await prepare(stores, SYSTEM)
        await sandbox.register(stores, gateway.NO_PAYER)
        looking = psycopg.connect(gateway.conninfo(folder, name), autocommit=True)
        await asyncio.to_thread(_fill, looking, tracked)
        _refuse_scans(looking, tracked)
        return cls(stores, looking)

    async def cost(self, count: int, work: Callable[[Gateway, int], Any]) -> Cost:
        numbers = iter(list(itertools.islice(self._numbers, count)))

        async def task() -> None:
            for number in numbers:
                await work(self, number)

        processor, clock = self._processor_s(), time.perf_counter()
        await asyncio.gather(*(task() for _ in range(AT_ONCE)))
        return Cost((self._processor_s() - processor) / count, (time.perf_counter() - clock) / count)

    async def accept(self, number: int) -> str:
        body = gateway.bundle(number)
        return (await self._intake.accept(Submission(gateway.TENANT, f"bench-{number}", body))).pagw_id

    async def complete(self, number: int) -> None:
        """Each stage as its consumer would, one after the other."""
        pagw_id = await self.accept(number)
        while (request := await self._tracked(pagw_id)).stage in self._stages:
            stage = self._stages[request.stage]
            message = StageMessage(pagw_id=pagw_id, tenant=request.tenant, stage=stage.stage)
            step = await stage.done(request, message)
            if step is not None:
                await stage.written(request, message, step)

    async def _tracked(self, pagw_id: str) -> Tracked:
        found = await self.stores.run(patterns.request(gateway.TENANT, pagw_id))
        assert found is not None
        return found

    def _processor_s(self) -> float:
        """Of this process, and of those of the server that work for this database."""
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        pids = [row[0] for row in self._looking.execute(asked.encode())]
        return time.process_time() + sum(_processor_s(pid) for pid in pids)

    async def close(self) -> None:
        self._looking.close()
        await self._http.aclose()
        await self.stores.close()


_FILES: Final = (
    ("tables", "sqlite", "tables.db"),
    ("queues", "sqlite", "queues.db"),
    ("objects", "file", "objects"),
    ("keys", "file", "keys.json"),
)


def _fill(connection: psycopg.Connection[Any], tracked: int) -> None:
    connection.execute("SET statement_timeout = 0")
    for first in range(1, tracked + 1, FILLED_AT_ONCE):
        last = min(first + FILLED_AT_ONCE - 1, tracked)
        tell("requests", first - 1, tracked)
        for statement in FILLING:
            table, rest = statement.split("SELECT", 1)
            text = f"{table} {NUMBERS.format(first=first, last=last)} SELECT {rest}"
            connection.execute(text.encode())
    connection.execute("VACUUM ANALYZE")


def _refuse_scans(connection: psycopg.Connection[Any], tracked: int) -> None:
    """What requests ask while they run finds its rows by an index. The registries and subscriptions are small."""
    teach(connection)
    # Small tables are read whole, whatever indexes they have: of these it is asked whether an index would do.
    connection.execute("SET enable_seqscan = on" if tracked >= PLANNED_MIN else "SET enable_seqscan = off")
    cursor = psycopg.ClientCursor(connection)
    for pattern in HOT:
        asked = pattern.example()
        cursor.execute(b"EXPLAIN " + asked.text.encode(), asked.parameters)
        plan = "\n".join(row[0] for row in cursor)
        assert not any(f"Seq Scan on {each}" in plan for each in LARGE), f"{pattern.id} reads all:\n{plan}"


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
