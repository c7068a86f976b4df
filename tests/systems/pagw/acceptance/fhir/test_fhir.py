"""Da Vinci PAS over HTTP: `$submit`, updates and cancellations, `$inquire`, subscriptions, capabilities."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import (
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
from pagw.domain.profiles import GuideVersion
from tests.systems.pagw.acceptance.gateway import Gateway, expect_outcome, make_unique, register

PENDED, DENIED = "70551", "15820"
CANCELLED = ReviewAction.CANCELLED.value
FIXTURES = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
    / "pagw"
    / "inferno-pas-fixtures"
)
with_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with pagw/inferno-pas-fixtures",
)


def get_first_resource(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return the resource of the first entry."""
    resource: dict[str, Any] = bundle["entry"][0]["resource"]
    return resource


def get_review_actions(bundle: dict[str, Any]) -> set[str]:
    """Return the X12 review action codes of a response."""
    return {
        part["valueCodeableConcept"]["coding"][0]["code"]
        for item in get_first_resource(bundle)["item"]
        for adjudication in item["adjudication"]
        for review in adjudication["extension"]
        for part in review["extension"]
        if part["url"] == urls.REVIEW_ACTION_CODE
    }


@pytest.mark.proves("PG-X15")
@pytest.mark.parametrize(("code", "action"), [("99213", "A1"), (DENIED, "A3"), (PENDED, "A4")])
def test_claim_is_answered_with_the_payers_decision(gateway: Gateway, code: str, action: str) -> None:
    bundle = build_request_bundle(reference=make_unique("F"), items=[code])
    answer = gateway.submit_claim(bundle)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/fhir+json")
    # PAS 2.2.1 has no outcome `queued`, which a pended response has.
    version: GuideVersion = "2.0.1" if action == "A4" else "2.2.1"
    assert select_errors(check_response(answer.json(), bundle, version)) == []
    assert get_review_actions(answer.json()) == {action}
    assert [each for each in gateway.read_audit("PHI_READ") if each[0] == answer.headers["x-pagw-id"]] == [
        (answer.headers["x-pagw-id"], "acme-client", "ClaimResponse", {})
    ]


@pytest.mark.proves("PG-X15")
def test_undecided_claim_is_answered_as_pended(idle_gateway: Gateway) -> None:
    """A repeat gets the same request, and another bundle under its key is refused."""
    bundle = build_request_bundle(reference=make_unique("F"))
    answer, again = idle_gateway.submit_claim(bundle), idle_gateway.submit_claim(bundle)
    assert get_first_resource(answer.json())["outcome"] == "queued" and get_review_actions(answer.json()) == {
        "A4"
    }
    assert select_errors(check_response(answer.json(), bundle, "2.0.1")) == []
    assert again.headers["x-pagw-id"] == answer.headers["x-pagw-id"]
    assert again.headers["idempotency-replayed"] == "true"
    changed = {**bundle, "timestamp": "2026-03-03T10:00:00Z"}
    expect_outcome(idle_gateway.submit_claim(changed), 422, "conflict")


def test_update_and_cancellation_apply_to_the_request_they_name(gateway: Gateway) -> None:
    """A cancelled request keeps its decision, and a cancellation of an unknown claim is refused."""
    former = build_request_bundle(reference=make_unique("F"), items=[PENDED])
    submitted = gateway.submit_claim(former).headers["x-pagw-id"]
    updated = gateway.submit_claim(build_update_bundle(former, reference=make_unique("U"), added=["99213"]))
    assert (updated.status_code, get_review_actions(updated.json())) == (200, {"A4"}), updated.text
    shown = gateway.get(f"/pas/requests/{updated.headers['x-pagw-id']}").json()
    assert (shown["kind"], shown["replaces"]) == ("update", submitted)

    reference = make_unique("F")
    approved = build_request_bundle(reference=reference)
    pagw_id = gateway.submit_claim(approved).headers["x-pagw-id"]
    gateway.wait_for_end(pagw_id)
    cancelled = gateway.submit_claim(build_cancel_bundle(approved, reference=make_unique("C")))
    assert get_review_actions(cancelled.json()) == {CANCELLED}
    assert gateway.wait_for_end(pagw_id, "acme", "CANCELLED")["decision"] == "approved"
    body = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()
    assert [get_review_actions(each["resource"]) for each in body["parameter"]] == [{CANCELLED}]
    stranger = build_request_bundle(reference=make_unique("F"))
    expect_outcome(
        gateway.submit_claim(build_cancel_bundle(stranger, reference=make_unique("C"))), 422, "not-found"
    )


