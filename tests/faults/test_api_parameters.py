"""Every parameter and number of every API, from its OpenAPI description: no value causes a server error.

Tokens of any caller are accepted here, so that the values reach the routes and the stores behind them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.model.system import System, list_system_names, load_system
from holdfast.runtime import open_stores, provision
from holdfast.security.tokens import VerifiedToken
from holdfast.web.tokens import LazyVerifier
from tests.postgres import create_database
from tests.repo.code import open_in_memory

Json = Mapping[str, Any]

# As a client writes them into a query or a path.
NUMBERS: Final = ("1" + "0" * 39, "9" * 5000, "1e400", "-1e308", "1.5", "NaN", "9223372036854775808", "１２")
TEXTS: Final = ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9" * 5000, "\x00", "\U0001f600")
# As a client writes them into a JSON body.
LITERALS: Final = ("1" + "0" * 400, "9" * 5000, "1e400", "-1e308", "NaN", "1.5")
NUMERIC: Final = ("integer", "number")
PLACE: Final = "the number"
TOKEN: Final = "token"
CLAIMS: Final = {
    "sub": "emp-1",
    "tenant": "acme",
    "org_id": "org-1",
    "org_role": "org:admin",
    "employee_id": "emp-1",
}
SCOPES: Final = frozenset(
    f"system/{kind}.{right}" for kind in ("Claim", "Subscription") for right in ("read", "write")
)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings of stores in memory; accept every token and know every secret."""

    async def verify(verifier: LazyVerifier, token: str) -> VerifiedToken:
        return VerifiedToken("emp-1", "client", SCOPES, 1e11, CLAIMS)

    monkeypatch.setattr(LazyVerifier, "verify", verify)
    monkeypatch.setenv("TRIPCORTEX_ORGANISATION", "org-1")
    for name in ("PAGW_LOOKUP_KEY", "TRIPCORTEX_FLOW_TOKEN", "TRIPCORTEX_CONNECTIONS", "RICHPANEL_WEBHOOK"):
        monkeypatch.setenv(f"HOLDFAST_SECRET_{name}", "secret-of-the-tests")
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path}/keys.json")
    return Settings(
        tables="sqlite::memory:",
        queues="sqlite::memory:",
        objects="memory:",
        environment="test",
        keys=f"file:{tmp_path}/keys.json",
    )


def is_number(description: Json, schema: Json) -> bool:
    return resolve(description, schema).get("type") in NUMERIC


def list_calls(description: Json) -> Iterator[tuple[str, str, str | None]]:
    """Yield method, target and JSON body of calls with an extreme value in one parameter or number."""
    for path, methods in sorted(description["paths"].items()):
        for method, operation in sorted(methods.items()):
            parameters = operation.get("parameters", ())
            for parameter in parameters:
                for value in NUMBERS if is_number(description, parameter["schema"]) else TEXTS:
                    target = build_target(path, parameters, parameter, value)
                    yield method, target, build_body(description, operation, ())
            for place in list_number_places(description, get_schema(operation)):
                body = build_body(description, operation, place) or ""
                for literal in LITERALS:
                    yield (
                        method,
                        build_target(path, parameters, None, ""),
                        body.replace(f'"{PLACE}"', literal),
                    )


def build_target(path: str, parameters: list[Json], extreme: Json | None, value: str) -> str:
    """Return path and query: the extreme parameter has the value, every required one something plausible."""
    sent = {
        each["name"]: value if each is extreme else str(build_example(each["schema"]))
        for each in parameters
        if each is extreme or each.get("required")
    }
    places = {each["name"]: each["in"] for each in parameters}
    filled = re.sub(r"\{(\w+)\}", lambda found: quote(sent.get(found[1], "x"), safe="") or "x", path)
    query = "&".join(
        f"{name}={quote(given, safe='')}" for name, given in sent.items() if places[name] == "query"
    )
    return f"{filled}?{query}"


