"""Tickets, sprints, mails, signals and snapshots in one form for all trackers, and the service ports.

The integrations translate Jira, Asana and Outlook into these values; the rest of the system knows nothing
else. Texts are plain data: nothing in them is ever followed as an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

# Trackers accept any date, and some use the year 9999 for "never". Dates are clamped to these bounds, so that
# they can be converted to UTC and have days added.
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def _clamp(moment: datetime) -> datetime:
    """Return the time within the supported bounds."""
    return min(max(moment, EARLIEST), LATEST)


Moment = Annotated[AwareDatetime, AfterValidator(_clamp)]


class Value(BaseModel):
    """The base of these values: frozen, without unknown fields, and convertible to JSON and back."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TicketStage(StrEnum):
    """The stage of a ticket, independent of its tracker's status names."""

    to_do = "to_do"
    in_progress = "in_progress"
    done = "done"


class Priority(StrEnum):
    critical = "critical"
    high = "high"
    medium = "medium"
    low = "low"


class Ticket(Value):
    """A ticket's current state. `key` is its public name (MCU-142; in Asana the gid)."""

    id: str
    key: str
    title: str
    description: str = ""
    status: str
    stage: TicketStage
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
    """One field of one ticket before and after: evidence for a signal.

    `id` is the tracker's, unique with `field`.
    """

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
    """A version in Jira, a milestone in Asana."""

    name: str
    due_at: Moment | None = None
    is_done: bool = False
    notes: str = ""


class SyncPage(Value):
    """One page of changes since a checkpoint, oldest first, and the next checkpoint.

    Reading continues from `checkpoint` while `has_more`. With `is_reset`, earlier state is invalid:
    everything is returned again, and tickets that do not return are gone. `gone` are the keys of tickets that
    left the project.
    """

    tickets: tuple[Ticket, ...] = ()
    changes: tuple[FieldChange, ...] = ()
    gone: tuple[str, ...] = ()
    checkpoint: str
    has_more: bool = False
    is_reset: bool = False


class Plan(Value):
    """The sprints and milestones of a project."""

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
    """One page of mails since a checkpoint, and the next checkpoint.

    With `is_reset`, earlier state is invalid.
    """

    messages: tuple[MailMessage, ...] = ()
    checkpoint: str
    has_more: bool = False
    is_reset: bool = False


class OutgoingMail(Value):
    """A mail that the agent sends. Nothing may be empty."""

    to: tuple[str, ...] = Field(min_length=1)
    subject: str = Field(min_length=1)
    text: str = Field(min_length=1)


class Health(Value):
    # Clients of the API know the schema by this name. See `holdfast.web.openapi`.
    """The result of a health check; `detail` explains a failure."""

    model_config = ConfigDict(json_schema_extra={"x-schema-name": "agenticpm__tickets__Health"})

    is_ok: bool
    detail: str = ""


