"""What AgenticPM keeps: one table, one index, nine kinds of item. Names, keys and numbers are the design document's.

Ours are the lease of the loop (a tenth kind, `AGENT`/`LEASE#…`), what `HeldRecord` brings to an action, and `date` in an
event. `scope` is the partition of what may belong to a project or to none: `PROJECT#<uuid>`, or `GLOBAL`. Times stand
in keys in thousandths, of one width. `patterns.py` says how all this is asked for.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NewType, Self
from uuid import UUID

from pydantic import Field, field_validator, model_validator

from agenticpm.contents import ArtefactType, checked_content
from holdfast import (
    Attr,
    Bucket,
    Document,
    Entity,
    EpochSeconds,
    IndexKey,
    Key,
    Lifetime,
    Milliseconds,
    Table,
    attr,
)
from holdfast.guarantees import HeldRecord, LeaseRecord, kept

EVENT_DAYS: Final = 30
ACTION_DAYS: Final = 90

ProjectId = NewType("ProjectId", str)
Scope = NewType("Scope", str)

GLOBAL: Final = Scope("GLOBAL")

table = Table(
    "AgenticPM",
    "PK",
    "SK",
    ttl="TTL",
    recovery=True,
    purpose="Projects, artefacts, events, escalations, actions, checkpoints and configuration",
)
gsi1 = table.index(
    "GSI1",
    "GSI1PK",
    "GSI1SK",
    purpose="Projects and escalations by status, the events of a day, held actions by when they are due",
)
# What is too large for an item, and what was last seen of a tracker. Both are named by their content.
contents = Bucket(
    "agenticpm-contents",
    encryption="kms",
    purpose="Contents too large for an item, and what was last seen of a tracker",
)


class ProjectStatus(StrEnum):
    active = "active"
    paused = "paused"
    archived = "archived"


class Source(StrEnum):
    jira = "jira"
    asana = "asana"


class Autonomy(StrEnum):
    """How far the agent may go by itself: observe; keep artefacts; act, from a list of what is allowed."""

    monitoring = "monitoring"
    artefact = "artefact"
    tactical = "tactical"


class Severity(StrEnum):
    info = "info"
    warning = "warning"
    error = "error"
    critical = "critical"


class EventType(StrEnum):
    """Those that we write. The list is open: an event of another type is kept and read as well."""

    heartbeat = "heartbeat"
    signal_detected = "signal_detected"
    action_held = "action_held"
    action_approved = "action_approved"
    action_edited = "action_edited"
    action_taken = "action_taken"
    action_cancelled = "action_cancelled"
    action_reopened = "action_reopened"
    escalation_created = "escalation_created"
    escalation_decided = "escalation_decided"
    escalation_expired = "escalation_expired"
    artefact_updated = "artefact_updated"
    project_changed = "project_changed"
    config_changed = "config_changed"
    integration_checked = "integration_checked"
    budget_reached = "budget_reached"
    digest_prepared = "digest_prepared"
    storage_measured = "storage_measured"
    error = "error"


class EscalationStatus(StrEnum):
    pending = "pending"
    decided = "decided"
    expired = "expired"
    superseded = "superseded"


class ActionType(StrEnum):
    """Those that we write. The list is open."""

    artefact_update = "artefact_update"
    email_sent = "email_sent"
    jira_update = "jira_update"
    asana_update = "asana_update"
    escalation_created = "escalation_created"
    notification_sent = "notification_sent"


class Integration(StrEnum):
    jira = "jira"
    asana = "asana"
    outlook = "outlook"
    resend = "resend"


class IntegrationStatus(StrEnum):
    active = "active"
    inactive = "inactive"
    error = "error"


def _uuid(value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError(f"{value!r} is no UUID") from None


def scope_of(project_id: ProjectId | None) -> Scope:
    """Where the events and actions of a project are; of none, where all projects' are."""
    return GLOBAL if project_id is None else Scope(f"PROJECT#{project_id}")


def day_of(moment: datetime) -> date:
    """The day of an event, in UTC wherever its reader is."""
    return moment.astimezone(UTC).date()


class Confidence(Document):
    """Four scores from 0 to 1; all must pass for the agent to act alone. `autonomy.py` says from where on they do."""

    source_agreement: Decimal
    boundary_compliance: Decimal
    schema_validity: Decimal
    precedent_match: Decimal

    @field_validator("*")
    @classmethod
    def _is_a_share(cls, value: Decimal) -> Decimal:
        if not 0 <= value <= 1:
            raise ValueError("a score is from 0 to 1")
        return value


