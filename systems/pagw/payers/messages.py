"""What goes to a payer as JSON and what comes back: a small schema of ours, for payers that have none of their own.

To the payer (`POST /prior-authorizations`, and `…/{former}/update` and `…/{former}/cancel` with the same body):

    {"schema": "pagw-payer/1", "reference": "PAGW-01J…", "kind": "submit",
     "member_id": "…", "provider_npi": "1234567893", "urgency": "standard",
     "items": [{"sequence": 1, "system": "http://www.ama-assn.org/go/cpt", "code": "70551", "quantity": 1}],
     "attachments": [{"name": "attachment_001.pdf", "content_type": "application/pdf", "sha256": "…", "bytes": 1024}],
     "callback_url": "https://…/payer-callbacks/acme", "bundle": {the whole FHIR Bundle}}

An update and a cancellation also name the request that they change (`former_reference`) and the payer's number for it
(`prior_authorization_number`). The payer answers, looks up and calls back with

    {"reference": "PAGW-01J…", "payer_reference": "PA-00000001", "status": "final",
     "decision": {"outcome": "approved", "review_action": "A1", "authorization_number": "AUTH0000001",
                  "items": [{"sequence": 1, "action": "A1"}], "decided_at": "2026-02-04T10:30:00Z"}}

where `status` is "pended" for as long as the outcome is, and refuses with `{"error": CODE}` (`client.py` has the codes).
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pagw.fhir.decisions import Decision, Outcome

SCHEMA: Final = "pagw-payer/1"


class Told(BaseModel):
    """What is wanted of it; whatever else is in it is left out. No value stands in its errors."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class ItemTold(Told):
    """A line of the claim. A service may be described elsewhere in the Bundle, and have no code here."""

    sequence: int = Field(ge=1)
    code: str | None = None
    system: str | None = None
    quantity: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    certification_type: str | None = None
    info_changed: str | None = None
    info_cancelled: bool = False


class AttachmentTold(Told):
    """The file itself is in the Bundle or fetched; the hash lets the payer see that it has the very same."""

    name: str = Field(min_length=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    content_type: str | None = None
    bytes: int | None = Field(default=None, ge=0)


class RequestTold(Told):
    """What a payer is told of one request."""

    reference: str = Field(min_length=1)
    kind: Literal["submit", "update", "cancel"] = "submit"
    former_reference: str | None = None
    prior_authorization_number: str | None = None
    member_id: str = Field(min_length=1)
    provider_npi: str = Field(min_length=1)
    urgency: Literal["standard", "expedited"] = "standard"
    service_from: str | None = None
    service_to: str | None = None
    items: tuple[ItemTold, ...] = Field(min_length=1)
    attachments: tuple[AttachmentTold, ...] = ()
    callback_url: str | None = None
    bundle: dict[str, Any]

    @model_validator(mode="after")
    def _says_what_it_changes(self) -> Self:
        if self.kind != "submit" and self.former_reference is None:
            raise ValueError(f"an {self.kind} names the request that it changes: former_reference")
        return self


class AnswerTold(Told):
    """What a payer says of one request: in its answer, when it is looked up, and when it calls back."""

    reference: str = Field(min_length=1)
    payer_reference: str = Field(min_length=1, max_length=100)
    status: Literal["final", "pended"]
    decision: Decision

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        made = self.decision
        if made.outcome.is_final != (self.status == "final"):
            raise ValueError("status and outcome contradict each other")
        if made.decided_at is None or made.decided_at.tzinfo is None:
            raise ValueError("a decision says when it was made, with its time zone: decided_at")
        if made.outcome is Outcome.DENIED and not (made.reason or any(each.reason for each in made.items)):
            raise ValueError("a denial says why (CMS-0057-F): reason, or that of an item")
        return self


def faults_of(error: Any) -> str:
    """Where something is wrong and of what, without what stands there."""
    found = error.errors(include_input=False, include_url=False, include_context=False)[:3]
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all of it'}: {each['msg']}" for each in found)
