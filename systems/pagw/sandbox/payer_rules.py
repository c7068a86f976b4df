"""How the sandbox payer decides: by the procedure code of each item, so that whoever asks can choose the outcome.

    15820  (upper eyelid surgery)   denied at once, with a reason
    97110  (therapeutic exercises)  modified: half of the quantity, rounded down, at least one
    70551  (MRI of the brain)       pended, then approved
    22612  (spinal fusion)          pended, then denied, with a reason
    any other                       approved at once

Of several items, one that pends makes the whole request pend. Some denied and some not is a partial certification. An
item that is cancelled in an update is answered as cancelled. Items that share a sequence share the gravest verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from pagw.fhir.decisions import AuthorizedService, Decision, ItemDecision, Outcome, ReviewAction

DENIED: Final = "15820"
MODIFIED: Final = "97110"
PENDED_APPROVED: Final = "70551"
PENDED_DENIED: Final = "22612"
VALID: Final = timedelta(days=90)


class Verdict(StrEnum):
    """From the gravest to the lightest."""

    denied = "denied"
    modified = "modified"
    approved = "approved"
    cancelled = "cancelled"


class ItemAsked(BaseModel):
    """What the payer reads of an item."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    sequence: int = Field(ge=1)
    code: str = ""
    system: str | None = None
    quantity: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    info_cancelled: bool = False


class ItemVerdict(BaseModel):
    """What an item ends with, whether that takes time, and what is allowed in its place."""

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
# By whether it took time.
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


def judged(items: Sequence[ItemAsked]) -> list[ItemVerdict]:
    gravest: dict[int, ItemVerdict] = {}
    for each in sorted(map(_judged, items), key=lambda item: list(Verdict).index(item.verdict)):
        gravest.setdefault(each.sequence, each)
    return [gravest[sequence] for sequence in sorted(gravest)]


def pends(verdicts: Sequence[ItemVerdict]) -> bool:
    return any(each.pends for each in verdicts)


def pended(verdicts: Sequence[ItemVerdict], now: float) -> Decision:
    """What is said while it takes time: nothing about any item but that."""
    items = tuple(ItemDecision(sequence=each.sequence, action=ReviewAction.PENDED) for each in verdicts)
    return Decision(
        outcome=Outcome.PENDED, review_action=ReviewAction.PENDED, items=items, decided_at=moment(now)
    )


def decided(verdicts: Sequence[ItemVerdict], number: str, now: float) -> Decision:
    """The end of it, under the payer's authorization number where anything was allowed."""
    outcome, action = _whole({each.verdict for each in verdicts})
    is_allowed = outcome in (Outcome.APPROVED, Outcome.MODIFIED)
    denied = next((each for each in verdicts if each.verdict is Verdict.denied), None)
    code, reason = REASONS[denied.pends] if denied else (None, None)
    return Decision(
        outcome=outcome,
        review_action=action,
        authorization_number=number if is_allowed else None,
        items=tuple(_item(each, number) for each in verdicts),
        reason_code=code,
        reason=reason,
        decided_at=moment(now),
        valid_from=moment(now).date() if is_allowed else None,
        valid_to=moment(now).date() + VALID if is_allowed else None,
    )


def cancelled(sequences: Sequence[int], now: float) -> Decision:
    verdicts = [ItemVerdict(sequence=each, verdict=Verdict.cancelled) for each in sequences]
    return decided(verdicts, "", now)


def moment(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)


def _judged(item: ItemAsked) -> ItemVerdict:
    if item.info_cancelled:
        return ItemVerdict(sequence=item.sequence, verdict=Verdict.cancelled)
    verdict, takes_time = VERDICTS.get(item.code, (Verdict.approved, False))
    authorized = _half(item) if verdict is Verdict.modified else None
    return ItemVerdict(sequence=item.sequence, verdict=verdict, pends=takes_time, authorized=authorized)


def _half(item: ItemAsked) -> AuthorizedService:
    quantity = max(1, math.floor((item.quantity or 1) / 2))
    return AuthorizedService(system=item.system or "", code=item.code, quantity=quantity)


def _whole(verdicts: set[Verdict]) -> tuple[Outcome, ReviewAction]:
    """Of items that are still asked for; where none is, the whole is cancelled."""
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


def _item(each: ItemVerdict, number: str) -> ItemDecision:
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
