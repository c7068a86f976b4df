"""The gateway in one process, for tests: its API over real HTTP, its stages, the payer, the issuer and the client's server.

Stores are real (PostgreSQL from the wheel; tables, queues, objects and cache in memory). `Gateway` is what a client has of
it: a token for any tenant, and an address; and what a test looks at from behind: rows, objects, keys.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
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
from holdfast.web import serve_in_thread
from holdfast.web.demo_env import patch_environ
from pagw.demo.sample.bundles import DEFAULT_PAYER, PROVIDER_NPIS, build_request_bundle
from pagw.demo.sandbox.client import SECRET, ClientSandbox, build_client_app
from pagw.demo.sandbox.issuer import AUDIENCE, ISSUER, IssuerSandbox, build_issuer_app
from pagw.demo.sandbox.payer import CALLBACK_SECRET, PayerSandbox, build_payer_app
from pagw.model import patterns
from pagw.model.entities import IdempotencyRecord, PayerRow, Provider, original_bundle, pagw
from pagw.system import SYSTEM
from tests.postgres import connected, fresh_database

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
class Parties:
    issuer: IssuerSandbox = field(default_factory=IssuerSandbox)
    client: ClientSandbox = field(default_factory=ClientSandbox)
    payer: PayerSandbox = field(
        default_factory=lambda: PayerSandbox(
            # What pends is decided when a test says so.
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
    url: str
    stores: Stores
    parties: Parties
    database: str
    http: httpx2.Client

    # --- as a client ----------------------------------------------------------------------------------------

    def headers(self, tenant: str = "acme", **token: Any) -> dict[str, str]:
        return {"authorization": f"Bearer {self.parties.issuer.mint_token(tenant, **token)}"}

    def get(self, path: str, tenant: str = "acme", **headers: str) -> httpx2.Response:
        return self.http.get(path, headers={**self.headers(tenant), **headers})

    def post(
        self, path: str, body: Any = None, tenant: str = "acme", headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"content-type": FHIR, **self.headers(tenant), **(headers or {})}
        return self.http.post(path, content=content, headers=told)

    def submit(
        self, body: Any = None, tenant: str = "acme", key: str | None = None, **headers: str
    ) -> httpx2.Response:
        """By the native API."""
        body = build_request_bundle(reference=fresh("R")) if body is None else body
        given = {"x-idempotency-key": key or fresh("key"), **headers}
        return self.post("/pas/requests", body, tenant, given)

    def accepted(self, body: Any = None, tenant: str = "acme", **headers: str) -> str:
        answer = self.submit(body, tenant, **headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["pagwId"])

    def claim(self, body: Any, tenant: str = "acme", **headers: str) -> httpx2.Response:
        """By `$submit`."""
        return self.post("/fhir/Claim/$submit", body, tenant, headers)

    def ended(self, pagw_id: str, tenant: str = "acme", *statuses: str) -> dict[str, Any]:
        """The request when its work is over, or when it stands at one of these."""
        from pagw.workers.sync_wait import ResponseReader

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

    def delivered(self, pagw_id: str, tenant: str = "acme") -> list[dict[str, Any]]:
        """What its clients were told, when none of it is under way any more."""
        wanted = "SELECT count(*) FROM pagw.deliveries WHERE pagw_id = %s AND status = 'waiting'"
        self._until(lambda: self.rows(wanted, pagw_id) == [(0,)])
        found: list[dict[str, Any]] = self.get(f"/pas/requests/{pagw_id}/deliveries", tenant).json()["items"]
        return found

    def decide(self, pagw_id: str) -> None:
        """The payer makes up its mind about a pended request, and calls back."""
        told = httpx2.post(f"{self.parties.payer_url}/sandbox/decisions", json={"reference": pagw_id})
        assert told.status_code == 200, told.text

    # --- from behind ----------------------------------------------------------------------------------------

    def run(self, work: Any) -> Any:
        return asyncio.run(work)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with connected(self.database) as connection:
            return connection.execute(statement, values).fetchall()

    def audit(self, event_type: str, tenant: str = "acme") -> list[tuple[Any, ...]]:
        return self.rows(
            "SELECT pagw_id, actor_id, resource_type, details FROM pagw.audit_log "
            "WHERE event_type = %s AND tenant = %s ORDER BY id",
            event_type,
            tenant,
        )

    def settled(self) -> dict[str, int]:
        """What is stored when everything that was accepted has come to rest."""
        moving = (
            "SELECT (SELECT count(*) FROM pagw.request_tracker WHERE completed_at IS NULL AND status <> 'PENDED') + "
            "(SELECT count(*) FROM pagw.outbox WHERE NOT processed) + "
            "(SELECT count(*) FROM pagw.deliveries WHERE status = 'waiting')"
        )
        self._until(lambda: self.rows(moving) == [(0,)])
        return self.stored()

    def _until(self, is_so: Callable[[], bool]) -> None:
        ends = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < ends, "it did not come so far"
            time.sleep(0.02)

    def stored(self) -> dict[str, int]:
        """How much there is of everything but the audit, and of what brings it to its bucket."""
        counts = {each: self.rows(f"SELECT count(*) FROM pagw.{each}")[0][0] for each in TABLES}
        other = "SELECT count(*) FROM pagw.outbox WHERE queue_name NOT LIKE '%%audit%%'"
        return {**counts, "outbox": self.rows(other)[0][0], **self.run(self._kept())}

    async def _kept(self) -> dict[str, int]:
        keys = await self.stores.run(IdempotencyRecord.scan(reason="a test counts them"))
        files = await self.stores.run(original_bundle.list_objects())
        assert keys.cursor is None and files.cursor is None
        return {"keys": len(keys), "objects": len(files.objects)}


def fresh(name: str) -> str:
    return f"{name}-{next(_references)}"


@contextmanager
def parties() -> Iterator[Parties]:
    made = Parties()
    with (
        serve_in_thread(build_issuer_app(made.issuer)) as issuer_url,
        serve_in_thread(build_client_app(made.client)) as client_url,
        serve_in_thread(build_payer_app(made.payer)) as payer_url,
    ):
        made.issuer_url, made.client_url, made.payer_url = issuer_url, client_url, payer_url
        yield made


def variables(made: Parties, url: str, **changes: str) -> dict[str, str]:
    return {
        "PAGW_JWKS_URL": f"{made.issuer_url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        "PAGW_PRIVATE_TARGETS": "on",
        "PAGW_RATE_LIMIT": "100000",
        "PAGW_TENANT_LIMITS": "slow=3",
        "PAGW_PUBLIC_URL": url,
        **changes,
    }


@contextmanager
def gateway(made: Parties, *components: str, **changes: str) -> Iterator[Gateway]:
    """Of all components, or of these alone; `changes` are variables of the environment."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    database = fresh_database(pagw)
    with ExitStack() as stack:
        # Secrets are looked up when they are wanted; the rest is read once, at the start.
        stack.enter_context(patch_environ(SECRETS))
        stores = open_stores(SYSTEM, replace(MEMORY_SETTINGS, sql=database))
        stack.callback(lambda: asyncio.run(stores.close()))
        asyncio.run(register(stores, made.payer_url))
        with patch_environ(variables(made, url, **changes)):
            app = build_app(SYSTEM, stores, build_workload(SYSTEM, *components))
            stack.enter_context(serve_in_thread(app, port=port))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=30))
        yield Gateway(url, stores, made, database, http)


async def register(stores: Stores, payer_url: str, payer_id: str = DEFAULT_PAYER, *npis: str) -> None:
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


def outcome_of(answer: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """The one OperationOutcome that a refusal must be."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == FHIR
    told: dict[str, Any] = answer.json()
    assert told["resourceType"] == "OperationOutcome" and told["issue"]
    if code is not None:
        assert code in {issue["code"] for issue in told["issue"]}, told
    return told


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
