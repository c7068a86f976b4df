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
from pagw.domain.fhir.outcomes import FhirRefused, Issue, build_outcome, refuse_errors, select_errors
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.pas_rules import check_inquiry, check_request, check_response
from pagw.domain.fhir.urls import ITEM_TRACE_NUMBER, NPI
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.corruption import corrupt_copy
from tests.systems.pagw.unit.fhir.notable import select_notable

Json = dict[str, Any]
CLAIM = "Bundle.entry[0].resource.ofType(Claim)"


def get_entry(bundle: Json, kind: str, index: int = 0) -> Json:
    """Return one entry of a Bundle by the type of its resource."""
    found: Json = [each for each in bundle["entry"] if each["resource"]["resourceType"] == kind][index]
    return found


def get_resource(bundle: Json, kind: str, index: int = 0) -> Json:
    found: Json = get_entry(bundle, kind, index)["resource"]
    return found


def get_claim(bundle: Json) -> Json:
    return get_resource(bundle, "Claim")


def get_errors(issues: list[Issue]) -> list[tuple[str, str | None]]:
    return [(issue.code, issue.expression) for issue in select_errors(issues)]


def test_accepts_a_sample_request_without_issues() -> None:
    bundle = build_request_bundle(
        items=("99213", SampleItem("97110", quantity=6)), attachments=(SampleAttachment(),)
    )
    assert select_notable(check_request(bundle)) == []
    refuse_errors(check_request(bundle))


URL = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"


def set_full_url_of_another_resource(bundle: Json) -> None:
    another = "https://clinic.example/fhir/Coverage/another"
    get_entry(bundle, "Coverage")["fullUrl"] = another
    get_claim(bundle)["insurance"][0]["coverage"]["reference"] = another


def make_reference_relative_next_to_a_uuid(bundle: Json) -> None:
    get_claim(bundle)["patient"] = {"reference": f"Patient/{get_resource(bundle, 'Patient')['id']}"}


def remove_member_id(bundle: Json) -> None:
    del get_resource(bundle, "Patient")["identifier"], get_resource(bundle, "Coverage")["subscriberId"]


def add_entry(bundle: Json, url: str, **resource: Any) -> None:
    bundle["entry"].append({"fullUrl": url, "resource": resource})


def change_coverage_url(url: str) -> Callable[[Json], Any]:
    return lambda bundle: get_entry(bundle, "Coverage").update(fullUrl=url)


def change_claim(**elements: Any) -> Callable[[Json], Any]:
    return lambda bundle: get_claim(bundle).update(elements)


def change_item(**elements: Any) -> Callable[[Json], Any]:
    return lambda bundle: get_claim(bundle)["item"][0].update(elements)


def remove_entry(kind: str) -> Callable[[Json], Any]:
    return lambda bundle: bundle["entry"].remove(get_entry(bundle, kind))


