"""The sandbox, the webhook endpoint, the API and the workers of the demo story.

Webhooks are signed and posted over HTTP, switches are set over HTTP, and workers run as their component.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from holdfast import Component, ReceivedMessage, Stores, System, web
from holdfast.core.clock import RunClock
from holdfast.model.components import Handler
from holdfast.runtime import WorkerGroup, get_queue_reports
from holdfast_demo.richpanel.sandbox import Faults, LedgerEntry, Sandbox, build_sandbox_app
from holdfast_demo.richpanel.sandbox.help_desk import Message
from holdfast_demo.running_system import RunningSystem, run_system
from richpanel.api.ingress import SIGNATURE_HEADER
from richpanel.domain.intents import get_intent_classifier
from richpanel.settings import HELPDESK_VARIABLE, PREFIX, WEBHOOK_SECRET

DESK: Final = "helpdesk"
SECRET: Final = "a secret for one story"
SECRET_VARIABLE: Final = f"HOLDFAST_SECRET_{WEBHOOK_SECRET.upper()}"
# The long-poll time of a worker. It is short, so that the worker soon notices an advanced clock.
RECEIVE_WAIT_S: Final = 0.1
POLL_S: Final = 0.02
STEP_S: Final = 1.0
MAX_POLLS: Final = 2000


@dataclass
class DemoProcesses(RunningSystem):
    """The running sandbox, endpoints and workers; `open_demo` yields it."""

    sandbox: Sandbox
    _in_flight: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # --- customers and operators ----------------------------------------------------------------------------

    async def add_order(self, number: str, email: str, **more: str) -> None:
        """Add an order to the sandbox shop. `more` are further fields of `SandboxOrder`."""
        await self._post_to_desk("/sandbox/orders", {"number": number, "email": email, **more})

    async def write_message(
        self, ticket: str, email: str, text: str, channel: str = "email"
    ) -> dict[str, Any]:
        """Write a message as a customer, in a new or existing ticket, one second later by the clock.

        Return the payload of its webhook, which is not sent yet.
        """
        self.clock.advance(STEP_S)
        body = {"id": ticket, "channel": channel, "customer": {"email": email}}
        await self._post_to_desk("/sandbox/tickets", body)
        response = await self._post_to_desk(f"/sandbox/tickets/{ticket}/messages", {"text": text})
        return dict(response["payload"])

    async def send_webhook(self, payload: dict[str, Any], times: int = 1) -> None:
        """Send the signed webhook `times` times."""
        for _ in range(times):
            request = self.http.build_request("POST", "/webhooks/richpanel", json=payload)
            request.headers[SIGNATURE_HEADER] = web.sign(SECRET, request.content, self.clock.now())
            (await self.http.send(request)).raise_for_status()

    async def set_switches(self, **position: Any) -> None:
        """Set the switches over HTTP as an operator. `position` are fields of `SwitchesWanted`."""
        answer = await self.http.put("/switches", json={"by": "the operator", **position})
        answer.raise_for_status()

    async def _post_to_desk(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST JSON to the help desk and return the JSON of the response. Raise for an error status."""
        answer = await self.http.post(f"{self.sandbox_urls[DESK]}{path}", json=body)
        answer.raise_for_status()
        return dict(answer.json())

    # --- the help desk --------------------------------------------------------------------------------------

    def set_faults(self, **shares: Any) -> None:
        """Replace the help desk's faults. `shares` are fields of `Faults`; without them nothing fails."""
        self.sandbox.faults = Faults(**shares)

    @property
    def ledger(self) -> Sequence[LedgerEntry]:
        """The help desk's ledger."""
        return self.sandbox.desk.ledger

    def list_messages(self, ticket: str) -> Sequence[Message]:
        """Return the messages of a ticket; empty if it does not exist."""
        found = self.sandbox.desk.find_ticket(ticket)
        return () if found is None else found.messages

    # --- workers --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run_counted_workers(self) -> AsyncIterator[WorkerGroup]:
        """Run the worker component until the block ends, and count its messages. Yield its `WorkerGroup`."""
        async with WorkerGroup(self.stores, [self._build_counted_worker()], wait_s=RECEIVE_WAIT_S) as work:
            yield work

    async def wait_until_done(self) -> None:
        """Wait until the queue is empty. Advance the clock if every message is delayed.

        Raise `AssertionError` for a dead-letter message, or if it takes too long.
        """
        for _ in range(MAX_POLLS):
            (report,) = await get_queue_reports(self.stores, self.system.queues)
            if report.dead:
                raise AssertionError(f"{report.dead} events are in the dead-letter queue.")
            if not report.waiting.backlog and not self._in_flight:
                return
            if not report.waiting.visible and not self._in_flight:
                self.clock.advance(STEP_S)
            await self._wait_for_change()
        raise AssertionError("The workers did not finish in time.")

    async def wait_for_effects(self, count: int) -> None:
        """Wait until the help desk's ledger has `count` effects, whether or not it has answered.

        Raise `AssertionError` if it takes too long.
        """
        for _ in range(MAX_POLLS):
            if len(self.ledger) >= count:
                return
            await self._wait_for_change()
        raise AssertionError(f"The help desk has {len(self.ledger)} effects: expected {count}.")

    async def _wait_for_change(self) -> None:
        """Wait until a worker finishes a message, at most `POLL_S` seconds."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), POLL_S)
        except TimeoutError:
            return

    def _build_counted_worker(self) -> Component:
        """Build the worker component so that it counts the messages in flight."""
        worker = self.system.get_component("worker")
        (consumer,) = worker.consumers

        @asynccontextmanager
        async def open_counted(stores: Stores) -> AsyncIterator[Handler]:
            async with consumer.open_handler(stores) as handle:

                async def count_and_handle(received: ReceivedMessage[Any]) -> None:
                    self._in_flight += 1
                    try:
                        await handle(received)
                    finally:
                        self._in_flight -= 1
                        self._changed.set()

                yield count_and_handle

        return replace(worker, consumers=(replace(consumer, open_handler=open_counted),))


@asynccontextmanager
async def open_demo(stores: Stores, system: System, clock: RunClock) -> AsyncIterator[DemoProcesses]:
    """Start the sandbox, the webhook endpoint and the API; stop them at the end. No worker runs until
    `run_counted_workers`.
    """
    sandbox = Sandbox(clock=clock)
    async with run_system(
        stores,
        system,
        clock,
        sandboxes={DESK: build_sandbox_app(sandbox)},
        build_variables=lambda urls, url: {SECRET_VARIABLE: SECRET, HELPDESK_VARIABLE: urls[DESK]},
        own_prefixes=[PREFIX, SECRET_VARIABLE],
    ) as running:
        # Train the classifier before a worker waits for it.
        await asyncio.to_thread(get_intent_classifier)
        yield DemoProcesses(**vars(running), sandbox=sandbox)
