"""No attachment slips through by where it stands."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagw.domain.attachments import EICAR, AttachmentRefused, extract_attachments

PROGRAM = base64.b64encode(b"MZ\x90\x00" + bytes(200)).decode()
VIRUS = base64.b64encode(EICAR).decode()
NOTE = base64.b64encode(b"Seen twice.").decode()


def told(data: str) -> dict[str, Any]:
    return {"contentType": "text/plain", "data": data}


def places(data: str) -> dict[str, dict[str, Any]]:
    """Resources that hold this attachment, each in another place."""
    binary = {"resourceType": "Binary", "id": "b", **told(data)}
    return {
        "presentedForm": {"resourceType": "DiagnosticReport", "presentedForm": [told(data)]},
        "payload": {"resourceType": "Communication", "payload": [{"contentAttachment": told(data)}]},
        "answer": {
            "resourceType": "QuestionnaireResponse",
            "item": [{"item": [{"answer": [{"valueAttachment": told(data)}]}]}],
        },
        "contained": {"resourceType": "Observation", "contained": [binary]},
        "contained document": {
            "resourceType": "Claim",
            "contained": [{"resourceType": "DocumentReference", "content": [{"attachment": told(data)}]}],
        },
        "extension": {"resourceType": "Patient", "extension": [{"url": "x", "valueAttachment": told(data)}]},
        "extension of an attachment": {
            "resourceType": "DocumentReference",
            "content": [{"attachment": {"extension": [{"url": "x", "valueAttachment": told(data)}]}}],
        },
        "photo": {"resourceType": "Practitioner", "photo": [told(data)]},
        "media": {"resourceType": "Media", "content": told(data)},
        "nested": {"resourceType": "Parameters", "parameter": [{"resource": binary}]},
        "default": {"resourceType": "Task", "input": [{"defaultValueAttachment": told(data)}]},
    }


def bundle(resource: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": "Bundle", "entry": [{"fullUrl": "urn:uuid:1", "resource": resource}]}


@pytest.mark.proves("PG-30")
@pytest.mark.parametrize("place", places(NOTE))
def test_an_attachment_is_kept_or_refused_wherever_it_stands(place: str) -> None:
    (found,) = extract_attachments(bundle(places(NOTE)[place]))
    assert (found.body, found.content_type) == (b"Seen twice.", "text/plain")
    assert found.expression.startswith("Bundle.entry[0].resource.")
    for data in (PROGRAM, VIRUS):
        with pytest.raises(AttachmentRefused):
            extract_attachments(bundle(places(data)[place]))


def test_bytes_outside_of_an_attachment_are_refused() -> None:
    smuggled = {"resourceType": "Patient", "extension": [{"url": "x", "valueBase64Binary": PROGRAM}]}
    with pytest.raises(AttachmentRefused) as refused:
        extract_attachments(bundle(smuggled))
    assert refused.value.expression == "Bundle.entry[0].resource.extension[0].valueBase64Binary"


def test_measured_values_and_short_signatures_are_no_files() -> None:
    measured = {"origin": {"value": 0}, "period": 10, "dimensions": 1, "data": "1 2.5 E U L -3"}
    signature = {"type": [{"code": "x"}], "when": "2026-11-02", "who": {"display": "x"}, "data": NOTE}
    observed = {"resourceType": "Observation", "valueSampledData": measured}
    proved = {"resourceType": "Provenance", "signature": [signature]}
    assert extract_attachments(bundle(observed)) == extract_attachments(bundle(proved)) == ()
    with pytest.raises(AttachmentRefused):
        extract_attachments(bundle({**observed, "valueSampledData": {**measured, "data": PROGRAM}}))
    with pytest.raises(AttachmentRefused):
        extract_attachments(bundle({**proved, "signature": [{**signature, "data": "A" * 70_000}]}))


def test_a_contained_binary_may_be_pointed_at_from_where_it_is_contained_alone() -> None:
    binary = {"resourceType": "Binary", "id": "b", **told(NOTE)}
    pointing = {"resourceType": "DocumentReference", "content": [{"attachment": {"url": "#b"}}]}
    (found,) = extract_attachments(bundle({**pointing, "contained": [binary]}))
    assert found.expression == "Bundle.entry[0].resource.contained[0]"
    with pytest.raises(AttachmentRefused):
        extract_attachments(bundle(pointing))
