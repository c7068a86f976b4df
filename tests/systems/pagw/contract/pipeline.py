"""Harness: the pipeline driven step by step, each stage as its own component, on a manual clock.

Nothing runs in the background. `settle` publishes the outbox and handles the queues until both are empty. The
payer is called over HTTP. `Pipeline` also reads and changes rows with plain SQL.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import Queue, Stores, open_stores, provision
from holdfast.runtime import open_secrets
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import serve_in_thread, sign
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, build_request_bundle
from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET, PayerSandbox, build_payer_app
from pagw.domain.statuses import Stage
from pagw.model import files
from pagw.model.entities import QUEUES, RequestRow, audit_events, pagw
from pagw.model.lookup import RequestLookup
from pagw.model.patterns import OUTBOX
from pagw.ops.monitoring import any_request
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from pagw.workers.payer_callbacks import PayerCallbacks
from pagw.workers.stages import load_stages
from pagw.workers.stages.audit_archiver import AuditArchiver
from tests.postgres import connect, create_database
from tests.systems.pagw.acceptance.gateway import register

CLIENT_SECRET = "a-payers-secret-of-tests"
SECRETS = {
    "HOLDFAST_SECRET_PAGW_LOOKUP_KEY": "k" * 32,
    "HOLDFAST_SECRET_PAGW_PAYERS_SANDBOX": json.dumps({"client_id": "pagw", "client_secret": CLIENT_SECRET}),
    "HOLDFAST_SECRET_PAGW_CALLBACKS_SANDBOX": CALLBACK_SECRET,
}
FAR_S = 100 * 365 * 86400.0
START = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
_numbers = itertools.count(1)


class ManualClock:
    """Clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.seconds = START.timestamp()

    def now(self) -> float:
        return self.seconds

    def advance(self, **by: float) -> None:
        self.seconds += timedelta(**by).total_seconds()


