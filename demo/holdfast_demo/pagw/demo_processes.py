"""The story's environment: the sandboxes, the gateway and its pipeline.

Clients get a token from their issuer and call over HTTP, payers call back with a signature, and every stage
consumes its own queue under its own component.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast import Stores, System
from holdfast.core.clock import RunClock
from holdfast.web.demo_env import wait_until
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.request_trail import RequestTrail, load_trail
from holdfast_demo.pagw.sandbox.client import ClientSandbox, build_client_app
from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox, build_issuer_app, get_secret
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.running_system import RunningSystem, run_system
from pagw.model import patterns
from pagw.model.entities import FHIR_JSON

OWN_PREFIXES: Final = ("PAGW_", "HOLDFAST_SECRET_PAGW_")


@dataclass
class DemoProcesses(RunningSystem):
    """The sandboxes, the gateway and its pipeline, while `open_demo` is entered."""

    payer: PayerSandbox
    client: ClientSandbox

    @property
    def client_url(self) -> str:
        return self.sandbox_urls["client"]

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
        return await self.http.request(method, path, content=content, headers=told)

    async def submit(self, tenant: str, bundle: Mapping[str, Any], key: str) -> httpx2.Response:
        """`$submit` a bundle (Da Vinci PAS) under the idempotency key `key`. The response has the decision,
        or is pended.
        """
        return await self.request(tenant, "POST", "/fhir/Claim/$submit", bundle, x_idempotency_key=key)

    async def _fetch_token(self, tenant: str) -> str:
        """Fetch a token for the tenant's client from the sandbox issuer."""
        client_id = f"{tenant}-client"
        answer = await self.http.post(
            f"{self.sandbox_urls['issuer']}/token",
            data={"grant_type": "client_credentials"},
            auth=(client_id, get_secret(client_id)),
        )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

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
    client = ClientSandbox(clock=clock)
    async with run_system(
        stores,
        system,
        clock,
        sandboxes={
            "payer": build_payer_app(payer),
            "issuer": build_issuer_app(IssuerSandbox(clock=clock)),
            "client": build_client_app(client),
        },
        build_variables=sandbox.build_variables,
        own_prefixes=OWN_PREFIXES,
    ) as running:
        await sandbox.register(stores, running.sandbox_urls["payer"])
        yield DemoProcesses(**vars(running), payer=payer, client=client)
