"""Updates and cancellations, pure: they include the former claim, drop nothing and flag changes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    SampleAttachment,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
)
from pagw.domain.fhir.claims import get_attachment, parse_claim
from pagw.domain.fhir.outcomes import FhirRefused, select_errors
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.domain.fhir.urls import CANCEL, CERTIFICATION_TYPE, INFO_CANCELLED, INFO_CHANGED, LEVEL_OF_SERVICE
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.notable import select_notable

Json = dict[str, Any]
FORMER = build_request_bundle(items=("99213", "99214"), attachments=(SampleAttachment(),))
UPDATE = build_update_bundle(FORMER, reference="R-2", cancelled=[1], added=["97110"])


def get_claim(bundle: Json) -> Json:
    found: Json = bundle["entry"][0]["resource"]
    return found


def remove_extension(element: Json, url: str) -> None:
    element["extension"] = [each for each in element["extension"] if each["url"] != url]


def test_accepts_updates_cancellations_and_updates_of_updates() -> None:
    again = build_update_bundle(UPDATE, reference="R-4", cancelled=[2])
    for bundle in (UPDATE, build_cancel_bundle(FORMER, reference="R-3"), again):
        assert select_errors(check_request(bundle)) == []
    kinds = [each["resource"]["resourceType"] for each in again["entry"]]
    assert kinds.count("Claim") == 2, "the bundle must not include the claim before the former one"


def test_distinguishes_requests_updates_and_cancellations() -> None:
    first, update, cancel = map(parse_claim, (FORMER, UPDATE, build_cancel_bundle(FORMER, reference="R-3")))
    assert [first.intent, update.intent, cancel.intent] == ["submit", "update", "cancel"]
    assert first.related_identifier is None and update.related_identifier == first.claim_identifier
    assert update.related_reference == first.claim_reference
    assert [(item.sequence, item.is_cancelled, item.info_changed) for item in update.items] == [
        (1, True, "changed"),
        (2, False, None),
        (3, False, "added"),
    ]
    assert update.items[0].certification_type == CANCEL
    every_item = build_update_bundle(FORMER, reference="R-5", cancelled=[1, 2])
    assert parse_claim(every_item).intent == "cancel"


def remove_former_claim(bundle: Json) -> None:
    """Remove every Claim but the first from the bundle."""
    bundle["entry"] = [
        each
        for each in bundle["entry"]
        if each["resource"] is get_claim(bundle) or each["resource"]["resourceType"] != "Claim"
    ]


def remove_change(item: int, url: str) -> Callable[[Json], None]:
    return lambda bundle: remove_extension(get_claim(bundle)["item"][item], url)


def cancel_nothing(bundle: Json) -> None:
    del get_claim(bundle)["related"]
    get_claim(bundle)["extension"] = [
        {"url": CERTIFICATION_TYPE, "valueCodeableConcept": {"coding": [{"code": CANCEL}]}}
    ]


@all_cases(
    ("name", "breaks"),
    [
        ("no former claim", remove_former_claim),
        ("an item is missing", lambda bundle: get_claim(bundle)["item"].pop(1)),
        ("a document is missing", lambda bundle: get_claim(bundle).pop("supportingInfo")),
        ("an item changes silently", lambda bundle: get_claim(bundle)["item"][1]["quantity"].update(value=9)),
        ("an item is added silently", remove_change(2, INFO_CHANGED)),
        ("an item is cancelled silently", remove_change(0, INFO_CHANGED)),
        ("a cancellation without type", remove_change(0, CERTIFICATION_TYPE)),
        ("a cancellation without flag", lambda bundle: get_claim(bundle)["item"][0].pop("modifierExtension")),
        (
            "an unknown code of a change",
            lambda bundle: get_claim(bundle)["item"][2]["extension"][-1].update(valueCode="new"),
        ),
        (
            "two related claims",
            lambda bundle: get_claim(bundle)["related"].append(get_claim(bundle)["related"][0]),
        ),
        ("no related claim", lambda bundle: get_claim(bundle)["related"][0].pop("claim")),
        ("a cancellation of nothing", cancel_nothing),
    ],
)
def test_refuses_an_update_that_breaks_one_rule(name: str, breaks: Callable[[Json], Any]) -> None:
    bundle = deepcopy(UPDATE)
    breaks(bundle)
    found = select_errors(check_request(bundle))
    assert len(found) == 1, [issue.diagnostics for issue in found]
    assert str(found[0].expression).startswith("Bundle.entry[0].resource")


def test_warns_when_the_former_claim_is_only_an_identifier() -> None:
    bundle = build_cancel_bundle(FORMER, reference="R-3")
    remove_former_claim(bundle)
    get_claim(bundle)["related"][0]["claim"] = {"identifier": get_claim(FORMER)["identifier"][0]}
    issues = select_notable(check_request(bundle))
    assert select_errors(issues) == []
    assert issues[0].expression == "Bundle.entry[0].resource.ofType(Claim).related[0].claim"
    assert parse_claim(bundle).related_identifier == parse_claim(FORMER).claim_identifier


def test_parses_everything_the_stages_need() -> None:
    claimed = parse_claim(
        build_request_bundle(urgency="expedited", payer="ACME-HEALTH", attachments=(SampleAttachment(b"x"),))
    )
    assert (claimed.urgency, claimed.payer_id, claimed.member_id) == (
        "expedited",
        "ACME-HEALTH",
        PEOPLE[0].member_id,
    )
    assert claimed.provider_npi == "1993000003" and claimed.care_team_npis == ("1884000005",)
    assert (claimed.service_from, claimed.service_to) == ("2026-03-02", "2026-03-02")
    assert claimed.items[0].code == "99213" and claimed.items[0].quantity == 1
    assert claimed.diagnosis_codes == ("M54.5",)
    assert type(claimed).model_validate_json(claimed.model_dump_json()) == claimed


def test_urgent_level_of_service_makes_a_request_expedited() -> None:
    bundle = build_request_bundle()
    assert parse_claim(bundle).urgency == "standard"
    get_claim(bundle)["extension"] = [
        {"url": LEVEL_OF_SERVICE, "valueCodeableConcept": {"coding": [{"code": "U"}]}}
    ]
    assert parse_claim(bundle).urgency == "expedited"


def test_lists_attachments_and_skips_cancelled_ones() -> None:
    bundle = build_request_bundle(
        attachments=(SampleAttachment(b"one"), SampleAttachment(url="https://clinic.example/2.pdf"))
    )
    get_claim(bundle)["supportingInfo"].append(
        {
            "sequence": 3,
            "category": {"text": "x"},
            "valueAttachment": {"contentType": "text/plain", "data": "aGk="},
        }
    )
    pointers = parse_claim(bundle).attachments
    assert [(each.sequence, each.is_inline) for each in pointers] == [(1, True), (2, False), (3, True)]
    assert get_attachment(bundle, pointers[0])["data"] == "b25l"
    assert get_attachment(bundle, pointers[1])["url"] == "https://clinic.example/2.pdf"
    assert get_attachment(bundle, pointers[2])["data"] == "aGk="
    get_claim(bundle)["supportingInfo"][0]["modifierExtension"] = [
        {"url": INFO_CANCELLED, "valueBoolean": True}
    ]
    assert [each.sequence for each in parse_claim(bundle).attachments] == [2, 3]


def test_refuses_to_parse_a_bundle_without_claim_or_participants() -> None:
    bundle = build_request_bundle()
    del bundle["entry"][1:]
    for unsound in (bundle, {"resourceType": "Bundle"}):
        with pytest.raises(FhirRefused):
            parse_claim(unsound)
