"""MCP over streamable HTTP: real sessions, tokens and scopes, limits, cancellation and shutdown."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from mcp import Client
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth, extract_scope_from_www_auth
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import ProtectedResourceMetadata
from mcp.shared.exceptions import MCPError

from holdfast import Component, Stores, System, open_memory_stores
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.mcp import http_app
from holdfast.mcp.http_app import AgentGuard, build_http_app
from holdfast.mcp.scopes import list_scopes
from holdfast.model.agents import Prompt
from holdfast.runtime import create_tables
from holdfast.web import bodies, serve_in_thread
from holdfast.web.tokens import open_token_verifier
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, moor, with_agent
from tests.unit.mcp.mcp_client import call_tool

TOKEN = "s3cret-and-long"
ISSUER, URL = "https://issuer.test", "https://agents.test/mcp"
KEY = ec.generate_private_key(ec.SECP256R1())
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def welcome(ship: str) -> str:
    """Welcome a ship."""
    return f"Welcome {ship}."


WRITING = replace(
    with_agent(Component("agent", uses=(harbour.ship, harbour.ships_at, harbour.arrive))), name="harbour"
)
GREETING = replace(SYSTEM, admin=replace(SYSTEM.admin, prompts=[Prompt(welcome)]))


def serve_harbour(
    *systems: System,
    guard: AgentGuard | None = None,
    has_tables: bool = True,
    allowed_hosts: Sequence[str] = (),
    **options: Any,
) -> AbstractContextManager[str]:
    """Serve the harbour with three ships in a thread and yield the address of the protocol."""

    @asynccontextmanager
    async def open_stores() -> AsyncIterator[Sequence[Stores]]:
        async with open_memory_stores() as stores:
            if has_tables:
                await create_tables(stores, SYSTEM.tables)
                await moor(stores, "B1", 3)
            yield [stores.for_system(each) for each in systems or (SYSTEM,)]

    @contextmanager
    def serve() -> Iterator[str]:
        with serve_in_thread(
            build_http_app("Harbour", open_stores, guard or AgentGuard(), **options),
            allowed_hosts=allowed_hosts,
        ) as address:
            yield f"{address}/mcp"

    return serve()


@asynccontextmanager
async def connect(url: str, token: str = "", mode: str = "auto") -> AsyncIterator[Client]:
    """Open a session with the SDK's client."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def make_token(scope: str, **claims: Any) -> str:
    """Return a signed token with valid default claims."""
    payload = {"iss": ISSUER, "aud": URL, "sub": "ada", "exp": SYSTEM_CLOCK.now() + 60, "scope": scope}
    return jwt.encode({**payload, **claims}, KEY, algorithm="ES256", headers={"kid": "k"})


