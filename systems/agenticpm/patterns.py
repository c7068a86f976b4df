"""How AgenticPM asks for what it keeps: the document's eleven patterns and three of the index, the one it forgot, and
the writes. A write that another may make at the same time says what it was decided on.

AP… are reads of the table, AX… of the index, AW… writes, AO… objects. The patterns of the hold queue (AH…) and of the
lease (AL…) are made by their guarantees, at the end.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.contents import ArtefactType
from agenticpm.model import (
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
    day_of,
    scope_of,
)
from holdfast import Check, Get, GetObject, Put, PutObject, Query, Rate, Update, pattern
from holdfast.guarantees import HELD, HoldQueue, Lease

PAGE: Final = 50
LOOP: Final = "loop"
# How long the loop may be without a sign of life before another instance takes over.
LEASE_S: Final = 60.0

CYCLE: Final = Rate(per="cycle of a project")
TURN: Final = Rate(per="turn of the loop")
# It looks far more often whether it is time for a turn than it takes one.
LOOK: Final = Rate(per="look of the loop")
QUESTION: Final = Rate(per="question")
EVENT: Final = Rate(per="event")
ACTION: Final = Rate(per="action")
ESCALATION: Final = Rate(per="escalation")
ARTEFACT: Final = Rate(per="artefact update")
CHANGE: Final = Rate(per="change by a person")

# The first project of the sample, and one that it does not have.
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
        scope=scope_of(EXAMPLE_PROJECT),
        id=EXAMPLE_ULID,
        project_id=EXAMPLE_PROJECT,
        event_type="heartbeat",
        severity=Severity.info,
        summary="The loop went round",
        detail={"tickets": 3},
        created_at=EXAMPLE_MOMENT,
        day=day_of(EXAMPLE_MOMENT),
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
        scope=scope_of(EXAMPLE_PROJECT),
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


# --- the eleven of the table -------------------------------------------------------------------------------------


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
    return Event.of(scope_of(project_id)).query().newest_first().page(limit, after)


@pattern("AP5", "The events of all projects, newest first", rate=QUESTION)
def recent_events(limit: int = PAGE, after: str | None = None) -> Query[Event]:
    return Event.of(GLOBAL).query().newest_first().page(limit, after)


@pattern("AP6", "The escalations of a project", rate=CYCLE, example=(EXAMPLE_PROJECT,))
def project_escalations(project_id: ProjectId) -> Query[Escalation]:
    """By their ids, which tell nothing of time: `escalations.py` sorts them."""
    return Escalation.of(project_id).query().consistent()


@pattern("AP7", "The actions of a project, newest first", rate=QUESTION, example=(EXAMPLE_PROJECT,))
def project_actions(
    project_id: ProjectId | None, limit: int = PAGE, after: str | None = None
) -> Query[Action]:
    """Of no project: those that belong to none."""
    return Action.of(scope_of(project_id)).query().newest_first().page(limit, after)


@pattern(
    "AP8",
    "How far an integration was read",
    rate=Rate(per="look at a project"),
    example=(EXAMPLE_PROJECT, "jira", "last_sync"),
)
def checkpoint(project_id: ProjectId, integration: str, key: str) -> Get[Checkpoint]:
    return Checkpoint.of(project_id).get(integration, key).consistent()


@pattern("AP9", "How to reach an outside party", rate=TURN, example=(Integration.jira,))
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
    "The actions of a project in a stretch of time, to find one by its id",
    rate=QUESTION,
    example=(EXAMPLE_PROJECT, EXAMPLE_MOMENT, EXAMPLE_MOMENT + timedelta(minutes=1)),
)
def actions_between(project_id: ProjectId | None, since: datetime, until: datetime) -> Query[Action]:
    return Action.of(scope_of(project_id)).between(since, until).consistent()


@pattern("AP13", "One escalation of a project", rate=ESCALATION, example=(EXAMPLE_PROJECT, EXAMPLE_ID))
def escalation(project_id: ProjectId, id: str) -> Get[Escalation]:
    return Escalation.of(project_id).get(id).consistent()


# --- the index ---------------------------------------------------------------------------------------------------


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
    "The events of all projects in a stretch of one day, in UTC, to find one by its id",
    rate=QUESTION,
    example=(date(2026, 2, 4), EXAMPLE_MOMENT, EXAMPLE_MOMENT + timedelta(minutes=1)),
)
def events_between(day: date, since: datetime, until: datetime) -> Query[Event]:
    return Event.by_day(day).between(since, until)


@pattern("AX5", "The actions of all projects that wait, by when they are due", rate=QUESTION)
def held_actions(limit: int = PAGE, after: str | None = None) -> Query[Action]:
    """Also those that are being done at this moment: they leave the queue when they are."""
    return Action.by_due(HELD).query().page(limit, after)


# --- writes ------------------------------------------------------------------------------------------------------


@pattern("AW1", "A new project", rate=CHANGE, example=lambda: (_example_project(),))
def create_project(new: Project) -> Put[Project]:
    return Project.create(new)


@pattern(
    "AW2",
    "Change the status of a project, and its place in the index with it",
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
    "Change what a project is called, how it is configured and how far the agent may go",
    rate=CHANGE,
    example=lambda: (_example_project(), _example_project()),
)
def change_project(seen: Project, wanted: Project) -> Put[Project]:
    return Project.put(wanted).when(Project.updated_at == seen.updated_at, Project.status == seen.status)


@pattern("AW4", "The first version of an artefact", rate=CHANGE, example=lambda: (_example_artefact(),))
def create_artefact(new: Artefact) -> Put[Artefact]:
    return Artefact.create(new)


@pattern(
    "AW5",
    "The next version of an artefact, over the one that was seen",
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


@pattern("AW8", "Ask a person", rate=ESCALATION, example=lambda: (_example_escalation(),))
def create_escalation(new: Escalation) -> Put[Escalation]:
    return Escalation.create(new)


@pattern(
    "AW9",
    "Decide an escalation, let it lapse, or put another in its place; only while it is pending",
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
    "How far an integration was read now, over what was seen",
    rate=CYCLE,
    example=lambda: (_example_checkpoint(), None),
)
def put_checkpoint(wanted: Checkpoint, seen: str | None) -> Put[Checkpoint]:
    if seen is None:
        return Checkpoint.create(wanted)
    return Checkpoint.put(wanted).when(Checkpoint.checkpoint_value == seen)


@pattern(
    "AW11",
    "How to reach an outside party; credentials only as the cipher has left them",
    rate=CHANGE,
    example=lambda: (_example_integration(), None),
)
def put_integration(wanted: IntegrationConfig, seen: datetime | None) -> Put[IntegrationConfig]:
    if seen is None:
        return IntegrationConfig.create(wanted)
    return IntegrationConfig.put(wanted).when(IntegrationConfig.updated_at == seen)


@pattern(
    "AW12",
    "What a health check found",
    rate=CHANGE,
    example=lambda: (_example_integration(), IntegrationStatus.active, EXAMPLE_MOMENT),
)
def note_health(
    seen: IntegrationConfig, status: IntegrationStatus, at: datetime
) -> Update[IntegrationConfig]:
    """Of the very configuration that was checked: what was changed meanwhile was not."""
    return (
        IntegrationConfig.of(seen.integration)
        .update()
        .set(IntegrationConfig.status, status)
        .set(IntegrationConfig.last_health_check, at)
        .when(IntegrationConfig.updated_at == seen.updated_at)
    )


@pattern(
    "AW13",
    "A setting of the agent, where there is none yet",
    rate=CHANGE,
    example=lambda: (AgentConfig(key="example", value=30, updated_at=EXAMPLE_MOMENT),),
)
def seed_config(new: AgentConfig) -> Put[AgentConfig]:
    return AgentConfig.create(new)


@pattern(
    "AW14",
    "A setting of the agent",
    rate=CHANGE,
    example=lambda: (AgentConfig(key="hold_queue_minutes", value=15, updated_at=EXAMPLE_MOMENT),),
)
def put_config(wanted: AgentConfig) -> Put[AgentConfig]:
    return AgentConfig.put(wanted)


@pattern(
    "AW15",
    "What the agent notes for itself (what the day has cost, that its digest is out), over what was seen",
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
    "That an artefact is at the version that was seen, for what must agree with it",
    rate=ARTEFACT,
    example=lambda: (_example_artefact(),),
)
def check_artefact(seen: Artefact) -> Check[Artefact]:
    return Artefact.of(seen.project_id).check(seen.type).when(Artefact.version == seen.version)


@pattern(
    "AW17",
    "That a project is as it was seen, for what the agent does about it",
    rate=CYCLE,
    example=lambda: (_example_project(),),
)
def check_project(seen: Project) -> Check[Project]:
    return (
        Project.of(seen.id).check().when(Project.updated_at == seen.updated_at, Project.status == seen.status)
    )


# --- objects -----------------------------------------------------------------------------------------------------

# Named by the content's hash: written twice they are the same, and no version is overwritten by another.
artefact_contents = contents.objects(
    "artefacts/{project_id}/{type}/{sha256}.json", content_type="application/json"
)
# One that is still pointed to is put anew long before its end (`loop.py`); the others are kept for a restore of the table.
SNAPSHOT_DAYS: Final = 40
snapshots = contents.objects(
    "snapshots/{project_id}/{sha256}.json.gz",
    content_type="application/gzip",
    lifetime_days=SNAPSHOT_DAYS,
)


@pattern(
    "AO1",
    "Keep the content of an artefact that is too large for its item",
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
    "Keep what was seen of a tracker",
    rate=CYCLE,
    example=(b"{}", EXAMPLE_PROJECT, "0" * 64),
)
def keep_snapshot(body: bytes, project_id: ProjectId, sha256: str) -> PutObject:
    return snapshots.put(body, project_id=project_id, sha256=sha256)


@pattern("AO4", "What was last seen of a tracker", rate=CYCLE, example=(EXAMPLE_PROJECT, "0" * 64))
def kept_snapshot(project_id: ProjectId, sha256: str) -> GetObject:
    return snapshots.get(project_id=project_id, sha256=sha256)


# --- of the guarantees -------------------------------------------------------------------------------------------

HOLD: Final = HoldQueue(
    Action,
    "AH",
    rate=ACTION,
    example=example_action,
    payload=("description", "detail"),
    lease_s=LEASE_S,
    lifetime_s=ACTION_DAYS * 86400.0,
    reading=Rate(per="look for what is due"),
)
LEASE: Final = Lease("AL", rate=TURN, lease_s=LEASE_S, example=LOOP, record=AgentLease)


def values(items: Any) -> dict[str, Any]:
    """The settings of the agent by their keys."""
    return {each.key: each.value for each in items}
