"""Harness: the middleware in one process, with a sandbox help desk and the ingress over real HTTP.

Stores and workers are real. Tests control the time with `clock`. `drain_queue` handles the queue with the
workers' own code and advances the clock when only delayed messages are left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from holdfast import ReceivedMessage, Stores, open_stores, provision
from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.runtime import get_queue_reports
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.runtime.system_provisioner import QueueReport
from holdfast.runtime.workers.in_flight_message import InFlightMessage
from holdfast.web import serve_in_thread, sign
from holdfast_demo.richpanel.sandbox import Faults, LedgerEntry, Sandbox, build_sandbox_app
from holdfast_demo.richpanel.sandbox.shop import SandboxOrder
from richpanel.domain.inbound_events import EventMessage
from richpanel.domain.intents import get_intent_classifier
from richpanel.integrations.clients import HelpDeskClient, ShopClient, make_client
from richpanel.model import patterns
from richpanel.model.entities import ActionAudit, ConversationState, IdempotencyRecord, events
from richpanel.settings import RichpanelSettings
from richpanel.system import SYSTEM
from richpanel.workers.feature_flags import set_switches
from richpanel.workers.worker import Worker, build_worker

T = TypeVar("T")

SECRET = "a-webhook-secret-of-tests"
SECRET_VARIABLE = "HOLDFAST_SECRET_RICHPANEL_WEBHOOK"
SIGNATURE = "x-richpanel-signature"
# A Tuesday within working hours.
START = datetime(2026, 2, 3, 10, tzinfo=UTC)
EMAIL = "ottilie.featherstone@mail.example"
ORDER = SandboxOrder(
    "#W2378156", EMAIL, "shipped", carrier="DHL", tracking="1Z999AA10123456784", expected="2026-02-06"
)
STATUS = "Where is my order #W2378156?"


class ManualClock:
    """Clock that moves only when a test advances it."""

    def __init__(self, start: float = START.timestamp()) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


@dataclass
class Middleware:
    """The running middleware: stores, sandbox, ingress, and the worker's code."""

    stores: Stores
    clock: ManualClock
    sandbox: Sandbox
    desk_http: httpx2.AsyncClient
    ingress: httpx2.AsyncClient
    settings: RichpanelSettings
    _written: int = field(default=0)

    # --- people ---------------------------------------------------------------------------------------------

    def write(
        self, text: str, conversation: str = "c-1", *, channel: str = "email", email: str = EMAIL
    ) -> dict[str, Any]:
        """Write a customer message at the help desk one second later. Return its webhook's payload."""
        self.clock.advance(1)
        self._written += 1
        ticket = self.sandbox.desk.open_ticket(conversation, channel, {"email": email})
        message = self.sandbox.desk.add_customer_message(ticket, text, f"m-{self._written}")
        return {
            "ticket_id": conversation,
            "conversation_id": conversation,
            "message_id": message.id,
            "created_at": message.created_at,
            "channel": channel,
            "trigger": "customer_message",
        }

    async def deliver(self, payload: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send the webhook to the ingress, signed now."""
        body = json.dumps(payload).encode()
        signature = sign(SECRET, body, self.clock.now())
        return await self.ingress.post(
            "/webhooks/richpanel", content=body, headers={SIGNATURE: signature, **headers}
        )

    async def send(self, text: str, conversation: str = "c-1", **more: str) -> str:
        """Write a message and deliver its webhook; return the event's id. `more` goes to `write`."""
        answer = await self.deliver(self.write(text, conversation, **more))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["event_id"])

    async def enable_automation(self, *channels: str, **more: bool) -> None:
        """Set the switches (`more` replaces some), and advance the clock until the workers' cache has
        expired.
        """
        given = {"safe_mode": False, "automation_enabled": True, **more}
        await set_switches(
            self.stores.for_component("api"), by="operator", channels=frozenset(channels), **given
        )
        # Cached switches are valid for half a minute.
        self.clock.advance(31)

    def set_faults(self, **faults: float) -> None:
        """Replace the help desk's faults; without arguments it does not fail."""
        self.sandbox.faults = Faults(**faults)  # type: ignore[arg-type]

    # --- workers --------------------------------------------------------------------------------------------

    def build_worker(self, desk: HelpDeskClient | None = None) -> Worker:
        """Build a worker, with `desk` as its help desk client if given."""
        return build_worker(
            self.stores.for_component("worker"),
            desk or HelpDeskClient(self.desk_http),
            ShopClient(self.desk_http),
            get_intent_classifier(),
            self.settings,
        )

    async def receive(self) -> tuple[ReceivedMessage[EventMessage], ...]:
        """Receive up to ten messages that are visible now."""
        return tuple(await self.stores.for_component("worker").run(events.consumer.receive(10, 0.0)))

    async def attempt(self, worker: Worker | None = None) -> int:
        """Handle every message that can be received now once, and return how many succeeded."""
        handler = (worker or self.build_worker()).handle
        view, [consumer] = self.stores.for_component("worker"), SYSTEM.get_component("worker").consumers
        hands = [InFlightMessage(view, consumer, each) for each in await self.receive()]
        return sum(await asyncio.gather(*(each.handle(handler) for each in hands)))

    async def drain_queue(self, worker: Worker | None = None) -> None:
        """Handle messages until the queue is empty, advancing the clock past delays."""
        worker = worker or self.build_worker()
        while (await self.get_queue_report()).waiting.backlog:
            if not await self.attempt(worker):
                self.clock.advance(1)

    # --- stores ---------------------------------------------------------------------------------------------

    async def get_queue_report(self) -> QueueReport:
        [report] = await get_queue_reports(self.stores, SYSTEM.queues)
        return report

    async def get_record(self, key: str) -> IdempotencyRecord | None:
        return await self.stores.run(patterns.record(key))

    async def get_state(self, conversation: str = "c-1") -> ConversationState | None:
        return await self.stores.run(patterns.state(conversation))

    async def list_audit(self, conversation: str = "c-1") -> tuple[ActionAudit, ...]:
        return (await self.stores.all(patterns.AUDIT.pattern_set.history(conversation))).items

    @property
    def ledger(self) -> list[LedgerEntry]:
        return self.sandbox.desk.ledger

    @property
    def effects(self) -> list[tuple[str, str]]:
        """The kind and value of each effect at the help desk, oldest first."""
        return [(each.effect, each.value) for each in self.ledger]