class Tracker(Protocol):
    """A ticket tracker.

    A failed call raises ExternalServiceFailed or ExternalServiceRefused; an invalid response raises
    ExternalServiceFailed.
    """

    async def check_health(self) -> Health: ...

    async def fetch_changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        """Return one page of changes since the checkpoint; without one, from the beginning.

        A repeat is harmless.
        """
        ...

    async def fetch_plan(self, project_key: str) -> Plan:
        """Return the sprints and milestones. It is called once per cycle."""
        ...

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        """Comment on a ticket and store the reference with the comment.

        Return the outcome, as the action stores it.
        """
        ...

    async def find_comment(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return the outcome of the comment with this reference, or None if there is none."""
        ...

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """Move a ticket into a status, by a transition that leads there. Return the outcome."""
        ...

    async def find_move(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return the outcome of the move with this reference, or None if there is none."""
        ...


class Mailbox(Protocol):
    """A mailbox, which is only read."""

    async def check_health(self) -> Health: ...

    async def fetch_messages(self, checkpoint: str | None) -> MailPage:
        """Return one page of mails since the checkpoint; without one, from the beginning."""
        ...


class Mailer(Protocol):
    """A mail service that accepts an idempotency key: a key used twice sends one mail.

    The service remembers keys for `KEY_LIFETIME_S` seconds.
    """

    async def check_health(self) -> Health: ...

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        """Send a mail under the idempotency key and return the outcome."""
        ...


class SignalKind(StrEnum):
    """The kinds of signals, in the order of reporting within one severity."""

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
    overdue = "overdue"
    due_soon = "due_soon"
    unassigned = "unassigned"
    on_hold = "on_hold"
    overloaded = "overloaded"
    sprint_at_risk = "sprint_at_risk"
    sprint_ended = "sprint_ended"


class Evidence(Value):
    """Evidence of a signal: a field of a ticket (or an artefact's entry, or a mail), before and after."""

    ticket: str | None = None
    field: str
    before: str | None = None
    after: str | None = None
    at: Moment | None = None


class Signal(Value):
    """A condition that needs attention, with evidence.

    `subject` is a ticket's key, a milestone's name or a risk's id.
    """

    kind: SignalKind
    subject: str
    severity: str = "warning"  # info, warning, error or critical
    summary: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def key(self) -> str:
        """The kind and subject: `blocked:MCU-142`. It is the flag of most signals."""
        return f"{self.kind}:{self.subject}"


class Entry(Value):
    """A ticket's state when it entered the running sprint: the baseline of the scope."""

    sprint: str
    at: Moment
    points: Decimal | None = None


class Move(Value):
    """A moved milestone: the due date before and now, and when the move was seen."""

    before: Moment
    after: Moment
    at: Moment


class Snapshot(Value):
    """The last state read from a project's tracker, and the flags: since when each signal holds.

    It is derived from the tracker and can be read again. A signal is reported once, when its flag is set.
    """

    source: str
    project_key: str
    tickets: Mapping[str, Ticket] = Field(default_factory=dict)
    plan: Plan = Plan()
    flags: Mapping[str, Moment] = Field(default_factory=dict)
    # Receive times of the mails that mention a ticket.
    mentions: Mapping[str, Moment] = Field(default_factory=dict)
    # Those of them about risks or delays, for the RAID log.
    troubles: Mapping[str, Signal] = Field(default_factory=dict)
    # Since when each blocked ticket is blocked, according to the tracker.
    blocked_since: Mapping[str, Moment] = Field(default_factory=dict)
    # How each ticket entered the running sprint; and the last reported due date of each milestone.
    entries: Mapping[str, Entry] = Field(default_factory=dict)
    promised: Mapping[str, Moment] = Field(default_factory=dict)
    # Recently moved milestones.
    moved: Mapping[str, Move] = Field(default_factory=dict)
    # Additions before this time are history, not news.
    watched_since: Moment | None = None
    synced_at: Moment | None = None
    # The sync was incomplete: tickets are missing.
    is_partial: bool = False


class Writing(Value):
    """The input of a writer: facts, and the artefact's previous content. Nothing in it is an instruction."""

    type: str
    previous: Mapping[str, Any] | None
    snapshot: Snapshot
    signals: tuple[Signal, ...]
    raid_log: Mapping[str, Any] | None
    now: Moment


class Draft(Value):
    """The output of a writer: a content, its cost and the writer's name.

    It is validated before it is stored.
    """

    content: Mapping[str, Any]
    usd: Decimal = Decimal(0)
    writer: str
    # The hash of the rules' facts, since a model's words may differ.
    facts: str | None = None


class Writer(Protocol):
    """A writer of artefact contents from facts: rules when embedded, Claude with a tool in production."""

    name: str

    async def write(self, writing: Writing) -> Draft: ...


def apply_page(before: Snapshot, page: SyncPage, plan: Plan | None, at: datetime) -> Snapshot:
    """Return the snapshot after a page: its tickets replace earlier ones, and gone tickets are removed.

    A reset page removes all earlier tickets. Without a plan, the earlier plan stays.
    """
    tickets: dict[str, Ticket] = {} if page.is_reset else dict(before.tickets)
    for key in page.gone:
        tickets.pop(key, None)
    tickets.update({ticket.key: ticket for ticket in page.tickets})
    return before.model_copy(update={"tickets": tickets, "plan": plan or before.plan, "synced_at": at})


def group_by_ticket(changes: Iterable[FieldChange]) -> Mapping[str, Sequence[FieldChange]]:
    """Return the changes by ticket key, in the given order."""
    found: dict[str, list[FieldChange]] = {}
    for each in changes:
        found.setdefault(each.ticket, []).append(each)
    return found
