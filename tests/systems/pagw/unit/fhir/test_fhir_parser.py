"""Parsing and structure checks of Bundles: invalid bodies are refused without quoting them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.domain.fhir.outcomes import FhirRefused, Issue, build_outcome
from pagw.domain.fhir.parser import MAX_DEPTH, MAX_ENTRIES, check_media_type, parse_bundle, parse_resource
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.urls import CONTENT_TYPE
from tests.cases import all_cases


def expect_refusal(body: bytes, **limits: Any) -> FhirRefused:
    """Assert that the body is refused as a Bundle, and return the error."""
    with pytest.raises(FhirRefused) as caught:
        parse_bundle(body, **limits)
    return caught.value


def test_parses_a_bundle_unchanged() -> None:
    bundle = build_request_bundle()
    assert parse_bundle(json.dumps(bundle).encode()) == bundle


@all_cases(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"Quillfeather", 400, "line 1, column 1"),
        (b"<Bundle/>", 400, "not JSON"),
        (b"\xff\xfe{}", 400, "UTF-8"),
        (b"\xef\xbb\xbf{}", 400, "not JSON"),
        (b'"Bundle"', 400, "not a JSON object"),
        (b'[{"resourceType": "Bundle"}]', 400, "not a JSON object"),
        (b"null", 400, "not a JSON object"),
        (b'{"resourceType": "Bundle", "resourceType": "Bundle"}', 400, "twice"),
        (b'{"resourceType": "Bundle", "total": NaN}', 400, "NaN"),
        (b'{"resourceType": "Bundle", "total": 1e999}', 400, "too large"),
        (b'{"resourceType": "Bundle", "total": ' + b"9" * 5000 + b"}", 400, "too many digits"),
        (b'{"resourceType": "Bundle", "id": "\\u0000"}', 400, "NUL"),
        (b'{"resourceType": "Bundle", "id": "\\ud800"}', 400, "surrogate"),
        (b'{"resourceType": "Claim"}', 422, "expected Bundle"),
        (b"{}", 422, "expected Bundle"),
    ],
)
def test_refuses_a_body_that_is_not_a_bundle_with_one_issue(body: bytes, status: int, words: str) -> None:
    error = expect_refusal(body)
    assert (error.status, len(error.issues)) == (status, 1)
    assert words in error.issues[0].diagnostics
    assert "Quillfeather" not in json.dumps(error.to_outcome())


def test_refuses_oversized_deep_or_crowded_bodies() -> None:
    assert expect_refusal(b" " * 101, max_bytes=100).status == 413
    deep = b'{"resourceType":"Bundle","a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    assert "deeper" in expect_refusal(deep).message
    assert "deeper" in expect_refusal(b"[" * 100_000).message
    many = {"resourceType": "Bundle", "entry": [{}] * (MAX_ENTRIES + 1)}
    assert expect_refusal(json.dumps(many).encode()).status == 413


@all_cases(
    ("where", "name", "value"),
    [
        ("bundle", "issues", {"resourceType": "OperationOutcome"}),
        ("bundle", "fhirVersion", "5.0.0"),
        ("meta", "fhirVersion", "3.0.2"),
        ("meta", "profile", ["http://hl7.org/fhir/5.0/StructureDefinition/Bundle"]),
        ("claim", "traceNumber", [{"value": "1"}]),
        ("claim", "organization", {"reference": "Organization/1"}),
    ],
)
def test_refuses_another_version_of_fhir(where: str, name: str, value: Any) -> None:
    bundle = build_request_bundle()
    {"bundle": bundle, "meta": bundle["meta"], "claim": bundle["entry"][0]["resource"]}[where][name] = value
    error = expect_refusal(json.dumps(bundle).encode())
    assert (error.status, error.issues[0].code) == (422, "not-supported")
    assert "R4" in error.message


@pytest.mark.proves("PG-33")
def test_accepts_only_json_media_types_of_fhir_r4() -> None:
    assert CONTENT_TYPE == "application/fhir+json"
    for taken in (CONTENT_TYPE, "application/json; charset=utf-8", f"{CONTENT_TYPE}; fhirVersion=4.0"):
        check_media_type(taken)
    for not_taken in (None, "", "text/plain", "application/fhir+xml", f"{CONTENT_TYPE}; fhirVersion=5.0"):
        with pytest.raises(FhirRefused) as caught:
            check_media_type(not_taken)
        assert caught.value.status == 415


def test_parses_other_resource_types() -> None:
    assert (
        parse_resource(b'{"resourceType": "Subscription"}', "Subscription")["resourceType"] == "Subscription"
    )


@all_cases(
    ("name", "value", "code"),
    [
        ("status", None, "required"),
        ("patient", None, "required"),
        ("created", "yesterday", "value"),
        ("patient", '{"reference": "Patient/1"}', "value"),
        ("item", "one", "structure"),
        ("item", [None], "structure"),
        ("priority", {"coding": [{"userSelected": "true"}]}, "value"),
        ("item", [], "structure"),
        ("billablePeriod", {}, "structure"),
        ("Quillfeather", 1, "structure"),
        ("contained", [{"resourceType": "Quillfeather"}], "structure"),
        ("insurance", [{"sequence": "1", "focal": True, "coverage": {"display": "x"}}], "value"),
    ],
)
def test_reports_an_invalid_structure_by_its_path(name: str, value: Any, code: str) -> None:
    claim = build_request_bundle()["entry"][0]["resource"]
    claim = {**claim, name: value} if value is not None else {k: v for k, v in claim.items() if k != name}
    issues = check_structure(claim, "Bundle.entry[0].resource")
    assert code in {issue.code for issue in issues}
    assert all(
        issue.is_error and str(issue.expression).startswith("Bundle.entry[0].resource") for issue in issues
    )
    assert "Quillfeather" not in json.dumps(build_outcome(issues))


@all_cases("kind", ["Claimant", "Extension", "Resource", "", "__class__", None, 7])
def test_reports_an_unknown_resource_type(kind: Any) -> None:
    assert check_structure({"resourceType": kind}, "Bundle")[0].code == "structure"


def test_reports_a_null_element_by_its_path() -> None:
    claim = {**build_request_bundle()["entry"][0]["resource"], "billablePeriod": None}
    (issue,) = check_structure(claim, "Claim")
    assert (issue.code, issue.expression) == ("structure", "Claim.billablePeriod")


@all_cases("entry", ["none", [None], [7], [{}], [{"resource": "Claim"}], {}, []])
def test_refuses_a_bundle_with_invalid_entries(entry: Any) -> None:
    assert any(issue.is_error for issue in check_request({**build_request_bundle(), "entry": entry}))


def test_reports_bare_resources_and_entries_without_full_url() -> None:
    bundle = build_request_bundle()
    claim = bundle["entry"][0]["resource"]
    bare = check_request({**bundle, "entry": [claim]})[0]
    assert bare.expression == "Bundle.entry[0]" and "found a resource" in bare.diagnostics
    unaddressed = check_request({**bundle, "entry": [{"resource": claim}]})[0]
    assert unaddressed.expression == "Bundle.entry[0].fullUrl", unaddressed


def test_outcome_lists_errors_first_and_truncates_a_long_list() -> None:
    issues = [Issue("warning", "value", f"w{n}") for n in range(40)] + [
        Issue("error", "value", "e", "Bundle")
    ]
    outcome = build_outcome(issues)
    assert outcome["resourceType"] == "OperationOutcome"
    assert outcome["issue"][0] == {
        "severity": "error",
        "code": "value",
        "diagnostics": "e",
        "expression": ["Bundle"],
    }
    assert len(outcome["issue"]) == 41
    cut = build_outcome([Issue("error", "value", str(n)) for n in range(70)])
    assert len(cut["issue"]) == 51 and "20 more" in cut["issue"][-1]["diagnostics"]
    assert (
        check_structure(outcome, "OperationOutcome")
        == []
        == check_structure(build_outcome([]), "OperationOutcome")
    )
