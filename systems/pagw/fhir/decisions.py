"""What a payer decided, in the gateway's own words: what each payer's format is read into and every answer is made of."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Outcome(StrEnum):
    APPROVED = "approved"
    DENIED = "denied"
    PENDED = "pended"
    MODIFIED = "modified"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self is not Outcome.PENDED


class ReviewAction(StrEnum):
    """The codes of X12 306 that a review of a request may end with."""

    CERTIFIED = "A1"
    PARTIAL = "A2"
    NOT_CERTIFIED = "A3"
    PENDED = "A4"
    MODIFIED = "A6"
    CANCELLED = "C"

    @property
    def display(self) -> str:
        return _DISPLAYS[self]


_DISPLAYS: Final = {
    ReviewAction.CERTIFIED: "Certified in total",
    ReviewAction.PARTIAL: "Certified - partial",
    ReviewAction.NOT_CERTIFIED: "Not Certified",
    ReviewAction.PENDED: "Pended",
    ReviewAction.MODIFIED: "Modified",
    ReviewAction.CANCELLED: "Cancelled",
}
_ACTIONS: Final = {
    Outcome.APPROVED: ReviewAction.CERTIFIED,
    Outcome.DENIED: ReviewAction.NOT_CERTIFIED,
    Outcome.PENDED: ReviewAction.PENDED,
    Outcome.MODIFIED: ReviewAction.MODIFIED,
    Outcome.CANCELLED: ReviewAction.CANCELLED,
}


class _Told(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", str_strip_whitespace=True, hide_input_in_errors=True
    )


class AuthorizedService(_Told):
    """What was authorized in place of what was asked for."""

    system: str
    code: str = Field(min_length=1)
    quantity: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    unit: str | None = None


class ItemDecision(_Told):
    """One item of the request. `sequence` is the item's own; `authorized` belongs to a modified item."""

    sequence: int = Field(ge=1)
    action: ReviewAction
    number: str | None = None
    reason_code: str | None = None
    reason: str | None = None
    authorized: AuthorizedService | None = None


class Decision(_Told):
    """A whole request. Items it does not name share `review_action`, which follows from the outcome unless given."""

    outcome: Outcome
    review_action: ReviewAction | None = None
    authorization_number: str | None = None
    items: tuple[ItemDecision, ...] = ()
    reason_code: str | None = None
    reason: str | None = None
    decided_at: datetime | None = None
    valid_from: date | None = None
    valid_to: date | None = None
    payer_reference: str | None = None

    @property
    def action(self) -> ReviewAction:
        return self.review_action or _ACTIONS[self.outcome]

    @model_validator(mode="after")
    def _items_are_told_once(self) -> Self:
        sequences = [item.sequence for item in self.items]
        if len(set(sequences)) != len(sequences):
            raise ValueError("an item is decided twice")
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise ValueError("the authorization ends before it begins")
        return self
