"""Plausibility of a payer's decision, in itself and for its request.

The gateway refuses an implausible callback before acknowledging it, so that the payer notices. An implausible
answer ends its request until the payer sends a plausible one. Nothing is corrected here: only the payer knows
which of two contradicting values is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Final

from pagw.domain.fhir.decisions import Decision, Outcome, ReviewAction

# Clocks differ, and some payers give only the day of a decision.
CLOCK_SKEW: Final = timedelta(days=1)
MAX_NUMBER_CHARS: Final = 100
MAX_CODE_CHARS: Final = 100
MAX_TEXT_CHARS: Final = 2000
MAX_QUANTITY: Final = 1e9
FIRST_YEAR: Final = 1900

_CANCELLED: Final = frozenset({ReviewAction.CANCELLED})
# Review actions that fit each outcome, for the request and for its items. Any item may be cancelled.
_REQUEST_ACTIONS: Final = {
    Outcome.APPROVED: frozenset({ReviewAction.CERTIFIED}),
    Outcome.DENIED: frozenset({ReviewAction.NOT_CERTIFIED}),
    Outcome.MODIFIED: frozenset({ReviewAction.PARTIAL, ReviewAction.MODIFIED}),
    Outcome.PENDED: frozenset({ReviewAction.PENDED}),
    Outcome.CANCELLED: _CANCELLED,
}
_ITEM_ACTIONS: Final = {
    Outcome.APPROVED: _REQUEST_ACTIONS[Outcome.APPROVED] | _CANCELLED,
    Outcome.DENIED: _REQUEST_ACTIONS[Outcome.DENIED] | _CANCELLED,
    Outcome.MODIFIED: frozenset(ReviewAction) - {ReviewAction.PENDED},
    Outcome.PENDED: frozenset(ReviewAction),
    Outcome.CANCELLED: _CANCELLED,
}


def find_faults(
    decision: Decision, *, created_at: datetime, now: datetime, sequences: Collection[int] | None
) -> str:
    """Return the first three faults, joined and without values; an empty text if there are none.

    `created_at` is the time of the request, `sequences` are its items; None allows any item.
    """
    return "; ".join(
        [
            *_check_times(decision, created_at, now),
            *_check_actions(decision, sequences),
            *_check_texts(decision),
        ][:3]
    )


def _check_times(decision: Decision, created_at: datetime, now: datetime) -> Iterator[str]:
    """Yield faults of the decision's times: no zone, before the request, in the future, too early a year."""
    at = decision.decided_at
    if at is not None and at.tzinfo is None:
        yield "decided_at has no time zone"
    elif at is not None and not created_at - CLOCK_SKEW <= at <= now + CLOCK_SKEW:
        yield "decided_at is before the request or in the future"
    if any(day is not None and day.year < FIRST_YEAR for day in (decision.valid_from, decision.valid_to)):
        yield f"valid_from or valid_to is before the year {FIRST_YEAR}"


def _check_actions(decision: Decision, sequences: Collection[int] | None) -> Iterator[str]:
    """Yield contradictions between outcome, review actions and the request's items."""
    outcome, actions = decision.outcome, {each.action for each in decision.items}
    if decision.action not in _REQUEST_ACTIONS[outcome] or not actions <= _ITEM_ACTIONS[outcome]:
        yield f"the outcome is {outcome}, but a review action contradicts it"
    named = {each.sequence for each in decision.items}
    if sequences is not None and not named <= set(sequences):
        yield "the decision has an item that the request does not have"
    if sequences is None or set(sequences) != named:
        return
    if outcome is Outcome.PENDED and ReviewAction.PENDED not in actions:
        yield "the outcome is pended, but every item is decided"
    if outcome in (Outcome.APPROVED, Outcome.DENIED) and actions == _CANCELLED:
        yield f"the outcome is {outcome}, but every item is cancelled"


def _check_texts(decision: Decision) -> Iterator[str]:
    """Check that texts are bounded and printable: clients receive them unchanged, and lookups hash them."""
    items = decision.items
    numbers = (decision.authorization_number, decision.payer_reference, *(each.number for each in items))
    services = [each.authorized for each in items if each.authorized is not None]
    codes = (
        decision.reason_code,
        *(each.reason_code for each in items),
        *(text for each in services for text in (each.code, each.unit)),
    )
    if not all(_is_valid_text(each, MAX_NUMBER_CHARS) for each in numbers):
        yield f"a number must have 1 to {MAX_NUMBER_CHARS} printable characters"
    if not all(_is_valid_text(each, MAX_CODE_CHARS) for each in codes):
        yield f"a code must have 1 to {MAX_CODE_CHARS} printable characters"
    reasons = (decision.reason, *(each.reason for each in items), *(each.system or None for each in services))
    if not all(_is_valid_text(each, MAX_TEXT_CHARS, allowed="\r\n\t") for each in reasons):
        yield f"a text must have 1 to {MAX_TEXT_CHARS} printable characters"
    if any((each.quantity or 0) > MAX_QUANTITY for each in services):
        yield f"a quantity must be at most {MAX_QUANTITY:g}"


def _is_valid_text(text: str | None, max_chars: int, allowed: str = "") -> bool:
    """Return whether a text is None, or has 1 to `max_chars` printable or `allowed` characters."""
    if text is None:
        return True
    return 0 < len(text) <= max_chars and all(each.isprintable() or each in allowed for each in text)
