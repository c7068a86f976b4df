"""The payer's decision as the gateway's own model, whatever the payer's message format."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Outcome(StrEnum):
    """The result of a whole request."""

    APPROVED = "approved"
    DENIED = "denied"
    PENDED = "pended"
    MODIFIED = "modified"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Return True for every outcome but `pended`."""
        return self is not Outcome.PENDED


class ReviewAction(StrEnum):
    """X12 306 review actions that PAS uses."""

    CERTIFIED = "A1"
    PARTIAL = "A2"
    NOT_CERTIFIED = "A3"
    PENDED = "A4"
    MODIFIED = "A6"
    CANCELLED = "C"

    @property
    def display(self) -> str:
        """Return the code's display text."""
        return _DISPLAYS[self]


_DISPLAYS: Final = {
    ReviewAction.CERTIFIED: "Certified in total",
    ReviewAction.PARTIAL: "Certified - partial",
    ReviewAction.NOT_CERTIFIED: "Not Certified",
    ReviewAction.PENDED: "Pended",
    ReviewAction.MODIFIED: "Modified",
    ReviewAction.CANCELLED: "Cancelled",
}
_DEFAULT_ACTIONS: Final = {
    Outcome.APPROVED: ReviewAction.CERTIFIED,
    Outcome.DENIED: ReviewAction.NOT_CERTIFIED,
    Outcome.PENDED: ReviewAction.PENDED,
    Outcome.MODIFIED: ReviewAction.MODIFIED,
    Outcome.CANCELLED: ReviewAction.CANCELLED,
}


class _DecisionModel(BaseModel):
    """Base of the decision's models: immutable, no unknown fields, no values in errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", str_strip_whitespace=True, hide_input_in_errors=True
    )


class AuthorizedService(_DecisionModel):
    """The service that the payer authorized instead of the requested one."""

    system: str
    code: str = Field(min_length=1)
    quantity: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    unit: str | None = None


class ItemDecision(_DecisionModel):
    """The decision about one item. `sequence` is the item's own; `authorized` belongs to a modified item."""

    sequence: int = Field(ge=1)
    action: ReviewAction
    number: str | None = None
    reason_code: str | None = None
    reason: str | None = None
    authorized: AuthorizedService | None = None


class Decision(_DecisionModel):
    """The decision about a whole request.

    Items that it does not name share `review_action`, which follows from the outcome unless set.
    """

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
        """Return the review action of the whole request."""
        return self.review_action or _DEFAULT_ACTIONS[self.outcome]

    @model_validator(mode="after")
    def _check_items_and_period(self) -> Self:
        """Raise `ValueError` for two decisions about one item, or a period that ends before it starts."""
        sequences = [item.sequence for item in self.items]
        if len(set(sequences)) != len(sequences):
            raise ValueError("two decisions have the same item sequence")
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise ValueError("valid_to is before valid_from")
        return self
