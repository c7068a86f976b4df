"""What the native API shows of a request: where it stands and what was done, with nothing of whom it is about."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pagw.model import AuditRow, DeliveryRow, Tracked
from pagw.statuses import Stage, Status
from pagw.waiting import is_answered


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class AcceptedView(View):
    """The request is tracked. A repeat under the same key is answered with the same."""

    pagw_id: str
    status: Status = Status.VALIDATED


class AttachmentView(View):
    name: str
    content_type: str
    sha256: str
    bytes: int


class RequestView(View):
    """Where a request stands."""

    pagw_id: str
    status: Status
    stage: Stage | None = Field(description="Who has it next.")
    kind: str = Field(description="submit, update or cancel")
    replaces: str | None = Field(description="The request that this one updates or cancels.")
    urgency: str = Field(description="standard or expedited")
    payer_id: str | None
    provider_npi: str | None
    correlation_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    due_at: datetime = Field(description="When the payer has to have decided.")
    decision: str | None
    decided_at: datetime | None
    error_code: str | None
    error_message: str | None
    retry_count: int
    has_response: bool = Field(description="Whether there is something to read at /response.")
    attachments: list[AttachmentView]


class RequestPage(View):
    items: list[RequestView]
    cursor: str | None = Field(default=None, description="For the next page; null on the last.")


class AuditView(View):
    """One event of a request's audit."""

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
    cursor: str | None = Field(default=None, description="For the next page; null on the last.")


class DeliveryView(View):
    """What a client was told, or is being told."""

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


class SessionView(View):
    """A session, in place of a token on reads."""

    session: str = Field(description="For the header `Authorization: Session …`; the cookie has the same.")
    expires_in: int = Field(description="Seconds after its last use.")


class CallbackTaken(View):
    pagw_id: str


def shown(request: Tracked) -> RequestView:
    attachments = [AttachmentView(**each) for each in request.metadata.get("attachments", [])]
    told = {name: value for name, value in request.model_dump().items() if name in RequestView.model_fields}
    return RequestView(**told, has_response=is_answered(request), attachments=attachments)


def trail(rows: tuple[AuditRow, ...], cursor: str | None) -> AuditTrail:
    return AuditTrail(items=[AuditView.model_validate(row) for row in rows], cursor=cursor)


def deliveries(rows: tuple[DeliveryRow, ...]) -> Deliveries:
    return Deliveries(items=[DeliveryView.model_validate(row) for row in rows])
