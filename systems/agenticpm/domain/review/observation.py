"""What the finders of a review look at: the records, the time, the thresholds, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import cached_property

from agenticpm.domain.reading.raid_reader import Source, says_blocked, says_resolved, says_waiting
from agenticpm.domain.review.names import (
    is_blocked_label,
    is_blocked_status,
    is_usual_work_status,
    is_waiting_status,
    judge_priority,
)
from agenticpm.domain.review.records import Change, ProjectRecord, WorkItem
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Priority, Sprint

# A comment within this time of a move into a status explains the move.
EXPLAINS: timedelta = timedelta(hours=24)


class Observation:
    """The records of a project at one time."""

    def __init__(self, project: ProjectRecord, now: datetime, thresholds: Thresholds) -> None:
        self.project = project
        self.now = now
        self.thresholds = thresholds

    @property
    def today(self) -> date:
        """The day in the time zone of `now`, in which due dates are meant."""
        return self.now.date()

    @cached_property
    def open_items(self) -> list[WorkItem]:
        return list(self.project.list_open())

    @cached_property
    def active_sprints(self) -> list[Sprint]:
        return [each for each in self.project.sprints if each.state == "active"]

    @cached_property
    def _priority_names(self) -> frozenset[str]:
        return frozenset(each.priority for each in self.project.items if each.priority)

    def judge_priority(self, item: WorkItem) -> Priority:
        return judge_priority(item.priority, self._priority_names)

    # --- blocked and waiting --------------------------------------------------------------------------------

    def find_open_blockers(self, item: WorkItem) -> list[str]:
        """Return the keys of the tickets that block the item now; the export's own state of a ticket wins."""
        known = {each.key: each.is_open for each in self.project.items}
        return [each.key for each in item.blockers if known.get(each.key, not each.is_done)]

    def find_hold(self, item: WorkItem) -> str | None:
        """Return why a ticket waits or rests by its status, or None if it does not."""
        if is_waiting_status(item.status, item.stage):
            return f"its status is {item.status}"
        if not item.is_started or is_usual_work_status(item.status) or is_blocked_status(item.status):
            return None
        moved = _find_last_move(item)
        explained = [
            each.text
            for each in item.human_comments
            if moved is not None and abs(each.at - moved.at) <= EXPLAINS
        ]
        if any(says_waiting(each) for each in (item.status_note, *explained)):
            return f"its status is {item.status}, in which it waits"
        return None

    def find_blocking_sentence(self, item: WorkItem) -> str | None:
        """Return the sentence by which a ticket is blocked, unless something later resolved it."""
        if not item.is_open:
            return None
        for number, comment in reversed(list(enumerate(item.human_comments))):
            if sentence := says_blocked(comment.text):
                return None if self.is_resolved_later(item, number) else sentence
        sentence = says_blocked(item.description)
        return sentence if sentence and not self.is_resolved_later(item, -1) else None

    def is_resolved_later(self, item: WorkItem, number: int) -> bool:
        """Return whether a comment after the given one, or a later move of the ticket, ended its matter."""
        comments = item.human_comments
        if any(says_resolved(each.text) for each in comments[number + 1 :]):
            return True
        if number < 0:
            return False
        since = comments[number].at + timedelta(minutes=30)
        return any(each.field == "status" and each.at > since for each in item.changes) and not (
            is_blocked_status(item.status) or is_waiting_status(item.status, item.stage)
        )

    def find_block(self, item: WorkItem) -> str | None:
        """Return why a ticket is blocked, in words, or None: flag, status, label, link or text."""
        if not item.is_open:
            return None
        reasons = []
        if item.is_flagged:
            reasons.append("it is flagged as impeded")
        if is_blocked_status(item.status):
            reasons.append(f"its status is {item.status}")
        reasons += [f"it has the label {each}" for each in item.labels if is_blocked_label(each)]
        if keys := self.find_open_blockers(item):
            reasons.append(f"it is blocked by {', '.join(keys)}, which is not done")
        sentence = self.find_blocking_sentence(item)
        if sentence and (reasons or self.find_hold(item) is None):
            reasons.append(f"it says: “{sentence}”")
        return "; ".join(reasons) or None

    def is_held(self, item: WorkItem) -> bool:
        """Return whether a ticket is blocked or waits."""
        return self.find_block(item) is not None or self.find_hold(item) is not None

    # --- activity -------------------------------------------------------------------------------------------

    def find_last_activity(self, item: WorkItem) -> datetime:
        """Return when a person last did something on a ticket.

        What programs write, and moving it to the next sprint, is no activity.
        """
        human = [each.at for each in item.human_comments] + [
            each.at for each in item.changes if _is_activity(each)
        ]
        other = [each.at for each in item.comments if each.is_by_bot]
        other += [each.at for each in item.changes if not _is_activity(each)]
        known = max(human, default=item.created_at)
        is_explained = any(abs(item.updated_at - each) <= timedelta(minutes=2) for each in other)
        return known if is_explained else max(known, item.updated_at)


def _find_last_move(item: WorkItem) -> Change | None:
    moves = [each for each in item.changes if each.field == "status"]
    return moves[-1] if moves else None


def _is_activity(change: Change) -> bool:
    is_by_bot = change.by is not None and change.by.is_bot
    return not is_by_bot and change.field not in ("sprint", "rank", "epic link", "parent")


def count_started(items: Sequence[WorkItem]) -> int:
    """Count the tickets that somebody works on."""
    return sum(each.is_started for each in items)


__all__ = ["EXPLAINS", "Observation", "Source", "count_started"]