class Option(Document):
    """One way out of an escalation."""

    option: str
    pros: list[str] = Field(default_factory=list)
    cons: list[str] = Field(default_factory=list)


class Project(Entity, table=table):
    id: Attr[ProjectId] = attr()
    name: Attr[str] = attr()
    description: Attr[str | None] = attr(default=None)
    status: Attr[ProjectStatus] = attr(default=ProjectStatus.active)
    source: Attr[Source] = attr()
    source_project_key: Attr[str] = attr()
    autonomy_level: Attr[Autonomy] = attr(default=Autonomy.monitoring)
    config: Attr[dict[str, Any]] = attr(default_factory=dict)
    created_at: Attr[Milliseconds] = attr()
    updated_at: Attr[Milliseconds] = attr()

    of = Key("PROJECT#" + id, "METADATA")
    by_status = IndexKey(gsi1, "STATUS#" + status, "PROJECT#" + id)

    _id_is_a_uuid = field_validator("id")(_uuid)


class Artefact(Entity, table=table):
    """A living document of a project, with the version before it: one item per project and type."""

    id: Attr[str] = attr()
    project_id: Attr[ProjectId] = attr()
    type: Attr[ArtefactType] = attr()
    content: Attr[dict[str, Any]] = attr()
    previous_version: Attr[dict[str, Any] | None] = attr(default=None)
    version: Attr[int] = attr(default=1)
    # Of which facts the agent wrote last: until they change, it leaves alone what a person has made of it.
    facts: Attr[str | None] = attr("factsSha256", default=None)
    created_at: Attr[Milliseconds] = attr()
    updated_at: Attr[Milliseconds] = attr()

    of = Key("PROJECT#" + project_id, "ARTEFACT#" + type)

    _id_is_a_uuid = field_validator("id")(_uuid)

    @model_validator(mode="after")
    def _content_keeps_its_schema(self) -> Self:
        checked_content(self.type, self.content)
        return self


class Event(Entity, table=table):
    """Something that happened. In full where it belongs, and for all projects' feed as a reference under `GLOBAL`.

    A reference has neither `detail` nor `day`: so it is not in the index, where each event is once.
    """

    scope: Attr[Scope] = attr("PK")
    id: Attr[str] = attr()
    project_id: Attr[ProjectId | None] = attr(default=None)
    event_type: Attr[str] = attr()
    severity: Attr[Severity] = attr(default=Severity.info)
    summary: Attr[str] = attr()
    detail: Attr[dict[str, Any] | None] = attr(default=None)
    created_at: Attr[Milliseconds] = attr()
    day: Attr[date | None] = attr("date", default=None)

    of = Key(scope, "EVENT#" + created_at + "#" + id)
    by_day = IndexKey(gsi1, "EVENT#" + day, created_at + "#" + id)
    lives = Lifetime(created_at, timedelta(days=EVENT_DAYS))

    @model_validator(mode="after")
    def _is_where_it_belongs(self) -> Self:
        if self.day is None:
            if self.scope != GLOBAL or self.detail is not None:
                raise ValueError("only a reference under GLOBAL has no date, and it has no detail")
        elif self.scope != scope_of(self.project_id):
            raise ValueError(f"the event of {self.project_id or 'no project'} is not under {self.scope}")
        elif self.day != day_of(self.created_at):
            raise ValueError(f"{self.day} is not the day of {self.created_at.isoformat()} in UTC")
        return self

    @property
    def is_reference(self) -> bool:
        return self.day is None


