"""Due actions: check again whether an action may be executed now, and build the events of its result.

Since the action was held, a person may have lowered the project's level or archived it, the ticket may have
been unblocked, or the external service may have been down for a week. An action that is no longer allowed is
refused permanently, with an event and without calling the service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agenticpm.domain.autonomy import COMMENT, MAIL, describe_action, find_lapsed_reason, find_refusal
from agenticpm.domain.tickets import Snapshot
from agenticpm.model import patterns, snapshots
from agenticpm.model.entities import Action, EventType, Project, Severity
from agenticpm.model.events import build_event_writes, get_now
from holdfast import Stores, Write
from holdfast.core.errors import ExternalServiceRefused

# Refusal codes of our own.
NOT_ALLOWED: Final = "not_allowed"
REASON_GONE: Final = "no_longer_so"
TOO_LATE: Final = "too_late"

# An action that could not be executed for this long is outdated.
EXPIRES_AFTER: Final = timedelta(days=7)

# Reviews with which a person permits one action.
REOPENED: Final = "reopened"
APPROVALS: Final = ("approved", REOPENED)


async def load_due_action(stores: Stores, action: Action) -> DueAction:
    """Load what the checks of a due action need: its project and, for a comment, the last snapshot.

    It is loaded before the action is claimed: a store error must not look like a service error.
    """
    project = None if action.project_id is None else await stores.run(patterns.project(action.project_id))
    snapshot = None
    if project is not None and (action.detail or {}).get("kind") == COMMENT:
        pointer = await snapshots.read_checkpoint(stores, project.id, project.source, snapshots.SNAPSHOT)
        snapshot = await snapshots.load_snapshot(stores, project, pointer)
    return DueAction(stores, action, project, snapshot)


@dataclass
class DueAction:
    """A due action with the data for its checks and result events. `action` is the version that goes out."""

    stores: Stores
    action: Action
    project: Project | None
    snapshot: Snapshot | None

    def check(self, action: Action) -> None:
        """Raise ExternalServiceRefused if the action may no longer be executed.

        Remember it as the version sent.
        """
        self.action = action
        detail = action.detail or {}
        if (reason := self._find_refusal(detail)) is not None:
            raise ExternalServiceRefused(NOT_ALLOWED, reason)
        if is_too_late(self.stores, action):
            raise ExternalServiceRefused(
                TOO_LATE,
                f"The action has been due since {action.held_until:%Y-%m-%d %H:%M} UTC and is outdated. "
                "Reopen it if it is still needed and was not done.",
            )
        if action.review != REOPENED and (reason := find_lapsed_reason(self.snapshot, detail)) is not None:
            raise ExternalServiceRefused(REASON_GONE, reason)

    async def refuse(self, action: Action, _: str) -> dict[str, Any]:
        """Raise ExternalServiceRefused: no external service can perform this action."""
        self.check(action)
        raise ExternalServiceRefused("unknown", "Unknown action kind, or no service for it.")

    def _find_refusal(self, detail: Mapping[str, Any]) -> str | None:
        """Return why the action is not allowed now, or None. A decision or a review counts as approval."""
        kind = str(detail.get("kind"))
        if self.action.project_id is None:
            return None if kind == MAIL else f"Only a mail needs no project, and this action is {kind!r}."
        because = detail.get("because")
        is_decided = isinstance(because, Mapping) and because.get("escalation") is not None
        return find_refusal(self.project, kind, is_approved=is_decided or self.action.review in APPROVALS)

    def build_done_event(self, outcome: Any) -> Sequence[Write[Any]]:
        """Build the writes of the event that the action was executed."""
        return build_event_writes(
            self.stores,
            self.action.project_id,
            EventType.action_taken,
            f"Done: {describe_action(self.action.detail or {})}",
            {"action": self.action.id, "action_type": self.action.action_type, "outcome": outcome},
        )

    def build_refusal_event(self, error: ExternalServiceRefused) -> Sequence[Write[Any]]:
        """Build the writes of the event that the action was refused, or is no longer needed."""
        is_over = error.code == REASON_GONE
        return build_event_writes(
            self.stores,
            self.action.project_id,
            EventType.action_cancelled if is_over else EventType.error,
            f"{'No longer needed' if is_over else 'Refused'}: {describe_action(self.action.detail or {})}",
            {"action": self.action.id, "code": error.code, "reason": error.message},
            severity=Severity.info if is_over else Severity.error,
        )


def is_too_late(stores: Stores, action: Action) -> bool:
    """Return whether the action has been due for more than seven days."""
    return action.held_until is not None and get_now(stores.clock) - action.held_until > EXPIRES_AFTER