def test_inquiry_finds_only_what_the_caller_may_see(gateway: Gateway) -> None:
    reference, member = make_unique("F"), PEOPLE[3]
    asked = build_request_bundle(reference=reference, member=member, npi=PROVIDER_NPIS[3])
    answer = gateway.submit_claim(asked)
    number = get_first_resource(answer.json())["preAuthRef"]
    right: dict[str, Any] = {"member": member, "npi": PROVIDER_NPIS[3]}

    def inquire(tenant: str = "acme", **by: Any) -> list[dict[str, Any]]:
        response = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(**by), tenant)
        assert response.status_code == 200 and response.json()["resourceType"] == "Parameters", response.text
        return [each["resource"] for each in response.json().get("parameter", [])]

    reads = len(gateway.read_audit("PHI_READ"))
    known: list[dict[str, Any]] = [{"claim_reference": reference}, {"authorization_number": number}]
    for by in [*known, {}]:
        (found,) = inquire(**right, **by)
        assert get_first_resource(found)["preAuthRef"] == number and get_review_actions(found) == {"A1"}
        assert get_first_resource(found)["meta"]["profile"] == [urls.CLAIM_INQUIRY_RESPONSE]
        assert select_errors(check_response(found, asked)) == []
    assert len(gateway.read_audit("PHI_READ")) == reads + 3

    for wrong in ({"member": PEOPLE[4]}, {"npi": PROVIDER_NPIS[4]}):
        for by in known:
            assert inquire(**{**right, **wrong}, **by) == []
    assert inquire("zenith", **right, claim_reference=reference) == []
    assert len(gateway.read_audit("PHI_READ")) == reads + 3
    nobodys = {**build_inquiry_bundle(), "entry": build_inquiry_bundle()["entry"][1:]}
    expect_outcome(gateway.post("/fhir/Claim/$inquire", nobodys), 422, "required")


def test_inquiry_finds_a_request_just_accepted(idle_gateway: Gateway) -> None:
    reference = make_unique("F")
    idle_gateway.submit_accepted(build_request_bundle(reference=reference))
    body = idle_gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()
    assert get_review_actions(body["parameter"][0]["resource"]) == {"A4"}


def test_capability_statement_is_public(gateway: Gateway) -> None:
    response = gateway.http.get("/fhir/metadata")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/fhir+json")
    assert check_structure(response.json(), "CapabilityStatement") == []
    assert response.json()["implementation"]["url"] == f"{gateway.url}/fhir"


