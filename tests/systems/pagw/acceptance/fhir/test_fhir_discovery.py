"""What clients discover: the CapabilityStatement, the SMART configuration, scopes, and `$events`."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import build_inquiry_bundle, build_request_bundle
from holdfast_demo.pagw.sandbox.issuer import ISSUER
from tests.systems.pagw.acceptance.fhir.test_fhir import build_subscription
from tests.systems.pagw.acceptance.gateway import (
    ExternalServices,
    Gateway,
    expect_outcome,
    make_unique,
    start_gateway,
)


def test_capability_statement_says_only_what_is_served(gateway: Gateway) -> None:
    statement = gateway.http.get("/fhir/metadata").json()
    [rest] = statement["rest"]
    paths = gateway.http.get("/openapi.json").json()["paths"]
    served = {(method, path) for path, methods in paths.items() for method in methods}
    for resource in rest["resource"]:
        base = f"/fhir/{resource['type']}"
        for operation in resource.get("operation", []):
            infix = "" if resource["type"] == "Claim" else "/{subscription_id}"
            assert any(path == f"{base}{infix}/${operation['name']}" for _, path in served), operation
        for interaction in resource.get("interaction", []):
            method, path = {
                "create": ("post", base),
                "read": ("get", f"{base}/{{subscription_id}}"),
                "update": ("put", f"{base}/{{subscription_id}}"),
                "delete": ("delete", f"{base}/{{subscription_id}}"),
                "search-type": ("get", base),
            }[interaction["code"]]
            assert (method, path) in served
    # Without a token endpoint in the settings, it does not claim to be SMART.
    assert "service" not in rest["security"]
    expect_outcome(gateway.http.get("/fhir/.well-known/smart-configuration"), 404, "not-found")


def test_smart_configuration_names_the_issuer_and_the_scopes(external_services: ExternalServices) -> None:
    token_url = "https://issuer.example/token"
    with start_gateway(external_services, "api", PAGW_TOKEN_URL=token_url) as gateway:
        found = gateway.http.get("/fhir/.well-known/smart-configuration").json()
        assert found["token_endpoint"] == token_url and found["issuer"] == ISSUER
        assert found["grant_types_supported"] == ["client_credentials"]
        assert set(found["scopes_supported"]) == {
            f"system/{resource}.{permission}"
            for resource in ("Claim", "Subscription")
            for permission in ("read", "write")
        }
        [rest] = gateway.http.get("/fhir/metadata").json()["rest"]
        [uris] = rest["security"]["extension"]
        assert uris["extension"] == [{"url": "token", "valueUri": token_url}]


@pytest.mark.parametrize(
    ("scope", "reads", "writes"),
    [
        ("system/*.read", True, False),
        ("system/*.*", True, True),
        ("system/Claim.rs", True, False),
        ("system/Claim.c", False, True),
        ("system/*.cruds", True, True),
        ("system/Claim.s", False, False),
        ("system/Subscription.cruds", False, False),
        ("user/*.*", False, False),
        ("system/Claim.rc", False, False),
        ("system/Claim.r?patient=1", False, False),
    ],
)
def test_wildcards_and_letters_grant_what_they_include(
    idle_gateway: Gateway, scope: str, reads: bool, writes: bool
) -> None:
    headers = idle_gateway.headers(scope=scope)
    inquiry = idle_gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(), headers=headers)
    assert (inquiry.status_code == 200) is reads, inquiry.text
    bundle = build_request_bundle(reference=make_unique("F"))
    given = {**headers, "x-idempotency-key": make_unique("key")}
    accepted = idle_gateway.post("/pas/requests", bundle, headers=given)
    assert (accepted.status_code == 202) is writes, accepted.text
    assert {inquiry.status_code, accepted.status_code} <= {200, 202, 403}


def test_events_of_a_subscription_are_listed_over_http(gateway: Gateway) -> None:
    created = gateway.post("/fhir/Subscription", build_subscription(gateway)).json()
    path = f"/fhir/Subscription/{created['id']}/$events"
    since = {"name": "eventsSinceNumber", "valueString": "1"}
    asked: dict[str, Any] = {"resourceType": "Parameters", "parameter": [since]}
    for response in (gateway.get(path), gateway.post(path, asked)):
        assert response.status_code == 200, response.text
        parameters = response.json()["entry"][0]["resource"]["parameter"]
        assert {"name": "type", "valueCode": "query-event"} in parameters
    expect_outcome(gateway.get(f"{path}?eventsSinceNumber=0"), 400)
    since["valueString"] = "x"
    expect_outcome(gateway.post(path, asked), 422, "value")
    expect_outcome(gateway.get(path, "zenith"), 404, "not-found")
