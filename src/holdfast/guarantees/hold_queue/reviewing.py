"""What a person decides about a held record, and what is told to who comes too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from holdfast.errors import ConditionFailed, NotHeld
from holdfast.guarantees.hold_queue.patterns import HoldPatterns
from holdfast.guarantees.hold_queue.record import HeldRecord, millisecond
from holdfast.guarantees.once.claim import stored
from holdfast.guarantees.once.record import OnceStatus
from holdfast.model import Ulids, Write
from holdfast.operations.values import Item
from holdfast.runtime import Stores

H = TypeVar("H", bound=HeldRecord)

GONE: Final = "gone"


async def reviewed(
    patterns: HoldPatterns[H],
    stores: Stores,
    seen: H,
    writes: Sequence[Write[Any]],
    changes: Mapping[str, Any],
) -> H:
    """The record changed as it was seen, and the writes with it, or nothing of either."""
    signed = {
        # A new one each time, by which a write that was sent twice is told from another's of the same content.
        "owner": Ulids(stores.clock).new(),
        "revision": seen.revision + 1,
        "reviewed_at": millisecond(stores.clock.now()),
    }
    wanted = seen.model_copy(update=signed | dict(changes))
    found = await stored(stores, patterns.review(wanted, seen), *writes)
    if found is not None:
        raise _too_late(seen, found)
    return wanted


def refuse_ended(seen: HeldRecord, now: float) -> None:
    """Only what waits can be reviewed."""
    if seen.status is not OnceStatus.HELD:
        raise not_held(seen)
    if seen.has_ended(now):
        raise gone(seen)


def not_held(record: HeldRecord) -> NotHeld:
    """What became of it, for who comes too late."""
    state, told = _became(record)
    return NotHeld(
        f"{record.spoken()} {told}: it does not wait any more, and nothing was changed.", state=state
    )


def gone(record: HeldRecord) -> NotHeld:
    return NotHeld(
        f"{record.spoken()} is not in the queue: it was never held, or its life is over. It will not be done; hold it "
        "anew where it still should be.",
        state=GONE,
    )


def _became(record: HeldRecord) -> tuple[str, str]:
    if record.status is OnceStatus.CANCELLED:
        return "cancelled", f"was cancelled by {record.reviewed_by or 'somebody'}"
    if record.status is OnceStatus.PROCESSED:
        return "executed", f"was executed{f' at {record.executed_at}' if record.executed_at else ''}"
    if record.refused is not None:
        return "refused", f"was refused for good ({record.refused})"
    return "executing", "is being executed, or may have been"


def _too_late(seen: H, found: Item) -> NotHeld | ConditionFailed:
    if not found:
        return gone(seen)
    record = type(seen).from_item(found)
    if record.status is not seen.status:
        return not_held(record)
    return ConditionFailed(
        f"{seen.spoken()} was changed since it was seen, by {record.reviewed_by or 'another'}: read it again, and "
        "decide again.",
        item=found,
    )
