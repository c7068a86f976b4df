"""Access patterns of AgenticPM: reads of the table and the index, conditional writes, and objects.

They are the document's eleven of the table and three of the index, the ones it lacks, and the writes. A write
that may conflict with another has a condition on what its caller read. AP… are reads of the table, AX… of the
index, AW… writes, AO… objects. The patterns of the action queue (AH…) and of the lease (AL…) are built by
their guarantees, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.domain.contents import ArtefactType
from agenticpm.model.entities import (
    ACTION_DAYS,
    GLOBAL,
    Action,
    AgentConfig,
    AgentLease,
    Artefact,
    Autonomy,
    Checkpoint,
    Escalation,
    EscalationStatus,
    Event,
    Integration,
    IntegrationConfig,
    IntegrationStatus,
    Option,
    Project,
    ProjectId,
    ProjectStatus,
    Severity,
    Source,
    contents,
    get_scope,
    get_utc_day,
)
from holdfast import Get, Put, Query, Rate, Stores, Update, pattern
from holdfast.guarantees import DELAYED_ACTIONS, DelayedActions, Lease, Review
from holdfast.model.entities import ConditionCheck
from holdfast.model.objects import GetObject, PutObject
from holdfast.model.operations import Write

PAGE: Final = 50
LOOP: Final = "loop"
# Another instance takes over after this long without a renewal of the lease.
LEASE_S: Final = 60.0

CYCLE: Final = Rate(per="cycle of a project")
TURN: Final = Rate(per="turn of the loop")
# The loop checks far more often whether a turn is due than it runs one.
LOOK: Final = Rate(per="look of the loop")
QUESTION: Final = Rate(per="question")
EVENT: Final = Rate(per="event")
ACTION: Final = Rate(per="action")
ESCALATION: Final = Rate(per="escalation")
ARTEFACT: Final = Rate(per="artefact update")
CHANGE: Final = Rate(per="change by a person")

# The first project of the sample, and one that the sample does not have.
EXAMPLE_PROJECT: Final = ProjectId("6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
NEW_PROJECT: Final = ProjectId("1d2b5c3a-7e4f-4b6a-8c9d-0e1f2a3b4c5d")
EXAMPLE_ID: Final = "0f6d9a11-2f1a-4a55-8c3e-8b1c6f1c7f5e"
EXAMPLE_MOMENT: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
EXAMPLE_ULID: Final = "01KGK5CD00EXAMPLE000000000"


def _example_project() -> Project:
    return Project(
        id=NEW_PROJECT,
        name="Member profile",
        source=Source.jira,
        source_project_key="MCU",
        autonomy_level=Autonomy.artefact,
        created_at=EXAMPLE_MOMENT,
        updated_at=EXAMPLE_MOMENT,
    )


def _example_artefact() -> Artefact:
    return Artefact(
        id=EXAMPLE_ID,
        project_id=NEW_PROJECT,
        type=ArtefactType.raid_log,
        content={"items": []},
        created_at=EXAMPLE_MOMENT,
        updated_at=EXAMPLE_MOMENT,
    )


def _example_event() -> Event:
    return Event(
        scope=get_scope(EXAMPLE_PROJECT),
        id=EXAMPLE_ULID,
        project_id=EXAMPLE_PROJECT,
        event_type="heartbeat",
        severity=Severity.info,
        summary="The loop ran",
        detail={"tickets": 3},
        created_at=EXAMPLE_MOMENT,
        day=get_utc_day(EXAMPLE_MOMENT),
    )


def _example_reference() -> Event:
    return _example_event().model_copy(update={"scope": GLOBAL, "detail": None, "day": None})


def _example_escalation() -> Escalation:
    return Escalation(
        id=EXAMPLE_ID,
        project_id=EXAMPLE_PROJECT,
        title="Beta launch is at risk",
        context={"milestone": "Beta launch"},
        options=[Option(option="Delay"), Option(option="Rush")],
        agent_recommendation="Delay",
        created_at=EXAMPLE_MOMENT,
    )


def example_action() -> Action:
    return Action(
        scope=get_scope(EXAMPLE_PROJECT),
        id=EXAMPLE_ULID,
        project_id=EXAMPLE_PROJECT,
        action_type="email_sent",
        description="Ask for the design assets",
        detail={"to": ["lead"]},
        payload_sha256="0" * 64,
        held_until=EXAMPLE_MOMENT + timedelta(minutes=30),
        created_at=EXAMPLE_MOMENT,
        expires_at=EXAMPLE_MOMENT + timedelta(days=ACTION_DAYS),
    )


def _example_integration() -> IntegrationConfig:
    return IntegrationConfig(
        id=EXAMPLE_ID,
        integration=Integration.jira,
        config_encrypted="SEYx",
        created_at=EXAMPLE_MOMENT,
        updated_at=EXAMPLE_MOMENT,
    )


def _example_checkpoint() -> Checkpoint:
    return Checkpoint(
        project_id=NEW_PROJECT,
        integration="jira",
        checkpoint_key="last_sync",
        checkpoint_value="2026-02-04T01:00:00.000Z",
        updated_at=EXAMPLE_MOMENT,
    )


# --- table -------------------------------------------------------------------------------------


@pattern("AP1", "A project", rate=QUESTION, example=(EXAMPLE_PROJECT,))
def project(project_id: ProjectId) -> Get[Project]:
    return Project.of(project_id).get().consistent()


@pattern("AP2", "All artefacts of a project", rate=CYCLE, example=(EXAMPLE_PROJECT,))
def artefacts(project_id: ProjectId) -> Query[Artefact]:
    return Artefact.of(project_id).query().consistent()


@pattern("AP3", "One artefact of a project", rate=QUESTION, example=(EXAMPLE_PROJECT, ArtefactType.raid_log))
def artefact(project_id: ProjectId, type: ArtefactType) -> Get[Artefact]:
    return Artefact.of(project_id).get(type).consistent()


@pattern("AP4", "The events of a project, newest first", rate=QUESTION, example=(EXAMPLE_PROJECT,))
def project_events(project_id: ProjectId, limit: int = PAGE, after: str | None = None) -> Query[Event]:
    return Event.of(get_scope(project_id)).query().descending().page(limit, after)


@pattern("AP5", "The events of all projects, newest first", rate=QUESTION)
def recent_events(limit: int = PAGE, after: str | None = None) -> Query[Event]:
    return Event.of(GLOBAL).query().descending().page(limit, after)


@pattern("AP6", "The escalations of a project", rate=CYCLE, example=(EXAMPLE_PROJECT,))
def project_escalations(project_id: ProjectId) -> Query[Escalation]:
    """Escalations by id, not by time: `escalations.py` sorts them."""
    return Escalation.of(project_id).query().consistent()


@pattern("AP7", "The actions of a project, newest first", rate=QUESTION, example=(EXAMPLE_PROJECT,))
def project_actions(
    project_id: ProjectId | None, limit: int = PAGE, after: str | None = None
) -> Query[Action]:
    """Actions of a project; with None, the actions without a project."""
    return Action.of(get_scope(project_id)).query().descending().page(limit, after)


@pattern(
    "AP8",
    "The read position of an integration",
    rate=Rate(per="look at a project"),
    example=(EXAMPLE_PROJECT, "jira", "last_sync"),
)
def checkpoint(project_id: ProjectId, integration: str, key: str) -> Get[Checkpoint]:
    return Checkpoint.of(project_id).get(integration, key).consistent()


@pattern("AP9", "The configuration of an external service", rate=TURN, example=(Integration.jira,))
def integration_config(integration: Integration) -> Get[IntegrationConfig]:
    return IntegrationConfig.of(integration).get().consistent()


@pattern("AP10", "One setting of the agent", rate=QUESTION, example=("hold_queue_minutes",))
def agent_config(key: str) -> Get[AgentConfig]:
    return AgentConfig.of().get(key).consistent()


@pattern("AP11", "All settings of the agent", rate=LOOK)
def agent_configs() -> Query[AgentConfig]:
    return AgentConfig.of().query().consistent()


@pattern(
    "AP12",
    "The actions of a project in a time range, to find one by its id",
    rate=QUESTION,
    example=(EXAMPLE_PROJECT, EXAMPLE_MOMENT, EXAMPLE_MOMENT + timedelta(minutes=1)),
)
def actions_between(project_id: ProjectId | None, since: datetime, until: datetime) -> Query[Action]:
    return Action.of(get_scope(project_id)).between(since, until).consistent()


@pattern("AP13", "One escalation of a project", rate=ESCALATION, example=(EXAMPLE_PROJECT, EXAMPLE_ID))
def escalation(project_id: ProjectId, id: str) -> Get[Escalation]:
    return Escalation.of(project_id).get(id).consistent()


# --- the index ----------------------------------------------------------------------------------------------


@pattern("AX1", "The escalations of all projects in a status, oldest first", rate=LOOK)
def escalations_in(
    status: EscalationStatus = EscalationStatus.pending, limit: int = PAGE, after: str | None = None
) -> Query[Escalation]:
    return Escalation.by_status(status).query().page(limit, after)


@pattern("AX2", "The projects in a status", rate=LOOK)
def projects_in(
    status: ProjectStatus = ProjectStatus.active, limit: int = PAGE, after: str | None = None
) -> Query[Project]:
    return Project.by_status(status).query().page(limit, after)


@pattern("AX3", "The events of a day, in UTC, in full", rate=QUESTION, example=(date(2026, 2, 4),))
def events_of_day(day: date, limit: int = PAGE, after: str | None = None) -> Query[Event]:
    return Event.by_day(day).query().page(limit, after)


@pattern(
    "AX4",
    "The events of all projects in a time range of one UTC day, to find one by its id",
    rate=QUESTION,
    example=(date(2026, 2, 4), EXAMPLE_MOMENT, EXAMPLE_MOMENT + timedelta(minutes=1)),
)
def events_between(day: date, since: datetime, until: datetime) -> Query[Event]:
    return Event.by_day(day).between(since, until)


@pattern("AX5", "The held actions of all projects, by due time", rate=QUESTION)
def held_actions(limit: int = PAGE, after: str | None = None) -> Query[Action]:
    """Held actions, including those being executed now: they leave the queue when they are done."""
    return Action.by_due(DELAYED_ACTIONS).query().page(limit, after)


# --- writes -------------------------------------------------------------------------------------------------


@pattern("AW1", "Create a project", rate=CHANGE, example=lambda: (_example_project(),))
def create_project(new: Project) -> Put[Project]:
    return Project.create(new)


@pattern(
    "AW2",
    "Change the status of a project, and its index entry with it",
    rate=CHANGE,
    example=lambda: (_example_project(), ProjectStatus.paused, EXAMPLE_MOMENT),
)
def change_status(seen: Project, status: ProjectStatus, at: datetime) -> Update[Project]:
    return (
        Project.of(seen.id)
        .update()
        .set(Project.status, status)
        .set(Project.updated_at, at)
        .when(Project.status == seen.status)
    )


@pattern(
    "AW3",
    "Change the name, configuration or autonomy level of a project",
    rate=CHANGE,
    example=lambda: (_example_project(), _example_project()),
)
def change_project(seen: Project, wanted: Project) -> Put[Project]:
    return Project.put(wanted).when(Project.updated_at == seen.updated_at, Project.status == seen.status)


@pattern(
    "AW4", "Create the first version of an artefact", rate=CHANGE, example=lambda: (_example_artefact(),)
)
def create_artefact(new: Artefact) -> Put[Artefact]:
    return Artefact.create(new)


@pattern(
    "AW5",
    "Write the next version of an artefact, if it is still at the version read",
    rate=ARTEFACT,
    example=lambda: (_example_artefact().model_copy(update={"version": 2}), 1),
)
def put_artefact(wanted: Artefact, seen_version: int) -> Put[Artefact]:
    return Artefact.put(wanted).when(Artefact.version == seen_version)


@pattern("AW6", "Record an event", rate=EVENT, example=lambda: (_example_event(),))
def record_event(event: Event) -> Put[Event]:
    return Event.create(event)


@pattern(
    "AW7", "Record an event in the feed of all projects", rate=EVENT, example=lambda: (_example_reference(),)
)
def record_reference(event: Event) -> Put[Event]:
    return Event.create(event)


@pattern("AW8", "Create an escalation", rate=ESCALATION, example=lambda: (_example_escalation(),))
def create_escalation(new: Escalation) -> Put[Escalation]:
    return Escalation.create(new)


@pattern(
    "AW9",
    "Decide, expire or supersede an escalation, if it is still pending",
    rate=ESCALATION,
    example=lambda: (
        _example_escalation().model_copy(
            update={
                "status": EscalationStatus.decided,
                "user_decision": "Delay",
                "decided_at": EXAMPLE_MOMENT,
            }
        ),
    ),
)
def end_escalation(ended: Escalation) -> Put[Escalation]:
    return Escalation.put(ended).when(Escalation.status == EscalationStatus.pending)


@pattern(
    "AW10",
    "Write the read position of an integration, if it is still the one read",
    rate=CYCLE,
    example=lambda: (_example_checkpoint(), None),
)
def put_checkpoint(wanted: Checkpoint, seen: str | None) -> Put[Checkpoint]:
    if seen is None:
        return Checkpoint.create(wanted)
    return Checkpoint.put(wanted).when(Checkpoint.checkpoint_value == seen)


@pattern(
    "AW11",
    "Write the configuration of an external service, with encrypted credentials",
    rate=CHANGE,
    example=lambda: (_example_integration(), None),
)
def put_integration(wanted: IntegrationConfig, seen: datetime | None) -> Put[IntegrationConfig]:
    if seen is None:
        return IntegrationConfig.create(wanted)
    return IntegrationConfig.put(wanted).when(IntegrationConfig.updated_at == seen)


@pattern(
    "AW12",
    "Record the result of a health check",
    rate=CHANGE,
    example=lambda: (_example_integration(), IntegrationStatus.active, EXAMPLE_MOMENT),
)
def note_health(
    seen: IntegrationConfig, status: IntegrationStatus, at: datetime
) -> Update[IntegrationConfig]:
    """Store the result only if the configuration is still the one that was checked."""
    return (
        IntegrationConfig.of(seen.integration)
        .update()
        .set(IntegrationConfig.status, status)
        .set(IntegrationConfig.last_health_check, at)
        .when(IntegrationConfig.updated_at == seen.updated_at)
    )


@pattern(
    "AW13",
    "Create a setting of the agent, if it is not set",
    rate=CHANGE,
    example=lambda: (AgentConfig(key="example", value=30, updated_at=EXAMPLE_MOMENT),),
)
def seed_config(new: AgentConfig) -> Put[AgentConfig]:
    return AgentConfig.create(new)


@pattern(
    "AW14",
    "Write a setting of the agent",
    rate=CHANGE,
    example=lambda: (AgentConfig(key="hold_queue_minutes", value=15, updated_at=EXAMPLE_MOMENT),),
)
def put_config(wanted: AgentConfig) -> Put[AgentConfig]:
    return AgentConfig.put(wanted)


@pattern(
    "AW15",
    "Write a record of the agent (spend of the day, day of the last digest), if it is still the one read",
    rate=CYCLE,
    example=lambda: (
        AgentConfig(
            key="spend", value={"date": "2026-02-04", "usd": Decimal("0.01")}, updated_at=EXAMPLE_MOMENT
        ),
        None,
    ),
)
def put_record(wanted: AgentConfig, seen: AgentConfig | None) -> Put[AgentConfig]:
    if seen is None:
        return AgentConfig.create(wanted)
    return AgentConfig.put(wanted).when(AgentConfig.value == seen.value)


@pattern(
    "AW16",
    "Check that an artefact is still at the version read, for writes that must agree with it",
    rate=ARTEFACT,
    example=lambda: (_example_artefact(),),
)
def check_artefact(seen: Artefact) -> ConditionCheck[Artefact]:
    return Artefact.of(seen.project_id).check(seen.type).when(Artefact.version == seen.version)


@pattern(
    "AW17",
    "Check that a project is unchanged since it was read, for writes of the agent",
    rate=CYCLE,
    example=lambda: (_example_project(),),
)
def check_project(seen: Project) -> ConditionCheck[Project]:
    return (
        Project.of(seen.id).check().when(Project.updated_at == seen.updated_at, Project.status == seen.status)
    )


# --- objects ------------------------------------------------------------------------------------------------

# Objects are named by their content's hash: a second write is identical, and no version overwrites another.
artefact_contents = contents.objects(
    "artefacts/{project_id}/{type}/{sha256}.json", content_type="application/json"
)
# A snapshot in use is rewritten long before it expires (`sync.py`); the others are kept for a restore of the
# table.
SNAPSHOT_DAYS: Final = 40
snapshots = contents.objects(
    "snapshots/{project_id}/{sha256}.json.gz",
    content_type="application/gzip",
    lifetime_days=SNAPSHOT_DAYS,
)


@pattern(
    "AO1",
    "Store the content of an artefact that is too large for its item",
    rate=Rate(per="large artefact"),
    example=(b"{}", EXAMPLE_PROJECT, ArtefactType.raid_log, "0" * 64),
)
def keep_content(body: bytes, project_id: ProjectId, type: ArtefactType, sha256: str) -> PutObject:
    return artefact_contents.put(body, project_id=project_id, type=type, sha256=sha256)


@pattern(
    "AO2",
    "The content of an artefact that is too large for its item",
    rate=Rate(per="large artefact"),
    example=(EXAMPLE_PROJECT, ArtefactType.raid_log, "0" * 64),
)
def kept_content(project_id: ProjectId, type: ArtefactType, sha256: str) -> GetObject:
    return artefact_contents.get(project_id=project_id, type=type, sha256=sha256)


@pattern(
    "AO3",
    "Store a snapshot of a tracker",
    rate=CYCLE,
    example=(b"{}", EXAMPLE_PROJECT, "0" * 64),
)
def keep_snapshot(body: bytes, project_id: ProjectId, sha256: str) -> PutObject:
    return snapshots.put(body, project_id=project_id, sha256=sha256)


@pattern("AO4", "A snapshot of a tracker", rate=CYCLE, example=(EXAMPLE_PROJECT, "0" * 64))
def kept_snapshot(project_id: ProjectId, sha256: str) -> GetObject:
    return snapshots.get(project_id=project_id, sha256=sha256)


# --- guarantees -------------------------------------------------------------------------------------------


def _build_review_writes(stores: Stores, review: Review[Action]) -> Sequence[Write[Any]]:
    """Check a review and return its event. Imported here because events are written by patterns of this
    module.
    """
    from agenticpm.model.review_rules import build_review_writes

    return build_review_writes(stores, review)


ACTION_QUEUE: Final = DelayedActions(
    Action,
    prefix="AH",
    rate=ACTION,
    example=example_action,
    payload=("description", "detail"),
    lease_s=LEASE_S,
    retention_s=ACTION_DAYS * 86400.0,
    read_rate=Rate(per="look for what is due"),
    on_review=_build_review_writes,
)
LEASE: Final = Lease(AgentLease, prefix="AL", rate=TURN, example=LOOP, lease_s=LEASE_S)


def index_values(items: Any) -> dict[str, Any]:
    """Return the values of the agent's settings by key."""
    return {each.key: each.value for each in items}
