"""What a tracker tells, in one form whichever it is: tickets, what changed in them, sprints, milestones; and the ports.

Connectors translate Jira and Asana into these values, the rest of the system knows nothing else. Texts are plain and are
data: nothing in them is ever followed as an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

# Trackers take any date, and some write the end of time for "never". Beyond these a date is taken as the bound, so that
# it can be brought to UTC, and days added to it.
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def _bounded(moment: datetime) -> datetime:
    return min(max(moment, EARLIEST), LATEST)


Moment = Annotated[AwareDatetime, AfterValidator(_bounded)]


class Value(BaseModel):
    """A frozen value that goes to JSON and back."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(StrEnum):
    """Where a ticket stands, whatever its tracker calls that."""

    to_do = "to_do"
    in_progress = "in_progress"
    done = "done"


class Priority(StrEnum):
    critical = "critical"
    high = "high"
    medium = "medium"
    low = "low"


class Ticket(Value):
    """A ticket as it is now. `key` is what people call it (MCU-142; of Asana, the gid)."""

    id: str
    key: str
    title: str
    description: str = ""
    status: str
    stage: Stage
    is_blocked: bool = False
    blocked_reason: str | None = None
    priority: Priority = Priority.medium
    points: Decimal | None = None
    assignee: str | None = None
    sprint: str | None = None
    milestone: str | None = None
    labels: tuple[str, ...] = ()
    has_criteria: bool = False
    created_at: Moment
    updated_at: Moment
    started_at: Moment | None = None
    resolved_at: Moment | None = None
    due_at: Moment | None = None
    url: str | None = None


class FieldChange(Value):
    """One field of one ticket, before and after: the evidence of a signal. `id` is the tracker's, unique with `field`."""

    id: str
    ticket: str
    field: str
    before: str | None = None
    after: str | None = None
    at: Moment
    by: str | None = None


class Sprint(Value):
    id: str
    name: str
    state: str = "active"  # active, closed or future
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    completed_at: Moment | None = None
    goal: str = ""


class Milestone(Value):
    """A version of Jira, a milestone of Asana."""

    name: str
    due_at: Moment | None = None
    is_done: bool = False
    notes: str = ""


class SyncPage(Value):
    """One page of what changed since a checkpoint, oldest first, and the checkpoint after it.

    Reading goes on from `checkpoint` while `has_more`. With `is_reset`, what was seen before counts no more: everything
    is told anew, and what is not told is gone. `gone` are keys of tickets that are no longer in the project.
    """

    tickets: tuple[Ticket, ...] = ()
    changes: tuple[FieldChange, ...] = ()
    gone: tuple[str, ...] = ()
    checkpoint: str
    has_more: bool = False
    is_reset: bool = False


class Plan(Value):
    """What a project has planned: its sprints, and its milestones."""

    sprints: tuple[Sprint, ...] = ()
    milestones: tuple[Milestone, ...] = ()


class MailMessage(Value):
    """A mail in the project's mailbox."""

    id: str
    subject: str = ""
    sender: str | None = None
    preview: str = ""
    received_at: Moment
    is_removed: bool = False


class MailPage(Value):
    messages: tuple[MailMessage, ...] = ()
    checkpoint: str
    has_more: bool = False
    is_reset: bool = False


class OutgoingMail(Value):
    to: tuple[str, ...] = Field(min_length=1)
    subject: str = Field(min_length=1)
    text: str = Field(min_length=1)


class Health(Value):
    is_ok: bool
    detail: str = ""


class Tracker(Protocol):
    """Where tickets are. What it cannot do raises PartyFailed or PartyRefused; nonsense in an answer, PartyFailed."""

    async def health(self) -> Health: ...

    async def changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        """One page since a checkpoint; without one, from the beginning. Asking again with the same is harmless."""
        ...

    async def plan(self, project_key: str) -> Plan: ...

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        """Comment on a ticket; the reference is kept with the comment, and gives the outcome."""
        ...

    async def commented(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """The outcome of a comment under a reference; None if there is none."""
        ...

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """Bring a ticket into a status, by a transition that leads there."""
        ...

    async def moved(self, ticket: str, reference: str) -> dict[str, Any] | None: ...


class Mailbox(Protocol):
    """Mail that is read, and never written."""

    async def health(self) -> Health: ...

    async def messages(self, checkpoint: str | None) -> MailPage: ...


class Mailer(Protocol):
    """Mail that is sent. The party takes the key: the same key twice is one mail, for `KEY_KEPT_S` seconds."""

    async def health(self) -> Health: ...

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]: ...


