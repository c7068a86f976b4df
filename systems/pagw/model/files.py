"""Access patterns of the gateway's files: requests, documents, responses, callbacks, audit events.

Writes are create-only and return the existing object if there is one: a repeated stage finds its own file,
and of two answers the first stays. Only `renew_pended_response` overwrites.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import pattern
from holdfast.model.objects import GetObject, GetOrPutObject, PutObject
from pagw.model import entities
from pagw.model.patterns import (
    PER_AUDIT_EVENT,
    PER_NOTICE,
    PER_OPERATOR_CHANGE,
    PER_QUESTION,
    PER_REQUEST,
    PER_STAGE,
)

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"

_FOLDER_EXAMPLE: Final = {"created_at": _NOW, "pagw_id": _ID}


def _build_example() -> dict[str, Any]:
    """Build the example arguments of a pattern that stores a file."""
    return {"body": b"{}", **_FOLDER_EXAMPLE}


@pattern(
    "O1", "Store the original bundle, or return the existing one", rate=PER_REQUEST, example=_build_example
)
def keep_bundle(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.original_bundle.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O2", "The original bundle", rate=PER_STAGE, example=_FOLDER_EXAMPLE)
def bundle(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.original_bundle.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O3", "Store the parsed claim", rate=PER_REQUEST, example=_build_example)
def keep_parsed(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.parsed_claim.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O5", "Store the enriched request", rate=PER_REQUEST, example=_build_example)
def keep_enriched(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.enriched_request.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O6", "The enriched request", rate=PER_STAGE, example=_FOLDER_EXAMPLE)
def enriched(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.enriched_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O7", "Store the payer's request", rate=PER_REQUEST, example=_build_example)
def keep_payer_request(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.payer_request.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O8", "The payer's request", rate=PER_STAGE, example=_FOLDER_EXAMPLE)
def payer_request(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.payer_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O9", "Store the payer's response", rate=PER_REQUEST, example=_build_example)
def keep_payer_response(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.payer_response.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O10", "The payer's response", rate=PER_STAGE, example=_FOLDER_EXAMPLE)
def payer_response(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.payer_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O11", "Store the ClaimResponse", rate=PER_REQUEST, example=_build_example)
def keep_response(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.fhir_response.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O12", "The ClaimResponse", rate=PER_QUESTION, example=_FOLDER_EXAMPLE)
def response(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.fhir_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O13", "Store the ClaimResponse of a pended request", rate=PER_REQUEST, example=_build_example)
def keep_pended_response(body: bytes, created_at: datetime, pagw_id: str) -> GetOrPutObject:
    return entities.pended_response.get_or_put(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O22", "Replace the ClaimResponse of a pended request", rate=PER_REQUEST, example=_build_example)
def renew_pended_response(body: bytes, created_at: datetime, pagw_id: str) -> PutObject:
    """Overwrite the earlier response: a payer that has not decided may have reported more."""
    return entities.pended_response.put(body, create_only=False, created_at=created_at, pagw_id=pagw_id)


@pattern("O14", "The ClaimResponse of a pended request", rate=PER_QUESTION, example=_FOLDER_EXAMPLE)
def pended_response(created_at: datetime, pagw_id: str) -> GetObject:
    return entities.pended_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern(
    "O23",
    "Store the ClaimResponse of a later decision",
    rate=PER_REQUEST,
    example=lambda: {**_build_example(), "number": "002"},
)
def keep_later_response(body: bytes, created_at: datetime, pagw_id: str, number: str) -> GetOrPutObject:
    """Store the response to the payer's callback `number`, which came after its first decision."""
    return entities.later_response.get_or_put(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern(
    "O24",
    "The ClaimResponse of a later decision",
    rate=PER_QUESTION,
    example=lambda: {**_FOLDER_EXAMPLE, "number": "002"},
)
def later_response(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return entities.later_response.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern(
    "O15", "Store an attachment", rate=PER_REQUEST, example=lambda: {**_build_example(), "number": "001.pdf"}
)
def keep_attachment(body: bytes, created_at: datetime, pagw_id: str, number: str) -> GetOrPutObject:
    return entities.attachment.get_or_put(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O16", "An attachment", rate=PER_QUESTION, example=lambda: {**_FOLDER_EXAMPLE, "number": "001.pdf"})
def attachment(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return entities.attachment.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern(
    "O17", "Store a payer's callback", rate=PER_REQUEST, example=lambda: {**_build_example(), "number": "001"}
)
def keep_callback(body: bytes, created_at: datetime, pagw_id: str, number: str) -> GetOrPutObject:
    return entities.callback.get_or_put(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O18", "A payer's callback", rate=PER_STAGE, example=lambda: {**_FOLDER_EXAMPLE, "number": "001"})
def callback(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return entities.callback.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern(
    "O21",
    "Store a subscription as the client requested it",
    rate=PER_OPERATOR_CHANGE,
    example=(b"{}", _TENANT, "sub-1"),
)
def keep_subscription(body: bytes, tenant: str, subscription_id: str) -> GetOrPutObject:
    """Store the client's subscription, or return the existing one."""
    return entities.subscription_request.get_or_put(body, tenant=tenant, subscription_id=subscription_id)


@pattern("O19", "A subscription as the client requested it", rate=PER_NOTICE, example=(_TENANT, "sub-1"))
def kept_subscription(tenant: str, subscription_id: str) -> GetObject:
    """Read the stored subscription of a client."""
    return entities.subscription_request.get(tenant=tenant, subscription_id=subscription_id)


@pattern(
    "O20",
    "Store an audit event as a file",
    rate=PER_AUDIT_EVENT,
    example=lambda: {
        **_build_example(),
        "service": "pasorchestrator",
        "uuid": "00000000-0000-4000-8000-000000000000",
    },
)
def keep_audit_event(body: bytes, created_at: datetime, service: str, pagw_id: str, uuid: str) -> PutObject:
    return entities.audit_event.put(body, created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)