BROKEN: list[tuple[str, Callable[[Json], Any], str, str]] = [
    ("another type", lambda bundle: bundle.update(type="transaction"), "value", "Bundle.type"),
    (
        "the claim is not first",
        lambda bundle: bundle["entry"].insert(0, bundle["entry"].pop(1)),
        "invariant",
        "Bundle.entry[0]",
    ),
    (
        "no full URL",
        lambda bundle: get_entry(bundle, "Coverage").pop("fullUrl"),
        "required",
        "Bundle.entry[5].fullUrl",
    ),
    ("a relative full URL", change_coverage_url("Coverage/1"), "value", "Bundle.entry[5].fullUrl"),
    ("an invalid UUID", change_coverage_url("urn:uuid:1"), "value", "Bundle.entry[5].fullUrl"),
    ("another's full URL", set_full_url_of_another_resource, "invariant", "Bundle.entry[5].fullUrl"),
    (
        "a repeated full URL",
        lambda bundle: add_entry(
            bundle, get_entry(bundle, "Patient")["fullUrl"], resourceType="Basic", code={"text": "x"}
        ),
        "duplicate",
        "Bundle.entry[7].fullUrl",
    ),
    (
        "a repeated resource",
        lambda bundle: add_entry(bundle, URL, **deepcopy(get_resource(bundle, "Patient"))),
        "duplicate",
        "Bundle.entry[7].resource.ofType(Patient)",
    ),
    ("no patient", remove_entry("Patient"), "not-found", f"{CLAIM}.patient"),
    (
        "no practitioner",
        remove_entry("Practitioner"),
        "not-found",
        "Bundle.entry[5].resource.ofType(PractitionerRole).practitioner",
    ),
    (
        "a relative reference next to a UUID",
        make_reference_relative_next_to_a_uuid,
        "not-found",
        f"{CLAIM}.patient",
    ),
    (
        "a missing contained resource",
        lambda bundle: get_claim(bundle)["careTeam"][0].update(provider={"reference": "#nobody"}),
        "not-found",
        f"{CLAIM}.careTeam[0].provider",
    ),
    (
        "an entry without resource",
        lambda bundle: bundle["entry"].append({"fullUrl": URL}),
        "required",
        "Bundle.entry[7].resource",
    ),
    ("the use of a payment", change_claim(use="claim"), "value", f"{CLAIM}.use"),
    ("a draft", change_claim(status="draft"), "value", f"{CLAIM}.status"),
    ("no items", lambda bundle: get_claim(bundle).pop("item"), "required", f"{CLAIM}.item"),
    (
        "a repeated sequence",
        lambda bundle: get_claim(bundle)["item"].append(deepcopy(get_claim(bundle)["item"][0])),
        "duplicate",
        f"{CLAIM}.item[1].sequence",
    ),
    ("the sequence zero", change_item(sequence=0), "value", f"{CLAIM}.item[0].sequence"),
    (
        "a repeated diagnosis",
        lambda bundle: get_claim(bundle)["diagnosis"].append(get_claim(bundle)["diagnosis"][0]),
        "duplicate",
        f"{CLAIM}.diagnosis[1].sequence",
    ),
    (
        "a missing care team",
        change_item(careTeamSequence=[2]),
        "not-found",
        f"{CLAIM}.item[0].careTeamSequence",
    ),
    (
        "a missing diagnosis",
        change_item(diagnosisSequence=[1, 7]),
        "not-found",
        f"{CLAIM}.item[0].diagnosisSequence",
    ),
    (
        "missing information",
        change_item(informationSequence=[1]),
        "not-found",
        f"{CLAIM}.item[0].informationSequence",
    ),
    ("an insurer by name", change_claim(insurer={"display": "A plan"}), "required", f"{CLAIM}.insurer"),
    (
        "an insurer without identifier",
        lambda bundle: get_resource(bundle, "Organization", 1).pop("identifier"),
        "required",
        f"{CLAIM}.insurer",
    ),
    (
        "a provider without NPI",
        lambda bundle: get_resource(bundle, "Organization")["identifier"][0].update(system="urn:example:tax"),
        "required",
        f"{CLAIM}.provider",
    ),
    (
        "a patient as provider",
        lambda bundle: get_claim(bundle).update(provider=get_claim(bundle)["patient"]),
        "structure",
        f"{CLAIM}.provider",
    ),
    ("no member id", remove_member_id, "required", "Bundle.entry[4].resource.ofType(Patient).identifier"),
    (
        "a patient as coverage",
        lambda bundle: get_claim(bundle)["insurance"][0].update(coverage=get_claim(bundle)["patient"]),
        "structure",
        f"{CLAIM}.insurance[0].coverage",
    ),
    (
        "an unknown modifier",
        change_item(modifierExtension=[{"url": "urn:example:not", "valueBoolean": True}]),
        "not-supported",
        f"{CLAIM}.item[0].modifierExtension",
    ),
]


