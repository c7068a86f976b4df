"""Audit of refused HTTP calls: unauthenticated, forbidden and foreign ones, without a flood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.web import sign
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET
from pagw.api.routes import refusal_audit
from tests.systems.pagw.acceptance.gateway import (
    FHIR,
    ExternalServices,
    Gateway,
    expect_outcome,
    make_unique,
    start_gateway,
)


def list_refusals_since(gateway: Gateway, id: int) -> list[tuple[Any, ...]]:
    """Return tenant, actor, resource and details of the refusals after an audit row's id."""
    return gateway.rows(
        "SELECT tenant, actor_id, resource_type, resource_id, details FROM pagw.audit_log "
        "WHERE event_type = 'REFUSED' AND id > %s ORDER BY id",
        id,
    )


def get_newest_id(gateway: Gateway) -> int:
    """Return the id of the newest audit row, 0 if there is none."""
    return int(gateway.rows("SELECT coalesce(max(id), 0) FROM pagw.audit_log")[0][0])


def test_unauthenticated_call_is_audited_but_a_flood_is_not(
    external_services: ExternalServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_audit, "MAX_UNAUTHENTICATED", 3)
    monkeypatch.setattr(refusal_audit, "MINUTE_S", 1e12)
    with start_gateway(external_services, "api") as own:
        for headers in (own.headers(flaw="expired"), own.headers(flaw="forged"), {}, {}, {}):
            expect_outcome(own.http.get("/pas/requests", headers=headers), 401)
        events = list_refusals_since(own, 0)
        assert [each[:4] for each in events] == [(None, "unknown", "call", None)] * 3
        reasons = [each[4]["reason"] for each in events]
        assert reasons == ["TokenExpired", "TokenForged", "TokenMissing"]
        assert {(each[4]["method"], each[4]["path"]) for each in events} == {("GET", "/pas/requests")}
        # The next minute's first row reports how many were left out.
        monkeypatch.setattr(refusal_audit, "MINUTE_S", 1e9)
        expect_outcome(own.http.get("/pas/requests"), 401)
        assert list_refusals_since(own, 0)[3][4]["leftOut"] == 2


def test_missing_scope_is_audited_on_every_route(idle_gateway: Gateway) -> None:
    pagw_id, since = idle_gateway.submit_accepted(), get_newest_id(idle_gateway)
    writer = idle_gateway.headers(scope="system/Claim.write")
    for path in ("/pas/requests", f"/pas/requests/{pagw_id}/bundle", "/fhir/Subscription"):
        expect_outcome(idle_gateway.http.get(path, headers=writer), 403, "forbidden")
    expect_outcome(idle_gateway.http.post("/sessions", headers=writer), 403, "forbidden")
    events = list_refusals_since(idle_gateway, since)
    assert [each[2] for each in events] == ["call", "contents", "call", "session"]
    assert {(each[0], each[1], each[4]["reason"]) for each in events} == {
        ("acme", "acme-client", "InsufficientScope")
    }


def test_refused_reads_cancellations_and_subscription_changes_are_audited(gateway: Gateway) -> None:
    pagw_id = gateway.submit_accepted()
    gateway.wait_for_end(pagw_id)
    since = get_newest_id(gateway)
    for what in ("bundle", "response", "attachments/attachment_001.pdf"):
        expect_outcome(gateway.get(f"/pas/requests/{pagw_id}/{what}", "zenith"), 404, "not-found")
    expect_outcome(gateway.post(f"/pas/requests/{pagw_id}/cancel"), 409, "conflict")
    subscription = "/fhir/Subscription/sub-01m7grwrh1wbm590hyw6a9zsqz"
    expect_outcome(gateway.http.delete(subscription, headers=gateway.headers()), 404, "not-found")
    put = gateway.http.put(subscription, content=b"[]", headers={**gateway.headers(), "content-type": FHIR})
    expect_outcome(put, 400, "structure")
    events = [each for each in list_refusals_since(gateway, since) if each[0] is not None]
    assert [each[:4] for each in events] == [
        *[("zenith", "zenith-client", "contents", pagw_id)] * 3,
        ("acme", "acme-client", "cancellation", pagw_id),
        *[("acme", "acme-client", "subscription", None)] * 2,
    ]
    # The refusal is in the other tenant's audit, not in the owner's.
    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").text
    assert "zenith" not in trail


def test_invalid_parameter_of_a_submission_is_audited_without_its_value(idle_gateway: Gateway) -> None:
    since = get_newest_id(idle_gateway)
    expect_outcome(idle_gateway.submit(key="Ambrosine Quillfeather"), 400, "value")
    (event,) = list_refusals_since(idle_gateway, since)
    assert event[:4] == ("acme", "acme-client", "submission", None)
    assert event[4] == {"status": 400, "codes": ["value"], "path": "/pas/requests", "method": "POST"}


def test_polls_for_a_response_are_not_audited(idle_gateway: Gateway) -> None:
    pagw_id, since = idle_gateway.submit_accepted(), get_newest_id(idle_gateway)
    for _ in range(3):
        expect_outcome(idle_gateway.get(f"/pas/requests/{pagw_id}/response"), 404, "not-found")
    assert list_refusals_since(idle_gateway, since) == []


def test_forged_payer_callback_is_audited(gateway: Gateway) -> None:
    body, since = json.dumps({"reference": "x"}).encode(), get_newest_id(gateway)
    for secret in ("somebody-elses-secret-of-32-chars", CALLBACK_SECRET):
        signature = sign(secret, body, gateway.stores.clock.now())
        headers = {"x-payer-signature": signature}
        answer = gateway.http.post("/payer-callbacks/ACME-HEALTH", content=body, headers=headers)
        assert answer.status_code == (400 if secret == CALLBACK_SECRET else 401)
    (event,) = [each for each in list_refusals_since(gateway, since) if each[2] == "payer-callback"]
    assert event[:4] == (None, "unknown", "payer-callback", "ACME-HEALTH")


def test_audit_of_a_refusal_holds_the_route_but_no_path_values(idle_gateway: Gateway) -> None:
    since = get_newest_id(idle_gateway)
    expect_outcome(idle_gateway.get("/pas/requests/Ambrosine-Quillfeather/bundle"), 404)
    bundle = build_request_bundle(reference=make_unique("X"), payer="NOBODY")
    expect_outcome(idle_gateway.submit(bundle), 422)
    events = list_refusals_since(idle_gateway, since)
    assert len(events) == 2 and "Quillfeather" not in json.dumps(events)
    assert events[0][4]["path"] == "/pas/requests/{pagw_id}/bundle"
