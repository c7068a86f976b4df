"""Inquiries (`$inquire`), pure: the checks, the search criteria, permissions and the response."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    PRACTITIONER_NPIS,
    PROVIDER_NPIS,
    Person,
    build_inquiry_bundle,
    build_request_bundle,
)
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.inquiries import build_inquiry_response, is_match, is_permitted, parse_inquiry
from pagw.domain.fhir.outcomes import build_warning, select_errors
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.pas_rules import check_inquiry, check_request, check_response
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.urls import AUTHORIZATION_NUMBER
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.notable import select_notable

REQUEST = build_request_bundle(reference="R-1")
CLAIM = parse_claim(REQUEST)


def test_accepts_an_inquiry_without_items_and_refuses_one_without_member() -> None:
    assert select_notable(check_inquiry(build_inquiry_bundle())) == []
    nameless = build_inquiry_bundle()
    for each in nameless["entry"]:
        each["resource"].pop("identifier", None) if each["resource"]["resourceType"] == "Patient" else None
        each["resource"].pop("subscriberId", None)
    assert select_errors(check_inquiry(nameless))
    assert select_errors(check_request(build_inquiry_bundle())), (
        "an inquiry has no items, so it is not a request"
    )


def test_matches_by_claim_identifier_authorization_number_or_payer() -> None:
    assert is_match(parse_inquiry(build_inquiry_bundle(claim_reference="R-1")), CLAIM)
    assert not is_match(parse_inquiry(build_inquiry_bundle(claim_reference="R-2")), CLAIM)
    by_number = parse_inquiry(build_inquiry_bundle(authorization_number="AUTH-77"))
    assert is_match(by_number, CLAIM, ["AUTH-77"]) and not is_match(by_number, CLAIM, ["AUTH-78"])
    assert is_match(parse_inquiry(build_inquiry_bundle()), CLAIM)
    assert not is_match(parse_inquiry(build_inquiry_bundle(payer="OTHER-HEALTH")), CLAIM)


def test_reads_item_authorization_numbers_and_matches_by_service_code() -> None:
    bundle = build_request_bundle(reference="Q-2", items=("97110",))
    claim = bundle["entry"][0]["resource"]
    claim["item"][0]["extension"].append({"url": AUTHORIZATION_NUMBER, "valueString": "AUTH-9"})
    assert parse_inquiry(bundle).authorization_numbers == ("AUTH-9",)
    del claim["item"][0]["extension"][-1], claim["identifier"]
    assert not is_match(parse_inquiry(bundle), CLAIM)
    claim["item"][0]["productOrService"]["coding"][0]["code"] = "99213"
    assert is_match(parse_inquiry(bundle), CLAIM)


@all_cases(
    ("member", "npi", "is_allowed"),
    [
        (PEOPLE[0], PROVIDER_NPIS[0], True),
        (PEOPLE[1], PROVIDER_NPIS[0], False),
        (PEOPLE[0], PROVIDER_NPIS[1], False),
    ],
)
def test_permits_only_the_right_member_and_npi_together(member: Person, npi: str, is_allowed: bool) -> None:
    inquiry = parse_inquiry(build_inquiry_bundle(member=member, npi=npi, claim_reference="R-1"))
    assert is_permitted(inquiry, CLAIM) is is_allowed


def test_rendering_practitioner_may_inquire() -> None:
    inquiry = parse_inquiry(build_inquiry_bundle(npi=PRACTITIONER_NPIS[0]))
    assert is_permitted(inquiry, CLAIM)


def test_response_has_one_bundle_per_claim_and_reports_withheld_ones() -> None:
    decision = Decision(outcome=Outcome.APPROVED, authorization_number="AUTH-77")
    created = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
    found = build_response_bundle(REQUEST, decision, pagw_id="PAGW-1", created=created, inquiry=True)
    assert select_notable(check_response(found, REQUEST)) == []
    withheld = [
        build_warning("suppressed", "Some authorizations are not shown. Telephone the payer for them.")
    ]
    answer = build_inquiry_response([found, found], withheld=withheld)
    assert [each["name"] for each in answer["parameter"]] == ["responseBundle", "responseBundle", "outcome"]
    assert check_structure(answer, "Parameters") == []
    assert build_inquiry_response([]) == {"resourceType": "Parameters"}
