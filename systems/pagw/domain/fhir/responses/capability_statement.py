"""The CapabilityStatement at `/fhir/metadata`, which lists what the FHIR API supports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pagw.domain.fhir.urls import (
    FHIR_VERSION,
    INQUIRE_OPERATION,
    PAS,
    PAS_VERSION,
    SUBMIT_OPERATION,
    TOPIC,
    TOPIC_CANONICAL,
)


def build_capability_statement(base_url: str, version: str, created: datetime) -> dict[str, Any]:
    """Build the CapabilityStatement.

    `base_url` is the root of the FHIR endpoints, `version` the software's version, `created` the time of the
    last change.
    """
    return {
        "resourceType": "CapabilityStatement",
        "name": "PAGW",
        "title": "Prior authorization gateway",
        "status": "active",
        "experimental": False,
        "date": created.isoformat(),
        "description": (
            "Da Vinci PAS: requests for prior authorization, inquiries, and subscriptions to their results."
        ),
        "kind": "instance",
        "software": {"name": "PAGW", "version": version},
        "implementation": {"description": "Prior authorization gateway", "url": base_url.rstrip("/")},
        "fhirVersion": FHIR_VERSION,
        "format": ["json"],
        "implementationGuide": [f"{PAS}/ImplementationGuide/hl7.fhir.us.davinci-pas|{PAS_VERSION}"],
        "rest": [
            {
                "mode": "server",
                "security": _build_security(),
                "resource": [_build_claim(), _build_subscription()],
            }
        ],
    }


def _build_security() -> dict[str, Any]:
    service = {
        "system": "http://terminology.hl7.org/CodeSystem/restful-security-service",
        "code": "SMART-on-FHIR",
    }
    text = "Bearer tokens (JWT) from the client's authorization server. A token belongs to one tenant."
    return {"cors": False, "service": [{"coding": [service]}], "description": text}


def _build_claim() -> dict[str, Any]:
    return {
        "type": "Claim",
        "operation": [
            {"name": "submit", "definition": f"{SUBMIT_OPERATION}|{PAS_VERSION}"},
            {"name": "inquire", "definition": f"{INQUIRE_OPERATION}|{PAS_VERSION}"},
        ],
    }


def _build_subscription() -> dict[str, Any]:
    interactions = ("create", "read", "update", "delete", "search-type")
    return {
        "extension": [{"url": TOPIC_CANONICAL, "valueCanonical": TOPIC}],
        "type": "Subscription",
        "interaction": [{"code": code} for code in interactions],
    }
