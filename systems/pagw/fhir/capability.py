"""What the gateway can do, as FHIR has it told: the CapabilityStatement at `/fhir/metadata`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pagw.fhir.urls import (
    FHIR_VERSION,
    INQUIRE_OPERATION,
    PAS,
    PAS_VERSION,
    SUBMIT_OPERATION,
    TOPIC,
    TOPIC_CANONICAL,
)


def capability_statement(base_url: str, version: str, created: datetime) -> dict[str, Any]:
    """`base_url` is where FHIR is served, `version` that of the software, `created` when this was last changed."""
    return {
        "resourceType": "CapabilityStatement",
        "name": "PAGW",
        "title": "Prior authorization gateway",
        "status": "active",
        "experimental": False,
        "date": created.isoformat(),
        "description": "Da Vinci PAS: requests for prior authorization, inquiries, and subscriptions to their results.",
        "kind": "instance",
        "software": {"name": "PAGW", "version": version},
        "implementation": {"description": "Prior authorization gateway", "url": base_url.rstrip("/")},
        "fhirVersion": FHIR_VERSION,
        "format": ["json"],
        "implementationGuide": [f"{PAS}/ImplementationGuide/hl7.fhir.us.davinci-pas|{PAS_VERSION}"],
        "rest": [{"mode": "server", "security": _security(), "resource": [_claim(), _subscription()]}],
    }


def _security() -> dict[str, Any]:
    service = {
        "system": "http://terminology.hl7.org/CodeSystem/restful-security-service",
        "code": "SMART-on-FHIR",
    }
    told = "Bearer tokens (JWT) of the client's authorization server; a token belongs to one tenant."
    return {"cors": False, "service": [{"coding": [service]}], "description": told}


def _claim() -> dict[str, Any]:
    return {
        "type": "Claim",
        "operation": [
            {"name": "submit", "definition": f"{SUBMIT_OPERATION}|{PAS_VERSION}"},
            {"name": "inquire", "definition": f"{INQUIRE_OPERATION}|{PAS_VERSION}"},
        ],
    }


def _subscription() -> dict[str, Any]:
    interactions = ("create", "read", "update", "delete", "search-type")
    return {
        "extension": [{"url": TOPIC_CANONICAL, "valueCanonical": TOPIC}],
        "type": "Subscription",
        "interaction": [{"code": code} for code in interactions],
    }
