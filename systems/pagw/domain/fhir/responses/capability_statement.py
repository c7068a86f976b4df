"""The CapabilityStatement at `/fhir/metadata`, which lists what the FHIR API supports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pagw.domain.fhir.urls import (
    EVENTS_OPERATION,
    FHIR_VERSION,
    INQUIRE_OPERATION,
    PAS,
    PAS_VERSION,
    SMART_URIS,
    STATUS_OPERATION,
    SUBMIT_OPERATION,
    TOPIC,
    TOPIC_CANONICAL,
)


def build_capability_statement(
    base_url: str, version: str, created: datetime, *, token_url: str = ""
) -> dict[str, Any]:
    """Build the CapabilityStatement.

    `base_url` is the root of the FHIR endpoints, `version` the software's version, `created` the time of the
    last change, `token_url` the issuer's token endpoint, if it is known.
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
                "security": _build_security(token_url),
                "resource": [_build_claim(), _build_subscription()],
            }
        ],
    }


def _build_security(token_url: str) -> dict[str, Any]:
    """Build the security element. Without a token endpoint, it does not claim to be SMART."""
    service = {
        "system": "http://terminology.hl7.org/CodeSystem/restful-security-service",
        "code": "SMART-on-FHIR",
    }
    text = "Bearer tokens (JWT) from the client's authorization server. A token belongs to one tenant."
    security: dict[str, Any] = {"cors": False, "description": text}
    if token_url:
        security["service"] = [{"coding": [service]}]
        security["extension"] = [{"url": SMART_URIS, "extension": [{"url": "token", "valueUri": token_url}]}]
    return security


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
        "operation": [
            {"name": "status", "definition": STATUS_OPERATION},
            {"name": "events", "definition": EVENTS_OPERATION},
        ],
    }
