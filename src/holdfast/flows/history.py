"""The past states of an item: one short text per state in its attribute `flow_history`, written as it leaves.

The transition that leaves a state appends to the history in the item's own update, so it costs no further
write and cannot disagree with the item. Only the last `MAX_VISITS` are kept, which bounds the item's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.flows.item import FlowItem

__all__ = ["MAX_VISITS", "Visit", "extend_history", "parse_history"]

MAX_VISITS: Final = 32
MAX_ERROR_CHARS: Final = 60
# The name of the state is last, because only it may contain the separator.
SEPARATOR: Final = "|"
_FIELDS: Final = 5
_MS_PER_S: Final = 1000


@dataclass(frozen=True)
class Visit:
    """A state that an item has left: from when to when, after how many failed attempts, and the last error.

    `error` is the class of the error only, as its text may contain data.
    """

    state: str
    since: datetime
    until: datetime
    failures: int = 0
    error: str | None = None

    @property
    def duration_s(self) -> float:
        return max(0.0, (self.until - self.since).total_seconds())

    def encode(self) -> str:
        """Return the visit as it is stored."""
        error = (self.error or "").partition(":")[0].replace(SEPARATOR, " ")[:MAX_ERROR_CHARS]
        times = (str(int(each.timestamp() * _MS_PER_S)) for each in (self.since, self.until))
        return SEPARATOR.join((*times, str(self.failures), error, self.state))


def extend_history(item: FlowItem, until: datetime, failures: int, error: str | None) -> list[str]:
    """Return the item's history with the state that it leaves now, without the oldest beyond `MAX_VISITS`."""
    visit = Visit(item.flow_state, item.flow_since or until, until, failures, error)
    return [*(item.flow_history or ()), visit.encode()][-MAX_VISITS:]


def parse_history(stored: Sequence[str] | None) -> list[Visit]:
    """Return the past states, oldest first. A text that newer code wrote in another form is left out."""
    found = (_parse(each) for each in stored or ())
    return [each for each in found if each is not None]


def _parse(text: str) -> Visit | None:
    parts = text.split(SEPARATOR, _FIELDS - 1)
    if len(parts) != _FIELDS or not all(each.isdecimal() for each in parts[:3]):
        return None
    since, until = (datetime.fromtimestamp(int(each) / _MS_PER_S, UTC) for each in parts[:2])
    return Visit(parts[4], since, until, int(parts[2]), parts[3] or None)
