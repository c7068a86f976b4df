"""JSON messages to and from a payer: our own small schema, for payers that have none.

To the payer (`POST /prior-authorizations`, and `…/{former}/update` and `…/{former}/cancel` with the same
body):

    {"schema": "pagw-payer/1", "reference": "PAGW-01J…", "kind": "submit",
     "member_id": "…", "provider_npi": "1234567893", "urgency": "standard",
     "items": [{"sequence": 1, "system": "http://www.ama-assn.org/go/cpt", "code": "70551", "quantity": 1}],
     "attachments": [{"name": "attachment_001.pdf", "content_type": "application/pdf",
                      "sha256": "…", "bytes": 1024}],
     "callback_url": "https://…/payer-callbacks/acme", "bundle": {the whole FHIR Bundle}}

An update and a cancellation also name the request that they change (`former_reference`) and the payer's
number for it (`prior_authorization_number`). The payer's answers, lookup results and callbacks are

    {"reference": "PAGW-01J…", "payer_reference": "PA-00000001", "status": "final",
     "decision": {"outcome": "approved", "review_action": "A1", "authorization_number": "AUTH0000001",
                  "items": [{"sequence": 1, "action": "A1"}], "decided_at": "2026-02-04T10:30:00Z"}}

where `status` is "pended" as long as the outcome is. A refusal is `{"error": CODE}` (`client.py` has the
codes).
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pagw.domain.fhir.decisions import Decision, Outcome

SCHEMA: Final = "pagw-payer/1"


class PayerMessage(BaseModel):
    """Base of the messages. Unknown fields are ignored, and errors contain no values."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class ItemBody(PayerMessage):
    """An item of the claim. Without a code, the service is described elsewhere in the Bundle."""

    sequence: int = Field(ge=1)
    code: str | None = None
    system: str | None = None
    quantity: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    certification_type: str | None = None
    info_changed: str | None = None
    info_cancelled: bool = False


class AttachmentBody(PayerMessage):
    """An attachment. The file is in the Bundle or at a URL; the payer can verify it by the hash."""

    name: str = Field(min_length=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    content_type: str | None = None
    bytes: int | None = Field(default=None, ge=0)


class PayerRequestBody(PayerMessage):
    """A request as sent to a payer."""

    reference: str = Field(min_length=1)
    kind: Literal["submit", "update", "cancel"] = "submit"
    former_reference: str | None = None
    prior_authorization_number: str | None = None
    member_id: str = Field(min_length=1)
    provider_npi: str = Field(min_length=1)
    urgency: Literal["standard", "expedited"] = "standard"
    service_from: str | None = None
    service_to: str | None = None
    items: tuple[ItemBody, ...] = Field(min_length=1)
    attachments: tuple[AttachmentBody, ...] = ()
    callback_url: str | None = None
    bundle: dict[str, Any]

    @model_validator(mode="after")
    def _check_former_reference(self) -> Self:
        """Raise `ValueError` if an update or a cancellation does not name the request it changes."""
        if self.kind != "submit" and self.former_reference is None:
            raise ValueError(f"{self.kind} needs former_reference, the request that it changes")
        return self


class PayerAnswerBody(PayerMessage):
    """The payer's message about one request: its answer, a lookup result or a callback."""

    reference: str = Field(min_length=1)
    payer_reference: str = Field(min_length=1, max_length=100)
    status: Literal["final", "pended"]
    decision: Decision

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        """Raise `ValueError` if status and outcome differ, the decision has no time, or a denial no
        reason.
        """
        decision = self.decision
        if decision.outcome.is_final != (self.status == "final"):
            raise ValueError("status and outcome contradict each other")
        if decision.decided_at is None or decision.decided_at.tzinfo is None:
            raise ValueError("decided_at is missing or has no time zone")
        if decision.outcome is Outcome.DENIED and not (
            decision.reason or any(each.reason for each in decision.items)
        ):
            raise ValueError("a denial needs a reason, its own or an item's (CMS-0057-F)")
        return self


def format_faults(error: Any) -> str:
    """Return the first three errors of a validation with their locations, without values."""
    found = error.errors(include_input=False, include_url=False, include_context=False)[:3]
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in found)
