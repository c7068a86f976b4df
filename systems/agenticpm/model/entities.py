"""Entities of AgenticPM: one table, one index, a bucket, and nine kinds of item.

Names, keys and numbers are the design document's. Our additions are the lease of the loop (a tenth kind,
`AGENT`/`LEASE#…`), the attributes of `DelayedAction` in an action, and `date` in an event. `scope` is the
partition of items that may belong to a project or to none: `PROJECT#<uuid>`, or `GLOBAL`. Times in keys are
in milliseconds, with a fixed width. `patterns.py` has the access patterns.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NewType, Self
from uuid import UUID

from pydantic import Field, field_validator, model_validator

from agenticpm.domain.contents import ArtefactType, validate_content
from holdfast import Attr, Bucket, Document, Entity, EpochSeconds, IndexKey, Key, Lifetime, Table, attr
from holdfast.guarantees import DelayedAction, LeaseRecord, declare_retention
from holdfast.model.entities import TimestampMillis

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
    point_in_time_recovery=True,
    purpose="Projects, artefacts, events, escalations, actions, checkpoints and configuration",
)
gsi1 = table.global_index(
    "GSI1",
    "GSI1PK",
    "GSI1SK",
    purpose="Projects and escalations by status, the events of a day, held actions by when they are due",
)
# Contents too large for an item, and tracker snapshots. Both are named by the hash of their content.
contents = Bucket(
    "agenticpm-contents",
    encryption="kms",
    purpose="Contents too large for an item, and tracker snapshots",
)


class ProjectStatus(StrEnum):
    active = "active"
    paused = "paused"
    archived = "archived"


class Source(StrEnum):
    jira = "jira"
    asana = "asana"


class Autonomy(StrEnum):
    """The agent may watch (`monitoring`), also write artefacts (`artefact`), or also act (`tactical`)."""

    monitoring = "monitoring"
    artefact = "artefact"
    tactical = "tactical"


class Severity(StrEnum):
    info = "info"
    warning = "warning"
    error = "error"
    critical = "critical"


class EventType(StrEnum):
    """The event types that we write. The list is open: events of other types are stored and read too."""

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
    """The action types that we write. The list is open."""

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


def _normalize_uuid(value: str) -> str:
    """Return the UUID in its canonical form. Raise ValueError if the text is not a UUID."""
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a UUID") from None


def get_scope(project_id: ProjectId | None) -> Scope:
    """Return the partition of a project's events and actions; without a project, the global one."""
    return GLOBAL if project_id is None else Scope(f"PROJECT#{project_id}")


def get_utc_day(moment: datetime) -> date:
    """Return the UTC day of a time."""
    return moment.astimezone(UTC).date()


class Confidence(Document):
    """Four scores from 0 to 1; all must reach the minimum in `autonomy.py` for the agent to act alone."""

    source_agreement: Decimal
    boundary_compliance: Decimal
    schema_validity: Decimal
    precedent_match: Decimal

    @field_validator("*")
    @classmethod
    def _check_range(cls, value: Decimal) -> Decimal:
        if not 0 <= value <= 1:
            raise ValueError("invalid score: expected a number from 0 to 1")
        return value


class Option(Document):
    """One option of an escalation."""

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
    created_at: Attr[TimestampMillis] = attr()
    updated_at: Attr[TimestampMillis] = attr()

    of = Key("PROJECT#" + id, "METADATA")
    by_status = IndexKey(gsi1, "STATUS#" + status, "PROJECT#" + id)

    _id_is_a_uuid = field_validator("id")(_normalize_uuid)


class Artefact(Entity, table=table):
    """A living document of a project with its previous version: one item per project and type."""

    id: Attr[str] = attr()
    project_id: Attr[ProjectId] = attr()
    type: Attr[ArtefactType] = attr()
    content: Attr[dict[str, Any]] = attr()
    previous_version: Attr[dict[str, Any] | None] = attr(default=None)
    version: Attr[int] = attr(default=1)
    # Hash of the facts that the agent last wrote from: until they change, it keeps a person's edits.
    facts: Attr[str | None] = attr("factsSha256", default=None)
    created_at: Attr[TimestampMillis] = attr()
    updated_at: Attr[TimestampMillis] = attr()

    of = Key("PROJECT#" + project_id, "ARTEFACT#" + type)

    _id_is_a_uuid = field_validator("id")(_normalize_uuid)

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        validate_content(self.type, self.content)
        return self


