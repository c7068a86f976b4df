"""The gateway played by hand: its stages called one after the other, each under its own component, on a clock that stands.

Nothing waits: what the outbox has is published, what a queue has is handled, until nothing is left. The payer is asked over
HTTP. `Play` also looks from behind, by bare statements.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import Stores, open_secrets, open_stores, provision
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import serve_in_thread, sign
from holdfast.web.demo_env import patch_environ
from pagw.demo.sample.bundles import DEFAULT_PAYER, build_request_bundle
from pagw.demo.sandbox.payer import CALLBACK_SECRET, PayerSandbox, build_payer_app
from pagw.domain.statuses import Stage
from pagw.integrations.payers.client import make_client
from pagw.model import files
from pagw.model.entities import RequestRow, pagw
from pagw.model.lookup import RequestLookup
from pagw.model.patterns import AUDIT_QUEUE, OUTBOX, STAGE_QUEUES, QueuePatterns
from pagw.ops.monitoring import any_request
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from pagw.workers.payer_callbacks import SIGNATURE_HEADER, PayerCallbacks
from pagw.workers.stages.api_connector import ApiConnector
from pagw.workers.stages.attachment_handler import AttachmentHandler
from pagw.workers.stages.audit_archiver import AuditArchiver
from pagw.workers.stages.callback_handler import CallbackHandler
from pagw.workers.stages.converter import Converter
from pagw.workers.stages.enricher import Enricher
from pagw.workers.stages.response_builder import ResponseBuilder
from pagw.workers.stages.subscription_handler import SubscriptionHandler
from tests.acceptance.pagw.gateway import register
from tests.postgres import connected, fresh_database

CLIENT_SECRET = "a-payers-secret-of-tests"
SECRETS = {
    "HOLDFAST_SECRET_PAGW_LOOKUP_KEY": "k" * 32,
    "HOLDFAST_SECRET_PAGW_PAYERS_SANDBOX": json.dumps({"client_id": "pagw", "client_secret": CLIENT_SECRET}),
    "HOLDFAST_SECRET_PAGW_CALLBACKS_SANDBOX": CALLBACK_SECRET,
}
FAR_S = 100 * 365 * 86400.0
BEGAN = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
HANDLERS: dict[Stage, Any] = {
    Stage.request_enricher: Enricher,
    Stage.attachment_handler: AttachmentHandler,
    Stage.request_converter: Converter,
    Stage.response_builder: ResponseBuilder,
    Stage.callback_handler: CallbackHandler,
    Stage.subscription_handler: SubscriptionHandler,
}
_numbers = itertools.count(1)


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = BEGAN.timestamp()

    def now(self) -> float:
        return self.seconds

    def move(self, **by: float) -> None:
        self.seconds += timedelta(**by).total_seconds()


@dataclass
class Play:
    stores: Stores
    clock: HandClock
    database: str
    payer: PayerSandbox
    handlers: dict[Stage, Any]

    # --- a request and its course ---------------------------------------------------------------------------

    async def accepted(self, tenant: str = "acme", key: str | None = None, **bundle: Any) -> str:
        number = next(_numbers)
        made = build_request_bundle(reference=f"OPS-{number}", **bundle)
        return await self.submitted(made, tenant, key or f"ops-key-{number}")

    async def submitted(self, bundle: dict[str, Any], tenant: str, key: str) -> str:
        submission = Submission(tenant, key, json.dumps(bundle).encode())
        intake = Intake(self.stores.for_component("api"), PagwSettings(), RequestLookup.open())
        return (await intake.accept(submission)).pagw_id

    async def settle(self, *, until: Stage | None = None) -> None:
        """All stages do what they have, and the archive; with `until`, those before it alone."""
        publisher = self.stores.for_component("outboxpublisher")
        archive = AuditArchiver(self.stores.for_component("pasauditarchive"))
        working = list(itertools.takewhile(lambda stage: stage is not until, STAGE_QUEUES))
        while True:
            while (await OUTBOX.publish(publisher)).sent:
                pass
            done = await self._worked(AUDIT_QUEUE, archive.handle)
            for stage in working:
                done += await self._worked(STAGE_QUEUES[stage], self.handlers[stage].handle)
            if not done:
                return

    async def _worked(self, queue: QueuePatterns, handle: Callable[[Any], Coroutine[Any, Any, None]]) -> int:
        received = await self.stores.run(queue.receive(10, 0.0))
        for each in received:
            await handle(each)
            await self.stores.run(queue.delete(each))
        return len(received)

    async def call_back(
        self, pagw_id: str, outcome: str = "approved", status: str = "final", **decision: Any
    ) -> None:
        """The payer calls back with whatever it likes."""
        said = {"outcome": outcome, "decided_at": self.now.isoformat(), **decision}
        told = {"reference": pagw_id, "payer_reference": "PA-1", "status": status, "decision": said}
        await self.called_back(told)

    async def called_back(self, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        headers = {SIGNATURE_HEADER: sign(CALLBACK_SECRET, body, self.clock.now())}
        taking = PayerCallbacks(self.stores.for_component("payer-callbacks"), open_secrets())
        assert await taking.receive(DEFAULT_PAYER, headers, body) == told["reference"]

    async def answered(self, pagw_id: str, outcome: str, status: str = "final", **decision: Any) -> None:
        """What the payer answers first is this, whatever it says when it is asked: it is the first that is kept."""
        request = await self.request(pagw_id)
        said = {"outcome": outcome, "decided_at": self.now.isoformat(), **decision}
        told = {"reference": pagw_id, "payer_reference": "PA-1", "status": status, "decision": said}
        body = json.dumps(told).encode()
        await self.stores.run(files.keep_payer_response(body, request.created_at, pagw_id))

    async def lose(self, stage: Stage) -> None:
        """The messages of a stage are gone, as if somebody had emptied its queue."""
        await OUTBOX.publish(self.stores.for_component("outboxpublisher"))
        received = await self.stores.run(STAGE_QUEUES[stage].receive(10, 0.0))
        await self.stores.run(STAGE_QUEUES[stage].delete(*received))

    # --- from behind ----------------------------------------------------------------------------------------

    async def request(self, pagw_id: str) -> RequestRow:
        found = await self.stores.run(any_request(pagw_id))
        assert found is not None
        return found

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with connected(self.database) as connection:
            return connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any, **named: Any) -> None:
        with connected(self.database) as connection:
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


Story = Callable[[Play], Coroutine[Any, Any, None]]


@contextmanager
def payer_served(clock: HandClock) -> Iterator[tuple[PayerSandbox, str]]:
    # What is pended stays so until the story says otherwise, however far the clock is moved.
    sandbox = PayerSandbox(clock=clock, client_id="pagw", client_secret=CLIENT_SECRET, decide_after_s=FAR_S)
    with serve_in_thread(build_payer_app(sandbox)) as url:
        yield sandbox, url


def play(story: Story) -> None:
    """Tells a story on a gateway of its own."""
    clock = HandClock()
    database = fresh_database(pagw)
    settings = replace(MEMORY_SETTINGS, sql=database, environment="local")

    async def told(payer: PayerSandbox, url: str) -> None:
        async with open_stores(SYSTEM, settings, clock=clock) as stores, make_client() as http:
            await provision(stores, SYSTEM)
            await register(stores, url)
            handlers = {stage: made(_view(stores, stage)) for stage, made in HANDLERS.items()}
            view = _view(stores, Stage.api_connector)
            handlers[Stage.api_connector] = ApiConnector(view, http, open_secrets())
            await story(Play(stores, clock, database, payer, handlers))

    with patch_environ(SECRETS), payer_served(clock) as (sandbox, url):
        asyncio.run(told(sandbox, url))


def _view(stores: Stores, stage: Stage) -> Stores:
    return stores.for_component(stage.service)
