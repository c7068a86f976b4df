"""OpenAPI description of the routes, and errors raised outside them, on the app in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from holdfast import Stores, open_memory_stores
from holdfast.web import make_app
from holdfast.web.demo_env import patch_environ
from pagw.api.routes import build_api_routes, build_callback_routes, configure_outcomes
from pagw.system import SYSTEM


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    made = open_memory_stores(SYSTEM)
    yield made
    asyncio.run(made.close())


@pytest.fixture(scope="module")
def app(stores: Stores) -> FastAPI:
    with patch_environ({}, without=["PAGW_"]):
        routers = [
            *build_api_routes(stores.for_component("api")),
            *build_callback_routes(stores.for_component("payer-callbacks")),
        ]
    made = make_app("PAGW", "1", (), self_authenticated=routers, max_body_bytes=1000)
    configure_outcomes(made)
    return made


def list_operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of each operation except the health check."""
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            if not path.startswith("/health/"):
                yield method, path, operation


def test_every_operation_has_name_parameters_response_and_errors(app: FastAPI) -> None:
    entries = list(list_operations(app))
    names = [operation["operationId"] for _, _, operation in entries]
    assert len(entries) == 27 and len(set(names)) == len(names)
    outcome = {"application/fhir+json": {"schema": {"$ref": "#/components/schemas/OperationOutcome"}}}
    for method, path, operation in entries:
        named = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}, path
        assert operation["responses"]["4XX"]["content"] == outcome
        assert operation["responses"]["5XX"]["content"] == outcome
        (success,) = [each for status, each in operation["responses"].items() if status.startswith("2")]
        assert len(success.get("content", {})) == (0 if "204" in operation["responses"] else 1), path
        has_body = "requestBody" in operation
        assert has_body == (path in BODIES.get(method, ())), (method, path)


BODIES = {
    "post": (
        "/pas/requests",
        "/fhir/Claim/$submit",
        "/fhir/Claim/$inquire",
        "/fhir/Subscription",
        "/fhir/Subscription/{subscription_id}/$events",
        "/payer-callbacks/{payer_id}/notifications",
    ),
    "put": ("/fhir/Subscription/{subscription_id}",),
}


def test_every_route_requires_a_token_except_discovery_and_payer_callbacks(app: FastAPI) -> None:
    schemes = app.openapi()["components"]["securitySchemes"]
    opened = set()
    for method, path, operation in list_operations(app):
        proofs = [name for each in operation.get("security", []) for name in each]
        assert set(proofs) <= set(schemes)
        if not proofs:
            opened.add(path)
        assert ("Session" in proofs) == ((method == "get" and bool(proofs)) or path == "/sessions/current")
    assert opened == {
        "/fhir/metadata",
        "/fhir/.well-known/smart-configuration",
        "/.well-known/jwks.json",
        "/payer-callbacks/{payer_id}",
        "/payer-callbacks/{payer_id}/notifications",
    }


def test_description_has_every_referenced_schema_and_no_problem_json(app: FastAPI) -> None:
    text = str(app.openapi())
    assert "problem+json" not in text and "#/components/schemas/Problem" not in text
    schemas = app.openapi()["components"]["schemas"]
    pointed = {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}
    assert pointed <= set(schemas)
    assert set(schemas["RequestView"]["properties"]) >= {"pagwId", "status", "dueAt", "hasResponse"}


async def test_framework_errors_are_outcomes_too(app: FastAPI) -> None:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answers = [
            await http.get("/patients/Quillfeather"),
            await http.put("/fhir/Claim/$submit"),
            await http.post("/fhir/Claim/$submit", content=b" " * 2000),
            await http.get("/pas/requests", headers={"authorization": "Bearer a.b.c"}),
        ]
    # The last one: no token issuer is configured, which concerns only the operator.
    assert [each.status_code for each in answers] == [404, 405, 413, 500]
    for answer in answers:
        assert answer.headers["content-type"] == "application/fhir+json"
        assert answer.json()["resourceType"] == "OperationOutcome"
        assert "Quillfeather" not in answer.text and "JWKS" not in answer.text
    assert answers[1].headers["allow"] == "POST"