class SignalKind(StrEnum):
    blocked = "blocked"
    unblocked = "unblocked"
    stale = "stale"
    missing_criteria = "missing_criteria"
    scope_creep = "scope_creep"
    new = "new"
    slipping_milestone = "slipping_milestone"
    velocity_trend = "velocity_trend"
    cycle_time_trend = "cycle_time_trend"
    risk_due = "risk_due"
    risk_overdue = "risk_overdue"
    review_due = "review_due"
    mail_mention = "mail_mention"


class Evidence(Value):
    """What a signal rests on: a field of a ticket (or of an artefact's line, or a mail), before and after."""

    ticket: str | None = None
    field: str
    before: str | None = None
    after: str | None = None
    at: Moment | None = None


class Signal(Value):
    """Something that calls for attention, with its evidence. `subject` is a ticket's key, a milestone's name, a risk's id."""

    kind: SignalKind
    subject: str
    severity: str = "warning"  # info, warning, error or critical
    summary: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.subject}"


class Entry(Value):
    """What a ticket was when it came into the running sprint: what scope is measured from."""

    sprint: str
    at: Moment
    points: Decimal | None = None


class Move(Value):
    """That a milestone was put off: when it was due before, when it is due now, and since when that is known."""

    before: Moment
    after: Moment
    at: Moment


class Snapshot(Value):
    """What was last seen of a project's tracker, and which flags are up: since when each signal stands.

    It is derived from the tracker and can be read anew. A signal is told once, when its flag goes up.
    """

    source: str
    project_key: str
    tickets: Mapping[str, Ticket] = Field(default_factory=dict)
    plan: Plan = Plan()
    flags: Mapping[str, Moment] = Field(default_factory=dict)
    # Of mails that were read: when each was received, for those that mention a ticket.
    mentions: Mapping[str, Moment] = Field(default_factory=dict)
    # Of those, the ones that speak of trouble: what they say belongs into the RAID log.
    troubles: Mapping[str, Signal] = Field(default_factory=dict)
    # Of tickets that are blocked: since when, as the tracker tells.
    blocked_since: Mapping[str, Moment] = Field(default_factory=dict)
    # Of tickets in the running sprint: how each came in. Of milestones: when each was due when it was last told.
    entries: Mapping[str, Entry] = Field(default_factory=dict)
    promised: Mapping[str, Moment] = Field(default_factory=dict)
    # Of milestones that were put off lately.
    moved: Mapping[str, Move] = Field(default_factory=dict)
    # What came in before is history, and no news.
    watched_since: Moment | None = None
    synced_at: Moment | None = None
    # More was to be read when this was kept: tickets are missing in it.
    is_partial: bool = False


class Writing(Value):
    """What a writer is given: facts, and the artefact as it stands. Nothing of it is an instruction."""

    type: str
    previous: Mapping[str, Any] | None
    snapshot: Snapshot
    signals: tuple[Signal, ...]
    raid_log: Mapping[str, Any] | None
    now: Moment


class Draft(Value):
    """What a writer made: a content that is checked before anything is stored, and what making it cost."""

    content: Mapping[str, Any]
    usd: Decimal = Decimal(0)
    writer: str
    # Of which facts, where the words may differ: those of the rules.
    facts: str | None = None


class Writer(Protocol):
    """Writes the content of an artefact from facts. Embedded it is rules; in production Claude, with a tool."""

    name: str

    async def write(self, writing: Writing) -> Draft: ...


def applied(before: Snapshot, page: SyncPage, plan: Plan | None, at: datetime) -> Snapshot:
    """What is known after a page: a ticket that is told replaces the one before, one that is gone is dropped."""
    kept: dict[str, Ticket] = {} if page.is_reset else dict(before.tickets)
    for key in page.gone:
        kept.pop(key, None)
    kept.update({ticket.key: ticket for ticket in page.tickets})
    return before.model_copy(update={"tickets": kept, "plan": plan or before.plan, "synced_at": at})


def by_ticket(changes: Iterable[FieldChange]) -> Mapping[str, Sequence[FieldChange]]:
    """Grouped once: who looks up the changes of each ticket would otherwise go through all of them for each."""
    found: dict[str, list[FieldChange]] = {}
    for each in changes:
        found.setdefault(each.ticket, []).append(each)
    return found