@dataclass
class Pipeline:
    """A gateway's stores and stages, and the sandbox payer."""

    stores: Stores
    clock: ManualClock
    database: str
    payer: PayerSandbox
    handlers: dict[Stage, Any]

    # --- requests -------------------------------------------------------------------------------------------

    async def submit(self, tenant: str = "acme", key: str | None = None, **bundle: Any) -> str:
        """Submit a new bundle and return the request's id. `bundle` goes to `build_request_bundle`."""
        number = next(_numbers)
        made = build_request_bundle(reference=f"OPS-{number}", **bundle)
        return await self.submit_bundle(made, tenant, key or f"ops-key-{number}")

    async def submit_bundle(self, bundle: dict[str, Any], tenant: str, key: str) -> str:
        """Submit this bundle under a key and return the request's id."""
        submission = Submission(tenant, key, json.dumps(bundle).encode())
        intake = Intake(self.stores.for_component("api"), PagwSettings(), RequestLookup.open())
        return (await intake.accept(submission)).pagw_id

    async def settle(self, *, until: Stage | None = None) -> None:
        """Run all stages and the audit archiver until nothing is left; with `until`, only the stages before
        it.
        """
        publisher = self.stores.for_component("outboxpublisher")
        archive = AuditArchiver(self.stores.for_component("pasauditarchive"))
        working = list(itertools.takewhile(lambda stage: stage is not until, QUEUES))
        while True:
            while (await OUTBOX.send_unsent(publisher)).sent:
                pass
            done = await self._drain(audit_events, archive.handle)
            for stage in working:
                done += await self._drain(QUEUES[stage], self.handlers[stage].handle)
            if not done:
                return

    async def drain(self, stage: Stage) -> None:
        """Publish the outbox and handle the messages of one stage."""
        await OUTBOX.send_unsent(self.stores.for_component("outboxpublisher"))
        await self._drain(QUEUES[stage], self.handlers[stage].handle)

    async def _drain(self, queue: Queue[Any], handle: Callable[[Any], Coroutine[Any, Any, None]]) -> int:
        """Handle up to ten messages of a queue, and return how many."""
        received = await self.stores.run(queue.consumer.receive(10, 0.0))
        for each in received:
            await handle(each)
            await self.stores.run(queue.consumer.delete(each))
        return len(received)

    async def call_back(
        self, pagw_id: str, outcome: str = "approved", status: str = "final", **decision: Any
    ) -> None:
        """Send a callback of the payer with any content."""
        said = {"outcome": outcome, "decided_at": self.now.isoformat(), **decision}
        callback = {"reference": pagw_id, "payer_reference": "PA-1", "status": status, "decision": said}
        await self.send_callback(callback)

    async def send_callback(self, answer: dict[str, Any]) -> None:
        """Send the payer's answer as a signed callback, and check that it was accepted."""
        body = json.dumps(answer).encode()
        signature = sign(CALLBACK_SECRET, body, self.clock.now())
        taking = PayerCallbacks(self.stores.for_component("payer-callbacks"), open_secrets())
        assert await taking.receive(DEFAULT_PAYER, signature, body) == answer["reference"]

    async def record_payer_answer(
        self, pagw_id: str, outcome: str, status: str = "final", **decision: Any
    ) -> None:
        """Record this as the payer's first answer. The stored first answer wins over any later one."""
        request = await self.request(pagw_id)
        said = {"outcome": outcome, "decided_at": self.now.isoformat(), **decision}
        callback = {"reference": pagw_id, "payer_reference": "PA-1", "status": status, "decision": said}
        body = json.dumps(callback).encode()
        await self.stores.run(files.keep_payer_response(body, request.created_at, pagw_id))

    async def lose_messages(self, stage: Stage) -> None:
        """Delete the messages of a stage."""
        await OUTBOX.send_unsent(self.stores.for_component("outboxpublisher"))
        consumer = QUEUES[stage].consumer
        received = await self.stores.run(consumer.receive(10, 0.0))
        await self.stores.run(consumer.delete(*received))

    # --- stores ---------------------------------------------------------------------------------------------

    async def request(self, pagw_id: str) -> RequestRow:
        found = await self.stores.run(any_request(pagw_id))
        assert found is not None
        return found

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a SQL statement and return its rows."""
        with connect(self.database) as connection:
            return connection.execute(statement, values).fetchall()

    def execute(self, statement: str, *values: Any, **named: Any) -> None:
        """Run a SQL statement that changes rows or tables."""
        with connect(self.database) as connection:
            connection.execute(statement, named or values)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    @property
    def operator(self) -> Stores:
        return self.stores.for_component("operator")

    @property
    def sweeper(self) -> Stores:
        return self.stores.for_component("sweeper")


Scenario = Callable[[Pipeline], Coroutine[Any, Any, None]]


@contextmanager
def serve_payer(clock: ManualClock) -> Iterator[tuple[PayerSandbox, str]]:
    # Pended requests stay pended until the scenario decides them, however far the clock moves.
    """Serve the sandbox payer, which decides a pended request only on demand."""
    sandbox = PayerSandbox(clock=clock, client_id="pagw", client_secret=CLIENT_SECRET, decide_after_s=FAR_S)
    with serve_in_thread(build_payer_app(sandbox)) as url:
        yield sandbox, url


async def run_scenario(scenario: Scenario) -> None:
    """Run a scenario on a pipeline of its own."""
    clock = ManualClock()
    database = create_database(pagw)
    settings = replace(MEMORY_SETTINGS, sql=database, environment="local")

    async def run(payer: PayerSandbox, url: str) -> None:
        async with AsyncExitStack() as stack:
            stores = await stack.enter_async_context(open_stores(SYSTEM, settings, clock=clock))
            await provision(stores, SYSTEM)
            await register(stores, url)
            handlers = {
                stage: await stack.enter_async_context(made.open(stores.for_component(stage.service)))
                for stage, made in load_stages().items()
            }
            await scenario(Pipeline(stores, clock, database, payer, handlers))

    with patch_environ(SECRETS), serve_payer(clock) as (sandbox, url):
        await run(sandbox, url)
