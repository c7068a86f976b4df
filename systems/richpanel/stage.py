"""What the story is played on: the help desk's sandbox and the door for webhooks over HTTP, and workers, in one process.

Nothing is left out or replaced: webhooks are signed and posted, switches are put by HTTP, workers run under their
component. Only the clock is moved by hand, where everybody would wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx2

from holdfast import Component, Handler, Received, Stores, System, Work, queue_reports, web
from holdfast.clock import RunClock
from holdfast.web.staging import environment, quiet
from richpanel.ingress import SIGNATURE_HEADER, WEBHOOK_SECRET
from richpanel.intents import intent_classifier
from richpanel.routes import api_routes, ingress_routes
from richpanel.sandbox import Faults, LedgerEntry, Sandbox, sandbox_app
from richpanel.sandbox.desk import Message
from richpanel.settings import HELPDESK_VARIABLE, PREFIX

SECRET: Final = "a secret for one story"
SECRET_VARIABLE: Final = f"HOLDFAST_SECRET_{WEBHOOK_SECRET.upper()}"
VARIABLES: Final = {SECRET_VARIABLE: SECRET, "HOLDFAST_SECRETS": "env:"}
# How long a worker asks for messages before it asks anew: so soon does it see that the clock was moved.
RECEIVE_WAIT_S: Final = 0.1
LOOK_S: Final = 0.02
STEP_S: Final = 1.0
PATIENCE: Final = 2000
TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "richpanel", "uvicorn", "httpx2", "httpcore2", "asyncio")


@dataclass
class Stage:
    """The parties and the workers, for as long as `staged` is entered."""

    stores: Stores
    system: System
    clock: RunClock
    sandbox: Sandbox
    http: httpx2.AsyncClient
    desk_url: str
    url: str
    _in_hand: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # --- what people do --------------------------------------------------------------------------------------

    async def order(self, number: str, email: str, **more: str) -> None:
        await self._post(f"{self.desk_url}/sandbox/orders", {"number": number, "email": email, **more})

    async def says(self, ticket: str, email: str, text: str, channel: str = "email") -> dict[str, Any]:
        """A customer writes. Gives the webhook's payload, which is still to be sent."""
        self.clock.advance(STEP_S)
        opened = {"id": ticket, "channel": channel, "customer": {"email": email}}
        await self._post(f"{self.desk_url}/sandbox/tickets", opened)
        heard = await self._post(f"{self.desk_url}/sandbox/tickets/{ticket}/messages", {"text": text})
        return dict(heard["payload"])

    async def webhook(self, payload: dict[str, Any], times: int = 1) -> None:
        """The help desk's call, signed, and its copies."""
        for _ in range(times):
            request = self.http.build_request("POST", f"{self.url}/webhooks/richpanel", json=payload)
            request.headers[SIGNATURE_HEADER] = web.sign(SECRET, request.content, self.clock.now())
            (await self.http.send(request)).raise_for_status()

    async def switch(self, **position: Any) -> None:
        """An operator turns the switches."""
        answer = await self.http.put(f"{self.url}/switches", json={"by": "the operator", **position})
        answer.raise_for_status()

    async def _post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.http.post(url, json=body)
        answer.raise_for_status()
        return dict(answer.json())

    # --- the help desk ---------------------------------------------------------------------------------------

    def fail(self, **shares: Any) -> None:
        self.sandbox.faults = Faults(**shares)

    @property
    def ledger(self) -> Sequence[LedgerEntry]:
        return self.sandbox.desk.ledger

    def messages(self, ticket: str) -> Sequence[Message]:
        found = self.sandbox.desk.ticket(ticket)
        return () if found is None else found.messages

    # --- workers ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Work]:
        async with Work(self.stores, [self._watched()], wait_s=RECEIVE_WAIT_S) as work:
            yield work

    async def until_done(self) -> None:
        """Until the queue is empty. Where every message only rests, the clock is moved."""
        for _ in range(PATIENCE):
            (report,) = await queue_reports(self.stores, self.system.queues)
            if report.dead:
                raise AssertionError(f"{report.dead} events are among the dead letters.")
            if not report.waiting.backlog and not self._in_hand:
                return
            if not report.waiting.visible and not self._in_hand:
                self.clock.advance(STEP_S)
            await self._change()
        raise AssertionError("The workers do not come to an end.")

    async def until_effects(self, count: int) -> None:
        """Until the help desk has done so much, whether or not it has said so."""
        for _ in range(PATIENCE):
            if len(self.ledger) >= count:
                return
            await self._change()
        raise AssertionError(f"The help desk has done {len(self.ledger)} things, and {count} were to come.")

    async def _change(self) -> None:
        """Until a worker ends with a message, or the time has come to look for oneself."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), LOOK_S)
        except TimeoutError:
            return

    def _watched(self) -> Component:
        """The worker, with a count of what it has in hand."""
        worker = self.system.component("worker")
        (consumer,) = worker.consumers

        @asynccontextmanager
        async def handling(stores: Stores) -> AsyncIterator[Handler]:
            async with consumer.handling(stores) as handle:

                async def watched(received: Received[Any]) -> None:
                    self._in_hand += 1
                    try:
                        await handle(received)
                    finally:
                        self._in_hand -= 1
                        self._changed.set()

                yield watched

        return replace(worker, consumers=(replace(consumer, handling=handling),))


@asynccontextmanager
async def staged(stores: Stores, system: System, clock: RunClock) -> AsyncIterator[Stage]:
    """Everything open, and closed again."""
    sandbox = Sandbox(clock=clock)
    with (
        quiet(*QUIET),
        web.serving(sandbox_app(sandbox)) as desk_url,
        environment({**VARIABLES, HELPDESK_VARIABLE: desk_url}, without=[PREFIX, SECRET_VARIABLE]),
    ):
        routers = [
            ingress_routes(stores.for_component("ingress")),
            api_routes(stores.for_component("api")),
        ]
        with web.serving(web.make_app(system.title, "demo", routers)) as url:
            # Trained before anybody waits for it.
            await asyncio.to_thread(intent_classifier)
            async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http:
                yield Stage(stores, system, clock, sandbox, http, desk_url, url)
