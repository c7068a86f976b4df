"""The story's environment: sandboxes, gateway and pipeline over HTTP, in one process.

Nothing is replaced: clients get a token from their issuer and call over HTTP, payers call back with a
signature, every stage consumes its own queue under its own component. Only the clock is moved by hand instead
of waiting.
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

from holdfast import Stores, System, WorkerGroup, web
from holdfast.core.clock import RunClock
from holdfast.web.demo_env import patch_environ, silence_loggers, wait_until
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.request_trail import RequestTrail, load_trail
from holdfast_demo.pagw.sandbox.client import ClientSandbox, build_client_app
from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox, build_issuer_app, get_secret
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from pagw.api.routes import build_api_routes, build_callback_routes
from pagw.model import patterns
from pagw.model.entities import FHIR_JSON

# The receive wait of a stage: after it, the stage sees that the clock was moved.
RECEIVE_WAIT_S: Final = 0.2
TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "pagw", "uvicorn", "httpx2", "httpcore2", "asyncio")
OWN_PREFIXES: Final = ("PAGW_", "HOLDFAST_SECRET_PAGW_")


@dataclass
class DemoProcesses:
    """The sandboxes, the gateway and its pipeline, while `open_demo` is entered."""

    stores: Stores
    system: System
    clock: RunClock
    payer: PayerSandbox
    client: ClientSandbox
    http: httpx2.AsyncClient
    url: str
    issuer_url: str
    client_url: str

    # --- client calls ---------------------------------------------------------------------------------------

    async def request(
        self, tenant: str, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx2.Response:
        """Call the gateway as a client of the tenant. An underscore in a header's name becomes a hyphen."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        told["authorization"] = f"Bearer {await self._fetch_token(tenant)}"
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            told["content-type"] = FHIR_JSON
        return await self.http.request(method, f"{self.url}{path}", content=content, headers=told)

    async def submit(self, tenant: str, bundle: Mapping[str, Any], key: str) -> httpx2.Response:
        """`$submit` a bundle (Da Vinci PAS) under the idempotency key `key`. The response has the decision,
        or is pended.
        """
        return await self.request(tenant, "POST", "/fhir/Claim/$submit", bundle, x_idempotency_key=key)

    async def _fetch_token(self, tenant: str) -> str:
        """Fetch a token for the tenant's client from the sandbox issuer."""
        client_id = f"{tenant}-client"
        answer = await self.http.post(
            f"{self.issuer_url}/token",
            data={"grant_type": "client_credentials"},
            auth=(client_id, get_secret(client_id)),
        )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    # --- workers --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run_workers(self, *only: str, without: Collection[str] = ()) -> AsyncIterator[WorkerGroup]:
        """Run the workers of all components, or of those in `only`, except those in `without`.

        Leaving waits for running messages; calling `WorkerGroup.stop` twice does not.
        """
        chosen = [
            each
            for each in self.system.components
            if each.has_work and each.name not in without and (not only or each.name in only)
        ]
        async with WorkerGroup(self.stores, chosen, wait_s=RECEIVE_WAIT_S) as work:
            if not await work.wait_until_ready():
                raise AssertionError("The workers did not start.")
            yield work

    # --- waits ----------------------------------------------------------------------------------------------

    async def wait_until_ended(self, tenant: str, pagw_id: str) -> RequestTrail:
        """Wait until the request has ended, no delivery is waiting, its outbox is sent and its audit
        archived. Return its trail.
        """

        async def ended() -> RequestTrail | None:
            request = await self.stores.run(patterns.request(tenant, pagw_id))
            if request is None or request.completed_at is None:
                return None
            found = await load_trail(self.stores, tenant, pagw_id)
            is_delivered = all(each.status != "waiting" for each in found.deliveries)
            return found if is_delivered and not found.unsent and found.archived == len(found.audit) else None

        found: RequestTrail = await wait_until(ended, f"the end of {pagw_id}")
        return found

    async def load_trail(self, tenant: str, pagw_id: str) -> RequestTrail:
        return await load_trail(self.stores, tenant, pagw_id)

    # --- sandboxes ------------------------------------------------------------------------------------------

    def count_authorizations(self) -> Counter[str]:
        """Return the number of the payer's authorizations per reference."""
        return Counter(each["reference"] for each in self.payer.ledger if each["what"] == "authorization")


@asynccontextmanager
async def open_demo(stores: Stores, system: System, clock: RunClock) -> AsyncIterator[DemoProcesses]:
    """Start the sandboxes and the gateway, and stop them again. No worker runs until `run_workers`."""
    payer = PayerSandbox(clock=clock, client_id=sandbox.CLIENT_ID, client_secret=sandbox.CLIENT_SECRET)
    issuer, client = IssuerSandbox(clock=clock), ClientSandbox(clock=clock)
    port = _find_free_port()
    with silence_loggers(*QUIET), ExitStack() as stack:
        parties = {
            "payer": stack.enter_context(web.serve_in_thread(build_payer_app(payer))),
            "issuer": stack.enter_context(web.serve_in_thread(build_issuer_app(issuer))),
            "client": stack.enter_context(web.serve_in_thread(build_client_app(client))),
        }
        told = sandbox.build_variables(parties, f"http://127.0.0.1:{port}")
        stack.enter_context(patch_environ({**told, "HOLDFAST_SECRETS": "env:"}, without=OWN_PREFIXES))
        url = stack.enter_context(web.serve_in_thread(_build_gateway(stores, system), port=port))
        await sandbox.register(stores, parties["payer"])
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http:
            yield DemoProcesses(
                stores, system, clock, payer, client, http, url, parties["issuer"], parties["client"]
            )


def _build_gateway(stores: Stores, system: System) -> Any:
    """Build the gateway's web app: the clients' API and the payers' callbacks."""
    routers = [
        *build_api_routes(stores.for_component("api")),
        build_callback_routes(stores.for_component("payer-callbacks")),
    ]
    app = web.make_app(
        system.title,
        "demo",
        [],
        self_authenticated=routers,
        max_body_bytes=system.http.max_body_bytes,
    )
    if system.http.configure_app is not None:
        system.http.configure_app(app)
    return app


def _find_free_port() -> int:
    """Return a free port. Payers need the callback address before the gateway listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    return found
