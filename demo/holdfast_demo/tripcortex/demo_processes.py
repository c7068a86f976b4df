"""Everything that the demo story runs: both sandboxes, the API and the workers, and a worker to be killed.

Only the worker to be killed has a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from holdfast import Stores, System
from holdfast.core.clock import RunClock
from holdfast.model.ulids import Ulid
from holdfast.web.demo_env import wait_until
from holdfast_demo.running_system import TIMEOUT_S, RunningSystem, run_system
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from holdfast_demo.tripcortex.sandbox.portal_ledger import ORDER
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, EmployeeId

SUBPROTOCOL: Final = "tripcortex.v1"
OWN_PREFIXES: Final = ("TRIPCORTEX_", "HOLDFAST_SECRET_TRIPCORTEX_")
WORKFLOW: Final = "workflow"


@dataclass
class Phone:
    """An employee's WebSocket client. It collects messages and answers, and acknowledges every message."""

    connection: ClientConnection
    messages: list[dict[str, Any]] = field(default_factory=list)
    answers: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    _message_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def send_action(self, action: str, **more: Any) -> dict[str, Any]:
        """Send an action and return the next answer or problem frame.

        Raise `TimeoutError` after 60 seconds.
        """
        await self.connection.send(json.dumps({"action": action, **more}))
        async with asyncio.timeout(TIMEOUT_S):
            return await self.answers.get()

    async def wait_for_message(self, about: str, booking_id: str) -> dict[str, Any]:
        """Return the first message `about` this (such as "options") of the booking, once it arrives.

        A message about `failed` or `cancelled` ends the wait too and is returned. Raise `TimeoutError` after
        60 seconds.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for each in self.messages:
                    if each.get("bookingId") == booking_id and each["about"] in (
                        about,
                        "failed",
                        "cancelled",
                    ):
                        return each
                self._message_arrived.clear()
                await self._message_arrived.wait()

    async def listen(self) -> None:
        """Receive frames until the connection ends.

        Messages are acknowledged and collected once each; answers and problems are queued.
        """
        async for text in self.connection:
            frame = json.loads(text)
            if frame["kind"] == "message":
                await self.connection.send(
                    json.dumps({"action": "ack", "messageId": frame["messageId"], "requestId": "ack"})
                )
                if frame["messageId"] not in {each["messageId"] for each in self.messages}:
                    self.messages.append(frame)
                    self._message_arrived.set()
            elif frame["kind"] in ("answer", "problem") and frame.get("requestId") != "ack":
                await self.answers.put(frame)


@dataclass
class DemoProcesses(RunningSystem):
    """The sandboxes and the API while `open_demo` is entered. Workers run only inside `run_workers`."""

    folder: Path
    # Environment variables with which another process opens the same stores.
    variables: Mapping[str, str]
    portal: PortalSandbox
    issuer: IssuerSandbox

    # --- employees ------------------------------------------------------------------------------------------

    def mint_token(self, employee_id: str, *, is_admin: bool = False) -> str:
        return self.issuer.mint_token(employee_id, is_admin=is_admin)

    async def request(
        self, employee_id: str, method: str, path: str, *, is_admin: bool = False, **more: Any
    ) -> httpx2.Response:
        """Send an HTTP request to the API as this employee."""
        headers = {"authorization": f"Bearer {self.mint_token(employee_id, is_admin=is_admin)}"}
        return await self.http.request(method, path, headers=headers, **more)

    @asynccontextmanager
    async def open_phone(self, employee_id: str) -> AsyncIterator[Phone]:
        """Open a WebSocket for the employee and listen in the background; close it on exit."""
        address = self.url.replace("http://", "ws://") + "/ws"
        offered = [SUBPROTOCOL, f"bearer.{self.mint_token(employee_id)}"]
        async with connect(address, subprotocols=offered, proxy=None) as connection:  # type: ignore[arg-type]
            phone = Phone(connection)
            listening = asyncio.create_task(phone.listen())
            try:
                yield phone
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    # --- workers --------------------------------------------------------------------------------------------

    @contextmanager
    def start_worker_process(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start `holdfast run` for the component `workflow` in another process; kill it on exit.

        It uses the same files. Its PostgreSQL is separate: its steps need no policy.
        """
        arguments = ["run", self.system.name, "--component", WORKFLOW, "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
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

    # --- results --------------------------------------------------------------------------------------------

    async def get_booking(self, employee_id: str, booking_id: str) -> Booking:
        """Return the booking from the store. Raise `AssertionError` if it does not exist."""
        found = await self.stores.run(patterns.booking(EmployeeId(employee_id), Ulid(booking_id)))
        if found is None:
            raise AssertionError(f"Booking {booking_id} not found.")
        return found

    async def wait_until_ended(self, employee_id: str, booking_id: str) -> Booking:
        """Return the booking once it is confirmed, failed or cancelled."""

        async def ended() -> Booking | None:
            found = await self.get_booking(employee_id, booking_id)
            return found if found.is_ended else None

        found: Booking = await wait_until(ended, f"the end of {booking_id}")
        return found

    def count_orders(self, booking_id: str) -> int:
        """Return how many orders the portal's ledger has under a booking's id."""
        return sum(
            each["what"] == ORDER and each.get("reference") == booking_id for each in self.portal.ledger
        )


@asynccontextmanager
async def open_demo(
    stores: Stores, system: System, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> AsyncIterator[DemoProcesses]:
    """Start the sandboxes and the API with their environment variables; stop them on exit.

    No worker runs yet.
    """
    portal = PortalSandbox(clock=clock, folder=folder, api_key=sandbox.PORTAL_KEY, price_step_s=0)
    issuer = IssuerSandbox(clock=clock)
    async with run_system(
        stores,
        system,
        clock,
        sandboxes={"portal": build_portal_app(portal), "issuer": build_issuer_app(issuer)},
        build_variables=sandbox.build_variables,
        own_prefixes=OWN_PREFIXES,
    ) as running:
        yield DemoProcesses(**vars(running), folder=folder, variables=variables, portal=portal, issuer=issuer)