class Event(Entity, table=table):
    """An event of a project or of the agent.

    It is stored in full in its scope, and as a reference under `GLOBAL` for the feed of all projects. A
    reference has neither `detail` nor `day`, so the list of a day has each event once.
    """

    scope: Attr[Scope] = attr("PK")
    id: Attr[str] = attr()
    project_id: Attr[ProjectId | None] = attr(default=None)
    event_type: Attr[str] = attr()
    severity: Attr[Severity] = attr(default=Severity.info)
    summary: Attr[str] = attr()
    detail: Attr[dict[str, Any] | None] = attr(default=None)
    created_at: Attr[TimestampMillis] = attr()
    day: Attr[date | None] = attr("date", default=None)

    of = Key(scope, "EVENT#" + created_at + "#" + id)
    by_day = IndexKey(gsi1, "EVENT#" + day, created_at + "#" + id)
    lives = Lifetime(created_at, timedelta(days=EVENT_DAYS))

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        """Refuse an event in another project's partition or on another day than its time."""
        if self.day is None:
            if self.scope != GLOBAL or self.detail is not None:
                raise ValueError("an event without a date must be a reference under GLOBAL without detail")
        elif self.scope != get_scope(self.project_id):
            raise ValueError(
                f"the event of {self.project_id or 'no project'} does not belong to {self.scope}"
            )
        elif self.day != get_utc_day(self.created_at):
            raise ValueError(f"{self.day} is not the day of {self.created_at.isoformat()} in UTC")
        return self

    @property
    def is_reference(self) -> bool:
        """Whether this is only the reference under `GLOBAL`, without detail."""
        return self.day is None


class Escalation(Entity, table=table):
    """A question to a person. Lists are sorted by `createdAt`, so a decision does not change its position."""

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
    decided_at: Attr[TimestampMillis | None] = attr(default=None)
    # A new escalation supersedes a pending one with the same subject.
    subject: Attr[str | None] = attr(default=None)
    expires_at: Attr[TimestampMillis | None] = attr(default=None)
    superseded_by: Attr[str | None] = attr(default=None)
    created_at: Attr[TimestampMillis] = attr()

    of = Key("PROJECT#" + project_id, "ESCALATION#" + id)
    by_status = IndexKey(gsi1, "ESCALATION#" + status, created_at + "#" + id)

    _id_is_a_uuid = field_validator("id")(_normalize_uuid)

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        """Require options with unique names, and a decision among them if and only if it is decided."""
        names = [each.option for each in self.options]
        if not names or len(set(names)) != len(names):
            raise ValueError("an escalation needs options with unique names")
        for what in (self.agent_recommendation, self.user_decision):
            if what is not None and what not in names:
                raise ValueError(f"{what!r} is not one of its options ({', '.join(names)})")
        if (self.status is EscalationStatus.decided) != (self.user_decision is not None):
            raise ValueError("a decision needs the status decided, and the reverse")
        return self


class Action(DelayedAction, table=table):
    """An action of the agent: held for a while if it is outgoing, and executed once.

    `DelayedAction` has the attributes for holding and executing it once; a held action is in the index by its
    due time.
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
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    executed_at: Attr[TimestampMillis | None] = attr(default=None)
    created_at: Attr[TimestampMillis] = attr()
    expires_at: Attr[EpochSeconds] = attr("TTL")

    of = Key(scope, "ACTION#" + created_at + "#" + id)
    by_due = IndexKey(gsi1, "ACTION#" + queue, held_until + "#" + id)

    def describe(self) -> str:
        return f"Action {self.id}"

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        if self.scope != get_scope(self.project_id):
            raise ValueError(
                f"the action of {self.project_id or 'no project'} does not belong to {self.scope}"
            )
        return self


class Checkpoint(Entity, table=table):
    """The read position of an integration, overwritten in place."""

    project_id: Attr[ProjectId] = attr()
    integration: Attr[str] = attr()
    checkpoint_key: Attr[str] = attr()
    checkpoint_value: Attr[str] = attr()
    updated_at: Attr[TimestampMillis] = attr()

    of = Key("PROJECT#" + project_id, "CHECKPOINT#" + integration + "#" + checkpoint_key)


class IntegrationConfig(Entity, table=table):
    """The configuration of an external service. Its credentials are stored encrypted, in Base64."""

    id: Attr[str] = attr()
    integration: Attr[Integration] = attr()
    config_encrypted: Attr[str] = attr()
    # The site it points to, which is not secret: an action held for one site is never executed at another.
    site: Attr[str | None] = attr(default=None)
    status: Attr[IntegrationStatus] = attr(default=IntegrationStatus.inactive)
    last_health_check: Attr[TimestampMillis | None] = attr(default=None)
    created_at: Attr[TimestampMillis] = attr()
    updated_at: Attr[TimestampMillis] = attr()

    of = Key("INTEGRATION#" + integration, "CONFIG")

    _id_is_a_uuid = field_validator("id")(_normalize_uuid)


class AgentConfig(Entity, table=table):
    """One setting of the agent, or a record that the agent stores among them, such as the day's spend."""

    key: Attr[str] = attr()
    value: Attr[str | int | Decimal | dict[str, Any]] = attr()
    updated_at: Attr[TimestampMillis] = attr()

    of = Key("AGENT", "CONFIG#" + key)


class AgentLease(LeaseRecord, table=table):
    """The lease of the loop. Our addition: the document assumes one instance without enforcing it."""

    name: Attr[str] = attr()

    of = Key("AGENT", "LEASE#" + name)


for _entity, _why in (
    (Project, "people archive it"),
    (Artefact, "one for each project and type, with its previous version"),
    (Escalation, "the record of questions and decisions"),
    (Checkpoint, "one for each project and integration, overwritten in place"),
    (IntegrationConfig, "one for each integration"),
    (AgentConfig, "one for each setting"),
):
    declare_retention(_entity, None, _why)
