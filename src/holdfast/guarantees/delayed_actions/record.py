"""`DelayedAction`, the stored record: until when the action waits, who reviewed it, and how it ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.guarantees.idempotency.record import OnceRecord
from holdfast.model.entities import Attr, EpochSeconds, attr

DELAYED_ACTIONS: Final = "held"
"""The value of the attribute `queue` while an action waits."""


class DelayedAction(OnceRecord):
    """A delayed action. Derive from it with a table, a key and an index that finds due actions:

        queue: Attr[str | None] = attr(default=None)
        held_until: Attr[datetime | None] = attr(default=None)
        of = Key(project_id, "ACTION#" + id)
        by_due = IndexKey(due, "ACTION#" + queue, held_until + "#" + id)

    `queue` is set while the record waits or runs, and absent once it is done, cancelled or refused.
    """

    # Hash of the declared payload attributes, written by the guarantee. `Once` compares it to detect other
    # content under the same key, and an audit records what was decided on. Execution does not read it: it
    # uses the record itself.
    payload_sha256: Attr[str] = attr(default="")
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[datetime | None] = attr(default=None)
    # When `held_until` was set, by the same clock; absent in records of version 0.2 and before.
    held_since: Attr[float | None] = attr(default=None)
    # Since when the service may have been called, while the outcome is unknown.
    asked_since: Attr[float | None] = attr(default=None)
    # When an attempt last certainly did nothing.
    not_done_at: Attr[float | None] = attr(default=None)
    # The requested end of the record, while an intent keeps it for longer.
    ends_at: Attr[EpochSeconds | None] = attr(default=None)
    executed: Attr[bool] = attr(default=False)
    executed_at: Attr[datetime | None] = attr(default=None)
    # The last review: the person, the time and the comment.
    reviewed_by: Attr[str | None] = attr(default=None)
    reviewed_at: Attr[datetime | None] = attr(default=None)
    review: Attr[str | None] = attr(default=None)

    def get_seconds_until_due(self, now: float) -> float:
        """Return the seconds until the action is due; 0 or less if it is."""
        return 0.0 if self.held_until is None else self.held_until.timestamp() - now

    def get_undone_at(self) -> float:
        """Return the last time at which the action was certainly not done: when it was due, or when an
        attempt did nothing. A restored record does not know what happened later.
        """
        due_at = 0.0 if self.held_until is None else self.held_until.timestamp()
        return max(due_at, self.not_done_at or 0.0)


def truncate_to_millisecond(moment: float) -> datetime:
    """Return the time cut off to whole milliseconds, so that it can be stored as `TimestampMillis`."""
    whole, parts = divmod(int(moment * 1000), 1000)
    return datetime.fromtimestamp(whole, UTC) + timedelta(milliseconds=parts)
