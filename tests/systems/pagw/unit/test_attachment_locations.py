"""Attachments in every location of a resource, pure: each is extracted or refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagw.domain.attachments import EICAR, AttachmentRefused, extract_attachments
from tests.cases import all_cases

PROGRAM = base64.b64encode(b"MZ\x90\x00" + bytes(200)).decode()
VIRUS = base64.b64encode(EICAR).decode()
NOTE = base64.b64encode(b"Seen twice.").decode()


def make_attachment(data: str) -> dict[str, Any]:
    return {"contentType": "text/plain", "data": data}


def build_resources(data: str) -> dict[str, dict[str, Any]]:
    """Return resources that hold this attachment, each in another location."""
    binary = {"resourceType": "Binary", "id": "b", **make_attachment(data)}
    return {
        "presentedForm": {"resourceType": "DiagnosticReport", "presentedForm": [make_attachment(data)]},
        "payload": {
            "resourceType": "Communication",
            "payload": [{"contentAttachment": make_attachment(data)}],
        },
        "answer": {
            "resourceType": "QuestionnaireResponse",
            "item": [{"item": [{"answer": [{"valueAttachment": make_attachment(data)}]}]}],
        },
        "contained": {"resourceType": "Observation", "contained": [binary]},
        "contained document": {
            "resourceType": "Claim",
            "contained": [
                {"resourceType": "DocumentReference", "content": [{"attachment": make_attachment(data)}]}
            ],
        },
        "extension": {
            "resourceType": "Patient",
            "extension": [{"url": "x", "valueAttachment": make_attachment(data)}],
        },
        "extension of an attachment": {
            "resourceType": "DocumentReference",
            "content": [
                {"attachment": {"extension": [{"url": "x", "valueAttachment": make_attachment(data)}]}}
            ],
        },
        "photo": {"resourceType": "Practitioner", "photo": [make_attachment(data)]},
        "media": {"resourceType": "Media", "content": make_attachment(data)},
        "nested": {"resourceType": "Parameters", "parameter": [{"resource": binary}]},
        "default": {"resourceType": "Task", "input": [{"defaultValueAttachment": make_attachment(data)}]},
    }


def make_bundle(resource: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": "Bundle", "entry": [{"fullUrl": "urn:uuid:1", "resource": resource}]}


@pytest.mark.proves("PG-30")
@all_cases("place", build_resources(NOTE))
def test_extracts_or_refuses_an_attachment_in_every_location(place: str) -> None:
    (found,) = extract_attachments(make_bundle(build_resources(NOTE)[place]))
    assert (found.body, found.content_type) == (b"Seen twice.", "text/plain")
    assert found.expression.startswith("Bundle.entry[0].resource.")
    for data in (PROGRAM, VIRUS):
        with pytest.raises(AttachmentRefused):
            extract_attachments(make_bundle(build_resources(data)[place]))


def test_refuses_bytes_outside_of_an_attachment() -> None:
    smuggled = {"resourceType": "Patient", "extension": [{"url": "x", "valueBase64Binary": PROGRAM}]}
    with pytest.raises(AttachmentRefused) as refused:
        extract_attachments(make_bundle(smuggled))
    assert refused.value.expression == "Bundle.entry[0].resource.extension[0].valueBase64Binary"


def test_sampled_data_and_short_signatures_are_not_attachments() -> None:
    measured = {"origin": {"value": 0}, "period": 10, "dimensions": 1, "data": "1 2.5 E U L -3"}
    signature = {"type": [{"code": "x"}], "when": "2026-11-02", "who": {"display": "x"}, "data": NOTE}
    observed = {"resourceType": "Observation", "valueSampledData": measured}
    proved = {"resourceType": "Provenance", "signature": [signature]}
    assert extract_attachments(make_bundle(observed)) == extract_attachments(make_bundle(proved)) == ()
    with pytest.raises(AttachmentRefused):
        extract_attachments(make_bundle({**observed, "valueSampledData": {**measured, "data": PROGRAM}}))
    with pytest.raises(AttachmentRefused):
        extract_attachments(make_bundle({**proved, "signature": [{**signature, "data": "A" * 70_000}]}))


def test_contained_binary_is_reachable_only_from_its_container() -> None:
    binary = {"resourceType": "Binary", "id": "b", **make_attachment(NOTE)}
    pointing = {"resourceType": "DocumentReference", "content": [{"attachment": {"url": "#b"}}]}
    (found,) = extract_attachments(make_bundle({**pointing, "contained": [binary]}))
    assert found.expression == "Bundle.entry[0].resource.contained[0]"
    with pytest.raises(AttachmentRefused):
        extract_attachments(make_bundle(pointing))
