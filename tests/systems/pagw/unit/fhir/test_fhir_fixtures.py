"""Fixtures of Inferno's PAS test kit, checked by our rules. Skipped without the real data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import CREATED
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.inquiries import parse_inquiry
from pagw.domain.fhir.outcomes import FhirRefused, select_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.responses.capability_statement import build_capability_statement
from pagw.domain.fhir.responses.notifications import check_notification
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.pas_rules import check_inquiry, check_request, check_response
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.subscriptions import FILTERS, parse_subscription
from pagw.domain.fhir.urls import TOPIC
from pagw.domain.profiles import GuideVersion
from tests.systems.pagw.unit.fhir.notable import select_notable

PAGW = Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "pagw"
FIXTURES = PAGW / "inferno-pas-fixtures"
pytestmark = pytest.mark.skipif(
    not FIXTURES.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with pagw/inferno-pas-fixtures",
)


def load_fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_bytes())


@pytest.mark.parametrize(
    "name",
    [
        "conformant_pas_bundle_v110",
        "conformant_pas_bundle_v110_multiple_items",
        "conformant_pas_bundle_v110_uuid",
    ],
)
def test_request_of_pas_1_1_lacks_only_the_category_that_2_0_demands(name: str) -> None:
    request = parse_bundle((FIXTURES / f"{name}.json").read_bytes())
    items = request["entry"][0]["resource"]["item"]
    path = "Bundle.entry[0].resource.ofType(Claim).item"
    errors = [(each.code, each.expression) for each in select_errors(check_request(request, "2.0.1"))]
    assert errors == [("required", f"{path}[{place}].category") for place in range(len(items))]
    for item in items:
        item["category"] = {"text": "Consultation"}
    assert select_errors(check_request(request, "2.0.1")) == []
    claim = parse_claim(request)
    assert (claim.provider_npi, claim.intent) == ("8189991234", "submit")
    for outcome in Outcome:
        answer = build_response_bundle(request, Decision(outcome=outcome), pagw_id="PAGW-1", created=CREATED)
        assert select_errors(check_response(answer, request, "2.0.1")) == []


def test_accepts_the_conformant_inquiry() -> None:
    inquiry = load_fixture("conformant_pas_inquire_bundle_v110")
    assert select_errors(check_inquiry(inquiry, "2.0.1")) == []
    result = parse_inquiry(inquiry)
    assert result.provider_npi == "8189991234" and result.authorization_numbers


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nonconformant_pas_bundle_v110", "structure"),
        ("missing_referenced_resource_request_bundle", "not-found"),
    ],
)
def test_refuses_a_non_conformant_request(name: str, code: str) -> None:
    assert code in {issue.code for issue in select_errors(check_request(load_fixture(name), "2.0.1"))}


def test_refuses_a_bare_claim_with_a_valid_structure() -> None:
    with pytest.raises(FhirRefused, match="expected Bundle"):
        parse_bundle((FIXTURES / "pas_claim.json").read_bytes())
    for name in ("pas_claim", "pas_device_request_all_must_support"):
        assert check_structure(load_fixture(name), name) == []


@pytest.mark.parametrize(
    "name",
    ["valid_pa_response_bundle", "valid_pa_response_bundle_denial", "valid_pa_inquire_response_bundle"],
)
def test_accepts_a_valid_response(name: str) -> None:
    request = load_fixture("conformant_pas_bundle_v110")
    assert select_notable(check_response(load_fixture(name), request, "2.0.1")) == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("invalid_first_entry_response_bundle", "invariant"),
        ("missing_referenced_resource_response_bundle", "not-found"),
        ("pa_response_bundle_missing_elements", "required"),
    ],
)
def test_rejects_an_invalid_response(name: str, code: str) -> None:
    assert code in {
        issue.code for issue in select_errors(check_response(load_fixture(name), version="2.0.1"))
    }


def test_rejects_a_response_that_reuses_a_full_url_for_another_patient() -> None:
    answer, request = (
        load_fixture("response_bundle_patient_wrong_fullurl"),
        load_fixture("conformant_pas_bundle_v110"),
    )
    assert [issue.expression for issue in select_errors(check_response(answer, request, "2.0.1"))] == [
        "Bundle.entry[3]"
    ]


def test_simulated_payer_responses_are_valid() -> None:
    inputs = {each["name"]: each["value"] for each in load_fixture("pas_client_v221_preset")["inputs"]}
    names = [name for name in inputs if name.endswith(("_response", "_responses"))]
    assert len(names) == 7
    for name in names:
        body = json.loads(inputs[name])
        for bundle in body if isinstance(body, list) else [body]:
            # The kit has some of them from its time of PAS 2.0.1.
            version: GuideVersion = "2.2.1" if "identifier" in bundle else "2.0.1"
            assert select_errors(check_response(bundle, version=version)) == [], name
    assert (
        check_structure(json.loads(inputs["operation_failure_operation_outcome"]), "OperationOutcome") == []
    )


@pytest.mark.parametrize("name", ["v221_good", "full_resource"])
def test_accepts_a_valid_subscription(name: str) -> None:
    subscription = parse_subscription(load_fixture(f"PAS_Subscription_example_{name}"))
    assert (subscription.topic, subscription.organization, subscription.content) == (
        TOPIC,
        "8189991234",
        "full-resource",
    )


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("bad_topic_and_criteria", {"Subscription.criteria", "Subscription.criteria.extension"}),
        ("v221_bad", {"Subscription.channel.type", "Subscription.channel.payload.extension"}),
        ("id_only", {"Subscription.channel.payload.extension"}),
    ],
)
def test_refuses_an_invalid_subscription_with_its_reason(name: str, places: set[str]) -> None:
    with pytest.raises(FhirRefused) as caught:
        parse_subscription(load_fixture(f"PAS_Subscription_example_{name}"))
    assert {issue.expression for issue in caught.value.issues} == places


def test_accepts_the_full_notification_and_refuses_incomplete_ones() -> None:
    notification = load_fixture("PAS_notification_example_full_resource")
    assert select_errors(check_notification(notification, "2.0.1")) == []
    for name in ("PAS_notification_example_id_only", "PAS_notification_missing_elements"):
        assert select_errors(check_notification(load_fixture(name))), name


def test_capability_statement_declares_what_a_pas_server_declares() -> None:
    theirs = load_fixture("pas_server_capability_statement")
    ours = build_capability_statement("https://gateway.example/fhir", "1", CREATED)
    assert ours["fhirVersion"] == theirs["fhirVersion"] and ours["format"] == theirs["format"]
    for their, our in zip(theirs["rest"][0]["resource"], ours["rest"][0]["resource"], strict=True):
        assert our["type"] == their["type"]
        assert our.get("extension") == their.get("extension")
        operations = {each["definition"] for each in our.get("operation", ())}
        assert operations >= {each["definition"] for each in their.get("operation", ())}
        codes = {each["code"] for each in our.get("interaction", ())}
        assert codes >= {each["code"] for each in their.get("interaction", ())}


def test_topic_matches_the_published_guide() -> None:
    topic = json.loads((PAGW / "hl7-davinci-pas" / "SubscriptionTopic.json").read_bytes())
    assert topic["url"] == TOPIC
    assert topic["canFilterBy"][0]["filterParameter"] in FILTERS
