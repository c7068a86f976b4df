"""The audit of refusals: of those who prove nothing, who may not, and who ask for what is not theirs; without floods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.web import sign
from pagw.api.routes import refusal_audit
from pagw.demo.sample.bundles import build_request_bundle
from pagw.demo.sandbox.payer import CALLBACK_SECRET
from tests.acceptance.pagw.gateway import FHIR, Gateway, Parties, fresh, outcome_of
from tests.acceptance.pagw.gateway import gateway as opened_gateway


def refused_since(gateway: Gateway, id: int) -> list[tuple[Any, ...]]:
    return gateway.rows(
        "SELECT tenant, actor_id, resource_type, resource_id, details FROM pagw.audit_log "
        "WHERE event_type = 'REFUSED' AND id > %s ORDER BY id",
        id,
    )


def newest(gateway: Gateway) -> int:
    return int(gateway.rows("SELECT coalesce(max(id), 0) FROM pagw.audit_log")[0][0])


def test_who_proves_nothing_is_written_down_and_a_flood_of_them_is_not(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_audit, "MAX_UNAUTHENTICATED", 3)
    monkeypatch.setattr(refusal_audit, "MINUTE_S", 1e12)
    with opened_gateway(parties, "api") as own:
        for headers in (own.headers(flaw="expired"), own.headers(flaw="forged"), {}, {}, {}):
            outcome_of(own.http.get("/pas/requests", headers=headers), 401)
        events = refused_since(own, 0)
        assert [each[:4] for each in events] == [(None, "unknown", "call", None)] * 3
        reasons = [each[4]["reason"] for each in events]
        assert reasons == ["TokenExpired", "TokenForged", "TokenMissing"]
        assert {(each[4]["method"], each[4]["path"]) for each in events} == {("GET", "/pas/requests")}
        # The next minute tells how many were left out.
        monkeypatch.setattr(refusal_audit, "MINUTE_S", 1e9)
        outcome_of(own.http.get("/pas/requests"), 401)
        assert refused_since(own, 0)[3][4]["leftOut"] == 2


def test_a_missing_scope_is_written_down_on_every_route(still: Gateway) -> None:
    pagw_id, since = still.accepted(), newest(still)
    writer = still.headers(scope="system/Claim.write")
    for path in ("/pas/requests", f"/pas/requests/{pagw_id}/bundle", "/fhir/Subscription"):
        outcome_of(still.http.get(path, headers=writer), 403, "forbidden")
    outcome_of(still.http.post("/sessions", headers=writer), 403, "forbidden")
    events = refused_since(still, since)
    assert [each[2] for each in events] == ["call", "contents", "call", "session"]
    assert {(each[0], each[1], each[4]["reason"]) for each in events} == {
        ("acme", "acme-client", "InsufficientScope")
    }


def test_what_is_not_the_callers_or_too_late_is_written_down(gateway: Gateway) -> None:
    pagw_id = gateway.accepted()
    gateway.ended(pagw_id)
    since = newest(gateway)
    for what in ("bundle", "response", "attachments/attachment_001.pdf"):
        outcome_of(gateway.get(f"/pas/requests/{pagw_id}/{what}", "zenith"), 404, "not-found")
    outcome_of(gateway.post(f"/pas/requests/{pagw_id}/cancel"), 409, "conflict")
    subscription = "/fhir/Subscription/sub-01m7grwrh1wbm590hyw6a9zsqz"
    outcome_of(gateway.http.delete(subscription, headers=gateway.headers()), 404, "not-found")
    put = gateway.http.put(subscription, content=b"[]", headers={**gateway.headers(), "content-type": FHIR})
    outcome_of(put, 400, "structure")
    events = [each for each in refused_since(gateway, since) if each[0] is not None]
    assert [each[:4] for each in events] == [
        *[("zenith", "zenith-client", "contents", pagw_id)] * 3,
        ("acme", "acme-client", "cancellation", pagw_id),
        *[("acme", "acme-client", "subscription", None)] * 2,
    ]
    # The owner's audit of its request knows nothing of it: it is the other's.
    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").text
    assert "zenith" not in trail


def test_polls_and_copies_are_not_written_down(still: Gateway) -> None:
    pagw_id, since = still.accepted(), newest(still)
    for _ in range(3):
        outcome_of(still.get(f"/pas/requests/{pagw_id}/response"), 404, "not-found")
    assert refused_since(still, since) == []


def test_a_forged_callback_of_a_payer_is_written_down(gateway: Gateway) -> None:
    body, since = json.dumps({"reference": "x"}).encode(), newest(gateway)
    for secret in ("somebody-elses-secret-of-32-chars", CALLBACK_SECRET):
        signature = sign(secret, body, gateway.stores.clock.now())
        told = {"x-payer-signature": signature}
        answer = gateway.http.post("/payer-callbacks/ACME-HEALTH", content=body, headers=told)
        assert answer.status_code == (400 if secret == CALLBACK_SECRET else 401)
    (event,) = [each for each in refused_since(gateway, since) if each[2] == "payer-callback"]
    assert event[:4] == (None, "unknown", "payer-callback", "ACME-HEALTH")


def test_the_address_of_a_refused_call_is_not_kept(still: Gateway) -> None:
    since = newest(still)
    outcome_of(still.get("/pas/requests/Ambrosine-Quillfeather/bundle"), 404)
    bundle = build_request_bundle(reference=fresh("X"), payer="NOBODY")
    outcome_of(still.submit(bundle), 422)
    events = refused_since(still, since)
    assert len(events) == 2 and "Quillfeather" not in json.dumps(events)
    assert events[0][4]["path"] == "/pas/requests/{pagw_id}/bundle"
