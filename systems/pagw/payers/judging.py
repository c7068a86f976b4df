"""Whether what a payer decided makes sense: for the request it is of, and in itself.

A callback that makes none is refused before it is acknowledged, so that the payer sees it; an answer that makes none ends its
request, until the payer says something that does. Nothing is put right here: of two things that contradict each other
nobody but the payer knows which is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Final

from pagw.fhir.decisions import Decision, Outcome, ReviewAction

# Clocks differ, and some payers tell the day of a decision and no more.
SKEW: Final = timedelta(days=1)
NUMBER_CHARS_MAX: Final = 100
CODE_CHARS_MAX: Final = 100
TEXT_CHARS_MAX: Final = 2000
QUANTITY_MAX: Final = 1e9
FIRST_YEAR: Final = 1900

_CANCELLED: Final = frozenset({ReviewAction.CANCELLED})
# What may be said of the whole, and of its items. An item may be cancelled whatever becomes of the rest.
_WHOLE: Final = {
    Outcome.APPROVED: frozenset({ReviewAction.CERTIFIED}),
    Outcome.DENIED: frozenset({ReviewAction.NOT_CERTIFIED}),
    Outcome.MODIFIED: frozenset({ReviewAction.PARTIAL, ReviewAction.MODIFIED}),
    Outcome.PENDED: frozenset({ReviewAction.PENDED}),
    Outcome.CANCELLED: _CANCELLED,
}
_ITEMS: Final = {
    Outcome.APPROVED: _WHOLE[Outcome.APPROVED] | _CANCELLED,
    Outcome.DENIED: _WHOLE[Outcome.DENIED] | _CANCELLED,
    Outcome.MODIFIED: frozenset(ReviewAction) - {ReviewAction.PENDED},
    Outcome.PENDED: frozenset(ReviewAction),
    Outcome.CANCELLED: _CANCELLED,
}


def faults_in(
    decision: Decision, *, created_at: datetime, now: datetime, sequences: Collection[int] | None
) -> str:
    """What is wrong with it, without what stands there; empty where nothing is. None is any item."""
    return "; ".join(
        [*_times(decision, created_at, now), *_actions(decision, sequences), *_texts(decision)][:3]
    )


def _times(decision: Decision, created_at: datetime, now: datetime) -> Iterator[str]:
    at = decision.decided_at
    if at is not None and at.tzinfo is None:
        yield "decided_at has no time zone"
    elif at is not None and not created_at - SKEW <= at <= now + SKEW:
        yield "decided_at is before the request, or is still to come"
    if any(day is not None and day.year < FIRST_YEAR for day in (decision.valid_from, decision.valid_to)):
        yield f"an authorization is valid in no year before {FIRST_YEAR}"


def _actions(decision: Decision, sequences: Collection[int] | None) -> Iterator[str]:
    outcome, actions = decision.outcome, {each.action for each in decision.items}
    if decision.action not in _WHOLE[outcome] or not actions <= _ITEMS[outcome]:
        yield f"the outcome is {outcome}, and a review action says otherwise"
    named = {each.sequence for each in decision.items}
    if sequences is not None and not named <= set(sequences):
        yield "an item is decided that the request does not have"
    if sequences is None or set(sequences) != named:
        return
    if outcome is Outcome.PENDED and ReviewAction.PENDED not in actions:
        yield "the outcome is pended, and every item is decided"
    if outcome in (Outcome.APPROVED, Outcome.DENIED) and actions == _CANCELLED:
        yield f"the outcome is {outcome}, and every item is cancelled"


def _texts(decision: Decision) -> Iterator[str]:
    """Bounded and printable: they go to clients as they are, and become a hash by which an authorization is found."""
    items = decision.items
    numbers = (decision.authorization_number, decision.payer_reference, *(each.number for each in items))
    services = [each.authorized for each in items if each.authorized is not None]
    codes = (
        decision.reason_code,
        *(each.reason_code for each in items),
        *(text for each in services for text in (each.code, each.unit)),
    )
    if not all(_is_told(each, NUMBER_CHARS_MAX) for each in numbers):
        yield f"a number has 1 to {NUMBER_CHARS_MAX} printable characters"
    if not all(_is_told(each, CODE_CHARS_MAX) for each in codes):
        yield f"a code has 1 to {CODE_CHARS_MAX} printable characters"
    reasons = (decision.reason, *(each.reason for each in items), *(each.system or None for each in services))
    if not all(_is_told(each, TEXT_CHARS_MAX, breaks="\r\n\t") for each in reasons):
        yield f"a text has 1 to {TEXT_CHARS_MAX} printable characters"
    if any((each.quantity or 0) > QUANTITY_MAX for each in services):
        yield f"a quantity is {QUANTITY_MAX:g} at most"


def _is_told(text: str | None, chars_max: int, breaks: str = "") -> bool:
    if text is None:
        return True
    return 0 < len(text) <= chars_max and all(each.isprintable() or each in breaks for each in text)
