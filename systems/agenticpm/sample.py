"""The sample: a dozen projects as the agent would have left them after a month, the same on every run, at any scale.

Tickets are drawn from a seed and go through the signals and the rules that write artefacts; what comes of them becomes
artefacts, events, actions and questions. Times count back from the clock, so that nothing in it has ended. It is written
in transactions and only where it is absent: run again, the sample undoes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID, uuid5

from agenticpm import artefacts, configs, patterns
from agenticpm.autonomy import COMMENT, told
from agenticpm.contents import ArtefactType
from agenticpm.events import moment, recorded, ulid
from agenticpm.model import (
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
    scope_of,
)
from agenticpm.patterns import EXAMPLE_PROJECT, HOLD
from agenticpm.rules_writer import RulesWriter
from agenticpm.signals import detect
from agenticpm.snapshots import keep, text_of
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Milestone, Plan, Priority, Signal, Snapshot, Sprint, Stage, Ticket, Writing
from holdfast import Stores, Write, prepare
from holdfast.errors import InvalidRequest, TransactionCancelled
from holdfast.guarantees import OnceStatus, fingerprint

PROJECTS: Final = 12
TICKETS: Final = 47
HEARTBEATS: Final = 60
ACTIONS: Final = 5
ROWS_PER_PROJECT: Final = 200
WRITES_AT_ONCE: Final = 40
NAMES: Final = ("Member profile", "Payments", "Search", "Mobile app", "Data platform", "Onboarding")
SPACE: Final = UUID("6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
SPRINT: Final = "Sprint 12"

Progress = Callable[[str, int, int], None]


async def sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Makes what is absent and fills the table; gives the number of rows. It may be run again."""
    if scale <= 0:
        raise InvalidRequest(f"The scale of the sample is {scale}: give a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await prepare(stores, stores.system)
    rows = len(await configs.seed(stores))
    count = max(1, round(PROJECTS * scale))
    for number in range(count):
        if await stores.run(patterns.project(_id(number))) is None:
            rows += await _write(stores, [each async for each in _project(stores, number)])
        if progress is not None:
            progress("projects", rows, max(rows, count * ROWS_PER_PROJECT))
    return rows


async def _write(stores: Stores, writes: Sequence[Write[Any]]) -> int:
    rows = 0
    for begin in range(0, len(writes), WRITES_AT_ONCE):
        some = writes[begin : begin + WRITES_AT_ONCE]
        try:
            await stores.transact(*some)
        except TransactionCancelled:
            continue  # it is there already
        rows += len(some)
    return rows


async def _project(stores: Stores, number: int) -> Any:
    now = moment(stores.clock)
    project = _described(number, now)
    snapshot = _snapshot(Random(number), project, now)
    snapshot, signals = detect(
        snapshot, snapshot, (), raid_log=None, now=now, thresholds=Thresholds(), most=1000
    )
    for write in await _artefacts(stores, project, snapshot, signals, now):
        yield write
    for write in _history(stores, project, signals, now):
        yield write
    for write in _questions(project, now):
        yield write
    for key, value in (("last_sync", text_of(now)), ("snapshot", await keep(stores, project, snapshot))):
        yield patterns.put_checkpoint(_checkpoint(project, project.source, key, value, now), None)
    # The last: a project that is there has all the rest.
    yield patterns.create_project(project)


def _id(number: int) -> ProjectId:
    return EXAMPLE_PROJECT if number == 0 else ProjectId(str(uuid5(SPACE, str(number))))


def _described(number: int, now: datetime) -> Project:
    born = now - timedelta(days=120)
    return Project(
        id=_id(number),
        name=f"{NAMES[number % len(NAMES)]} {number // len(NAMES) + 1}",
        status=ProjectStatus.paused if number % 6 == 5 else ProjectStatus.active,
        source=Source.asana if number % 4 == 3 else Source.jira,
        source_project_key=f"P{number}",
        autonomy_level=list(Autonomy)[number % 3],
        created_at=born,
        updated_at=born,
    )


def _snapshot(chance: Random, project: Project, now: datetime) -> Snapshot:
    sprint = Sprint(
        id="12",
        name=SPRINT,
        starts_at=now - timedelta(days=6),
        ends_at=now + timedelta(days=8),
        goal="Profiles move",
    )
    plan = Plan(
        sprints=(sprint,),
        milestones=(Milestone(name="Beta launch", due_at=now + timedelta(days=chance.randint(5, 60))),),
    )
    tickets = [_ticket(chance, project, number, now) for number in range(1, TICKETS + 1)]
    return Snapshot(
        source=project.source,
        project_key=project.source_project_key,
        tickets={each.key: each for each in tickets},
        plan=plan,
        synced_at=now,
    )


def _ticket(chance: Random, project: Project, number: int, now: datetime) -> Ticket:
    stage = chance.choice(list(Stage))
    born = now - timedelta(days=chance.randint(8, 90))
    touched = now - timedelta(days=chance.randint(0, 12))
    return Ticket(
        id=str(10_000 + number),
        key=f"{project.source_project_key}-{number}",
        title=f"Part {number} of the work",
        status=stage.replace("_", " ").title(),
        stage=stage,
        is_blocked=stage is Stage.in_progress and chance.random() < 0.2,
        priority=chance.choice(list(Priority)),
        points=Decimal(chance.choice((1, 2, 3, 5, 8))),
        assignee=chance.choice(("Sarah K", "Damien", "Ada")),
        sprint=SPRINT if chance.random() < 0.6 else None,
        milestone="Beta launch" if chance.random() < 0.5 else None,
        has_criteria=chance.random() < 0.8,
        created_at=born,
        updated_at=max(born, touched),
        started_at=born + timedelta(days=2) if stage is not Stage.to_do else None,
        resolved_at=max(born, touched) if stage is Stage.done else None,
    )


async def _artefacts(
    stores: Stores, project: Project, snapshot: Snapshot, signals: Sequence[Signal], now: datetime
) -> list[Write[Any]]:
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
        writes += await artefacts.updated(stores, project.id, type, draft.content, seen=None, at=now)
    return writes


def _history(
    stores: Stores, project: Project, signals: Sequence[Signal], now: datetime
) -> Iterator[Write[Any]]:
    for number in range(HEARTBEATS):
        at = now - timedelta(minutes=15 * number)
        detail = {"tickets": number % 4, "signals": 0, "artefacts": [], "errors": 0, "token": 1}
        yield from recorded(stores, project.id, EventType.heartbeat, f"{project.name}: a turn", detail, at=at)
    for signal in signals:
        severity = Severity(signal.severity)
        yield from recorded(
            stores, project.id, EventType.signal_detected, signal.summary, told(signal), severity=severity
        )
    for number in range(ACTIONS):
        yield HOLD.patterns.hold(_done(stores, project, number, now - timedelta(hours=number + 1)))


def _done(stores: Stores, project: Project, number: int, at: datetime) -> Action:
    """An action that was held and done."""
    detail = {"kind": COMMENT, "ticket": f"{project.source_project_key}-{number + 1}", "text": "Any news?"}
    return Action(
        scope=scope_of(project.id),
        id=ulid(stores.clock),
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


def _questions(project: Project, now: datetime) -> Iterator[Write[Any]]:
    for number in range(4):
        is_open = number == 0
        yield patterns.create_escalation(
            Escalation(
                id=str(uuid5(SPACE, f"{project.id} {number}")),
                project_id=project.id,
                title="Beta launch is slipping",
                context={
                    "milestone": "Beta launch",
                    "summary": "The work that is left takes longer than there is.",
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


def _checkpoint(project: Project, integration: str, key: str, value: str, now: datetime) -> Checkpoint:
    return Checkpoint(
        project_id=project.id,
        integration=integration,
        checkpoint_key=key,
        checkpoint_value=value,
        updated_at=now,
    )
