"""Harness: a gateway in one process, with its API, stages and external services over real HTTP.

Stores are real (PostgreSQL from the wheel; tables, queues, objects and cache in memory). `Gateway` offers
what a client has, a token for any tenant and an address, and what a test inspects: rows, objects, keys.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from holdfast import Stores, open_stores
from holdfast.cli.commands.run import build_app
from holdfast.cli.processes.workload import build_workload
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import find_free_port, serve_in_thread
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, PROVIDER_NPIS, build_request_bundle
from holdfast_demo.pagw.sandbox.client import SECRET, ClientSandbox, build_client_app
from holdfast_demo.pagw.sandbox.issuer import AUDIENCE, ISSUER, IssuerSandbox, build_issuer_app
from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET, PayerSandbox, build_payer_app
from pagw.model import patterns
from pagw.model.entities import IdempotencyRecord, PayerRow, Provider, original_bundle, pagw
from pagw.system import SYSTEM
from tests.postgres import connect, create_database

FHIR = "application/fhir+json"
CLIENT_SECRET = "a-payers-secret-of-tests"
TENANTS = ("acme", "zenith", "slow", "fixtures")
SECRETS = {
    "HOLDFAST_SECRET_PAGW_LOOKUP_KEY": "k" * 32,
    "HOLDFAST_SECRET_PAGW_PAYERS_SANDBOX": json.dumps({"client_id": "pagw", "client_secret": CLIENT_SECRET}),
    "HOLDFAST_SECRET_PAGW_CALLBACKS_SANDBOX": CALLBACK_SECRET,
    **{f"HOLDFAST_SECRET_PAGW_WEBHOOKS_{tenant.upper()}": SECRET for tenant in TENANTS},
}
TABLES = ("request_tracker", "request_lookup", "inbox", "subscriptions", "deliveries")

_references = itertools.count(1)


@dataclass
class ExternalServices:
    """The sandboxes of token issuer, client's server and payer, with their addresses."""

    issuer: IssuerSandbox = field(default_factory=IssuerSandbox)
    client: ClientSandbox = field(default_factory=ClientSandbox)
    payer: PayerSandbox = field(
        default_factory=lambda: PayerSandbox(
            # Pended requests are decided only when a test says so.
            client_id="pagw",
            client_secret=CLIENT_SECRET,
            decide_after_s=1e9,
        )
    )
    issuer_url: str = ""
    client_url: str = ""
    payer_url: str = ""


