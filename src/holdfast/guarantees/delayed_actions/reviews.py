"""Reviews of a delayed action by a person, and the errors for a review that is too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

from holdfast.core.errors import ConditionFailed, NotPending
from holdfast.guarantees.delayed_actions.patterns import DelayedActionPatterns
from holdfast.guarantees.delayed_actions.record import DelayedAction, truncate_to_millisecond
from holdfast.guarantees.idempotency.claim import try_put
from holdfast.guarantees.idempotency.record import OnceStatus
from holdfast.model.operations import Write
from holdfast.model.ulids import UlidGenerator
from holdfast.operations.values import Item
from holdfast.runtime import Stores

H = TypeVar("H", bound=DelayedAction)

GONE: Final = "gone"


class ReviewDecision(StrEnum):
    """What a person decided about an action."""

    APPROVED = "approved"
    EDITED = "edited"
    CANCELLED = "cancelled"
    REOPENED = "reopened"


@dataclass(frozen=True)
class Review(Generic[H]):
    """One review: the decision, the record as the reviewer saw it, the reviewer, and what an edit changes."""

    decision: ReviewDecision
    seen: H
    by: str
    reason: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


OnReview: TypeAlias = Callable[[Stores, Review[H]], Sequence[Write[Any]]]


async def apply_review(
    patterns: DelayedActionPatterns[H],
    stores: Stores,
    seen: H,
    writes: Sequence[Write[Any]],
    changes: Mapping[str, Any],
) -> H:
    """Write the changes to the record and commit `writes` with them; return the changed record.

    Raise `ConditionFailed` if the record is not as `seen` any more, `NotPending` if it no longer waits or is
    gone.
    """
    signed = {
        # New each time, to distinguish a write that was sent twice from another with the same content.
        "owner": UlidGenerator(stores.clock).new(),
        "revision": seen.revision + 1,
        "reviewed_at": truncate_to_millisecond(stores.clock.now()),
    }
    wanted = seen.model_copy(update=signed | dict(changes))
    found = await try_put(stores, patterns.review(wanted, seen), *writes)
    if found is not None:
        raise _build_too_late(seen, found)
    return wanted


def check_reviewable(seen: DelayedAction, now: float) -> None:
    """Raise `NotPending` if the action does not wait any more or its record has expired."""
    if seen.status is not OnceStatus.HELD:
        raise build_not_pending(seen)
    if seen.has_expired(now):
        raise build_gone(seen)


def build_not_pending(record: DelayedAction) -> NotPending:
    """Return the error for an action that no longer waits, with its outcome."""
    state, outcome = _describe_outcome(record)
    return NotPending(
        f"{record.describe()} {outcome}: it no longer waits, and nothing was changed.", state=state
    )


def build_gone(record: DelayedAction) -> NotPending:
    """Return the error for an action that has no record any more, or never had one."""
    return NotPending(
        f"{record.describe()} does not wait: it was never delayed, or its record has expired. It will not "
        "run. Delay it again if it still should.",
        state=GONE,
    )


def _describe_outcome(record: DelayedAction) -> tuple[str, str]:
    """Return the state, for programs, and a phrase, for people, of an action that no longer waits."""
    if record.status is OnceStatus.CANCELLED:
        return "cancelled", f"was cancelled by {record.reviewed_by or 'an unknown reviewer'}"
    if record.status is OnceStatus.PROCESSED:
        return "executed", f"was executed{f' at {record.executed_at}' if record.executed_at else ''}"
    if record.refused is not None:
        return "refused", f"was refused permanently ({record.refused})"
    return "executing", "is being executed, or may have been"


def _build_too_late(seen: H, found: Item) -> NotPending | ConditionFailed:
    """Return the error for a review of `seen`, by the item that is stored instead (empty if none)."""
    if not found:
        return build_gone(seen)
    record = type(seen).from_item(found)
    if record.status is not seen.status:
        return build_not_pending(record)
    return ConditionFailed(
        f"{seen.describe()} was changed since it was read, by {record.reviewed_by or 'another reviewer'}. "
        "Read it again, and decide again.",
        item=found,
    )
