"""What the story is played on: the parties' sandboxes and the gateway over HTTP, and its pipeline, in one process.

Nothing is left out or replaced: clients get a token from their issuer and ask over HTTP, payers call back with a signature,
every stage works off its own queue under its own component. Only the clock is moved by hand, where everybody would wait.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast import Stores, System, Work, web
from holdfast.clock import RunClock
from holdfast.web.staging import environment, quiet, until
from pagw import patterns, sandbox
from pagw.model import FHIR_JSON
from pagw.routes import api_routes, callback_routes
from pagw.sandbox.client import ClientSandbox, client_app
from pagw.sandbox.issuer import IssuerSandbox, issuer_app, secret_of
from pagw.sandbox.payer import PayerSandbox, payer_app
from pagw.trail import Trail, trail_of

# How long a stage asks for messages before it asks anew: so soon does it see that the clock was moved.
RECEIVE_WAIT_S: Final = 0.2
TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "pagw", "uvicorn", "httpx2", "httpcore2", "asyncio")
OWN_PREFIXES: Final = ("PAGW_", "HOLDFAST_SECRET_PAGW_")


@dataclass
class Stage:
    """The parties, the gateway and its pipeline, for as long as `staged` is entered."""

    stores: Stores
    system: System
    clock: RunClock
    payer: PayerSandbox
    client: ClientSandbox
    http: httpx2.AsyncClient
    url: str
    issuer_url: str
    client_url: str

    # --- what clients do -------------------------------------------------------------------------------------

    async def ask(
        self, tenant: str, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx2.Response:
        """The gateway, as a client of the tenant asks it; a header's underscore is a hyphen."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        told["authorization"] = f"Bearer {await self._token(tenant)}"
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            told["content-type"] = FHIR_JSON
        return await self.http.request(method, f"{self.url}{path}", content=content, headers=told)

    async def submit(self, tenant: str, bundle: Mapping[str, Any], key: str) -> httpx2.Response:
        """Da Vinci PAS: the answer is the decision, or says that it takes longer."""
        return await self.ask(tenant, "POST", "/fhir/Claim/$submit", bundle, x_idempotency_key=key)

    async def _token(self, tenant: str) -> str:
        client_id = f"{tenant}-client"
        answer = await self.http.post(
            f"{self.issuer_url}/token",
            data={"grant_type": "client_credentials"},
            auth=(client_id, secret_of(client_id)),
        )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    # --- who works -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self, *only: str, without: Collection[str] = ()) -> AsyncIterator[Work]:
        """All components that work, or some. Leaving waits for what they have in hand; `Work.stop`, twice, does not."""
        chosen = [
            each
            for each in self.system.components
            if each.works and each.name not in without and (not only or each.name in only)
        ]
        async with Work(self.stores, chosen, wait_s=RECEIVE_WAIT_S) as work:
            if not await work.ready():
                raise AssertionError("The stages did not begin to work.")
            yield work

    # --- what is awaited -------------------------------------------------------------------------------------

    async def until_ended(self, tenant: str, pagw_id: str) -> Trail:
        """Until nothing is left to do with it, and all that was announced of it is sent and archived."""

        async def ended() -> Trail | None:
            request = await self.stores.run(patterns.request(tenant, pagw_id))
            if request is None or request.completed_at is None:
                return None
            found = await trail_of(self.stores, tenant, pagw_id)
            told = all(each.status != "waiting" for each in found.deliveries)
            return found if told and not found.waiting and found.archived == len(found.audit) else None

        found: Trail = await until(ended, f"the end of {pagw_id}")
        return found

    async def trail(self, tenant: str, pagw_id: str) -> Trail:
        return await trail_of(self.stores, tenant, pagw_id)

    # --- what the parties have -------------------------------------------------------------------------------

    def authorizations(self) -> Counter[str]:
        """How often the payer acted for each reference."""
        return Counter(each["reference"] for each in self.payer.ledger if each["what"] == "authorization")


@asynccontextmanager
async def staged(stores: Stores, system: System, clock: RunClock) -> AsyncIterator[Stage]:
    """Everything open, and closed again. Nothing works yet: `at_work` does."""
    payer = PayerSandbox(clock=clock, client_id=sandbox.CLIENT_ID, client_secret=sandbox.CLIENT_SECRET)
    issuer, client = IssuerSandbox(clock=clock), ClientSandbox(clock=clock)
    port = _free_port()
    with quiet(*QUIET), ExitStack() as stack:
        parties = {
            "payer": stack.enter_context(web.serving(payer_app(payer))),
            "issuer": stack.enter_context(web.serving(issuer_app(issuer))),
            "client": stack.enter_context(web.serving(client_app(client))),
        }
        told = sandbox.variables(parties, f"http://127.0.0.1:{port}")
        stack.enter_context(environment({**told, "HOLDFAST_SECRETS": "env:"}, without=OWN_PREFIXES))
        url = stack.enter_context(web.serving(_gateway(stores, system), port=port))
        await sandbox.register(stores, parties["payer"])
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http:
            yield Stage(stores, system, clock, payer, client, http, url, parties["issuer"], parties["client"])


def _gateway(stores: Stores, system: System) -> Any:
    routers = [
        *api_routes(stores.for_component("api")),
        callback_routes(stores.for_component("payer-callbacks")),
    ]
    app = web.make_app(
        system.title,
        "demo",
        [],
        signed=routers,
        body_bytes_max=system.body_bytes_max,
    )
    if system.manners is not None:
        system.manners(app)
    return app


def _free_port() -> int:
    """Known before the gateway listens on it: payers are told where to call back."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    return found
