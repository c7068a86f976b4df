"""Tenants: nothing of one is reachable by another's token, on any route that the description has."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest

from pagw.demo.sample.bundles import PEOPLE, SampleAttachment, build_cancel_bundle, build_request_bundle
from pagw.model.patterns import submission
from pagw.workers.intake import build_idempotency_key
from tests.acceptance.pagw.gateway import Gateway, fresh, outcome_of
from tests.acceptance.pagw.test_fhir import wanted

UNKNOWN = {
    "pagw_id": "PAGW-01M7GRWRH1WBM590HYW6A9ZSQZ",
    "subscription_id": "sub-01m7grwrh1wbm590hyw6a9zsqz",
    "name": "attachment_001.txt",
}
# Of no tenant: a payer calls back for whomever it was asked.
NOT_TENANTS = {"/payer-callbacks/{payer_id}"}


@pytest.fixture(scope="module")
def owned(gateway: Gateway) -> dict[str, str]:
    """What tenant acme has: a decided request with an attachment, a delivery and a subscription."""
    bundle = build_request_bundle(reference=fresh("T"), attachments=[SampleAttachment()])
    pagw_id = gateway.accepted(bundle, **{"x-callback-url": f"{gateway.parties.client_url}/callbacks/acme"})
    name = gateway.ended(pagw_id)["attachments"][0]["name"]
    made = gateway.post("/fhir/Subscription", wanted(gateway))
    assert made.status_code == 201, made.text
    return {"pagw_id": pagw_id, "subscription_id": made.json()["id"], "name": name}


def routes(gateway: Gateway) -> list[tuple[str, str]]:
    """Every operation of the description that names something."""
    paths = gateway.http.get("/openapi.json").json()["paths"]
    return [
        (method, path)
        for path, operations in paths.items()
        for method in operations
        if "{" in path and path not in NOT_TENANTS
    ]


def asked(gateway: Gateway, method: str, path: str, named: dict[str, str], tenant: str) -> httpx2.Response:
    address = re.sub(r"{(\w+)}", lambda match: named[match[1]], path)
    headers = {"content-type": "application/fhir+json", **gateway.headers(tenant)}
    body = json.dumps(wanted(gateway)).encode() if method in ("put", "post") else None
    return gateway.http.request(method, address, headers=headers, content=body)


def test_no_route_shows_a_tenant_what_is_anothers(gateway: Gateway, owned: dict[str, str]) -> None:
    walked = routes(gateway)
    assert len(walked) >= 11
    before = gateway.settled()
    for method, path in walked:
        theirs = asked(gateway, method, path, owned, "zenith")
        nobodys = asked(gateway, method, path, UNKNOWN, "zenith")
        outcome_of(theirs, 404, "not-found")
        assert theirs.content == nobodys.content, path
        if method == "get":
            assert asked(gateway, method, path, owned, "acme").status_code == 200, path
    assert gateway.settled() == before
    assert not gateway.rows(
        "SELECT 1 FROM pagw.audit_log WHERE tenant = 'zenith' AND pagw_id = %s", owned["pagw_id"]
    )


def test_lists_have_a_tenants_own_alone(gateway: Gateway, owned: dict[str, str]) -> None:
    paths = gateway.http.get("/openapi.json").json()["paths"]
    lists = [path for path in paths if "get" in paths[path] and "{" not in path and path != "/openapi.json"]
    assert {"/pas/requests", "/fhir/Subscription"} <= set(lists)
    first = gateway.get("/pas/requests?limit=1").json()
    for path in [*lists, f"/pas/requests?cursor={first['cursor']}"]:
        told = gateway.get(path, "zenith").text
        assert owned["pagw_id"] not in told and owned["subscription_id"] not in told, path


@pytest.mark.proves("PG-9")
@pytest.mark.proves("PG-X5")
def test_the_same_key_of_another_tenant_is_another_key(gateway: Gateway) -> None:
    key, bundle = fresh("key"), build_request_bundle(reference=fresh("T"))
    ours = gateway.submit(bundle, "acme", key).json()["pagwId"]
    answer = gateway.submit(build_request_bundle(reference=fresh("T")), "zenith", key)
    assert answer.status_code == 202 and "idempotency-replayed" not in answer.headers
    theirs = answer.json()["pagwId"]
    kept = [
        gateway.run(gateway.stores.run(submission(build_idempotency_key(each, key))))
        for each in ("acme", "zenith")
    ]
    assert [each.pagw_id for each in kept] == [ours, theirs] and ours != theirs
    # A colon in a key cannot make it another tenant's: no tenant has one.
    colon = gateway.submit(bundle, "acme", f"zenith:{key}")
    assert colon.status_code == 202 and "idempotency-replayed" not in colon.headers
    for tenant in ("acme:zenith", "Acme", "a" * 51, "acme#x", ""):
        refused = gateway.http.get("/pas/requests", headers=gateway.headers(tenant))
        outcome_of(refused, 401)


def test_another_tenants_request_cannot_be_cancelled_or_updated(gateway: Gateway) -> None:
    former = build_request_bundle(reference=fresh("T"), member=PEOPLE[1])
    pagw_id = gateway.claim(former).headers["x-pagw-id"]
    gateway.ended(pagw_id)
    outcome_of(gateway.claim(build_cancel_bundle(former, reference=fresh("C")), "zenith"), 422, "not-found")
    named: dict[str, Any] = build_cancel_bundle(former, reference=fresh("C"))
    named["entry"][0]["resource"]["related"][0]["claim"] = {
        "identifier": {"system": "urn:pagw:request", "value": pagw_id}
    }
    assert gateway.claim(named, "zenith").status_code == 422
    assert gateway.get(f"/pas/requests/{pagw_id}").json()["status"] == "COMPLETED"


def test_a_session_is_of_one_tenant(gateway: Gateway, owned: dict[str, str]) -> None:
    session = httpx2.post(f"{gateway.url}/sessions", headers=gateway.headers("acme")).json()["session"]
    path = f"{gateway.url}/pas/requests/{owned['pagw_id']}"
    assert httpx2.get(path, headers={"authorization": f"Session {session}"}).status_code == 200
    moved = "zenith." + session.partition(".")[2]
    outcome_of(httpx2.get(path, headers={"authorization": f"Session {moved}"}), 401, "expired")


@pytest.mark.proves("PG-X23")
def test_a_tenant_that_asks_too_often_waits_and_others_do_not(gateway: Gateway) -> None:
    answers = [gateway.submit(tenant="slow") for _ in range(5)]
    assert [each.status_code for each in answers] == [202, 202, 202, 429, 429]
    outcome_of(answers[-1], 429, "throttled")
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 120
    outcome_of(gateway.get("/pas/requests", "slow"), 429, "throttled")
    assert gateway.submit(tenant="acme").status_code == 202
    assert gateway.audit("REFUSED", "slow") == []
