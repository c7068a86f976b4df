"""The result of a review: signals with severity and evidence, and proposals for the RAID log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agenticpm.domain.reading.raid_reader import RaidKind


class ReviewKind(StrEnum):
    """The kinds of signals, in the order in which a project manager looks at them."""

    incident = "incident"
    milestone_at_risk = "milestone_at_risk"
    sprint_at_risk = "sprint_at_risk"
    sprint_ended = "sprint_ended"
    blocked = "blocked"
    overdue = "overdue"
    unassigned = "unassigned"
    reopened = "reopened"
    scope_added = "scope_added"
    overloaded = "overloaded"
    on_hold = "on_hold"
    stale = "stale"
    due_soon = "due_soon"
    no_acceptance_criteria = "no_acceptance_criteria"


class Severity(StrEnum):
    low = "low"
    medium = "medium"
    high = "high"
    critical = "critical"


@dataclass(frozen=True, slots=True)
class ReviewSignal:
    """Something that needs attention. Without a `ticket` it is about the project, and `subject` says what."""

    kind: ReviewKind
    severity: Severity
    ticket: str | None
    evidence: str
    subject: str = ""

    @property
    def key(self) -> str:
        """The name under which the signal is dismissed: `stale:MCU-142`, `scope_added:Sprint 9`."""
        return f"{self.kind}:{self.ticket or self.subject}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed entry of the RAID log, or a decision, with the sentence that says it."""

    kind: RaidKind
    title: str
    quote: str
    ticket: str | None
    owner: str | None = None
    source: str = ""
    blocked_by: tuple[str, ...] = ()
