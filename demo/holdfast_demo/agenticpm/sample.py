"""Sample data: a dozen projects (times `scale`) as the agent would leave them, the same on every run.

Tickets are drawn from a seed and pass through the signals and the rules writer; the results become artefacts,
events, actions and escalations. Times count back from the clock, so nothing has expired. Rows are written in
transactions and only if absent: a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID, uuid5

from agenticpm.domain.autonomy import COMMENT, build_signal_detail
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.signals import detect
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    Milestone,
    Plan,
    Priority,
    Signal,
    Snapshot,
    Sprint,
    Ticket,
    TicketStage,
    Writing,
)
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.model import agent_settings, artefacts, patterns
from agenticpm.model.entities import (
    ACTION_DAYS,
    Action,
    ActionType,
    Autonomy,
    Checkpoint,
    Escalation,
    EscalationStatus,
    EventType,
    Option,
    Project,
    ProjectId,
    ProjectStatus,
    Severity,
    Source,
    get_scope,
)
from agenticpm.model.events import build_event_writes, get_now, new_ulid
from agenticpm.model.patterns import ACTION_QUEUE, EXAMPLE_PROJECT
from agenticpm.model.snapshots import format_time, store_snapshot
from holdfast import Stores, Write, provision
from holdfast.core.errors import InvalidRequest, TransactionCancelled
from holdfast.guarantees import OnceStatus, fingerprint

PROJECTS: Final = 12
TICKETS: Final = 47
HEARTBEATS: Final = 60
ACTIONS: Final = 5
ROWS_PER_PROJECT: Final = 200
WRITES_AT_ONCE: Final = 40
NAMES: Final = ("Member profile", "Payments", "Search", "Mobile app", "Data platform", "Onboarding")
UUID_NAMESPACE: Final = UUID("6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
SPRINT: Final = "Sprint 12"

Progress = Callable[[str, int, int], None]


async def load_sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Provision the stores and write the absent sample rows; return their number. Safe to run again.

    `scale` multiplies the number of projects. Raise InvalidRequest unless it is above 0.
    """
    if scale <= 0:
        raise InvalidRequest(f"Invalid scale={scale}: expected a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await provision(stores, stores.system)
    rows = len(await agent_settings.seed(stores))
    count = max(1, round(PROJECTS * scale))
    for number in range(count):
        if await stores.run(patterns.project(_get_project_id(number))) is None:
            rows += await _write(stores, [each async for each in _build_project_writes(stores, number)])
        if progress is not None:
            progress("projects", rows, max(rows, count * ROWS_PER_PROJECT))
    return rows


async def _write(stores: Stores, writes: Sequence[Write[Any]]) -> int:
    """Commit the writes in transactions of 40; return the number of rows.

    A transaction with existing rows is skipped.
    """
    rows = 0
    for begin in range(0, len(writes), WRITES_AT_ONCE):
        some = writes[begin : begin + WRITES_AT_ONCE]
        try:
            await stores.transact(*some)
        except TransactionCancelled:
            continue  # the rows exist already
        rows += len(some)
    return rows


async def _build_project_writes(stores: Stores, number: int) -> Any:
    """Yield all writes of the sample project with this number; the project itself comes last."""
    now = get_now(stores.clock)
    project = _build_project(number, now)
    snapshot = _build_snapshot(Random(number), project, now)
    snapshot, signals = detect(
        snapshot, snapshot, (), raid_log=None, now=now, thresholds=Thresholds(), limit=1000
    )
    for write in await _build_artefacts(stores, project, snapshot, signals, now):
        yield write
    for write in _build_history(stores, project, signals, now):
        yield write
    for write in _build_escalations(project, now):
        yield write
    for key, value in (
        ("last_sync", format_time(now)),
        ("snapshot", await store_snapshot(stores, project, snapshot)),
    ):
        yield patterns.put_checkpoint(_build_checkpoint(project, project.source, key, value, now), None)
    # Written last: a project that exists has all its other rows.
    yield patterns.create_project(project)


def _get_project_id(number: int) -> ProjectId:
    """Return the fixed id of the sample project with this number."""
    return EXAMPLE_PROJECT if number == 0 else ProjectId(str(uuid5(UUID_NAMESPACE, str(number))))


def _build_project(number: int, now: datetime) -> Project:
    """Build the project with this number; status, source and level vary with the number."""
    born = now - timedelta(days=120)
    return Project(
        id=_get_project_id(number),
        name=f"{NAMES[number % len(NAMES)]} {number // len(NAMES) + 1}",
        status=ProjectStatus.paused if number % 6 == 5 else ProjectStatus.active,
        source=Source.asana if number % 4 == 3 else Source.jira,
        source_project_key=f"P{number}",
        autonomy_level=list(Autonomy)[number % 3],
        created_at=born,
        updated_at=born,
    )


def _build_snapshot(rng: Random, project: Project, now: datetime) -> Snapshot:
    """Build a snapshot with a running sprint, a milestone and 47 random tickets."""
    sprint = Sprint(
        id="12",
        name=SPRINT,
        starts_at=now - timedelta(days=6),
        ends_at=now + timedelta(days=8),
        goal="Profiles move",
    )
    plan = Plan(
        sprints=(sprint,),
        milestones=(Milestone(name="Beta launch", due_at=now + timedelta(days=rng.randint(5, 60))),),
    )
    tickets = [_build_ticket(rng, project, number, now) for number in range(1, TICKETS + 1)]
    return Snapshot(
        source=project.source,
        project_key=project.source_project_key,
        tickets={each.key: each for each in tickets},
        plan=plan,
        synced_at=now,
    )


def _build_ticket(rng: Random, project: Project, number: int, now: datetime) -> Ticket:
    stage = rng.choice(list(TicketStage))
    born = now - timedelta(days=rng.randint(8, 90))
    touched = now - timedelta(days=rng.randint(0, 12))
    return Ticket(
        id=str(10_000 + number),
        key=f"{project.source_project_key}-{number}",
        title=f"Part {number} of the work",
        status=stage.replace("_", " ").title(),
        stage=stage,
        is_blocked=stage is TicketStage.in_progress and rng.random() < 0.2,
        priority=rng.choice(list(Priority)),
        points=Decimal(rng.choice((1, 2, 3, 5, 8))),
        assignee=rng.choice(("Sarah K", "Damien", "Ada")),
        sprint=SPRINT if rng.random() < 0.6 else None,
        milestone="Beta launch" if rng.random() < 0.5 else None,
        has_criteria=rng.random() < 0.8,
        created_at=born,
        updated_at=max(born, touched),
        started_at=born + timedelta(days=2) if stage is not TicketStage.to_do else None,
        resolved_at=max(born, touched) if stage is TicketStage.done else None,
    )


async def _build_artefacts(
    stores: Stores, project: Project, snapshot: Snapshot, signals: Sequence[Signal], now: datetime
) -> list[Write[Any]]:
    """Build the writes of the four artefacts by the rules writer."""
    writes: list[Write[Any]] = []
    raid: Any = None
    for type in (
        ArtefactType.raid_log,
        ArtefactType.delivery_state,
        ArtefactType.backlog_summary,
        ArtefactType.decision_log,
    ):
        writing = Writing(
            type=type, previous=None, snapshot=snapshot, signals=tuple(signals), raid_log=raid, now=now
        )
        draft = await RulesWriter().write(writing)
        raid = draft.content if type is ArtefactType.raid_log else raid
        writes += await artefacts.build_update(stores, project.id, type, draft.content, seen=None, at=now)
    return writes


def _build_history(
    stores: Stores, project: Project, signals: Sequence[Signal], now: datetime
) -> Iterator[Write[Any]]:
    """Yield the writes of the heartbeats, the signals' events and the executed actions."""
    for number in range(HEARTBEATS):
        at = now - timedelta(minutes=15 * number)
        detail = {"tickets": number % 4, "signals": 0, "artefacts": [], "errors": 0, "token": 1}
        yield from build_event_writes(
            stores, project.id, EventType.heartbeat, f"{project.name}: a turn", detail, at=at
        )
    for signal in signals:
        severity = Severity(signal.severity)
        yield from build_event_writes(
            stores,
            project.id,
            EventType.signal_detected,
            signal.summary,
            build_signal_detail(signal),
            severity=severity,
        )
    for number in range(ACTIONS):
        yield ACTION_QUEUE.pattern_set.hold(
            _build_done_action(stores, project, number, now - timedelta(hours=number + 1))
        )


def _build_done_action(stores: Stores, project: Project, number: int, at: datetime) -> Action:
    """Build an action that was held and executed."""
    detail = {"kind": COMMENT, "ticket": f"{project.source_project_key}-{number + 1}", "text": "Any news?"}
    return Action(
        scope=get_scope(project.id),
        id=new_ulid(stores.clock),
        project_id=project.id,
        action_type=ActionType.jira_update,
        description="Ask for news",
        detail=detail,
        payload_sha256=fingerprint(detail),
        status=OnceStatus.PROCESSED,
        executed=True,
        held_until=at + timedelta(minutes=30),
        executed_at=at + timedelta(minutes=31),
        created_at=at,
        expires_at=at + timedelta(days=ACTION_DAYS),
    )


def _build_escalations(project: Project, now: datetime) -> Iterator[Write[Any]]:
    """Yield the writes of four escalations: one pending, three decided."""
    for number in range(4):
        is_open = number == 0
        yield patterns.create_escalation(
            Escalation(
                id=str(uuid5(UUID_NAMESPACE, f"{project.id} {number}")),
                project_id=project.id,
                title="Beta launch is slipping",
                context={
                    "milestone": "Beta launch",
                    "summary": "The remaining work takes longer than the time that is left.",
                },
                options=[
                    Option(option="Move the date", pros=["Keeps the scope"]),
                    Option(option="Cut the scope"),
                ],
                status=EscalationStatus.pending if is_open else EscalationStatus.decided,
                user_decision=None if is_open else "Move the date",
                decided_at=None if is_open else now - timedelta(days=number),
                created_at=now - timedelta(days=number + 1),
            )
        )


def _build_checkpoint(project: Project, integration: str, key: str, value: str, now: datetime) -> Checkpoint:
    return Checkpoint(
        project_id=project.id,
        integration=integration,
        checkpoint_key=key,
        checkpoint_value=value,
        updated_at=now,
    )
