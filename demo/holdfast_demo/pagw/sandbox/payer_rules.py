"""The sandbox payer's rules: the procedure code of each item chooses the outcome.

    15820  (upper eyelid surgery)   denied at once, with a reason
    97110  (therapeutic exercises)  modified: half of the quantity, rounded down, at least one
    70551  (MRI of the brain)       pended, then approved
    22612  (spinal fusion)          pended, then denied, with a reason
    any other                       approved at once

One pended item makes the whole request pend. Some items denied and some not is a partial certification. An
item cancelled in an update is answered as cancelled. Items with the same sequence share the most severe
verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from pagw.domain.fhir.decisions import AuthorizedService, Decision, ItemDecision, Outcome, ReviewAction

DENIED: Final = "15820"
MODIFIED: Final = "97110"
PENDED_APPROVED: Final = "70551"
PENDED_DENIED: Final = "22612"
VALID: Final = timedelta(days=90)


class Verdict(StrEnum):
    """The final result of an item, from the most to the least severe."""

    denied = "denied"
    modified = "modified"
    approved = "approved"
    cancelled = "cancelled"


class RequestedItem(BaseModel):
    """The fields of an item that the payer reads."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    sequence: int = Field(ge=1)
    code: str = ""
    system: str | None = None
    quantity: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    info_cancelled: bool = False


class ItemVerdict(BaseModel):
    """An item's final verdict, whether it pends first, and the service authorized instead."""

    sequence: int
    verdict: Verdict
    pends: bool = False
    authorized: AuthorizedService | None = None


VERDICTS: Final[Mapping[str, tuple[Verdict, bool]]] = {
    DENIED: (Verdict.denied, False),
    MODIFIED: (Verdict.modified, False),
    PENDED_APPROVED: (Verdict.approved, True),
    PENDED_DENIED: (Verdict.denied, True),
}
# The reason of a denial, by whether the request was pended.
REASONS: Final = {
    False: ("0V", "The service is cosmetic, and the plan does not cover it."),
    True: ("0U", "The records do not show six weeks of conservative treatment."),
}
ACTIONS: Final = {
    Verdict.approved: ReviewAction.CERTIFIED,
    Verdict.denied: ReviewAction.NOT_CERTIFIED,
    Verdict.modified: ReviewAction.MODIFIED,
    Verdict.cancelled: ReviewAction.CANCELLED,
}


def judge(items: Sequence[RequestedItem]) -> list[ItemVerdict]:
    """Return one verdict per sequence, the most severe of its items."""
    gravest: dict[int, ItemVerdict] = {}
    for each in sorted(map(_judge_item, items), key=lambda item: list(Verdict).index(item.verdict)):
        gravest.setdefault(each.sequence, each)
    return [gravest[sequence] for sequence in sorted(gravest)]


def is_pending(verdicts: Sequence[ItemVerdict]) -> bool:
    """Return whether the request is pended."""
    return any(each.pends for each in verdicts)


def build_pended(verdicts: Sequence[ItemVerdict], now: float) -> Decision:
    """Build the interim decision: every item is pended."""
    items = tuple(ItemDecision(sequence=each.sequence, action=ReviewAction.PENDED) for each in verdicts)
    return Decision(
        outcome=Outcome.PENDED, review_action=ReviewAction.PENDED, items=items, decided_at=to_datetime(now)
    )


def build_decision(verdicts: Sequence[ItemVerdict], number: str, now: float) -> Decision:
    """Build the final decision, with the payer's authorization number if anything was authorized."""
    outcome, action = _combine({each.verdict for each in verdicts})
    is_allowed = outcome in (Outcome.APPROVED, Outcome.MODIFIED)
    denied = next((each for each in verdicts if each.verdict is Verdict.denied), None)
    code, reason = REASONS[denied.pends] if denied else (None, None)
    return Decision(
        outcome=outcome,
        review_action=action,
        authorization_number=number if is_allowed else None,
        items=tuple(_build_item(each, number) for each in verdicts),
        reason_code=code,
        reason=reason,
        decided_at=to_datetime(now),
        valid_from=to_datetime(now).date() if is_allowed else None,
        valid_to=to_datetime(now).date() + VALID if is_allowed else None,
    )


def build_cancelled(sequences: Sequence[int], now: float) -> Decision:
    """Build the decision of a cancelled request."""
    verdicts = [ItemVerdict(sequence=each, verdict=Verdict.cancelled) for each in sequences]
    return build_decision(verdicts, "", now)


def to_datetime(now: float) -> datetime:
    """Convert a timestamp to a UTC datetime."""
    return datetime.fromtimestamp(now, UTC)


def _judge_item(item: RequestedItem) -> ItemVerdict:
    """Return the verdict that the item's procedure code or its cancellation gives."""
    if item.info_cancelled:
        return ItemVerdict(sequence=item.sequence, verdict=Verdict.cancelled)
    verdict, takes_time = VERDICTS.get(item.code, (Verdict.approved, False))
    authorized = _halve_quantity(item) if verdict is Verdict.modified else None
    return ItemVerdict(sequence=item.sequence, verdict=verdict, pends=takes_time, authorized=authorized)


def _halve_quantity(item: RequestedItem) -> AuthorizedService:
    """Return the item's service with half of its quantity, rounded down, at least one."""
    quantity = max(1, math.floor((item.quantity or 1) / 2))
    return AuthorizedService(system=item.system or "", code=item.code, quantity=quantity)


def _combine(verdicts: set[Verdict]) -> tuple[Outcome, ReviewAction]:
    """Combine the verdicts of items that are not cancelled; if none is left, the request is cancelled."""
    live = verdicts - {Verdict.cancelled}
    if not live:
        return Outcome.CANCELLED, ReviewAction.CANCELLED
    if live == {Verdict.denied}:
        return Outcome.DENIED, ReviewAction.NOT_CERTIFIED
    if Verdict.denied in live:
        return Outcome.MODIFIED, ReviewAction.PARTIAL
    if Verdict.modified in live:
        return Outcome.MODIFIED, ReviewAction.MODIFIED
    return Outcome.APPROVED, ReviewAction.CERTIFIED


def _build_item(each: ItemVerdict, number: str) -> ItemDecision:
    """Build the decision about one item from its verdict (`each`). `number` is the authorization number."""
    code, reason = REASONS[each.pends] if each.verdict is Verdict.denied else (None, None)
    is_allowed = each.verdict in (Verdict.approved, Verdict.modified)
    return ItemDecision(
        sequence=each.sequence,
        action=ACTIONS[each.verdict],
        number=number if is_allowed else None,
        reason_code=code,
        reason=reason,
        authorized=each.authorized,
    )