@pytest.fixture(scope="module")
def issuer_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve two systems to agents with tokens of an issuer; the agent of the first may write."""
    keys = tmp_path_factory.mktemp("issuer") / "jwks.json"
    jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
    keys.write_text(json.dumps({"keys": [jwk]}), encoding="utf-8")
    guard = AgentGuard(
        verifier=open_token_verifier(keys, issuer=ISSUER, audience=URL, clock=SYSTEM_CLOCK),
        issuer=ISSUER,
        url=URL,
        scopes=list_scopes(["harbour", "marina"], writes=["harbour"]),
    )
    with serve_harbour(WRITING, replace(SYSTEM, name="marina"), guard=guard) as url:
        yield url


@pytest.fixture(scope="module")
def open_url() -> Iterator[str]:
    """Serve the harbour without a token."""
    with serve_harbour(GREETING) as url:
        yield url


# --- sessions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_agent_uses_tools_resources_and_prompts_over_http(open_url: str, mode: str) -> None:
    async with connect(open_url, mode=mode) as agent:
        names = [tool.name for tool in (await agent.list_tools()).tools]
        found = await call_tool(agent, "ships_at", berth="B1", limit=2)
        refused = await agent.call_tool("ships_at", {})
        page = await agent.read_resource("holdfast://harbour/ship/S001")
        prompt = await agent.get_prompt("welcome", {"ship": "Aurora"})

    assert "ships_at" in names
    assert "arrive" not in names
    assert [item["shipId"] for item in found["items"]] == ["S001", "S002"]
    assert refused.is_error
    assert '"S001"' in str(page.contents)
    assert "Welcome Aurora." in str(prompt.messages)


def test_there_are_no_sessions_and_no_stream_from_the_server(open_url: str) -> None:
    opened = httpx2.get(open_url, headers={"Accept": "text/event-stream"})
    initialize = {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
    }  # fmt: skip
    answered = httpx2.post(
        open_url,
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        headers={"Accept": "application/json, text/event-stream"},
    )

    assert (opened.status_code, opened.headers["allow"]) == (405, "POST")
    assert answered.status_code == 200
    assert "mcp-session-id" not in answered.headers


# --- callers ------------------------------------------------------------------------------------------------


async def test_shared_token_grants_everything_and_nothing_works_without_it() -> None:
    with serve_harbour(guard=AgentGuard(token=TOKEN)) as url:
        async with connect(url, TOKEN) as agent:
            found = await call_tool(agent, "ship", ship_id="S001")
        without = httpx2.post(url, json=PING)
        wrong = httpx2.post(url, json=PING, headers={"Authorization": "Bearer guess"})

    assert found["count"] == 1
    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')


def test_refused_caller_learns_where_to_get_a_token(issuer_url: str) -> None:
    refused = httpx2.post(issuer_url, json=PING)
    document = httpx2.get(issuer_url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))

    assert refused.status_code == 401
    named = extract_resource_metadata_from_www_auth(refused)
    assert named == "https://agents.test/.well-known/oauth-protected-resource/mcp"
    assert extract_scope_from_www_auth(refused) == "harbour.read marina.read harbour.write"
    assert ProtectedResourceMetadata.model_validate_json(document.content).authorization_servers
    assert document.json() == {
        "resource": URL,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["harbour.read", "marina.read", "harbour.write"],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize(
    ("scope", "claims", "status", "error"),
    [
        ("harbour.read", {"exp": 1_000_000_000}, 401, "invalid_token"),
        ("harbour.read", {"aud": "https://elsewhere.test"}, 401, "invalid_token"),
        ("harbour.read", {"iss": "https://elsewhere.test"}, 401, "invalid_token"),
        (None, {}, 401, "invalid_token"),
        ("airport.read", {}, 403, "insufficient_scope"),
        ("", {}, 403, "insufficient_scope"),
    ],
)
def test_rejects_other_tokens_as_the_protocol_says(
    issuer_url: str, scope: str | None, claims: dict[str, Any], status: int, error: str
) -> None:
    token = "not-a-token" if scope is None else make_token(scope, **claims)
    refused = httpx2.post(issuer_url, json=PING, headers={"Authorization": f"Bearer {token}"})

    assert refused.status_code == status
    assert f'error="{error}"' in refused.headers["www-authenticate"]
    assert extract_resource_metadata_from_www_auth(refused)
    assert token not in refused.text


async def test_scopes_decide_what_a_caller_sees_and_may_call(issuer_url: str) -> None:
    async with connect(issuer_url, make_token("harbour.read")) as agent:
        reading = {tool.name for tool in (await agent.list_tools()).tools}
        templates = [each.name for each in (await agent.list_resource_templates()).resource_templates]
        with pytest.raises(MCPError, match="Unknown tool 'harbour_arrive'"):
            await agent.call_tool("harbour_arrive", {"ship_id": "S9", "berth": "B9"})
        with pytest.raises(MCPError, match="Unknown tool 'marina_ship'"):
            await agent.call_tool("marina_ship", {"ship_id": "S001"})
        with pytest.raises(MCPError, match="Unknown resource"):
            await agent.read_resource("holdfast://marina/ship/S001")
    async with connect(issuer_url, make_token("harbour.read harbour.write")) as agent:
        writing = {tool.name for tool in (await agent.list_tools()).tools}
        arrived = await call_tool(agent, "harbour_arrive", ship_id="S9", berth="B9")

    assert reading == {"harbour_ship", "harbour_ships_at"}
    assert templates == ["harbour_ship"]
    assert writing == {"harbour_ship", "harbour_ships_at", "harbour_arrive", "harbour_tonnage"}
    assert arrived["count"] == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.test"}, 403),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({}, 200),
    ],
)
def test_without_a_token_only_this_machine_and_its_own_pages_are_answered(
    open_url: str, headers: dict[str, str], status: int
) -> None:
    accept = {"Accept": "application/json, text/event-stream"}

    assert httpx2.post(open_url, json=PING, headers=accept | headers).status_code == status


# --- health and metrics -------------------------------------------------------------------------------------


def get_next_to(url: str, path: str, **headers: str) -> httpx2.Response:
    """Get a path of the server that has the protocol at this address."""
    return httpx2.get(url.replace("/mcp", path), headers=headers)


def test_ready_probes_the_stores_of_the_tools() -> None:
    with serve_harbour() as url:
        ready = get_next_to(url, "/health/ready")
    with serve_harbour(has_tables=False) as url:
        without_tables = get_next_to(url, "/health/ready")

    assert (ready.status_code, ready.json()["stores"]) == (200, [{"store": "tables", "status": "ok"}])
    assert without_tables.status_code == 503
    assert without_tables.json()["stores"] == [
        {"store": "tables", "status": "unavailable", "reason": "NotFound"}
    ]


async def test_metrics_count_the_calls_of_agents_and_what_they_read_of_every_system() -> None:
    with serve_harbour(SYSTEM, replace(SYSTEM, name="marina")) as url:
        async with connect(url) as agent:
            for tool in ("harbour_ship", "marina_ship"):
                await call_tool(agent, tool, ship_id="S001")
        metrics = get_next_to(url, "/metrics")

    lines = dict(each.rsplit(" ", 1) for each in metrics.text.splitlines() if not each.startswith("#"))
    assert metrics.status_code == 200
    assert float(lines['holdfast_http_requests_total{method="POST",route="/mcp",status="200"}']) >= 2
    read = 'operation="GetItem",resource="Ships",store="tables"'
    assert float(lines[f"holdfast_store_request_duration_seconds_count{{{read}}}"]) == 2
    assert float(lines['holdfast_figures_up{source="indexes of Ships"}']) == 1


def test_metrics_need_the_token_of_the_server_and_without_one_a_caller_on_this_machine() -> None:
    with serve_harbour(guard=AgentGuard(token=TOKEN)) as url:
        codes = [
            get_next_to(url, "/metrics").status_code,
            get_next_to(url, "/metrics", Authorization=f"Bearer {TOKEN}").status_code,
            get_next_to(url, "/health/ready").status_code,
        ]

    assert codes == [401, 200, 200]
    # A name of the server that leads here through a proxy.
    with serve_harbour(allowed_hosts=["agents.test"]) as url:
        codes = [
            get_next_to(url, path, Host="agents.test").status_code for path in ("/health/live", "/metrics")
        ]
        assert get_next_to(url, "/metrics").status_code == 200
    assert codes == [200, 403]


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Ada Lovelace",
        b'["Ada Lovelace"]',
        b'{"jsonrpc": "2.0", "method": "Ada Lovelace", "id": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": "Ada Lovelace"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "Ada Lovelace"}',
        b"[" * 100_000,
    ],
    ids=range(7),
)
def test_body_that_is_not_a_message_is_refused_and_not_quoted(open_url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    refused = httpx2.post(open_url, content=body, headers=headers)

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("Invalid body: expected one request")
    assert "Ada" not in refused.text


def test_rejects_a_body_that_is_too_large(open_url: str) -> None:
    body = b"x" * (http_app.MAX_REQUEST_BYTES + 1)

    assert httpx2.post(open_url, content=body).status_code == 413


def test_rejects_a_body_that_comes_too_slowly(open_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY_S", 0.05)
    address = urlsplit(open_url)
    head = f"POST /mcp HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: 100\r\n\r\n{{"
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=30) as slow:
        slow.sendall(head.encode())
        answer = slow.recv(1000)

    assert answer.startswith(b"HTTP/1.1 408 ")


# --- calls in flight ----------------------------------------------------------------------------------------


class Dawdler:
    """A tool that runs until it is released, and says how it ended."""

    def __init__(self) -> None:
        self.started, self.ended, self.release = threading.Event(), threading.Event(), threading.Event()
        self.was_cancelled = False

    def build_system(self) -> System:
        async def dawdle(stores: Stores) -> str:
            """Run until released."""
            self.started.set()
            try:
                while not self.release.is_set():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
            finally:
                self.ended.set()
            return "done"

        return replace(SYSTEM, admin=replace(SYSTEM.admin, tools=[dawdle]))


DAWDLE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dawdle"}}
OLDER = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


async def test_cancelled_call_is_stopped_and_the_server_lives_on() -> None:
    dawdler = Dawdler()
    with serve_harbour(dawdler.build_system()) as url:
        async with connect(url) as agent:
            call = asyncio.create_task(agent.call_tool("dawdle", {}))
            await asyncio.to_thread(dawdler.started.wait, 30)
            call.cancel()
            assert await asyncio.to_thread(dawdler.ended.wait, 30)

            assert (await call_tool(agent, "ship", ship_id="S001"))["count"] == 1
    assert dawdler.was_cancelled


async def test_closed_connection_of_an_older_client_stops_its_call() -> None:
    dawdler = Dawdler()
    with serve_harbour(dawdler.build_system()) as url:
        async with httpx2.AsyncClient() as http:
            async with http.stream("POST", url, json=DAWDLE, headers=OLDER):
                await asyncio.to_thread(dawdler.started.wait, 30)
            assert await asyncio.to_thread(dawdler.ended.wait, 30)
    assert dawdler.was_cancelled


def test_running_calls_finish_when_the_server_stops() -> None:
    dawdler = Dawdler()
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        url = stack.enter_context(serve_harbour(dawdler.build_system()))
        calling = pool.submit(httpx2.post, url, json=DAWDLE, headers=OLDER, timeout=30)
        assert dawdler.started.wait(30)
        stopping = pool.submit(stack.close)
        while _accepts_connections(url):
            pass
        dawdler.release.set()
        stopping.result(30)

    assert '"result":"done"' in calling.result(30).text.replace(" ", "").replace("\\", "")


def _accepts_connections(url: str) -> bool:
    try:
        httpx2.get(url.replace("/mcp", "/health"))
    except httpx2.TransportError:
        return False
    return True


async def test_call_over_http_has_a_time_limit() -> None:
    dawdler = Dawdler()
    with serve_harbour(dawdler.build_system(), max_call_s=0.05) as url:
        async with connect(url) as agent:
            result = await agent.call_tool("dawdle", {})

    assert result.is_error
    assert dawdler.was_cancelled


async def test_operators_messages_do_not_leave_the_server() -> None:
    """A refused pattern is for the operator: over HTTP the agent gets the id under which it is logged."""
    message = {"name": "sink", "arguments": {"ship_id": "S001"}}
    with serve_harbour() as url:
        async with connect(url) as agent:
            result = await agent.call_tool("sink", {"ship_id": "S001"})
        older = httpx2.post(url, json={**DAWDLE, "params": message}, headers=OLDER)

    assert result.is_error
    assert "H11" not in str(result.content) + older.text
    assert "the log has the reason under" in str(result.content)
    assert f"the log has the reason under {older.headers['x-correlation-id']}." in older.text