@dataclass
class Gateway:
    """A running gateway: calls as a client, and reads of its stores."""

    url: str
    stores: Stores
    services: ExternalServices
    database: str
    http: httpx2.Client

    # --- as a client ----------------------------------------------------------------------------------------

    def headers(self, tenant: str = "acme", **token: Any) -> dict[str, str]:
        """Return the Authorization header of a tenant's client. `token` goes to `mint_token`."""
        return {"authorization": f"Bearer {self.services.issuer.mint_token(tenant, **token)}"}

    def get(self, path: str, tenant: str = "acme", **headers: str) -> httpx2.Response:
        """GET a path as a tenant's client."""
        return self.http.get(path, headers={**self.headers(tenant), **headers})

    def post(
        self, path: str, body: Any = None, tenant: str = "acme", headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """POST bytes or JSON to a path as a tenant's client."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {"content-type": FHIR, **self.headers(tenant), **(headers or {})}
        return self.http.post(path, content=content, headers=all_headers)

    def submit(
        self, body: Any = None, tenant: str = "acme", key: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Submit through the native API, by default a new bundle under a new key."""
        body = build_request_bundle(reference=make_unique("R")) if body is None else body
        given = {"x-idempotency-key": key or make_unique("key"), **headers}
        return self.post("/pas/requests", body, tenant, given)

    def submit_accepted(self, body: Any = None, tenant: str = "acme", **headers: str) -> str:
        """Submit through the native API, assert that it was accepted, and return the request's id."""
        answer = self.submit(body, tenant, **headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["pagwId"])

    def submit_claim(self, body: Any, tenant: str = "acme", **headers: str) -> httpx2.Response:
        """Submit through `$submit`."""
        return self.post("/fhir/Claim/$submit", body, tenant, headers)

    def wait_for_end(self, pagw_id: str, tenant: str = "acme", *statuses: str) -> dict[str, Any]:
        """Wait until the request is finished or has one of `statuses`, and return it."""
        from pagw.workers.responses import ResponseReader

        async def wait() -> None:
            answers = ResponseReader(self.stores)
            async with asyncio.timeout(20), self.stores.listen(patterns.ANSWERED_CHANNEL) as notices:
                while True:
                    row = await answers.wait_for_answer(tenant, pagw_id, 0)
                    if row.status in (statuses or ("COMPLETED", "FAILED", "CANCELLED")):
                        return
                    await notices.wait(0.05)

        self.run(wait())
        found: dict[str, Any] = self.get(f"/pas/requests/{pagw_id}", tenant).json()
        return found

    def wait_for_deliveries(self, pagw_id: str, tenant: str = "acme") -> list[dict[str, Any]]:
        """Wait until no delivery of the request is waiting, and return its deliveries."""
        wanted = "SELECT count(*) FROM pagw.deliveries WHERE pagw_id = %s AND status = 'waiting'"
        self.wait_until(lambda: self.rows(wanted, pagw_id) == [(0,)])
        found: list[dict[str, Any]] = self.get(f"/pas/requests/{pagw_id}/deliveries", tenant).json()["items"]
        return found

    def decide_at_payer(self, pagw_id: str) -> None:
        """Make the payer decide a pended request and call back."""
        response = httpx2.post(f"{self.services.payer_url}/sandbox/decisions", json={"reference": pagw_id})
        assert response.status_code == 200, response.text

    # --- stores ---------------------------------------------------------------------------------------------

    def run(self, work: Any) -> Any:
        """Run a coroutine."""
        return asyncio.run(work)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a SQL statement and return its rows."""
        with connect(self.database) as connection:
            return connection.execute(statement, values).fetchall()

    def read_audit(self, event_type: str, tenant: str = "acme") -> list[tuple[Any, ...]]:
        """Return request id, actor, resource type and details of a tenant's audit events of one type."""
        return self.rows(
            "SELECT pagw_id, actor_id, resource_type, details FROM pagw.audit_log "
            "WHERE event_type = %s AND tenant = %s ORDER BY id",
            event_type,
            tenant,
        )

    def wait_until_settled(self) -> dict[str, int]:
        """Wait until all accepted requests have ended or are pended, and count what is stored."""
        moving = (
            "SELECT (SELECT count(*) FROM pagw.request_tracker WHERE completed_at IS NULL AND status <> "
            "'PENDED') + (SELECT count(*) FROM pagw.outbox WHERE NOT processed) + "
            "(SELECT count(*) FROM pagw.deliveries WHERE status = 'waiting')"
        )
        self.wait_until(lambda: self.rows(moving) == [(0,)])
        return self.count_stored()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition is true. Fail after twenty seconds."""
        ends = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < ends, "timed out"
            time.sleep(0.02)

    def count_stored(self) -> dict[str, int]:
        """Count everything stored, except the audit and the messages that archive it."""
        counts = {each: self.rows(f"SELECT count(*) FROM pagw.{each}")[0][0] for each in TABLES}
        other = "SELECT count(*) FROM pagw.outbox WHERE queue_name NOT LIKE '%%audit%%'"
        return {**counts, "outbox": self.rows(other)[0][0], **self.run(self._count_keys_and_objects())}

    async def _count_keys_and_objects(self) -> dict[str, int]:
        """Count the idempotency keys and the files of the request bucket."""
        keys = await self.stores.run(IdempotencyRecord.scan(reason="a test counts them"))
        files = await self.stores.run(original_bundle.list_objects())
        assert keys.cursor is None and files.cursor is None
        return {"keys": len(keys), "objects": len(files.objects)}


def make_unique(name: str) -> str:
    """Return the name with a number that no other call returns."""
    return f"{name}-{next(_references)}"


@contextmanager
def start_external_services() -> Iterator[ExternalServices]:
    """Serve the sandboxes over HTTP until the block ends."""
    made = ExternalServices()
    with (
        serve_in_thread(build_issuer_app(made.issuer)) as issuer_url,
        serve_in_thread(build_client_app(made.client)) as client_url,
        serve_in_thread(build_payer_app(made.payer)) as payer_url,
    ):
        made.issuer_url, made.client_url, made.payer_url = issuer_url, client_url, payer_url
        yield made


def build_variables(services: ExternalServices, url: str, **changes: str) -> dict[str, str]:
    """Return the environment variables of a gateway at `url` that uses these services."""
    return {
        "PAGW_JWKS_URL": f"{services.issuer_url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        "PAGW_PRIVATE_TARGETS": "on",
        "PAGW_RATE_LIMIT": "100000",
        "PAGW_TENANT_LIMITS": "slow=3",
        "PAGW_PUBLIC_URL": url,
        **changes,
    }


@contextmanager
def start_gateway(services: ExternalServices, *components: str, **changes: str) -> Iterator[Gateway]:
    """Start a gateway with all components or only these; `changes` are environment variables."""
    port = find_free_port()
    url = f"http://127.0.0.1:{port}"
    database = create_database(pagw)
    with ExitStack() as stack:
        # Secrets are looked up on use; the other variables are read once, at the start.
        stack.enter_context(patch_environ(SECRETS))
        stores = open_stores(SYSTEM, replace(MEMORY_SETTINGS, sql=database))
        stack.callback(lambda: asyncio.run(stores.close()))
        asyncio.run(register(stores, services.payer_url))
        with patch_environ(build_variables(services, url, **changes)):
            app = build_app(SYSTEM, stores, build_workload(SYSTEM, *components))
            stack.enter_context(serve_in_thread(app, port=port))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=30))
        yield Gateway(url, stores, services, database, http)


async def register(stores: Stores, payer_url: str, payer_id: str = DEFAULT_PAYER, *npis: str) -> None:
    """Register the sandbox payer, and providers: by default those of the sample."""
    payer = PayerRow(
        payer_id=payer_id,
        name="Sandbox",
        api_endpoint=payer_url,
        auth_type="oauth2",
        credentials_arn="pagw/payers/sandbox",
        format="json",
        client_id=None,
        callback_secret="pagw/callbacks/sandbox",
    )
    await stores.run(patterns.put_payer(payer))
    for npi in npis or PROVIDER_NPIS:
        made = Provider(npi=npi, name="Clinic", type=None, endpoints={}, credentials_arn=None)
        await stores.run(patterns.put_provider(made))


def expect_outcome(answer: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Assert that the response is exactly one OperationOutcome, and return it."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == FHIR
    body: dict[str, Any] = answer.json()
    assert body["resourceType"] == "OperationOutcome" and body["issue"]
    if code is not None:
        assert code in {issue["code"] for issue in body["issue"]}, body
    return body
