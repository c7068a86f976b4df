"""Response bundles: valid by FHIR and PAS, each resource once and each item by its sequence."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    SampleAttachment,
    build_request_bundle,
    build_update_bundle,
)
from pagw.domain.fhir.decisions import AuthorizedService, Decision, ItemDecision, Outcome, ReviewAction
from pagw.domain.fhir.outcomes import build_error, select_errors
from pagw.domain.fhir.references import find_extension
from pagw.domain.fhir.responses.response_bundles import build_error_bundle, build_response_bundle
from pagw.domain.fhir.rules.pas_rules import check_response
from pagw.domain.fhir.rules.response_rules import get_action_codes
from pagw.domain.fhir.urls import ITEM_ISSUE_DATE, ITEM_PERIOD, ITEM_TRACE_NUMBER, REVIEW_ACTION
from pagw.domain.profiles import GuideVersion
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.notable import select_notable

Json = dict[str, Any]
CREATED = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
REQUEST = build_request_bundle(items=("99213", "99214"), attachments=(SampleAttachment(),))
APPROVED = Decision(
    outcome=Outcome.APPROVED,
    authorization_number="AUTH-77",
    decided_at=CREATED,
    valid_from=date(2026, 3, 2),
    valid_to=date(2026, 6, 2),
)


def build_response(decision: Decision, request: Json = REQUEST, version: GuideVersion = "2.2.1") -> Json:
    """Build the response to a decision, check that it has no issues, and return its ClaimResponse."""
    bundle = build_response_bundle(request, decision, pagw_id="PAGW-1", created=CREATED)
    assert select_notable(check_response(bundle, request, version)) == []
    answer: Json = bundle["entry"][0]["resource"]
    return answer


def test_approval_carries_number_period_and_item_traces() -> None:
    answer = build_response(APPROVED)
    assert (answer["outcome"], answer["preAuthRef"]) == ("complete", "AUTH-77")
    assert answer["preAuthPeriod"] == {"start": "2026-03-02", "end": "2026-06-02"}
    assert [item["itemSequence"] for item in answer["item"]] == [1, 2]
    for place, item in enumerate(answer["item"]):
        assert get_action_codes(item) == ["A1"]
        asked = REQUEST["entry"][0]["resource"]["item"][place]
        assert find_extension(item, ITEM_TRACE_NUMBER) == find_extension(asked, ITEM_TRACE_NUMBER)
        assert find_extension(item, ITEM_ISSUE_DATE) == {"url": ITEM_ISSUE_DATE, "valueDate": "2026-03-02"}
        assert find_extension(item, ITEM_PERIOD) is not None
        review = find_extension(item["adjudication"][0], REVIEW_ACTION)
        assert review is not None and find_extension(review, "number") == {
            "url": "number",
            "valueString": "AUTH-77",
        }


def test_denial_carries_the_reason_and_no_number() -> None:
    answer = build_response(
        Decision(outcome=Outcome.DENIED, reason_code="0V", reason="Not medically necessary")
    )
    assert (answer["outcome"], answer["disposition"]) == ("complete", "Not medically necessary")
    review = find_extension(answer["item"][0]["adjudication"][0], REVIEW_ACTION)
    assert review is not None and get_action_codes(answer["item"][0]) == ["A3"]
    reason = find_extension(review, "reasonCode")
    assert reason is not None and reason["valueCodeableConcept"]["text"] == "Not medically necessary"
    assert reason["valueCodeableConcept"]["coding"][0]["code"] == "0V"
    assert find_extension(review, "number") is None and "preAuthRef" not in answer


@pytest.mark.proves("PG-X15")
def test_pended_request_is_queued_and_partly_pended_is_partial() -> None:
    # PAS 2.2.1 has no outcome `queued`.
    pended = build_response(Decision(outcome=Outcome.PENDED), version="2.0.1")
    assert pended["outcome"] == "queued" and get_action_codes(pended["item"][0]) == ["A4"]
    half = ItemDecision(sequence=2, action=ReviewAction.PENDED)
    partly = build_response(APPROVED.model_copy(update={"items": (half,)}))
    assert partly["outcome"] == "partial"
    assert [get_action_codes(item) for item in partly["item"]] == [["A1"], ["A4"]]


def test_modified_item_keeps_the_request_and_adds_the_authorization() -> None:
    other = AuthorizedService(system="http://www.ama-assn.org/go/cpt", code="99212", quantity=3, unit="visit")
    items = (
        ItemDecision(sequence=1, action=ReviewAction.CERTIFIED),
        ItemDecision(sequence=2, action=ReviewAction.MODIFIED, number="AUTH-78", authorized=other),
    )
    answer = build_response(Decision(outcome=Outcome.MODIFIED, items=items, authorization_number="AUTH-77"))
    assert [get_action_codes(item) for item in answer["item"]] == [["A1"], ["A6"]]
    (added,) = answer["addItem"]
    assert added["itemSequence"] == [2] and get_action_codes(added) == ["A1"]
    assert added["productOrService"]["coding"][0]["code"] == "99212" and added["quantity"]["value"] == 3
    whole = build_response(Decision(outcome=Outcome.MODIFIED))
    assert [each["itemSequence"] for each in whole["addItem"]] == [[1], [2]]


def test_maps_partial_certification_and_cancellation_codes() -> None:
    partial = build_response(APPROVED.model_copy(update={"review_action": ReviewAction.PARTIAL}))
    assert get_action_codes(partial["item"][0]) == ["A2"]
    gone = build_response(Decision(outcome=Outcome.CANCELLED))
    assert get_action_codes(gone["item"][0]) == ["C"] and gone["outcome"] == "complete"
    update = build_update_bundle(REQUEST, reference="R-2", cancelled=[1], added=["97110"])
    mixed = build_response(APPROVED, update)
    assert [get_action_codes(item) for item in mixed["item"]] == [["C"], ["A1"], ["A1"]]


def test_copies_only_the_referenced_request_resources_once() -> None:
    bundle = build_response_bundle(REQUEST, APPROVED, pagw_id="PAGW-1", created=CREATED)
    kinds = [each["resource"]["resourceType"] for each in bundle["entry"]]
    assert kinds == ["ClaimResponse", "Patient", "Organization", "Organization"]
    asked = {each["fullUrl"]: each["resource"] for each in REQUEST["entry"]}
    assert all(asked[each["fullUrl"]] == each["resource"] for each in bundle["entry"][1:])
    assert (
        bundle["entry"][0]["resource"]["request"]["identifier"]
        == asked[REQUEST["entry"][0]["fullUrl"]]["identifier"][0]
    )
    assert bundle["identifier"] == REQUEST["identifier"]


def test_building_twice_gives_the_same_response() -> None:
    first, second = (
        build_response_bundle(REQUEST, APPROVED, pagw_id="PAGW-1", created=CREATED) for _ in range(2)
    )
    assert json.dumps(first) == json.dumps(second)
    other = build_response_bundle(REQUEST, APPROVED, pagw_id="PAGW-2", created=CREATED)
    assert other["entry"][0]["fullUrl"] != first["entry"][0]["fullUrl"]


def test_resolves_every_kind_of_reference_in_the_response() -> None:
    request = deepcopy(REQUEST)
    claim = request["entry"][0]["resource"]
    insurer = next(each for each in request["entry"] if each["fullUrl"] == claim["insurer"]["reference"])
    base = "https://clinic.example/fhir/"
    request["entry"][0]["fullUrl"] = f"{base}Claim/{claim['id']}"
    insurer["fullUrl"] = f"{base}Organization/{insurer['resource']['id']}"
    coverage = next(
        each["resource"] for each in request["entry"] if each["resource"]["resourceType"] == "Coverage"
    )
    coverage["payor"] = [{"reference": insurer["fullUrl"]}]
    claim["insurer"] = {"reference": f"Organization/{insurer['resource']['id']}"}
    clinic = next(each for each in request["entry"] if each["fullUrl"] == claim["provider"]["reference"])
    claim["contained"] = [{**clinic["resource"], "id": "clinic"}]
    claim["provider"] = {"reference": "#clinic"}
    answer = build_response(APPROVED, request)
    assert [each["id"] for each in answer["contained"]] == ["clinic"]


def test_error_response_is_valid_and_names_the_error() -> None:
    wrong = [build_error("processing", "The payer could not be reached.")]
    bundle = build_error_bundle(REQUEST, wrong, pagw_id="PAGW-1", created=CREATED)
    assert select_notable(check_response(bundle, REQUEST)) == []
    answer = bundle["entry"][0]["resource"]
    assert (
        answer["outcome"] == "error"
        and answer["error"][0]["code"]["text"] == "The payer could not be reached."
    )
    with pytest.raises(ValueError, match="expected a Claim as its first entry"):
        build_error_bundle(bundle, wrong, pagw_id="PAGW-1", created=CREATED)


@all_cases(
    "members",
    [
        {"outcome": "perhaps"},
        {"outcome": "approved", "items": [{"sequence": 0, "action": "A1"}]},
        {"outcome": "approved", "items": [{"sequence": 1, "action": "A1"}, {"sequence": 1, "action": "A3"}]},
        {"outcome": "approved", "items": [{"sequence": 1, "action": "B9"}]},
        {"outcome": "approved", "valid_from": "2026-03-02", "valid_to": "2026-03-01"},
        {"outcome": "approved", "surprise": 1},
    ],
)
def test_refuses_an_inconsistent_decision(members: Json) -> None:
    with pytest.raises(ValidationError):
        Decision.model_validate(members)
    assert Decision.model_validate_json(APPROVED.model_dump_json()) == APPROVED
    assert Outcome.DENIED.is_final and not Outcome.PENDED.is_final


def get_answer(bundle: Json) -> Json:
    found: Json = bundle["entry"][0]["resource"]
    return found


def get_patient_entry(bundle: Json) -> Json:
    return next(each for each in bundle["entry"] if each["resource"]["resourceType"] == "Patient")


def mark_modified_without_detail(bundle: Json) -> None:
    review = get_answer(bundle)["item"][0]["adjudication"][0]["extension"][0]
    review["extension"][-1]["valueCodeableConcept"]["coding"][0]["code"] = "A6"


def replace_member(bundle: Json) -> None:
    get_patient_entry(bundle)["resource"]["identifier"][0]["value"] = PEOPLE[1].member_id


def move_patient(bundle: Json) -> None:
    full_url = "urn:uuid:0f6b6d0c-3c5e-4b8e-9d56-0d8f8f3f0001"
    get_patient_entry(bundle)["fullUrl"] = get_answer(bundle)["patient"]["reference"] = full_url


@all_cases(
    ("name", "breaks"),
    [
        ("another resource is first", lambda bundle: bundle["entry"].reverse()),
        ("no patient", lambda bundle: bundle["entry"].remove(get_patient_entry(bundle))),
        ("no time", lambda bundle: get_answer(bundle).pop("created")),
        ("an unknown outcome", lambda bundle: get_answer(bundle).update(outcome="fine")),
        ("an error without reason", lambda bundle: get_answer(bundle).update(outcome="error")),
        ("another number of an item", lambda bundle: get_answer(bundle)["item"][1].update(itemSequence=9)),
        ("an item twice", lambda bundle: get_answer(bundle)["item"].append(get_answer(bundle)["item"][0])),
        ("modified without detail", mark_modified_without_detail),
        ("another member", replace_member),
        ("the patient under another URL", move_patient),
        ("the use of a payment", lambda bundle: get_answer(bundle).update(use="claim")),
        ("cancelled", lambda bundle: get_answer(bundle).update(status="cancelled")),
    ],
)
def test_refuses_a_response_that_breaks_one_rule(name: str, breaks: Callable[[Json], Any]) -> None:
    bundle = deepcopy(build_response_bundle(REQUEST, APPROVED, pagw_id="PAGW-1", created=CREATED))
    breaks(bundle)
    assert select_errors(check_response(bundle, REQUEST))