@asynccontextmanager
async def start_middleware(
    settings: Settings = MEMORY_SETTINGS, clock: ManualClock | None = None, **options: Any
) -> AsyncIterator[Middleware]:
    """Start the middleware with these stores; `options` are its settings."""
    clock = clock or ManualClock()
    sandbox = Sandbox(clock=clock)
    sandbox.shop.add_order(ORDER)
    async with open_stores(SYSTEM, settings, clock=clock) as stores:
        await provision(stores, SYSTEM)
        with ExitStack() as servers:
            desk_url = servers.enter_context(serve_in_thread(build_sandbox_app(sandbox)))
            door_url = servers.enter_context(
                serve_in_thread(build_system_app(SYSTEM, stores, component="ingress"))
            )
            async with make_client(desk_url, "") as desk, httpx2.AsyncClient(base_url=door_url) as door:
                yield Middleware(
                    stores,
                    clock,
                    sandbox,
                    desk,
                    door,
                    replace(RichpanelSettings(), helpdesk_url=desk_url, **options),
                )


def make_file_settings(folder: Path) -> Settings:
    """Make settings with all stores in files."""
    return Settings(
        tables=f"sqlite:{folder / 'tables.db'}",
        queues=f"sqlite:{folder / 'queues.db'}",
        objects=f"file:{folder / 'objects'}",
        keys=f"file:{folder.parent / 'keys.json'}",
        environment="test",
    )


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a test."""
    return asyncio.run(test)
