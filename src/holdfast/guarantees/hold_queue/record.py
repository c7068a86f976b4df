"""What is kept of something that is held before it is done: until when, who has decided about it, and how it ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.guarantees.once.record import OnceRecord
from holdfast.model import Attr, EpochSeconds, attr

HELD: Final = "held"


class HeldRecord(OnceRecord):
    """Derive from it with a table, a key and an index by which what is due is found:

        queue: Attr[str | None] = attr(default=None)
        held_until: Attr[datetime | None] = attr(default=None)
        of = Key(project_id, "ACTION#" + id)
        by_due = IndexKey(due, "ACTION#" + queue, held_until + "#" + id)

    `queue` is there while the record waits or is being done, and absent once it is done, cancelled or refused.
    """

    # Written by the queue, of the attributes that are declared as the payload: what `Once` tells another content under
    # the same key by, and an audit what was decided about. The queue itself does not read it: it does what the record says.
    payload_sha256: Attr[str] = attr(default="")
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[datetime | None] = attr(default=None)
    # Since when the party may have been asked, while nobody knows what came of it.
    asked_since: Attr[float | None] = attr(default=None)
    # When an attempt last came to nothing for certain.
    not_done_at: Attr[float | None] = attr(default=None)
    # When it is to end, while an intent keeps it for longer.
    ends_at: Attr[EpochSeconds | None] = attr(default=None)
    executed: Attr[bool] = attr(default=False)
    executed_at: Attr[datetime | None] = attr(default=None)
    # Who approved, edited or cancelled it last, when, and what they said about it.
    reviewed_by: Attr[str | None] = attr(default=None)
    reviewed_at: Attr[datetime | None] = attr(default=None)
    review: Attr[str | None] = attr(default=None)

    def due_in(self, now: float) -> float:
        """Seconds until it is due; 0 or less where it is."""
        return 0.0 if self.held_until is None else self.held_until.timestamp() - now

    def undone_at(self) -> float:
        """The last moment at which it was not done yet, as far as the record itself tells: when it came due, or when an
        attempt came to nothing. A record that a restore has brought back does not tell what came after."""
        due_at = 0.0 if self.held_until is None else self.held_until.timestamp()
        return max(due_at, self.not_done_at or 0.0)


def millisecond(moment: float) -> datetime:
    """A moment in whole thousandths, the part below cut off: so it can be kept as `Milliseconds`."""
    whole, parts = divmod(int(moment * 1000), 1000)
    return datetime.fromtimestamp(whole, UTC) + timedelta(milliseconds=parts)