class Escalation(Entity, table=table):
    """A question to a person. `createdAt` stands in the index, so that a decision does not move it in time."""

    id: Attr[str] = attr()
    project_id: Attr[ProjectId] = attr()
    title: Attr[str] = attr()
    context: Attr[dict[str, Any]] = attr()
    options: Attr[list[Option]] = attr()
    agent_recommendation: Attr[str | None] = attr(default=None)
    agent_rationale: Attr[str | None] = attr(default=None)
    status: Attr[EscalationStatus] = attr(default=EscalationStatus.pending)
    user_decision: Attr[str | None] = attr(default=None)
    user_notes: Attr[str | None] = attr(default=None)
    decided_at: Attr[Milliseconds | None] = attr(default=None)
    # What it is about, for superseding; when it lapses; and by which it was superseded.
    subject: Attr[str | None] = attr(default=None)
    expires_at: Attr[Milliseconds | None] = attr(default=None)
    superseded_by: Attr[str | None] = attr(default=None)
    created_at: Attr[Milliseconds] = attr()

    of = Key("PROJECT#" + project_id, "ESCALATION#" + id)
    by_status = IndexKey(gsi1, "ESCALATION#" + status, created_at + "#" + id)

    _id_is_a_uuid = field_validator("id")(_uuid)

    @model_validator(mode="after")
    def _can_be_decided(self) -> Self:
        names = [each.option for each in self.options]
        if not names or len(set(names)) != len(names):
            raise ValueError("an escalation has options, each under a name of its own")
        for what in (self.agent_recommendation, self.user_decision):
            if what is not None and what not in names:
                raise ValueError(f"{what!r} is none of its options ({', '.join(names)})")
        if (self.status is EscalationStatus.decided) != (self.user_decision is not None):
            raise ValueError("a decision and the status decided come together")
        return self


class Action(HeldRecord, table=table):
    """Something the agent does, or would do: held for a while where it goes outward, and done once.

    `HeldRecord` brings what holding and doing it once need; while an action waits it is in the index by when it is due.
    """

    scope: Attr[Scope] = attr("PK")
    id: Attr[str] = attr()
    project_id: Attr[ProjectId | None] = attr(default=None)
    action_type: Attr[str] = attr()
    description: Attr[str] = attr()
    detail: Attr[dict[str, Any] | None] = attr(default=None)
    confidence: Attr[Confidence | None] = attr(default=None)
    executed: Attr[bool] = attr(default=False)
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[Milliseconds | None] = attr(default=None)
    executed_at: Attr[Milliseconds | None] = attr(default=None)
    created_at: Attr[Milliseconds] = attr()
    expires_at: Attr[EpochSeconds] = attr("TTL")

    of = Key(scope, "ACTION#" + created_at + "#" + id)
    by_due = IndexKey(gsi1, "ACTION#" + queue, held_until + "#" + id)

    def spoken(self) -> str:
        return f"Action {self.id}"

    @model_validator(mode="after")
    def _is_where_it_belongs(self) -> Self:
        if self.scope != scope_of(self.project_id):
            raise ValueError(f"the action of {self.project_id or 'no project'} is not under {self.scope}")
        return self


class Checkpoint(Entity, table=table):
    """How far an integration was read: overwritten in place."""

    project_id: Attr[ProjectId] = attr()
    integration: Attr[str] = attr()
    checkpoint_key: Attr[str] = attr()
    checkpoint_value: Attr[str] = attr()
    updated_at: Attr[Milliseconds] = attr()

    of = Key("PROJECT#" + project_id, "CHECKPOINT#" + integration + "#" + checkpoint_key)


class IntegrationConfig(Entity, table=table):
    """How to reach an outside party. Its credentials are here only as the cipher has left them, in Base64."""

    id: Attr[str] = attr()
    integration: Attr[Integration] = attr()
    config_encrypted: Attr[str] = attr()
    # Where it leads, which is no secret: what is held for one site is never done at another.
    site: Attr[str | None] = attr(default=None)
    status: Attr[IntegrationStatus] = attr(default=IntegrationStatus.inactive)
    last_health_check: Attr[Milliseconds | None] = attr(default=None)
    created_at: Attr[Milliseconds] = attr()
    updated_at: Attr[Milliseconds] = attr()

    of = Key("INTEGRATION#" + integration, "CONFIG")

    _id_is_a_uuid = field_validator("id")(_uuid)


class AgentConfig(Entity, table=table):
    key: Attr[str] = attr()
    value: Attr[str | int | Decimal | dict[str, Any]] = attr()
    updated_at: Attr[Milliseconds] = attr()

    of = Key("AGENT", "CONFIG#" + key)


class AgentLease(LeaseRecord, table=table):
    """Who runs the loop. Ours: the document has one instance, and nothing that keeps it one."""

    name: Attr[str] = attr()

    of = Key("AGENT", "LEASE#" + name)


for _entity, _why in (
    (Project, "people archive it"),
    (Artefact, "one for each project and type, with the version before it"),
    (Escalation, "the record of what was asked and decided"),
    (Checkpoint, "one for each project and integration, overwritten in place"),
    (IntegrationConfig, "one for each integration"),
    (AgentConfig, "one for each setting"),
):
    kept(_entity, None, _why)
