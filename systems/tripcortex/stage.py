"""What the story is played on: the portal and the issuer of tokens as sandboxes, the API with its WebSocket over HTTP, and those who
work, in one process; and a worker in a process of its own, to be killed.

Nothing is left out or replaced. Only the clock is moved by hand, where everybody would wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from holdfast import Stores, System, Ulid, Work, web
from holdfast.clock import RunClock
from holdfast.web.staging import environment, quiet, until
from tripcortex import patterns, sandbox
from tripcortex.model import Booking, EmployeeId
from tripcortex.routes import api_routes
from tripcortex.sandbox.issuer import IssuerSandbox, issuer_app
from tripcortex.sandbox.portal import PortalSandbox, portal_app
from tripcortex.sandbox.portal_ledger import ORDER

# How long a worker asks for messages before it asks anew: so soon does it see that the clock was moved.
RECEIVE_WAIT_S: Final = 0.2
TIMEOUT_S: Final = 60.0
SUBPROTOCOL: Final = "tripcortex.v1"
QUIET: Final = ("holdfast", "tripcortex", "uvicorn", "httpx2", "httpcore2", "asyncio", "websockets")
OWN_PREFIXES: Final = ("TRIPCORTEX_", "HOLDFAST_SECRET_TRIPCORTEX_")
WORKFLOW: Final = "workflow"


@dataclass
class Phone:
    """An employee's end of a WebSocket: what it was told, and what it answers. Every message is acknowledged."""

    connection: ClientConnection
    told: list[dict[str, Any]] = field(default_factory=list)
    answers: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, action: str, **more: Any) -> dict[str, Any]:
        """What comes of an action: an answer, or a problem."""
        await self.connection.send(json.dumps({"action": action, **more}))
        async with asyncio.timeout(TIMEOUT_S):
            return await self.answers.get()

    async def message(self, about: str, booking_id: str) -> dict[str, Any]:
        """The message about a booking, as soon as it is there; `failed` and `cancelled` end the waiting for any other."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for each in self.told:
                    if each.get("bookingId") == booking_id and each["about"] in (
                        about,
                        "failed",
                        "cancelled",
                    ):
                        return each
                self._came.clear()
                await self._came.wait()

    async def listen(self) -> None:
        async for text in self.connection:
            frame = json.loads(text)
            if frame["kind"] == "message":
                await self.connection.send(
                    json.dumps({"action": "ack", "messageId": frame["messageId"], "requestId": "ack"})
                )
                if frame["messageId"] not in {each["messageId"] for each in self.told}:
                    self.told.append(frame)
                    self._came.set()
            elif frame["kind"] in ("answer", "problem") and frame.get("requestId") != "ack":
                await self.answers.put(frame)


@dataclass
class Stage:
    """The parties and the service, for as long as `staged` is entered. Nobody works yet: `at_work` does."""

    stores: Stores
    system: System
    clock: RunClock
    folder: Path
    # How another process opens the same stores.
    variables: Mapping[str, str]
    portal: PortalSandbox
    issuer: IssuerSandbox
    http: httpx2.AsyncClient
    url: str

    # --- what people do ------------------------------------------------------------------------------------------

    def token(self, employee_id: str, *, is_admin: bool = False) -> str:
        return self.issuer.minted(employee_id, is_admin=is_admin)

    async def ask(
        self, employee_id: str, method: str, path: str, *, is_admin: bool = False, **more: Any
    ) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.token(employee_id, is_admin=is_admin)}"}
        return await self.http.request(method, f"{self.url}{path}", headers=headers, **more)

    @asynccontextmanager
    async def phone(self, employee_id: str) -> AsyncIterator[Phone]:
        """A WebSocket of the employee's."""
        address = self.url.replace("http://", "ws://") + "/ws"
        offered = [SUBPROTOCOL, f"bearer.{self.token(employee_id)}"]
        async with connect(address, subprotocols=offered, proxy=None) as connection:  # type: ignore[arg-type]
            phone = Phone(connection)
            listening = asyncio.create_task(phone.listen())
            try:
                yield phone
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    # --- who works -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self, *, without: Collection[str] = ()) -> AsyncIterator[Work]:
        """All components that work. Leaving waits for what they have in hand."""
        chosen = [each for each in self.system.components if each.works and each.name not in without]
        async with Work(self.stores, chosen, wait_s=RECEIVE_WAIT_S) as work:
            if not await work.ready():
                raise AssertionError("Those who work did not begin.")
            yield work

    @contextmanager
    def worker_process(self) -> Iterator[subprocess.Popen[bytes]]:
        """Another process that drives bookings, on the same files. Its PostgreSQL is its own: what it does needs no policy."""
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "run",
            self.system.name,
            "--component",
            WORKFLOW,
            "--port",
            "0",
        ]
        process = subprocess.Popen(
            command,
            env={**os.environ, **self.variables},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    # --- what is awaited -----------------------------------------------------------------------------------------

    async def booking(self, employee_id: str, booking_id: str) -> Booking:
        found = await self.stores.run(patterns.booking(EmployeeId(employee_id), Ulid(booking_id)))
        if found is None:
            raise AssertionError(f"There is no booking {booking_id}.")
        return found

    async def until_ended(self, employee_id: str, booking_id: str) -> Booking:
        async def ended() -> Booking | None:
            found = await self.booking(employee_id, booking_id)
            return found if found.is_ended else None

        found: Booking = await until(ended, f"the end of {booking_id}")
        return found

    def orders(self, booking_id: str) -> int:
        """How often the portal sold something under a booking's id: its own ledger says it."""
        return sum(
            each["what"] == ORDER and each.get("reference") == booking_id for each in self.portal.ledger
        )


@asynccontextmanager
async def staged(
    stores: Stores, system: System, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> AsyncIterator[Stage]:
    """Everything open, and closed again."""
    portal = PortalSandbox(clock=clock, folder=folder, api_key=sandbox.PORTAL_KEY, price_step_s=0)
    issuer = IssuerSandbox(clock=clock)
    port = _free_port()
    with quiet(*QUIET), ExitStack() as stack:
        parties = {
            "portal": stack.enter_context(web.serving(portal_app(portal))),
            "issuer": stack.enter_context(web.serving(issuer_app(issuer))),
        }
        told: Mapping[str, str] = sandbox.variables(parties, f"http://127.0.0.1:{port}")
        stack.enter_context(environment({**told, "HOLDFAST_SECRETS": "env:"}, without=OWN_PREFIXES))
        url = stack.enter_context(web.serving(_service(stores, system), port=port))
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http:
            yield Stage(stores, system, clock, folder, variables, portal, issuer, http, url)


def _service(stores: Stores, system: System) -> Any:
    app = web.make_app(
        system.title,
        "demo",
        [],
        signed=api_routes(stores.for_component("api")),
        body_bytes_max=system.body_bytes_max,
    )
    if system.manners is not None:
        system.manners(app)
    return app


def _free_port() -> int:
    """Known before the service listens on it: it tells others where it is."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    return found
