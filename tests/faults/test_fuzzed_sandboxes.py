"""Random requests to every route of every sandbox: a clear 4xx for what is invalid, never a 5xx.

A valid body of each route is changed at a random place. The tests print the request that fails.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.cli.commands.run import build_sandbox_app
from holdfast.config.settings import Settings
from holdfast.model.demo import find_demo
from holdfast.model.system import load_systems
from holdfast.web import serve_in_thread, sign
from holdfast_demo.agenticpm.sandbox.asana_data import PROJECT as ASANA_PROJECT
from holdfast_demo.agenticpm.sandbox.claude import VERSION, ClaudeSandbox, build_claude_app
from holdfast_demo.agenticpm.sandbox.outlook import MAILBOX
from holdfast_demo.pagw.sandbox.client import SECRET
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.tripcortex.sandbox import PORTAL_KEY
from tests.faults.odd_requests import ODD_BODIES, ODD_TEXTS, change_one_place

SEED = int(os.environ.get("HOLDFAST_SEED", "20261118"))
REQUESTS = 4000 if os.environ.get("HOLDFAST_SOAK") else 1000
# Control routes that make a sandbox fail, with the body that ends it.
RESETS = {"/sandbox/faults": b"{}", "/sandbox/behaviour": b"{}", "/sandbox/outage": b'{"is_down": false}'}
DOCUMENT = {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": []}]}

Headers = Callable[[str, bytes], dict[str, str]]


@dataclass(frozen=True)
class Target:
    """A valid body of each route of a sandbox, known parameters, and what its callers send."""

    bodies: dict[str, Any]
    parameters: dict[str, str]
    queries: tuple[str, ...] = ()
    headers: Headers = lambda path, body: {}


FAULTS = {"too_many": 0, "failed_after": 0, "retry_after_s": 1.5, "calls_max": 0, "window_s": 30, "seed": 1}
EXTERNAL_CLAIMS = {"is_admin": True, "lifetime_s": 60, "flaw": None, "azp": "x"}
AUTHORIZATION = {
    "reference": "R-1",
    "kind": "submit",
    "items": [{"sequence": 1, "code": "70551", "quantity": 1}],
    "callback_url": None,
}
TARGETS: dict[str, Target] = {
    "agenticpm/jira": Target(
        {
            "/rest/api/3/search/jql": {
                "jql": "project = MCU ORDER BY updated ASC, key ASC",
                "maxResults": 5,
                "fields": ["summary"],
            },
            "/rest/api/3/changelog/bulkfetch": {
                "issueIdsOrKeys": ["MCU-142"],
                "maxResults": 5,
                "nextPageToken": "1",
            },
            "/rest/api/3/issue/{key}/comment": {
                "body": DOCUMENT,
                "properties": [{"key": "a", "value": {"reference": "r"}}],
            },
            "/rest/api/3/issue/{key}/transitions": {
                "transition": {"id": "21"},
                "properties": [{"key": "a", "value": 1}],
            },
            "/sandbox/issues": {
                "project": "MCU",
                "summary": "A ticket",
                "description": "text",
                "status": "Done",
                "priority": "High",
                "labels": ["a"],
                "assignee": "Ines",
                "points": 3,
                "sprint": "Sprint 12",
                "flagged": True,
                "criteria": DOCUMENT,
                "due": "2026-04-15",
            },
            "/sandbox/links": {"blocker": "MCU-142", "blocked": "MCU-143"},
            "/sandbox/versions": {
                "project": "MCU",
                "name": "v1",
                "released": True,
                "releaseDate": "2026-04-15",
            },
            "/sandbox/sprints": {"name": "Sprint 12", "state": "closed", "goal": "none"},
            "/sandbox/faults": FAULTS,
        },
        {"key": "MCU-142", "board": "1", "property": "a", "comment": "1"},
        ("jql", "startAt", "maxResults", "nextPageToken", "fields", "expand", "orderBy", "projectKeyOrId"),
    ),
    "agenticpm/asana": Target(
        {
            "/api/1.0/tasks/{gid}/stories": {"data": {"text": "done"}},
            "/api/1.0/sections/{gid}/addTask": {"data": {"task": "50005"}},
            "/sandbox/seed": {
                "project": "7",
                "name": "P",
                "sections": ["To do"],
                "tasks": [{"name": "A", "section": "To do", "Story points": 3, "tags": ["x"]}],
            },
            "/sandbox/tasks": {
                "project": ASANA_PROJECT,
                "name": "B",
                "section": "Done",
                "completed": True,
                "Priority": "High",
                "due_on": "2026-04-30",
                "assignee": "Ines",
                "tags": ["a"],
            },
            "/sandbox/tasks/{gid}": {
                "section": "Done",
                "Story points": 2.5,
                "Blocker": "x",
                "completed": False,
            },
            "/sandbox/expire": {},
            "/sandbox/faults": FAULTS,
        },
        {"gid": "50005"},
        ("limit", "offset", "opt_fields", "resource", "sync"),
    ),
    "agenticpm/outlook": Target(
        {
            "/{tenant}/oauth2/v2.0/token": b"grant_type=client_credentials&scope=x/.default&client_secret=s",
            "/sandbox/messages": {"subject": "A", "from": "a@example.com", "bodyPreview": "b", "extra": [1]},
            "/sandbox/messages/{id}": {"subject": "B"},
            "/sandbox/expire": {},
            "/sandbox/faults": FAULTS,
        },
        {"mailbox": MAILBOX, "tenant": "t", "id": "AAMk000001="},
        ("$select", "$skiptoken", "$deltatoken"),
        lambda path, body: {"prefer": f"odata.maxpagesize={'9' * (len(body) % 7 * 100)}"},
    ),
    "agenticpm/resend": Target(
        {
            "/emails": {"from": "a@example.com", "to": ["b@example.com"], "subject": "s", "text": "t"},
            "/sandbox/faults": FAULTS,
        },
        {},
        (),
        lambda path, body: {"idempotency-key": str(len(body) % 3)},
    ),
    "agenticpm/claude": Target(
        {
            "/v1/messages": {
                "model": "m",
                "max_tokens": 5,
                "messages": [],
                "tools": [{"name": "t"}],
                "tool_choice": {"type": "tool", "name": "t"},
                "thinking": {"type": "disabled"},
            }
        },
        {},
        (),
        lambda path, body: {"anthropic-version": VERSION},
    ),
    "richpanel/helpdesk": Target(
        {
            "/v1/tickets/{ticket_id}/messages": {"text": "hello", "reference": "r"},
            "/v1/tickets/{ticket_id}/notes": {"text": "hello", "reference": "r"},
            "/v1/tickets/{ticket_id}/tags": {"tag": "vip", "reference": "r"},
            "/v1/tickets/{ticket_id}/assignee": {"team": "returns", "reference": "r"},
            "/sandbox/tickets": {"id": "t-1", "channel": "email", "customer": {"email": "a@example.com"}},
            "/sandbox/tickets/{ticket_id}/messages": {"text": "hi", "id": "m-1", "extra": {"a": [1]}},
            "/sandbox/orders": {"number": "#W1", "email": "a@example.com", "status": "sent"},
            "/sandbox/webhook": {
                "url": "",
                "secret": "s",
                "faults": {"copies_max": 2, "late_s": 0.1, "seed": 1},
            },
            "/sandbox/faults": FAULTS,
        },
        {"ticket_id": "t-1", "message_id": "m-1", "number": "W1"},
        ("reference",),
    ),
    "pagw/payer": Target(
        {
            "/oauth/token": b"grant_type=client_credentials",
            "/prior-authorizations": AUTHORIZATION,
            "/prior-authorizations/{former}/update": AUTHORIZATION | {"kind": "update"},
            "/prior-authorizations/{former}/cancel": AUTHORIZATION | {"kind": "cancel"},
            "/sandbox/faults": {**FAULTS, "callback_copies": 2},
            "/sandbox/decisions": {"reference": "R-1"},
            "/sandbox/callbacks": {"url": ""},
        },
        {"former": "R-1"},
        ("reference",),
        lambda path, body: {"idempotency-key": "R-1", "authorization": "Basic " + "%" * (len(body) % 2)},
    ),
    "pagw/issuer": Target(
        {
            "/token": b"grant_type=client_credentials&client_id=acme-client&client_secret=x&scope=a",
            "/sandbox/tokens": {"tenant": "acme", "scope": "x", **EXTERNAL_CLAIMS},
            "/sandbox/rotate": {"withdraw": False},
            "/sandbox/faults": FAULTS,
        },
        {},
        (),
        lambda path, body: {"authorization": "Basic " + "%" * (len(body) % 2)},
    ),
    "pagw/client": Target(
        {
            "/callbacks/{name}": {"pagwId": "x"},
            "/notifications/{name}": {
                "entry": [{"resource": {"parameter": [{"name": "type", "valueCode": "handshake"}]}}]
            },
            "/sandbox/behaviour": {
                "faults": FAULTS,
                "slow_s": 0,
                "is_gone": False,
                "refuses_handshakes": False,
            },
        },
        {"name": "acme"},
        (),
        lambda path, body: {
            "x-pagw-signature": sign(SECRET, body, time.time()),
            "x-pagw-delivery": "d" * (len(body) % 2),
        },
    ),
    "tripcortex/portal": Target(
        {
            "/v1/searches": {
                "origins": ["BOS"],
                "destinations": ["ORD"],
                "departure_date": "2026-12-01",
                "return_date": "2026-12-03",
                "cabin": "economy",
                "nonstop": False,
            },
            "/v1/orders": {
                "reference": "tb-1",
                "offer_id": "of-1",
                "price_usd": "100.00",
                "traveller_id": "emp-1",
                "payment": "account",
            },
            "/v1/orders/{order_id}/cancel": {},
            "/sandbox/faults": {**FAULTS, "late_orders": 0, "late_s": 1},
            "/sandbox/outage": {"is_down": False},
            "/sandbox/payments": {"declined": ["emp-7"]},
            "/sandbox/prices": {"factor": "1.25"},
        },
        {"offer_id": "of-1", "order_id": "or-1"},
        ("reference", "from", "to"),
        lambda path, body: {"x-api-key": PORTAL_KEY, "idempotency-key": "k"},
    ),
    "tripcortex/issuer": Target(
        {
            "/sandbox/tokens": {
                "employee_id": "emp-1",
                "version": 2,
                "time_zone": "UTC",
                "home_airport": "BOS",
                **EXTERNAL_CLAIMS,
            },
            "/sandbox/rotate": {"withdraw": False},
            "/sandbox/faults": FAULTS,
        },
        {},
    ),
}
# Sandboxes that no demo starts as a process, and one that needs a token there.
OWN_APPS: dict[str, Callable[[], Starlette]] = {
    "agenticpm/claude": lambda: build_claude_app(ClaudeSandbox()),
    "pagw/payer": lambda: build_payer_app(PayerSandbox()),
}


def test_every_sandbox_is_a_target() -> None:
    found = {
        f"{name}/{each}" for name, system in load_systems().items() for each in find_demo(system).sandboxes
    }
    assert found | OWN_APPS.keys() == TARGETS.keys()


@pytest.fixture(params=sorted(TARGETS))
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Target, list[Route], str]]:
    """Serve a sandbox; yield its target, its routes and its URL."""
    system, _, name = request.param.partition("/")
    settings = Settings(queues=f"sqlite:{tmp_path}/queues.db")
    make = OWN_APPS.get(request.param)
    app = make() if make else build_sandbox_app(load_systems()[system], name, settings)
    with serve_in_thread(app) as url:
        yield TARGETS[request.param], [each for each in app.routes if isinstance(each, Route)], url


def test_invalid_requests_never_fail_a_sandbox(sandbox: tuple[Target, list[Route], str]) -> None:
    target, routes, url = sandbox
    random = Random(SEED)
    for _ in range(REQUESTS):
        route = random.choice(routes)
        method = random.choice(sorted((route.methods or set()) - {"HEAD"}))
        path, body = make_path(target, route, random), make_body(target, route, method, random)
        for each in (body, *([RESETS[route.path]] if route.path in RESETS else [])):
            status, text = send(url, method, path, each, target.headers(route.path, each))
            assert status < 500, (method, path, each[:2000], text)
    check_reads(target, routes, url)


def check_reads(target: Target, routes: list[Route], url: str) -> None:
    """Check that what was stored meanwhile breaks no later read."""
    for route in routes:
        if "GET" in (route.methods or ()):
            path = route.path.format(**target.parameters)
            status, text = send(url, "GET", path, b"", target.headers(route.path, b""))
            assert status < 500, (path, text)


def test_valid_requests_are_accepted(sandbox: tuple[Target, list[Route], str]) -> None:
    """The bodies that the other test changes are valid, so that it reaches what comes after their checks."""
    target, routes, url = sandbox
    posted = {each.path for each in routes if "POST" in (each.methods or ())}
    assert posted == target.bodies.keys()
    for path, body in target.bodies.items():
        if path.startswith("/sandbox/") and "{" not in path and "decisions" not in path:
            status, text = send(url, "POST", path, encode(body), target.headers(path, encode(body)))
            assert status == 200, (path, text)


@pytest.mark.parametrize("body", ODD_BODIES[1:6] + ODD_BODIES[10:], ids=lambda body: repr(body[:12]))
def test_control_route_says_what_is_wrong_with_a_body(
    sandbox: tuple[Target, list[Route], str], body: bytes
) -> None:
    target, _, url = sandbox
    for path in target.bodies:
        if path in RESETS:
            status, text = send(url, "POST", path, body, {})
            assert status == 400
            assert json.loads(text)["title"] == "Invalid body"


# --- requests -----------------------------------------------------------------------------------------------


def make_path(target: Target, route: Route, random: Random) -> str:
    """Return a path of the route, with known and odd parameters and queries."""
    path = route.path
    for name in route.param_convertors:
        is_known = random.random() < 0.8 and name in target.parameters
        value = target.parameters[name] if is_known else random.choice(ODD_TEXTS)
        path = path.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass"))
    query = {name: random.choice(ODD_TEXTS) for name in target.queries if random.random() < 0.2}
    return path + (f"?{urlencode(query, errors='surrogatepass')}" if query else "")


def make_body(target: Target, route: Route, method: str, random: Random) -> bytes:
    """Return a valid body of the route, mostly changed at one place, or an odd one."""
    if method == "GET":
        return b""
    if random.random() < 0.1:
        return random.choice(ODD_BODIES)
    valid = target.bodies.get(route.path, {})
    if isinstance(valid, bytes):
        place = random.randrange(len(valid))
        return valid[:place] + random.randbytes(random.randrange(3)) + valid[place:]
    changed = copy.deepcopy(valid)
    if random.random() < 0.9 and changed:
        change_one_place(changed, random)
    return encode(changed)


def encode(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def send(url: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """Send a request; return the status and the text of the response."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
