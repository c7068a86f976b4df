"""A short form of a request for a person: patient, member id, diagnoses and services. All of it is PHI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagw.domain.fhir.claims import ClaimItem, parse_claim
from pagw.domain.fhir.references import Graph, get_objects


@dataclass(frozen=True)
class ClaimSummary:
    """What an operator sees of a request's contents. Fields that the Bundle lacks are empty."""

    patient: str
    birth_date: str
    gender: str
    member_id: str
    claim_identifier: str
    diagnoses: tuple[str, ...]
    services: tuple[str, ...]
    attachments: int


def build_claim_summary(bundle: Mapping[str, Any]) -> ClaimSummary:
    """Summarize a checked Bundle. Raise `FhirRefused` if it has no Claim that every stage could read."""
    claim = parse_claim(bundle)
    patient = _find_patient(bundle, claim.patient_reference)
    return ClaimSummary(
        patient=_format_name(patient),
        birth_date=str(patient.get("birthDate") or ""),
        gender=str(patient.get("gender") or ""),
        member_id=claim.member_id,
        claim_identifier="" if claim.claim_identifier is None else claim.claim_identifier.value,
        diagnoses=claim.diagnosis_codes,
        services=tuple(_format_service(each) for each in claim.items),
        attachments=len(claim.attachments),
    )


def _find_patient(bundle: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    """Return the Patient that the claim refers to; empty if the Bundle has none."""
    graph = Graph.from_bundle(bundle)
    claim = graph.get_first()
    found = None if claim is None else graph.find(reference, claim)
    return {} if found is None or found.kind != "Patient" else found.resource


def _format_name(patient: Mapping[str, Any]) -> str:
    """Return the patient's first name as text: given names, then the family name."""
    for name in get_objects(patient, "name"):
        given = name.get("given")
        parts = [*(given if isinstance(given, list) else ()), name.get("family")]
        if text := str(name.get("text") or " ".join(str(each) for each in parts if each)):
            return text
    return ""


def _format_service(item: ClaimItem) -> str:
    """Return an item as text: its code, quantity, period, and whether it is cancelled."""
    text = item.code or "no code"
    if item.quantity is not None:
        text += f" × {item.quantity:g}{f' {item.unit}' if item.unit else ''}"
    if item.service_from:
        text += f", {item.service_from}"
        if item.service_to and item.service_to != item.service_from:
            text += f" to {item.service_to}"
    return f"{text}, cancelled" if item.is_cancelled else text
