"""Da Vinci PAS over HTTP: `$submit` with its answer, updates and cancellations, `$inquire`, subscriptions, capabilities."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pagw.demo.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    build_cancel_bundle,
    build_inquiry_bundle,
    build_request_bundle,
    build_update_bundle,
)
from pagw.domain.fhir import urls
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.decisions import ReviewAction
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.rules.pas_rules import check_response
from pagw.domain.fhir.rules.structure import check_structure
from tests.acceptance.pagw.gateway import Gateway, fresh, outcome_of, register

PENDED, DENIED = "70551", "15820"
CANCELLED = ReviewAction.CANCELLED.value
FIXTURES = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "pagw"
    / "inferno-pas-fixtures"
)
with_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with pagw/inferno-pas-fixtures",
)


def first(bundle: dict[str, Any]) -> dict[str, Any]:
    resource: dict[str, Any] = bundle["entry"][0]["resource"]
    return resource


def actions(bundle: dict[str, Any]) -> set[str]:
    """The X12 review action codes of an answer."""
    return {
        part["valueCodeableConcept"]["coding"][0]["code"]
        for item in first(bundle)["item"]
        for adjudication in item["adjudication"]
        for review in adjudication["extension"]
        for part in review["extension"]
        if part["url"] == urls.REVIEW_ACTION_CODE
    }


@pytest.mark.proves("PG-X15")
@pytest.mark.parametrize(("code", "action"), [("99213", "A1"), (DENIED, "A3"), (PENDED, "A4")])
def test_a_claim_is_answered_at_once_with_what_the_payer_says(
    gateway: Gateway, code: str, action: str
) -> None:
    bundle = build_request_bundle(reference=fresh("F"), items=[code])
    answer = gateway.claim(bundle)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/fhir+json")
    assert select_errors(check_response(answer.json(), bundle)) == []
    assert actions(answer.json()) == {action}
    assert [each for each in gateway.audit("PHI_READ") if each[0] == answer.headers["x-pagw-id"]] == [
        (answer.headers["x-pagw-id"], "acme-client", "ClaimResponse", {})
    ]


@pytest.mark.proves("PG-X15")
def test_a_claim_that_is_not_decided_in_time_is_pended_and_its_bundle_names_it(still: Gateway) -> None:
    bundle = build_request_bundle(reference=fresh("F"))
    answer, again = still.claim(bundle), still.claim(bundle)
    assert first(answer.json())["outcome"] == "queued" and actions(answer.json()) == {"A4"}
    assert select_errors(check_response(answer.json(), bundle)) == []
    assert again.headers["x-pagw-id"] == answer.headers["x-pagw-id"]
    assert again.headers["idempotency-replayed"] == "true"
    changed = {**bundle, "timestamp": "2026-03-03T10:00:00Z"}
    outcome_of(still.claim(changed), 422, "conflict")


def test_an_update_and_a_cancellation_follow_the_request_they_name(gateway: Gateway) -> None:
    former = build_request_bundle(reference=fresh("F"), items=[PENDED])
    submitted = gateway.claim(former).headers["x-pagw-id"]
    updated = gateway.claim(build_update_bundle(former, reference=fresh("U"), added=["99213"]))
    assert (updated.status_code, actions(updated.json())) == (200, {"A4"}), updated.text
    shown = gateway.get(f"/pas/requests/{updated.headers['x-pagw-id']}").json()
    assert (shown["kind"], shown["replaces"]) == ("update", submitted)

    reference = fresh("F")
    approved = build_request_bundle(reference=reference)
    pagw_id = gateway.claim(approved).headers["x-pagw-id"]
    gateway.ended(pagw_id)
    cancelled = gateway.claim(build_cancel_bundle(approved, reference=fresh("C")))
    assert actions(cancelled.json()) == {CANCELLED}
    assert gateway.ended(pagw_id, "acme", "CANCELLED")["decision"] == "approved"
    told = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()
    assert [actions(each["resource"]) for each in told["parameter"]] == [{CANCELLED}]
    stranger = build_request_bundle(reference=fresh("F"))
    outcome_of(gateway.claim(build_cancel_bundle(stranger, reference=fresh("C"))), 422, "not-found")


def test_an_inquiry_finds_what_its_asker_may_see_and_nothing_else(gateway: Gateway) -> None:
    reference, member = fresh("F"), PEOPLE[3]
    asked = build_request_bundle(reference=reference, member=member, npi=PROVIDER_NPIS[3])
    answer = gateway.claim(asked)
    number = first(answer.json())["preAuthRef"]
    right: dict[str, Any] = {"member": member, "npi": PROVIDER_NPIS[3]}

    def inquire(tenant: str = "acme", **by: Any) -> list[dict[str, Any]]:
        told = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(**by), tenant)
        assert told.status_code == 200 and told.json()["resourceType"] == "Parameters", told.text
        return [each["resource"] for each in told.json().get("parameter", [])]

    reads = len(gateway.audit("PHI_READ"))
    known: list[dict[str, Any]] = [{"claim_reference": reference}, {"authorization_number": number}]
    for by in [*known, {}]:
        (found,) = inquire(**right, **by)
        assert first(found)["preAuthRef"] == number and actions(found) == {"A1"}
        assert first(found)["meta"]["profile"] == [urls.CLAIM_INQUIRY_RESPONSE]
        assert select_errors(check_response(found, asked)) == []
    assert len(gateway.audit("PHI_READ")) == reads + 3

    for wrong in ({"member": PEOPLE[4]}, {"npi": PROVIDER_NPIS[4]}):
        for by in known:
            assert inquire(**{**right, **wrong}, **by) == []
    assert inquire("zenith", **right, claim_reference=reference) == []
    assert len(gateway.audit("PHI_READ")) == reads + 3
    nobodys = {**build_inquiry_bundle(), "entry": build_inquiry_bundle()["entry"][1:]}
    outcome_of(gateway.post("/fhir/Claim/$inquire", nobodys), 422, "invariant")


def test_an_inquiry_finds_a_request_that_was_only_just_accepted(still: Gateway) -> None:
    reference = fresh("F")
    still.accepted(build_request_bundle(reference=reference))
    told = still.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()
    assert actions(told["parameter"][0]["resource"]) == {"A4"}


def test_capabilities_are_told_to_everybody(gateway: Gateway) -> None:
    told = gateway.http.get("/fhir/metadata")
    assert (told.status_code, told.headers["content-type"]) == (200, "application/fhir+json")
    assert check_structure(told.json(), "CapabilityStatement") == []
    assert told.json()["implementation"]["url"] == f"{gateway.url}/fhir"


# --- subscriptions ------------------------------------------------------------------------------------------


def wanted(gateway: Gateway, **changes: Any) -> dict[str, Any]:
    channel = {
        "type": "rest-hook",
        "endpoint": f"{gateway.parties.client_url}/notifications/acme",
        "payload": "application/fhir+json",
        "_payload": {"extension": [{"url": urls.PAYLOAD_CONTENT, "valueCode": "full-resource"}]},
        "header": ["Authorization: Bearer of-the-client"],
        **changes,
    }
    criterion = f"org-identifier={urls.NPI}|{PROVIDER_NPIS[2]}"
    return {
        "resourceType": "Subscription",
        "status": "requested",
        "reason": "Decisions",
        "criteria": urls.TOPIC,
        "_criteria": {"extension": [{"url": urls.FILTER_CRITERIA, "valueString": criterion}]},
        "channel": channel,
    }


@pytest.mark.proves("PG-47")
def test_a_subscriber_is_told_of_decisions_while_it_wants_to_be(gateway: Gateway) -> None:
    made = gateway.post("/fhir/Subscription", wanted(gateway))
    assert (made.status_code, made.json()["status"]) == (201, "active"), made.text
    path, id = made.headers["location"], made.json()["id"]
    assert path == f"/fhir/Subscription/{id}"

    def told_of(reference: str) -> list[str]:
        asked = build_request_bundle(reference=reference, npi=PROVIDER_NPIS[2])
        pagw_id = gateway.claim(asked).headers["x-pagw-id"]
        gateway.ended(pagw_id)
        return [
            each["subscriptionId"] for each in gateway.delivered(pagw_id) if each["status"] == "delivered"
        ]

    assert told_of(fresh("F")) == [id]
    status = gateway.get(f"{path}/$status").json()["entry"][0]["resource"]["parameter"]
    told = {each["name"]: each for each in status}
    assert told["events-since-subscription-start"]["valueString"] == "1"
    assert gateway.get(path).json() == made.json() and "header" not in made.json()["channel"]
    assert id in [each["resource"]["id"] for each in gateway.get("/fhir/Subscription").json()["entry"]]

    def turned(resource: Any) -> Any:
        content = json.dumps(resource)
        headers = {"content-type": "application/fhir+json", **gateway.headers()}
        return gateway.http.put(path, content=content, headers=headers)

    assert turned({**made.json(), "status": "off"}).json()["status"] == "off"
    assert told_of(fresh("F")) == []
    assert turned({**made.json(), "status": "active"}).json()["status"] == "active"
    outcome_of(turned(wanted(gateway, endpoint="https://elsewhere.example/hook")), 422, "not-supported")
    assert gateway.http.delete(path, headers=gateway.headers()).status_code == 204
    assert told_of(fresh("F")) == []
    assert gateway.get(path).json()["status"] == "off"


def test_a_subscription_that_cannot_be_served_is_refused(still: Gateway) -> None:
    before = still.stored()
    for body, status, code in (
        (wanted(still, endpoint="http://169.254.169.254/latest"), 422, "value"),
        (wanted(still, type="email"), 422, "not-supported"),
        (build_request_bundle(), 422, "invalid"),
        (b"[]", 400, "structure"),
        (b" " * 200_000, 413, "too-long"),
    ):
        outcome_of(still.post("/fhir/Subscription", body), status, code)
    assert still.stored() == before
    still.parties.client.behaviour.refuses_handshakes = True
    try:
        made = still.post("/fhir/Subscription", wanted(still)).json()
    finally:
        still.parties.client.behaviour.refuses_handshakes = False
    assert made["status"] == "error" and made["error"]


# --- the test kit's bundles ---------------------------------------------------------------------------------


@with_fixtures
@pytest.mark.parametrize(
    "name",
    [
        "conformant_pas_bundle_v110",
        "conformant_pas_bundle_v110_multiple_items",
        "conformant_pas_bundle_v110_uuid",
    ],
)
def test_a_conformant_bundle_is_answered(gateway: Gateway, name: str) -> None:
    body = (FIXTURES / f"{name}.json").read_bytes()
    bundle = parse_bundle(body)
    claim = parse_claim(bundle)
    gateway.run(register(gateway.stores, gateway.parties.payer_url, claim.payer_id, claim.provider_npi))
    answer = gateway.post("/fhir/Claim/$submit", body, "fixtures", {"x-idempotency-key": name})
    assert answer.status_code == 200, answer.text
    assert select_errors(check_response(answer.json(), bundle)) == []


@with_fixtures
@pytest.mark.parametrize(
    "name",
    ["nonconformant_pas_bundle_v110", "missing_referenced_resource_request_bundle", "pas_claim"],
)
def test_a_bundle_that_is_not_conformant_is_refused(still: Gateway, name: str) -> None:
    before = still.stored()
    body = (FIXTURES / f"{name}.json").read_bytes()
    outcome_of(still.post("/fhir/Claim/$submit", body, "fixtures"), 422)
    assert still.stored() == before
    assert still.audit("REFUSED", "fixtures")


@with_fixtures
def test_the_conformant_inquiry_is_answered(gateway: Gateway) -> None:
    body = (FIXTURES / "conformant_pas_inquire_bundle_v110.json").read_bytes()
    told = gateway.post("/fhir/Claim/$inquire", body, "fixtures")
    assert (told.status_code, told.json()["resourceType"]) == (200, "Parameters")
