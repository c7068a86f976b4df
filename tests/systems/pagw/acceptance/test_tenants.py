"""Tenants over HTTP: no documented route reaches another tenant's data."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest

from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    SampleAttachment,
    build_cancel_bundle,
    build_request_bundle,
)
from pagw.model.patterns import submission
from tests.systems.pagw.acceptance.fhir.test_fhir import build_subscription
from tests.systems.pagw.acceptance.gateway import Gateway, expect_outcome, make_unique
from tests.systems.pagw.idempotency_keys import build_idempotency_key

UNKNOWN = {
    "pagw_id": "PAGW-01M7GRWRH1WBM590HYW6A9ZSQZ",
    "subscription_id": "sub-01m7grwrh1wbm590hyw6a9zsqz",
    "name": "attachment_001.txt",
}
# A payer's callback belongs to no tenant.
WITHOUT_TENANT = {"/payer-callbacks/{payer_id}", "/payer-callbacks/{payer_id}/notifications"}


@pytest.fixture(scope="module")
def acme_ids(gateway: Gateway) -> dict[str, str]:
    """Ids of tenant acme: a decided request with an attachment, a delivery and a subscription."""
    bundle = build_request_bundle(reference=make_unique("T"), attachments=[SampleAttachment()])
    pagw_id = gateway.submit_accepted(
        bundle, **{"x-callback-url": f"{gateway.services.client_url}/callbacks/acme"}
    )
    name = gateway.wait_for_end(pagw_id)["attachments"][0]["name"]
    made = gateway.post("/fhir/Subscription", build_subscription(gateway))
    assert made.status_code == 201, made.text
    return {"pagw_id": pagw_id, "subscription_id": made.json()["id"], "name": name}


def list_routes(gateway: Gateway) -> list[tuple[str, str]]:
    """Return every documented operation with a path parameter."""
    paths = gateway.http.get("/openapi.json").json()["paths"]
    return [
        (method, path)
        for path, operations in paths.items()
        for method in operations
        if "{" in path and path not in WITHOUT_TENANT
    ]


def request_as(
    gateway: Gateway, method: str, path: str, named: dict[str, str], tenant: str
) -> httpx2.Response:
    """Call a route as a tenant, with the path parameters in `named`."""
    address = re.sub(r"{(\w+)}", lambda match: named[match[1]], path)
    headers = {"content-type": "application/fhir+json", **gateway.headers(tenant)}
    resource = {"resourceType": "Parameters"} if path.endswith("$events") else build_subscription(gateway)
    body = json.dumps(resource).encode() if method in ("put", "post") else None
    return gateway.http.request(method, address, headers=headers, content=body)


def test_no_route_shows_another_tenants_data(gateway: Gateway, acme_ids: dict[str, str]) -> None:
    walked = list_routes(gateway)
    assert len(walked) >= 11
    before = gateway.wait_until_settled()
    for method, path in walked:
        theirs = request_as(gateway, method, path, acme_ids, "zenith")
        nobodys = request_as(gateway, method, path, UNKNOWN, "zenith")
        expect_outcome(theirs, 404, "not-found")
        assert theirs.content == nobodys.content, path
        if method == "get":
            assert request_as(gateway, method, path, acme_ids, "acme").status_code == 200, path
    assert gateway.wait_until_settled() == before
    assert not gateway.rows(
        "SELECT 1 FROM pagw.audit_log WHERE tenant = 'zenith' AND pagw_id = %s", acme_ids["pagw_id"]
    )


def test_lists_show_only_the_tenants_own_data(gateway: Gateway, acme_ids: dict[str, str]) -> None:
    paths = gateway.http.get("/openapi.json").json()["paths"]
    lists = [path for path in paths if "get" in paths[path] and "{" not in path and path != "/openapi.json"]
    assert {"/pas/requests", "/fhir/Subscription"} <= set(lists)
    first = gateway.get("/pas/requests?limit=1").json()
    for path in [*lists, f"/pas/requests?cursor={first['cursor']}"]:
        response = gateway.get(path, "zenith").text
        assert acme_ids["pagw_id"] not in response and acme_ids["subscription_id"] not in response, path


@pytest.mark.proves("PG-9", "PG-X5")
def test_same_key_of_another_tenant_is_another_key(gateway: Gateway) -> None:
    key, bundle = make_unique("key"), build_request_bundle(reference=make_unique("T"))
    ours = gateway.submit(bundle, "acme", key).json()["pagwId"]
    answer = gateway.submit(build_request_bundle(reference=make_unique("T")), "zenith", key)
    assert answer.status_code == 202 and "idempotency-replayed" not in answer.headers
    theirs = answer.json()["pagwId"]
    kept = [
        gateway.run(gateway.stores.run(submission(build_idempotency_key(each, key))))
        for each in ("acme", "zenith")
    ]
    assert [each.pagw_id for each in kept] == [ours, theirs] and ours != theirs
    # A colon in a key cannot make it another tenant's: no tenant name contains one.
    colon = gateway.submit(bundle, "acme", f"zenith:{key}")
    assert colon.status_code == 202 and "idempotency-replayed" not in colon.headers
    for tenant in ("acme:zenith", "Acme", "a" * 51, "acme#x", ""):
        refused = gateway.http.get("/pas/requests", headers=gateway.headers(tenant))
        expect_outcome(refused, 401)


def test_cannot_cancel_or_update_another_tenants_request(gateway: Gateway) -> None:
    former = build_request_bundle(reference=make_unique("T"), member=PEOPLE[1])
    pagw_id = gateway.submit_claim(former).headers["x-pagw-id"]
    gateway.wait_for_end(pagw_id)
    expect_outcome(
        gateway.submit_claim(build_cancel_bundle(former, reference=make_unique("C")), "zenith"),
        422,
        "not-found",
    )
    named: dict[str, Any] = build_cancel_bundle(former, reference=make_unique("C"))
    named["entry"][0]["resource"]["related"][0]["claim"] = {
        "identifier": {"system": "urn:pagw:request", "value": pagw_id}
    }
    assert gateway.submit_claim(named, "zenith").status_code == 422
    assert gateway.get(f"/pas/requests/{pagw_id}").json()["status"] == "COMPLETED"


def test_session_belongs_to_one_tenant(gateway: Gateway, acme_ids: dict[str, str]) -> None:
    session = httpx2.post(f"{gateway.url}/sessions", headers=gateway.headers("acme")).json()["session"]
    path = f"{gateway.url}/pas/requests/{acme_ids['pagw_id']}"
    assert httpx2.get(path, headers={"authorization": f"Session {session}"}).status_code == 200
    moved = "zenith." + session.partition(".")[2]
    expect_outcome(httpx2.get(path, headers={"authorization": f"Session {moved}"}), 401, "expired")


@pytest.mark.proves("PG-X23")
def test_rate_limited_tenant_waits_while_others_continue(gateway: Gateway) -> None:
    answers = [gateway.submit(tenant="slow") for _ in range(5)]
    assert [each.status_code for each in answers] == [202, 202, 202, 429, 429]
    expect_outcome(answers[-1], 429, "throttled")
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 120
    expect_outcome(gateway.get("/pas/requests", "slow"), 429, "throttled")
    assert gateway.submit(tenant="acme").status_code == 202
    assert gateway.read_audit("REFUSED", "slow") == []
