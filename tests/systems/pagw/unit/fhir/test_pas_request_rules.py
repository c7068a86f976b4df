"""PAS rules for requests: each is proved by a Bundle that breaks only that rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import (
    CREATED,
    PEOPLE,
    SampleAttachment,
    SampleItem,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
)
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.npi import build_npi
from pagw.domain.fhir.outcomes import FhirRefused, build_outcome, refuse_errors, select_errors
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.pas_rules import check_inquiry, check_request, check_response
from pagw.domain.fhir.urls import ITEM_TRACE_NUMBER, NPI
from tests.systems.pagw.unit.fhir.corruption import corrupt_copy

Json = dict[str, Any]
CLAIM = "Bundle.entry[0].resource"


def get_entry(bundle: Json, kind: str, index: int = 0) -> Json:
    """Return one entry of a Bundle by the type of its resource."""
    found: Json = [each for each in bundle["entry"] if each["resource"]["resourceType"] == kind][index]
    return found


def get_resource(bundle: Json, kind: str, index: int = 0) -> Json:
    found: Json = get_entry(bundle, kind, index)["resource"]
    return found


def get_claim(bundle: Json) -> Json:
    return get_resource(bundle, "Claim")


def test_accepts_a_sample_request_without_issues() -> None:
    bundle = build_request_bundle(
        items=("99213", SampleItem("97110", quantity=6)), attachments=(SampleAttachment(),)
    )
    assert check_request(bundle) == []
    refuse_errors(check_request(bundle))


def set_other_type(bundle: Json) -> None:
    bundle["type"] = "transaction"


def put_claim_second(bundle: Json) -> None:
    bundle["entry"][0], bundle["entry"][1] = bundle["entry"][1], bundle["entry"][0]


def remove_full_url(bundle: Json) -> None:
    del get_entry(bundle, "Coverage")["fullUrl"]


def make_full_url_relative(bundle: Json) -> None:
    get_entry(bundle, "Coverage")["fullUrl"] = "Coverage/1"


def break_uuid(bundle: Json) -> None:
    get_entry(bundle, "Coverage")["fullUrl"] = "urn:uuid:1"


def set_full_url_of_another_resource(bundle: Json) -> None:
    get_entry(bundle, "Coverage")["fullUrl"] = "https://clinic.example/fhir/Coverage/another"
    get_claim(bundle)["insurance"][0]["coverage"]["reference"] = (
        "https://clinic.example/fhir/Coverage/another"
    )


def repeat_full_url(bundle: Json) -> None:
    bundle["entry"].append(
        {**get_entry(bundle, "Patient"), "resource": {"resourceType": "Basic", "code": {"text": "x"}}}
    )


def repeat_resource(bundle: Json) -> None:
    again = deepcopy(get_entry(bundle, "Patient"))
    again["fullUrl"] = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    bundle["entry"].append(again)


def remove_patient(bundle: Json) -> None:
    bundle["entry"].remove(get_entry(bundle, "Patient"))


def remove_practitioner(bundle: Json) -> None:
    bundle["entry"].remove(get_entry(bundle, "Practitioner"))


def make_reference_relative_next_to_a_uuid(bundle: Json) -> None:
    get_claim(bundle)["patient"] = {"reference": f"Patient/{get_resource(bundle, 'Patient')['id']}"}


def reference_missing_contained(bundle: Json) -> None:
    get_claim(bundle)["careTeam"][0]["provider"] = {"reference": "#nobody"}


def add_entry_without_resource(bundle: Json) -> None:
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"})


def set_payment_use(bundle: Json) -> None:
    get_claim(bundle)["use"] = "claim"


def set_draft_status(bundle: Json) -> None:
    get_claim(bundle)["status"] = "draft"


def remove_items(bundle: Json) -> None:
    del get_claim(bundle)["item"]


def repeat_sequence(bundle: Json) -> None:
    get_claim(bundle)["item"].append(deepcopy(get_claim(bundle)["item"][0]))


def set_sequence_zero(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["sequence"] = 0


def repeat_diagnosis_sequence(bundle: Json) -> None:
    get_claim(bundle)["diagnosis"] *= 2


def point_at_missing_care_team(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["careTeamSequence"] = [2]


def point_at_missing_diagnosis(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["diagnosisSequence"] = [1, 7]


def point_at_missing_information(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["informationSequence"] = [1]


def remove_quantity_unit(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["quantity"] = {"value": 1}


def name_insurer_without_reference(bundle: Json) -> None:
    get_claim(bundle)["insurer"] = {"display": "A plan"}


def remove_insurer_identifier(bundle: Json) -> None:
    del get_resource(bundle, "Organization", 1)["identifier"]


def remove_provider_npi(bundle: Json) -> None:
    get_resource(bundle, "Organization")["identifier"][0]["system"] = "urn:example:tax"


def make_provider_a_patient(bundle: Json) -> None:
    get_claim(bundle)["provider"] = get_claim(bundle)["patient"]


def remove_member_id(bundle: Json) -> None:
    del get_resource(bundle, "Patient")["identifier"], get_resource(bundle, "Coverage")["subscriberId"]


def make_coverage_a_patient(bundle: Json) -> None:
    get_claim(bundle)["insurance"][0]["coverage"] = get_claim(bundle)["patient"]


def add_unknown_modifier(bundle: Json) -> None:
    get_claim(bundle)["item"][0]["modifierExtension"] = [{"url": "urn:example:not", "valueBoolean": True}]


BROKEN: list[tuple[Callable[[Json], None], str, str]] = [
    (set_other_type, "invalid", "Bundle.type"),
    (put_claim_second, "invariant", "Bundle.entry[0]"),
    (remove_full_url, "required", "Bundle.entry[5].fullUrl"),
    (make_full_url_relative, "value", "Bundle.entry[5].fullUrl"),
    (break_uuid, "value", "Bundle.entry[5].fullUrl"),
    (set_full_url_of_another_resource, "invariant", "Bundle.entry[5].fullUrl"),
    (repeat_full_url, "duplicate", "Bundle.entry[6].fullUrl"),
    (repeat_resource, "duplicate", "Bundle.entry[6].resource"),
    (remove_patient, "not-found", f"{CLAIM}.patient"),
    (remove_practitioner, "not-found", f"{CLAIM}.careTeam[0].provider"),
    (make_reference_relative_next_to_a_uuid, "not-found", f"{CLAIM}.patient"),
    (reference_missing_contained, "not-found", f"{CLAIM}.careTeam[0].provider"),
    (add_entry_without_resource, "required", "Bundle.entry[6].resource"),
    (set_payment_use, "invalid", f"{CLAIM}.use"),
    (set_draft_status, "invalid", f"{CLAIM}.status"),
    (remove_items, "required", f"{CLAIM}.item"),
    (repeat_sequence, "duplicate", f"{CLAIM}.item[1].sequence"),
    (set_sequence_zero, "value", f"{CLAIM}.item[0].sequence"),
    (repeat_diagnosis_sequence, "duplicate", f"{CLAIM}.diagnosis[1].sequence"),
    (point_at_missing_care_team, "not-found", f"{CLAIM}.item[0].careTeamSequence"),
    (point_at_missing_diagnosis, "not-found", f"{CLAIM}.item[0].diagnosisSequence"),
    (point_at_missing_information, "not-found", f"{CLAIM}.item[0].informationSequence"),
    (remove_quantity_unit, "invariant", f"{CLAIM}.item[0].quantity"),
    (name_insurer_without_reference, "required", f"{CLAIM}.insurer"),
    (remove_insurer_identifier, "required", f"{CLAIM}.insurer"),
    (remove_provider_npi, "required", f"{CLAIM}.provider"),
    (make_provider_a_patient, "required", f"{CLAIM}.provider"),
    (remove_member_id, "required", f"{CLAIM}.patient"),
    (make_coverage_a_patient, "required", f"{CLAIM}.insurance.coverage"),
    (add_unknown_modifier, "not-supported", f"{CLAIM}.item[0].modifierExtension"),
]


@pytest.mark.parametrize(
    ("breaks", "code", "where"), BROKEN, ids=lambda each: getattr(each, "__name__", None)
)
def test_refuses_a_request_that_breaks_one_rule(
    breaks: Callable[[Json], None], code: str, where: str
) -> None:
    bundle = build_request_bundle()
    breaks(bundle)
    issues = check_request(bundle)
    assert (code, where) in {(issue.code, issue.expression) for issue in select_errors(issues)}
    with pytest.raises(FhirRefused) as caught:
        refuse_errors(issues)
    assert caught.value.status == 422
    outcome = json.dumps(caught.value.to_outcome())
    assert not [secret for secret in PEOPLE[0].secrets if secret in outcome]


@pytest.mark.proves("PG-X28")
def test_refuses_an_invalid_provider_npi_and_warns_about_the_care_team() -> None:
    bundle = build_request_bundle()
    get_resource(bundle, "Organization")["identifier"][0]["value"] = "1993000004"
    assert [(issue.code, issue.expression) for issue in select_errors(check_request(bundle))] == [
        ("business-rule", f"{CLAIM}.provider")
    ]
    bundle = build_request_bundle()
    get_resource(bundle, "Practitioner")["identifier"][0]["value"] = "987654321"
    issues = check_request(bundle)
    assert select_errors(issues) == [] and issues[0].expression == f"{CLAIM}.careTeam[0].provider"


def test_finds_the_npi_behind_a_role() -> None:
    bundle = build_request_bundle()
    role = {
        "resourceType": "PractitionerRole",
        "id": "role",
        "practitioner": {"reference": get_entry(bundle, "Practitioner")["fullUrl"]},
        "organization": {"reference": get_entry(bundle, "Organization")["fullUrl"]},
    }
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001", "resource": role})
    get_claim(bundle)["provider"]["reference"] = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    assert check_request(bundle) == []


def test_resolves_relative_and_contained_references_as_fhir_does() -> None:
    bundle = build_request_bundle()
    base = "https://clinic.example/fhir/"
    texts = {each["fullUrl"]: each["resource"] for each in bundle["entry"]}
    text = json.dumps(bundle)
    for url, each in texts.items():
        address = f"{each['resourceType']}/{each['id']}"
        text = text.replace(f'"fullUrl": "{url}"', f'"fullUrl": "{base}{address}"').replace(url, address)
    bundle = json.loads(text)
    helper = {
        "resourceType": "Practitioner",
        "id": "helper",
        "identifier": [{"system": NPI, "value": build_npi("188400009")}],
    }
    get_claim(bundle)["contained"] = [helper]
    get_claim(bundle)["careTeam"].append({"sequence": 2, "provider": {"reference": "#helper"}})
    get_claim(bundle)["careTeam"][0]["provider"]["reference"] += "/_history/3"
    assert check_request(bundle) == []


def test_items_may_share_a_sequence_if_their_trace_numbers_differ() -> None:
    bundle = build_request_bundle(items=("99213", "99214"))
    get_claim(bundle)["item"][1]["sequence"] = 1
    issues = check_request(bundle)
    assert select_errors(issues) == [] and {issue.code for issue in issues} == {"duplicate"}
    for item in get_claim(bundle)["item"]:
        item["extension"] = [each for each in item["extension"] if each["url"] != ITEM_TRACE_NUMBER]
    assert {issue.code for issue in select_errors(check_request(bundle))} == {"duplicate"}


def remove_profile(bundle: Json) -> None:
    del bundle["meta"], get_claim(bundle)["meta"]


def repeat_person(bundle: Json) -> None:
    again = deepcopy(get_resource(bundle, "Practitioner"))
    again["id"] = "again"
    url = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    bundle["entry"].append({"fullUrl": url, "resource": again})
    get_claim(bundle)["careTeam"].append({"sequence": 2, "provider": {"reference": url}})


def add_unreachable_resource(bundle: Json) -> None:
    basic = {"resourceType": "Basic", "id": "alone", "code": {"text": "x"}}
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001", "resource": basic})


def remove_identifier(bundle: Json) -> None:
    del get_claim(bundle)["identifier"]


@pytest.mark.parametrize(
    "lacks", [remove_profile, repeat_person, add_unreachable_resource, remove_identifier]
)
def test_accepts_deviations_with_a_warning(lacks: Callable[[Json], None]) -> None:
    bundle = build_request_bundle()
    lacks(bundle)
    issues = check_request(bundle)
    assert issues and select_errors(issues) == []


def test_corrupted_requests_never_crash_the_checks_or_leak_into_outcomes() -> None:
    first = build_request_bundle(items=("99213", "99214"), attachments=(SampleAttachment(),))
    bundles = [
        first,
        build_update_bundle(first, reference="R-2", cancelled=[1]),
        build_cancel_bundle(first, reference="R-3"),
    ]
    random, mark = Random(20260302), "Zzyzxmark"
    refusals = 0
    for turn in range(450):
        bundle = corrupt_copy(bundles[turn % 3], random, mark)
        issues = check_request(bundle)
        assert mark not in json.dumps(build_outcome([*issues, *check_inquiry(bundle)]))
        if select_errors(issues):
            refusals += 1
            continue
        assert parse_claim(bundle).items
        answer = build_response_bundle(
            bundle, Decision(outcome=Outcome.MODIFIED), pagw_id="PAGW-1", created=CREATED
        )
        assert select_errors(check_response(answer, bundle)) == []
        assert mark not in json.dumps(
            build_outcome(check_response(corrupt_copy(answer, random, mark), bundle))
        )
    assert 300 < refusals < 450


def test_skips_structure_checks_of_huge_bundles_with_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def record_call(bundle: Any) -> list[Any]:
        looked.append(bundle)
        return []

    monkeypatch.setattr("pagw.domain.fhir.rules.pas_rules.check_shape", record_call)
    bundle = build_request_bundle()
    bundle["entry"] += [bundle["entry"][1]] * 200
    codes = {issue.code for issue in select_errors(check_request(bundle))}
    assert "duplicate" in codes and looked == []
    check_request(build_request_bundle())
    assert len(looked) == 1
