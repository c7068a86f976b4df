"""Redaction of the gateway's logs: patient data is hidden, and the ids that identify a line stay."""

from __future__ import annotations

import io
import json
import logging

import pytest
from pydantic import BaseModel, ValidationError

from holdfast.core.logs import setup_logs
from holdfast_demo.pagw.sample.bundles import PEOPLE, build_request_bundle
from pagw.domain.fhir.claims import ParsedClaim
from pagw.domain.redaction import redact
from pagw.model.entities import RequestRow
from pagw.system import SYSTEM
from tests.cases import all_cases

ID = "PAGW-01M7GRNQGSMZD58WWC3KR7QYWX"
SAFE_LINES = (
    f"{ID} ends at pasapiconnector: PartyRefused",
    f"pasrequestenricher finds {ID} at ENRICHED: nothing is left to do.",
    f"{ID}#response-builder#replay-01M7GRNQGSMZD58WWC3KR7QYWX was brought on by another pasresponsebuilder.",
    "2026-11-15T23:28:57.078782+00:00 delivery 6f1c3c1e-3f6f-4a53-9d7a-0c7a1c5a9d10 of 1993000003",
    "sha256 9ac0bf8791dce93c23c55cc1fce0b48dee716926e917dbfe81aa43aa6ac9ae6e, 4043 bytes",
)


class StrictModel(BaseModel):
    """Model whose validation errors quote the value."""

    name: int


@all_cases("line", SAFE_LINES)
def test_keeps_the_gateways_own_lines(line: str) -> None:
    assert redact(line) == line


@pytest.mark.proves("PG-X21")
def test_redacts_patients_in_validation_and_database_errors() -> None:
    bundle = build_request_bundle(reference="R-1")
    patient = PEOPLE[0]
    refused: list[str] = []
    for model, value in (
        (StrictModel, {"name": f"{patient.given} {patient.family}"}),
        (StrictModel, {"name": bundle}),
        (ParsedClaim, bundle),
        (RequestRow, {"metadata": {"who": patient.family}, "status": patient.member_id}),
    ):
        with pytest.raises(ValidationError) as caught:
            model.model_validate(value)
        refused.append(str(caught.value))
    assert any(patient.family in each for each in refused), (
        "the errors must show the patient before redaction"
    )
    texts = [
        *refused,
        f"could not send {json.dumps(bundle)}",
        f"could not send {bundle}",
        f"KeyError: {{'family': '{patient.family}', 'given': ['{patient.given}']}}",
        f"duplicate key: Key (hash, tenant)=({patient.member_id}, acme) already exists.",
        f"DETAIL:  Failing row contains ({patient.member_id}, {patient.family}, 2026-01-01).",
    ]
    for text in texts:
        redacted = redact(text)
        for secret in (patient.family, patient.given, patient.member_id, patient.line):
            assert secret not in redacted, text


@all_cases(
    ("said", "hidden"),
    [
        ("her number is 123-45-6789 here", "123-45-6789"),
        ("birthDate: 1987-04-05", "1987-04-05"),
        ("DOB 04/05/1987", "04/05/1987"),
        ("write to ann@clinic.example", "ann@clinic.example"),
        ("call +1 202 555 0147 now", "555 0147"),
    ],
)
def test_hides_personal_data(said: str, hidden: str) -> None:
    assert hidden not in redact(said)


@pytest.mark.proves("PG-X21")
def test_logged_traceback_does_not_show_the_patient() -> None:
    patient = PEOPLE[1]
    stream = io.StringIO()
    handler = setup_logs(stream, redact=SYSTEM.privacy.redact_logs, system="pagw")
    try:
        try:
            StrictModel.model_validate({"name": {"family": patient.family, "member": patient.member_id}})
        except ValidationError:
            logging.getLogger("pagw.test").exception("%s failed", ID)
    finally:
        logging.getLogger().removeHandler(handler)
    line = json.loads(stream.getvalue())
    assert ID in line["message"] and "ValidationError" in line["traceback"]
    assert patient.family not in stream.getvalue() and patient.member_id not in stream.getvalue()
