"""The gateway's files, as they are asked for: what a request brought, what was made of it, what came back, and audit events.

Everything is written create-only, and what is there already is adopted: a stage that is repeated finds its own file, and of
two answers the first stays.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import AdoptObject, GetObject, PutObject, pattern
from pagw import model
from pagw.patterns import AUDITED, NOTICE, OPERATOR, QUESTION, REQUEST, STAGE

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"

_FOLDER: Final = {"created_at": _NOW, "pagw_id": _ID}


def _kept() -> dict[str, Any]:
    return {"body": b"{}", **_FOLDER}


@pattern("O1", "Keep the bundle as it came; one that is there is adopted", rate=REQUEST, example=_kept)
def keep_bundle(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.original_bundle.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O2", "The bundle as it came", rate=STAGE, example=_FOLDER)
def bundle(created_at: datetime, pagw_id: str) -> GetObject:
    return model.original_bundle.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O3", "Keep what was parsed", rate=REQUEST, example=_kept)
def keep_parsed(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.parsed_claim.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O5", "Keep the enriched request", rate=REQUEST, example=_kept)
def keep_enriched(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.enriched_request.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O6", "The enriched request", rate=STAGE, example=_FOLDER)
def enriched(created_at: datetime, pagw_id: str) -> GetObject:
    return model.enriched_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O7", "Keep what the payer is sent", rate=REQUEST, example=_kept)
def keep_payer_request(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.payer_request.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O8", "What the payer is sent", rate=STAGE, example=_FOLDER)
def payer_request(created_at: datetime, pagw_id: str) -> GetObject:
    return model.payer_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O9", "Keep what the payer answered", rate=REQUEST, example=_kept)
def keep_payer_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.payer_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O10", "What the payer answered", rate=STAGE, example=_FOLDER)
def payer_response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.payer_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O11", "Keep the ClaimResponse", rate=REQUEST, example=_kept)
def keep_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.fhir_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O12", "The ClaimResponse", rate=QUESTION, example=_FOLDER)
def response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.fhir_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O13", "Keep the ClaimResponse of a pended request", rate=REQUEST, example=_kept)
def keep_pended_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.pended_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O22", "Renew the ClaimResponse of a pended request", rate=REQUEST, example=_kept)
def renew_pended_response(body: bytes, created_at: datetime, pagw_id: str) -> PutObject:
    """In place of the former: a payer that has not decided may say more meanwhile."""
    return model.pended_response.put(body, create_only=False, created_at=created_at, pagw_id=pagw_id)


@pattern("O14", "The ClaimResponse of a pended request", rate=QUESTION, example=_FOLDER)
def pended_response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.pended_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O15", "Keep an attachment", rate=REQUEST, example=lambda: {**_kept(), "number": "001.pdf"})
def keep_attachment(body: bytes, created_at: datetime, pagw_id: str, number: str) -> AdoptObject:
    return model.attachment.adopt(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O16", "An attachment", rate=QUESTION, example=lambda: {**_FOLDER, "number": "001.pdf"})
def attachment(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return model.attachment.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O17", "Keep a payer's callback", rate=REQUEST, example=lambda: {**_kept(), "number": "001"})
def keep_callback(body: bytes, created_at: datetime, pagw_id: str, number: str) -> AdoptObject:
    return model.callback.adopt(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O18", "A payer's callback", rate=STAGE, example=lambda: {**_FOLDER, "number": "001"})
def callback(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return model.callback.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O21", "Keep a subscription as it was asked for", rate=OPERATOR, example=(b"{}", _TENANT, "sub-1"))
def keep_subscription(body: bytes, tenant: str, subscription_id: str) -> AdoptObject:
    return model.subscribed.adopt(body, tenant=tenant, subscription_id=subscription_id)


@pattern("O19", "A subscription as it was asked for", rate=NOTICE, example=(_TENANT, "sub-1"))
def kept_subscription(tenant: str, subscription_id: str) -> GetObject:
    return model.subscribed.get(tenant=tenant, subscription_id=subscription_id)


@pattern(
    "O20",
    "Keep an audit event as a file",
    rate=AUDITED,
    example=lambda: {**_kept(), "service": "pasorchestrator", "uuid": "00000000-0000-4000-8000-000000000000"},
)
def keep_audit_event(body: bytes, created_at: datetime, service: str, pagw_id: str, uuid: str) -> PutObject:
    return model.audit_event.put(body, created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)
