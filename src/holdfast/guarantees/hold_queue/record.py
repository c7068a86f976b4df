"""What is kept of something that is held before it is done: until when, who has decided about it, and how it ended."""

from __future__ import annotations

from datetime import datetime

from holdfast.guarantees.once.record import OnceRecord
from holdfast.model import Attr, attr

HELD = "held"


class HeldRecord(OnceRecord):
    """Derive from it with a table, a key and an index by which what is due is found:

        queue: Attr[str | None] = attr(default=None)
        held_until: Attr[datetime | None] = attr(default=None)
        of = Key(project_id, "ACTION#" + id)
        by_due = IndexKey(due, "ACTION#" + queue, held_until + "#" + id)

    `queue` is there while the record waits or is being done, and absent once it is done, cancelled or refused.
    """

    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[datetime | None] = attr(default=None)
    executed: Attr[bool] = attr(default=False)
    executed_at: Attr[datetime | None] = attr(default=None)
    # Who approved, edited or cancelled it last, when, and what they said about it.
    reviewed_by: Attr[str | None] = attr(default=None)
    reviewed_at: Attr[datetime | None] = attr(default=None)
    review: Attr[str | None] = attr(default=None)