def get_schema(operation: Json) -> Json:
    content = operation.get("requestBody", {}).get("content", {})
    schema: Json = next((each.get("schema", {}) for media, each in content.items() if "json" in media), {})
    return schema


def build_body(description: Json, operation: Json, place: tuple[str, ...]) -> str | None:
    """Return a JSON body with its required members, and the number at the place; None without a body."""
    if "requestBody" not in operation:
        return None
    return json.dumps(build_value(description, get_schema(operation), place))


def resolve(description: Json, schema: Json) -> Json:
    """Return the schema itself, or the first alternative that is not null."""
    while True:
        if "$ref" in schema:
            schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
            schema = next(each for each in alternatives if each.get("type") != "null")
        else:
            return schema


def build_value(description: Json, schema: Json, place: tuple[str, ...] | None) -> Any:
    schema = resolve(description, schema)
    if place == () and schema.get("type") in NUMERIC:
        return PLACE
    if schema.get("type") != "object":
        return build_example(schema)
    properties, wanted = schema.get("properties", {}), place[0] if place else None
    return {
        name: build_value(description, each, place[1:] if place and name == wanted else None)
        for name, each in properties.items()
        if name == wanted or name in schema.get("required", ())
    }


def build_example(schema: Json) -> Any:
    """Return a plausible value of a schema without members."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
    return {"date-time": "2026-03-01T12:00:00Z", "date": "2026-03-01"}.get(schema.get("format", ""), "x")


def list_number_places(
    description: Json, schema: Json, above: tuple[int, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the place of every number in a body, by the names of its members."""
    schema = resolve(description, schema)
    if schema.get("type") in NUMERIC:
        yield ()
    elif id(schema) not in above:
        for name, each in schema.get("properties", {}).items():
            yield from ((name, *rest) for rest in list_number_places(description, each, (*above, id(schema))))


def find_schema(description: Json, schema: Json, place: tuple[str, ...]) -> Json:
    """Return the schema of the member at a place."""
    for name in place:
        schema = resolve(description, schema)["properties"][name]
    return schema


async def find_server_errors(
    system: System,
    settings: Settings,
    list_calls: Callable[[Json], Iterable[tuple[str, str, str | bytes | None]]],
    build_headers: Callable[[bytes], dict[str, str]] = lambda body: {},
) -> set[tuple[str, str, str]]:
    """Make the calls that are listed from the description of an API; return those answered with 5xx."""
    stores = open_stores(system, settings)
    failed: set[tuple[str, str, str]] = set()
    try:
        await provision(stores, system)
        app = build_system_app(system, stores, token=TOKEN)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for method, target, body in list_calls(app.openapi()):
                content = body.encode() if isinstance(body, str) else body or b""
                headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
                answer = await client.request(
                    method, target, content=content, headers=headers | build_headers(content)
                )
                if answer.status_code >= 500:
                    failed.add((method, target[:150], answer.text[:300]))
    finally:
        await stores.close()
    return failed


@pytest.mark.parametrize("name", list_system_names())
def test_no_parameter_causes_a_server_error(name: str, settings: Settings) -> None:
    system = load_system(name)
    if system.schemas:
        settings = replace(settings, sql=create_database(*system.schemas))
    assert asyncio.run(find_server_errors(system, settings, list_calls)) == set()


@pytest.mark.parametrize("name", list_system_names())
def test_every_number_in_a_request_has_bounds(name: str) -> None:
    """A number without an upper bound reaches stores that cannot keep it."""
    system = load_system(name)
    with open_in_memory(system) as stores:
        description = build_system_app(system, stores, token=TOKEN).openapi()
    unbounded = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            schemas = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
            for place in list_number_places(description, get_schema(operation)):
                schemas[".".join(place)] = find_schema(description, get_schema(operation), place)
            for what, schema in schemas.items():
                found = resolve(description, schema)
                if found.get("type") in NUMERIC and not {"maximum", "exclusiveMaximum"} & found.keys():
                    unbounded.append(f"{method} {path}: {what}")
    assert unbounded == []
