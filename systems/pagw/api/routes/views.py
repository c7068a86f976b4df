"""Response bodies: those of the native API, without patient data, and FHIR resources."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pagw.domain.fhir.exact_json import dump_exact
from pagw.domain.statuses import Stage, Status
from pagw.model.entities import FHIR_JSON, AuditRow, DecisionRow, DeliveryRow, RequestRow
from pagw.workers.responses import is_answered


class View(BaseModel):
    """Base of the views: camelCase field names in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class AcceptedView(View):
    """The gateway accepted the request. Repeating it under the same key returns the same response."""

    pagw_id: str
    status: Status = Status.VALIDATED


class AttachmentView(View):
    name: str
    content_type: str
    sha256: str
    bytes: int


class RequestView(View):
    """A request and its status."""

    pagw_id: str
    status: Status
    stage: Stage | None = Field(description="The stage that processes the request next.")
    kind: str = Field(description="submit, update or cancel")
    replaces: str | None = Field(description="The request that this one updates or cancels.")
    urgency: str = Field(description="standard or expedited")
    payer_id: str | None
    provider_npi: str | None
    correlation_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    due_at: datetime = Field(description="The deadline of the payer's decision.")
    decision: str | None
    decided_at: datetime | None
    error_code: str | None
    error_message: str | None
    retry_count: int
    is_contradicted: bool = Field(description="Whether the payer has changed its decision.")
    has_response: bool = Field(description="Whether /response returns a response.")
    attachments: list[AttachmentView]


class RequestPage(View):
    items: list[RequestView]
    cursor: str | None = Field(
        default=None, description="The cursor of the next page; null on the last page."
    )


class AuditView(View):
    """An audit event of a request."""

    event_uuid: str
    event_type: str
    event_subtype: str | None
    actor_type: str
    actor_id: str | None
    resource_type: str | None
    resource_id: str | None
    details: dict[str, Any] | None
    timestamp: datetime
    service_name: str
    service_version: str


class AuditTrail(View):
    items: list[AuditView]
    cursor: str | None = Field(
        default=None, description="The cursor of the next page; null on the last page."
    )


class DeliveryView(View):
    """A webhook delivery to a client."""

    delivery_id: str
    subscription_id: str | None
    target: str
    status: str
    attempts: int
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None


class Deliveries(View):
    items: list[DeliveryView]


class DecisionView(View):
    """A decision of the payer."""

    number: int
    outcome: str
    review_action: str | None
    arrived_at: datetime = Field(description="When the gateway received it.")
    payer_decided_at: datetime | None = Field(description="When the payer decided, by its own clock.")
    contradicts: bool = Field(description="Whether it differs from the decision before it.")


class Decisions(View):
    items: list[DecisionView]


class SessionView(View):
    """A session, which replaces the token on reads."""

    session: str = Field(
        description="The value for the header `Authorization: Session …`, the same as in the cookie."
    )
    expires_in: int = Field(description="Seconds until the session expires, counted from its last use.")


class CallbackTaken(View):
    pagw_id: str


class KeySet(BaseModel):
    """A JSON Web Key Set."""

    keys: list[dict[str, Any]]


class SmartConfiguration(BaseModel):
    """The SMART configuration of the server."""

    issuer: str
    jwks_uri: str
    token_endpoint: str
    grant_types_supported: list[str]
    scopes_supported: list[str]
    capabilities: list[str]
    code_challenge_methods_supported: list[str]


class NotificationTaken(View):
    pagw_ids: list[str]


def to_request_view(request: RequestRow) -> RequestView:
    """Return the view of a request."""
    attachments = [AttachmentView(**each) for each in request.metadata.get("attachments", [])]
    fields = {name: value for name, value in request.model_dump().items() if name in RequestView.model_fields}
    return RequestView(
        **fields,
        is_contradicted="contradicted" in request.metadata,
        has_response=is_answered(request),
        attachments=attachments,
    )


def to_audit_trail(rows: tuple[AuditRow, ...], cursor: str | None) -> AuditTrail:
    """Return a page of audit events."""
    return AuditTrail(items=[AuditView.model_validate(row) for row in rows], cursor=cursor)


def to_decisions(rows: tuple[DecisionRow, ...]) -> Decisions:
    """Return the view of a request's decisions."""
    return Decisions(items=[DecisionView.model_validate(row) for row in rows])


def to_deliveries(rows: tuple[DeliveryRow, ...]) -> Deliveries:
    """Return the view of a request's deliveries."""
    return Deliveries(items=[DeliveryView.model_validate(row) for row in rows])


# --- FHIR ---------------------------------------------------------------------------------------------------


class Resource(BaseModel):
    """Base of the FHIR resources, for OpenAPI: their type only, because FHIR defines the rest."""

    model_config = ConfigDict(extra="allow")


class Bundle(Resource):
    resource_type: Literal["Bundle"] = Field(alias="resourceType")


class CapabilityStatement(Resource):
    resource_type: Literal["CapabilityStatement"] = Field(alias="resourceType")


class Parameters(Resource):
    resource_type: Literal["Parameters"] = Field(alias="resourceType")


class Subscription(Resource):
    resource_type: Literal["Subscription"] = Field(alias="resourceType")


class FhirJson(JSONResponse):
    """A response with a FHIR resource."""

    media_type = FHIR_JSON

    def render(self, content: Any) -> bytes:
        """Return a resource as JSON, with exact numbers; bytes as they are."""
        return content if isinstance(content, bytes) else dump_exact(content)


class AnyFile(Response):
    """A response with a file."""

    media_type = "application/octet-stream"
