"""The rules of PAS for a request, each proved by a Bundle that breaks it and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from pagw.demo.sample.bundles import (
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
from tests.unit.pagw.nonsense import spoiled

Json = dict[str, Any]
CLAIM = "Bundle.entry[0].resource"


def entry(bundle: Json, kind: str, place: int = 0) -> Json:
    """One entry of a Bundle by the kind of its resource."""
    found: Json = [each for each in bundle["entry"] if each["resource"]["resourceType"] == kind][place]
    return found


def resource(bundle: Json, kind: str, place: int = 0) -> Json:
    found: Json = entry(bundle, kind, place)["resource"]
    return found


def claim(bundle: Json) -> Json:
    return resource(bundle, "Claim")


def test_takes_a_request_of_the_sample_without_a_word() -> None:
    bundle = build_request_bundle(
        items=("99213", SampleItem("97110", quantity=6)), attachments=(SampleAttachment(),)
    )
    assert check_request(bundle) == []
    refuse_errors(check_request(bundle))


def other_type(bundle: Json) -> None:
    bundle["type"] = "transaction"


def claim_second(bundle: Json) -> None:
    bundle["entry"][0], bundle["entry"][1] = bundle["entry"][1], bundle["entry"][0]


def no_full_url(bundle: Json) -> None:
    del entry(bundle, "Coverage")["fullUrl"]


def relative_full_url(bundle: Json) -> None:
    entry(bundle, "Coverage")["fullUrl"] = "Coverage/1"


def broken_uuid(bundle: Json) -> None:
    entry(bundle, "Coverage")["fullUrl"] = "urn:uuid:1"


def address_of_another(bundle: Json) -> None:
    entry(bundle, "Coverage")["fullUrl"] = "https://clinic.example/fhir/Coverage/another"
    claim(bundle)["insurance"][0]["coverage"]["reference"] = "https://clinic.example/fhir/Coverage/another"


def full_url_twice(bundle: Json) -> None:
    bundle["entry"].append(
        {**entry(bundle, "Patient"), "resource": {"resourceType": "Basic", "code": {"text": "x"}}}
    )


def resource_twice(bundle: Json) -> None:
    again = deepcopy(entry(bundle, "Patient"))
    again["fullUrl"] = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    bundle["entry"].append(again)


def no_patient(bundle: Json) -> None:
    bundle["entry"].remove(entry(bundle, "Patient"))


def no_practitioner(bundle: Json) -> None:
    bundle["entry"].remove(entry(bundle, "Practitioner"))


def relative_reference_beside_a_uuid(bundle: Json) -> None:
    claim(bundle)["patient"] = {"reference": f"Patient/{resource(bundle, 'Patient')['id']}"}


def contained_that_is_not_there(bundle: Json) -> None:
    claim(bundle)["careTeam"][0]["provider"] = {"reference": "#nobody"}


def no_resource_in_an_entry(bundle: Json) -> None:
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"})


def for_payment(bundle: Json) -> None:
    claim(bundle)["use"] = "claim"


def draft(bundle: Json) -> None:
    claim(bundle)["status"] = "draft"


def no_items(bundle: Json) -> None:
    del claim(bundle)["item"]


def sequence_twice(bundle: Json) -> None:
    claim(bundle)["item"].append(deepcopy(claim(bundle)["item"][0]))


def sequence_of_nought(bundle: Json) -> None:
    claim(bundle)["item"][0]["sequence"] = 0


def diagnosis_sequence_twice(bundle: Json) -> None:
    claim(bundle)["diagnosis"] *= 2


def care_team_of_nobody(bundle: Json) -> None:
    claim(bundle)["item"][0]["careTeamSequence"] = [2]


def diagnosis_of_nothing(bundle: Json) -> None:
    claim(bundle)["item"][0]["diagnosisSequence"] = [1, 7]


def information_of_nothing(bundle: Json) -> None:
    claim(bundle)["item"][0]["informationSequence"] = [1]


def quantity_without_unit(bundle: Json) -> None:
    claim(bundle)["item"][0]["quantity"] = {"value": 1}


def insurer_by_name_alone(bundle: Json) -> None:
    claim(bundle)["insurer"] = {"display": "A plan"}


def insurer_without_identifier(bundle: Json) -> None:
    del resource(bundle, "Organization", 1)["identifier"]


def provider_without_npi(bundle: Json) -> None:
    resource(bundle, "Organization")["identifier"][0]["system"] = "urn:example:tax"


def provider_is_a_patient(bundle: Json) -> None:
    claim(bundle)["provider"] = claim(bundle)["patient"]


def patient_without_member_id(bundle: Json) -> None:
    del resource(bundle, "Patient")["identifier"], resource(bundle, "Coverage")["subscriberId"]


def coverage_is_a_patient(bundle: Json) -> None:
    claim(bundle)["insurance"][0]["coverage"] = claim(bundle)["patient"]


def unknown_modifier(bundle: Json) -> None:
    claim(bundle)["item"][0]["modifierExtension"] = [{"url": "urn:example:not", "valueBoolean": True}]


BROKEN: list[tuple[Callable[[Json], None], str, str]] = [
    (other_type, "invalid", "Bundle.type"),
    (claim_second, "invariant", "Bundle.entry[0]"),
    (no_full_url, "required", "Bundle.entry[5].fullUrl"),
    (relative_full_url, "value", "Bundle.entry[5].fullUrl"),
    (broken_uuid, "value", "Bundle.entry[5].fullUrl"),
    (address_of_another, "invariant", "Bundle.entry[5].fullUrl"),
    (full_url_twice, "duplicate", "Bundle.entry[6].fullUrl"),
    (resource_twice, "duplicate", "Bundle.entry[6].resource"),
    (no_patient, "not-found", f"{CLAIM}.patient"),
    (no_practitioner, "not-found", f"{CLAIM}.careTeam[0].provider"),
    (relative_reference_beside_a_uuid, "not-found", f"{CLAIM}.patient"),
    (contained_that_is_not_there, "not-found", f"{CLAIM}.careTeam[0].provider"),
    (no_resource_in_an_entry, "required", "Bundle.entry[6].resource"),
    (for_payment, "invalid", f"{CLAIM}.use"),
    (draft, "invalid", f"{CLAIM}.status"),
    (no_items, "required", f"{CLAIM}.item"),
    (sequence_twice, "duplicate", f"{CLAIM}.item[1].sequence"),
    (sequence_of_nought, "value", f"{CLAIM}.item[0].sequence"),
    (diagnosis_sequence_twice, "duplicate", f"{CLAIM}.diagnosis[1].sequence"),
    (care_team_of_nobody, "not-found", f"{CLAIM}.item[0].careTeamSequence"),
    (diagnosis_of_nothing, "not-found", f"{CLAIM}.item[0].diagnosisSequence"),
    (information_of_nothing, "not-found", f"{CLAIM}.item[0].informationSequence"),
    (quantity_without_unit, "invariant", f"{CLAIM}.item[0].quantity"),
    (insurer_by_name_alone, "required", f"{CLAIM}.insurer"),
    (insurer_without_identifier, "required", f"{CLAIM}.insurer"),
    (provider_without_npi, "required", f"{CLAIM}.provider"),
    (provider_is_a_patient, "required", f"{CLAIM}.provider"),
    (patient_without_member_id, "required", f"{CLAIM}.patient"),
    (coverage_is_a_patient, "required", f"{CLAIM}.insurance.coverage"),
    (unknown_modifier, "not-supported", f"{CLAIM}.item[0].modifierExtension"),
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
    told = json.dumps(caught.value.to_outcome())
    assert not [secret for secret in PEOPLE[0].secrets if secret in told]


@pytest.mark.proves("PG-X28")
def test_refuses_a_provider_whose_npi_does_not_check_and_warns_of_one_in_the_care_team() -> None:
    bundle = build_request_bundle()
    resource(bundle, "Organization")["identifier"][0]["value"] = "1993000004"
    assert [(issue.code, issue.expression) for issue in select_errors(check_request(bundle))] == [
        ("business-rule", f"{CLAIM}.provider")
    ]
    bundle = build_request_bundle()
    resource(bundle, "Practitioner")["identifier"][0]["value"] = "987654321"
    issues = check_request(bundle)
    assert select_errors(issues) == [] and issues[0].expression == f"{CLAIM}.careTeam[0].provider"


def test_finds_the_npi_behind_a_role() -> None:
    bundle = build_request_bundle()
    role = {
        "resourceType": "PractitionerRole",
        "id": "role",
        "practitioner": {"reference": entry(bundle, "Practitioner")["fullUrl"]},
        "organization": {"reference": entry(bundle, "Organization")["fullUrl"]},
    }
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001", "resource": role})
    claim(bundle)["provider"]["reference"] = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    assert check_request(bundle) == []


def test_resolves_relative_and_contained_references_as_fhir_does() -> None:
    bundle = build_request_bundle()
    base = "https://clinic.example/fhir/"
    texts = {each["fullUrl"]: each["resource"] for each in bundle["entry"]}
    told = json.dumps(bundle)
    for url, each in texts.items():
        address = f"{each['resourceType']}/{each['id']}"
        told = told.replace(f'"fullUrl": "{url}"', f'"fullUrl": "{base}{address}"').replace(url, address)
    bundle = json.loads(told)
    helper = {
        "resourceType": "Practitioner",
        "id": "helper",
        "identifier": [{"system": NPI, "value": build_npi("188400009")}],
    }
    claim(bundle)["contained"] = [helper]
    claim(bundle)["careTeam"].append({"sequence": 2, "provider": {"reference": "#helper"}})
    claim(bundle)["careTeam"][0]["provider"]["reference"] += "/_history/3"
    assert check_request(bundle) == []


def test_two_items_of_one_sequence_are_told_apart_by_their_trace_numbers_alone() -> None:
    bundle = build_request_bundle(items=("99213", "99214"))
    claim(bundle)["item"][1]["sequence"] = 1
    issues = check_request(bundle)
    assert select_errors(issues) == [] and {issue.code for issue in issues} == {"duplicate"}
    for item in claim(bundle)["item"]:
        item["extension"] = [each for each in item["extension"] if each["url"] != ITEM_TRACE_NUMBER]
    assert {issue.code for issue in select_errors(check_request(bundle))} == {"duplicate"}


def without_profile(bundle: Json) -> None:
    del bundle["meta"], claim(bundle)["meta"]


def person_twice(bundle: Json) -> None:
    again = deepcopy(resource(bundle, "Practitioner"))
    again["id"] = "again"
    url = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    bundle["entry"].append({"fullUrl": url, "resource": again})
    claim(bundle)["careTeam"].append({"sequence": 2, "provider": {"reference": url}})


def unreached(bundle: Json) -> None:
    basic = {"resourceType": "Basic", "id": "alone", "code": {"text": "x"}}
    bundle["entry"].append({"fullUrl": "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001", "resource": basic})


def no_identifier(bundle: Json) -> None:
    del claim(bundle)["identifier"]


@pytest.mark.parametrize("lacks", [without_profile, person_twice, unreached, no_identifier])
def test_warns_of_what_is_not_as_it_should_be_and_takes_it(lacks: Callable[[Json], None]) -> None:
    bundle = build_request_bundle()
    lacks(bundle)
    issues = check_request(bundle)
    assert issues and select_errors(issues) == []


def test_no_nonsense_breaks_the_rules_or_is_repeated_by_them_and_what_passes_can_be_answered() -> None:
    first = build_request_bundle(items=("99213", "99214"), attachments=(SampleAttachment(),))
    bundles = [
        first,
        build_update_bundle(first, reference="R-2", cancelled=[1]),
        build_cancel_bundle(first, reference="R-3"),
    ]
    random, mark = Random(20260302), "Zzyzxmark"
    refusals = 0
    for turn in range(450):
        bundle = spoiled(bundles[turn % 3], random, mark)
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
        assert mark not in json.dumps(build_outcome(check_response(spoiled(answer, random, mark), bundle)))
    assert 300 < refusals < 450


def test_the_shapes_of_very_many_resources_are_not_looked_at_where_something_else_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Any] = []

    def shapes(bundle: Any) -> list[Any]:
        looked.append(bundle)
        return []

    monkeypatch.setattr("pagw.domain.fhir.rules.pas_rules.check_shape", shapes)
    bundle = build_request_bundle()
    bundle["entry"] += [bundle["entry"][1]] * 200
    told = {issue.code for issue in select_errors(check_request(bundle))}
    assert "duplicate" in told and looked == []
    check_request(build_request_bundle())
    assert len(looked) == 1
