"""The facts of a project in one form for all trackers: tickets with history, sprints and mails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from agenticpm.domain.tickets import Sprint, TicketStage


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who works on tickets, or a program that writes on them (`is_bot`)."""

    id: str
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One changed field of a ticket. `field` is in lower case."""

    at: datetime
    by: Person | None
    field: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    at: datetime
    by: Person | None
    text: str

    @property
    def is_by_bot(self) -> bool:
        return self.by is not None and self.by.is_bot


@dataclass(frozen=True, slots=True)
class Blocker:
    """Another ticket that blocks this one, and whether it is done."""

    key: str
    is_done: bool
    title: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A version (milestone) of a ticket."""

    name: str
    due: date | None = None
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A ticket with everything that a review looks at. Texts are without what they quote."""

    key: str
    title: str
    type: str
    status: str
    stage: TicketStage
    created_at: datetime
    updated_at: datetime
    priority: str = ""
    assignee: Person | None = None
    resolved_at: datetime | None = None
    due: date | None = None
    labels: tuple[str, ...] = ()
    points: Decimal | None = None
    sprints: tuple[str, ...] = ()  # ids or names
    versions: tuple[Version, ...] = ()
    parent: str | None = None
    blockers: tuple[Blocker, ...] = ()
    is_flagged: bool = False
    is_epic: bool = False
    is_subtask: bool = False
    has_checklist: bool = False
    environment: str = ""
    status_note: str = ""
    description: str = ""
    comments: tuple[Comment, ...] = ()  # oldest first
    changes: tuple[Change, ...] = ()  # oldest first

    @property
    def is_open(self) -> bool:
        return self.stage is not TicketStage.done

    @property
    def is_started(self) -> bool:
        return self.stage is TicketStage.in_progress

    @property
    def human_comments(self) -> tuple[Comment, ...]:
        return tuple(each for each in self.comments if not each.is_by_bot)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail: what its sender wrote, and what it quotes of earlier mails."""

    name: str
    subject: str
    sender: str
    at: datetime | None
    text: str
    quoted: str = ""
    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """All that is known of a project."""

    items: tuple[WorkItem, ...]
    sprints: tuple[Sprint, ...] = ()
    mails: tuple[Mail, ...] = ()
    stages: dict[str, TicketStage] = field(default_factory=dict)  # by status name in lower case

    def list_open(self) -> Iterator[WorkItem]:
        """Yield the tickets that are not done."""
        return (each for each in self.items if each.is_open)

    def list_children(self, key: str) -> list[WorkItem]:
        """List the tickets below a ticket."""
        return [each for each in self.items if each.parent == key]

    def list_in_sprint(self, sprint: Sprint) -> list[WorkItem]:
        """List the tickets of a sprint without subtasks, whose work their parents count."""
        names = {sprint.id, sprint.name}
        return [each for each in self.items if names & set(each.sprints) and not each.is_subtask]