@all_cases(("name", "breaks", "code", "where"), BROKEN)
def test_refuses_a_request_that_breaks_one_rule(
    name: str, breaks: Callable[[Json], Any], code: str, where: str
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
def test_refuses_an_invalid_npi_and_before_2_2_warns_about_that_of_the_care_team() -> None:
    bundle = build_request_bundle()
    get_resource(bundle, "Organization")["identifier"][0]["value"] = "1993000004"
    path = "Bundle.entry[1].resource.ofType(Organization).identifier[0]"
    assert get_errors(check_request(bundle)) == [("invariant", path)]
    assert get_errors(check_request(bundle, "2.0.1")) == [("business-rule", f"{CLAIM}.provider")]
    bundle = build_request_bundle()
    get_resource(bundle, "Practitioner")["identifier"][0]["value"] = "987654321"
    path = "Bundle.entry[3].resource.ofType(Practitioner).identifier[0]"
    assert get_errors(check_request(bundle)) == [("invariant", path)]
    issues = select_notable(check_request(bundle, "2.0.1"))
    assert select_errors(issues) == []
    assert [issue.expression for issue in issues] == [f"{CLAIM}.careTeam[0].provider"]


def test_finds_the_npi_behind_a_role() -> None:
    bundle = build_request_bundle()
    role = {
        "resourceType": "PractitionerRole",
        "id": "role",
        "practitioner": {"reference": get_entry(bundle, "Practitioner")["fullUrl"]},
        "organization": {"reference": get_entry(bundle, "Organization")["fullUrl"]},
        "telecom": [{"system": "phone", "value": "+1-555-0101"}],
    }
    bundle["entry"].append({"fullUrl": URL, "resource": role})
    get_claim(bundle)["provider"]["reference"] = URL
    assert select_notable(check_request(bundle)) == []


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
        "resourceType": "Organization",
        "id": "helper",
        "active": True,
        "name": "Helpers",
        "identifier": [{"system": NPI, "value": build_npi("188400009")}],
    }
    get_claim(bundle)["contained"] = [helper]
    first = get_claim(bundle)["careTeam"][0]
    get_claim(bundle)["careTeam"].append({**first, "sequence": 2, "provider": {"reference": "#helper"}})
    first["provider"]["reference"] += "/_history/3"
    assert select_notable(check_request(bundle)) == []


def test_items_may_share_a_sequence_if_their_trace_numbers_differ() -> None:
    bundle = build_request_bundle(items=("99213", "99214"))
    get_claim(bundle)["item"][1]["sequence"] = 1
    issues = select_notable(check_request(bundle))
    assert select_errors(issues) == [] and {issue.code for issue in issues} == {"duplicate"}
    for item in get_claim(bundle)["item"]:
        item["extension"] = [each for each in item["extension"] if each["url"] != ITEM_TRACE_NUMBER]
    assert {issue.code for issue in select_errors(check_request(bundle))} == {"duplicate"}


def remove_profile(bundle: Json) -> None:
    del bundle["meta"], get_claim(bundle)["meta"]


def repeat_person(bundle: Json) -> None:
    add_entry(bundle, URL, **{**get_resource(bundle, "Practitioner"), "id": "again"})
    first = get_claim(bundle)["careTeam"][0]
    get_claim(bundle)["careTeam"].append({**first, "sequence": 2})
    get_resource(bundle, "PractitionerRole")["practitioner"]["reference"] = URL


@all_cases(
    "lacks",
    [
        remove_profile,
        repeat_person,
        lambda bundle: add_entry(bundle, URL, resourceType="Basic", id="alone", code={"text": "x"}),
        change_item(quantity={"value": 1}),
    ],
)
def test_accepts_deviations_with_a_warning(lacks: Callable[[Json], Any]) -> None:
    bundle = build_request_bundle()
    lacks(bundle)
    issues = select_notable(check_request(bundle))
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


def test_skips_profile_checks_of_huge_bundles_with_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def record_call(bundle: Any, *_: Any, **__: Any) -> list[Any]:
        looked.append(bundle)
        return []

    monkeypatch.setattr("pagw.domain.fhir.rules.pas_rules.check", record_call)
    bundle = build_request_bundle()
    bundle["entry"] += [bundle["entry"][1]] * 200
    codes = {issue.code for issue in select_errors(check_request(bundle))}
    assert "duplicate" in codes and looked == []
    check_request(build_request_bundle())
    assert len(looked) == 1
