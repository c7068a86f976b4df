"""An action that is due, looked at once more: whether it may be done as things are now, and what is written of it.

Between the moment when it was held and now a person may have lowered the project's level or archived it, the ticket may
have been unblocked, or its party may have been away for a week. What may not be done any more is refused for good: with an
event, and without asking anybody outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agenticpm import patterns, snapshots
from agenticpm.autonomy import COMMENT, MAIL, described, reason_gone, refusal_of
from agenticpm.events import moment, recorded
from agenticpm.model import Action, EventType, Project, Severity
from agenticpm.tickets import Snapshot
from holdfast import Stores, Write
from holdfast.errors import PartyRefused

# Why it was refused, where the reason is ours.
NOT_ALLOWED: Final = "not_allowed"
NO_LONGER_SO: Final = "no_longer_so"
TOO_LATE: Final = "too_late"

# What could not be done for so long after it was due is not done any more: what it says is too old.
LAPSES_AFTER: Final = timedelta(days=7)

# Reviews by which a person lets one action be done.
REOPENED: Final = "reopened"
YES: Final = ("approved", REOPENED)


async def due_of(stores: Stores, action: Action) -> Due:
    """Read before it is taken: an error of the store must not look like one of the party."""
    project = None if action.project_id is None else await stores.run(patterns.project(action.project_id))
    snapshot = None
    if project is not None and (action.detail or {}).get("kind") == COMMENT:
        pointer = await snapshots.mark(stores, project.id, project.source, snapshots.SNAPSHOT)
        snapshot = await snapshots.last_seen(stores, project, pointer)
    return Due(stores, action, project, snapshot)


@dataclass
class Due:
    """An action with what is looked at before it is done, and what is written of it. `fresh` is it as it goes out."""

    stores: Stores
    fresh: Action
    project: Project | None
    snapshot: Snapshot | None

    def look(self, fresh: Action) -> None:
        """Raises PartyRefused where it may not be done any more."""
        self.fresh = fresh
        detail = fresh.detail or {}
        if (reason := self._not_allowed(detail)) is not None:
            raise PartyRefused(NOT_ALLOWED, reason)
        if is_late(self.stores, fresh):
            raise PartyRefused(
                TOO_LATE,
                f"It is due since {fresh.held_until:%Y-%m-%d %H:%M} UTC and could not be done until now: what it says is "
                "too old. Reopen it where it still matters, and was not done.",
            )
        if fresh.review != REOPENED and (reason := reason_gone(self.snapshot, detail)) is not None:
            raise PartyRefused(NO_LONGER_SO, reason)

    async def refuse(self, fresh: Action, _: str) -> dict[str, Any]:
        """Where there is no party to be asked."""
        self.look(fresh)
        raise PartyRefused("unknown", "The agent does not know how to do this, or where.")

    def _not_allowed(self, detail: Mapping[str, Any]) -> str | None:
        kind = str(detail.get("kind"))
        if self.fresh.project_id is None:
            return None if kind == MAIL else f"The action is of no project, and only mails may be: {kind!r}."
        because = detail.get("because")
        is_decided = isinstance(because, Mapping) and because.get("escalation") is not None
        return refusal_of(self.project, kind, by_person=is_decided or self.fresh.review in YES)

    def done(self, outcome: Any) -> Sequence[Write[Any]]:
        return recorded(
            self.stores,
            self.fresh.project_id,
            EventType.action_taken,
            f"Done: {described(self.fresh.detail or {})}",
            {"action": self.fresh.id, "action_type": self.fresh.action_type, "outcome": outcome},
        )

    def refused(self, error: PartyRefused) -> Sequence[Write[Any]]:
        is_over = error.code == NO_LONGER_SO
        return recorded(
            self.stores,
            self.fresh.project_id,
            EventType.action_cancelled if is_over else EventType.error,
            f"{'No longer so' if is_over else 'Refused'}: {described(self.fresh.detail or {})}",
            {"action": self.fresh.id, "code": error.code, "reason": error.message},
            severity=Severity.info if is_over else Severity.error,
        )


def is_late(stores: Stores, action: Action) -> bool:
    return action.held_until is not None and moment(stores.clock) - action.held_until > LAPSES_AFTER