def build_subscription(gateway: Gateway, **changes: Any) -> dict[str, Any]:
    """Build a Subscription to the sandbox client's server. `changes` replace elements of its channel."""
    channel = {
        "type": "rest-hook",
        "endpoint": f"{gateway.services.client_url}/notifications/acme",
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
def test_subscriber_is_notified_while_its_subscription_is_active(gateway: Gateway) -> None:
    made = gateway.post("/fhir/Subscription", build_subscription(gateway))
    assert (made.status_code, made.json()["status"]) == (201, "active"), made.text
    path, id = made.headers["location"], made.json()["id"]
    assert path == f"/fhir/Subscription/{id}"

    def submit_and_list_notified(reference: str) -> list[str]:
        asked = build_request_bundle(reference=reference, npi=PROVIDER_NPIS[2])
        pagw_id = gateway.submit_claim(asked).headers["x-pagw-id"]
        gateway.wait_for_end(pagw_id)
        return [
            each["subscriptionId"]
            for each in gateway.wait_for_deliveries(pagw_id)
            if each["status"] == "delivered"
        ]

    assert submit_and_list_notified(make_unique("F")) == [id]
    status = gateway.get(f"{path}/$status").json()["entry"][0]["resource"]["parameter"]
    parameters = {each["name"]: each for each in status}
    assert parameters["events-since-subscription-start"]["valueString"] == "1"
    assert gateway.get(path).json() == made.json() and "header" not in made.json()["channel"]
    assert id in [each["resource"]["id"] for each in gateway.get("/fhir/Subscription").json()["entry"]]

    def put(resource: Any) -> Any:
        content = json.dumps(resource)
        headers = {"content-type": "application/fhir+json", **gateway.headers()}
        return gateway.http.put(path, content=content, headers=headers)

    assert put({**made.json(), "status": "off"}).json()["status"] == "off"
    assert submit_and_list_notified(make_unique("F")) == []
    assert put({**made.json(), "status": "active"}).json()["status"] == "active"
    expect_outcome(
        put(build_subscription(gateway, endpoint="https://elsewhere.example/hook")), 422, "not-supported"
    )
    assert gateway.http.delete(path, headers=gateway.headers()).status_code == 204
    assert submit_and_list_notified(make_unique("F")) == []
    assert gateway.get(path).json()["status"] == "off"


def test_refuses_unsupported_subscriptions_and_reports_refused_handshakes(idle_gateway: Gateway) -> None:
    """A subscription whose endpoint refuses the handshake is created with the status `error`."""
    before = idle_gateway.count_stored()
    for body, status, code in (
        (build_subscription(idle_gateway, endpoint="http://169.254.169.254/latest"), 422, "value"),
        (build_subscription(idle_gateway, type="email"), 422, "not-supported"),
        (build_request_bundle(), 422, "invalid"),
        (b"[]", 400, "structure"),
        (b" " * 200_000, 413, "too-long"),
    ):
        expect_outcome(idle_gateway.post("/fhir/Subscription", body), status, code)
    assert idle_gateway.count_stored() == before
    idle_gateway.services.client.behaviour.refuses_handshakes = True
    try:
        made = idle_gateway.post("/fhir/Subscription", build_subscription(idle_gateway)).json()
    finally:
        idle_gateway.services.client.behaviour.refuses_handshakes = False
    assert made["status"] == "error" and made["error"]


def load_as_2_0_1(name: str) -> dict[str, Any]:
    """Load a Bundle of PAS 1.1 as one of 2.0.1: it says so, and its items have a category."""
    bundle = parse_bundle((FIXTURES / f"{name}.json").read_bytes())
    bundle["meta"]["profile"] = [f"{each}|2.0.1" for each in bundle["meta"]["profile"]]
    for item in bundle["entry"][0]["resource"].get("item", ()):
        item.setdefault("category", {"text": "Consultation"})
    return bundle


@with_fixtures
@pytest.mark.parametrize(
    "name",
    [
        "conformant_pas_bundle_v110",
        "conformant_pas_bundle_v110_multiple_items",
        "conformant_pas_bundle_v110_uuid",
    ],
)
def test_answers_a_conformant_bundle(gateway: Gateway, name: str) -> None:
    bundle = load_as_2_0_1(name)
    body = json.dumps(bundle).encode()
    claim = parse_claim(bundle)
    gateway.run(register(gateway.stores, gateway.services.payer_url, claim.payer_id, claim.provider_npi))
    answer = gateway.post("/fhir/Claim/$submit", body, "fixtures", {"x-idempotency-key": name})
    assert answer.status_code == 200, answer.text
    assert select_errors(check_response(answer.json(), bundle, "2.0.1")) == []


@with_fixtures
@pytest.mark.parametrize(
    "name",
    ["nonconformant_pas_bundle_v110", "missing_referenced_resource_request_bundle", "pas_claim"],
)
def test_refuses_a_non_conformant_bundle(idle_gateway: Gateway, name: str) -> None:
    before = idle_gateway.count_stored()
    body = (FIXTURES / f"{name}.json").read_bytes()
    expect_outcome(idle_gateway.post("/fhir/Claim/$submit", body, "fixtures"), 422)
    assert idle_gateway.count_stored() == before
    assert idle_gateway.read_audit("REFUSED", "fixtures")


@with_fixtures
def test_answers_the_conformant_inquiry(gateway: Gateway) -> None:
    body = json.dumps(load_as_2_0_1("conformant_pas_inquire_bundle_v110")).encode()
    response = gateway.post("/fhir/Claim/$inquire", body, "fixtures")
    assert (response.status_code, response.json()["resourceType"]) == (200, "Parameters")
