"""AgenticPM: an autonomous project manager that never forgets, on one table.

loop (every polling interval) → connectors → signals → autonomy → held actions, questions; artefacts by the writers.
executor → held actions that are due, once. `model` and `patterns` say what is kept; `artefacts` and `escalations` what
people see and decide; `routes` and `commands` are the doors. For the outside parties `sandbox` stands in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from agenticpm import patterns, schedules
from agenticpm.commands import COMMANDS
from agenticpm.explaining import why
from agenticpm.loads import LOAD, STATED_COSTS, WHAT_IF
from agenticpm.model import contents, table
from agenticpm.patterns import HOLD, LEASE
from agenticpm.tools import TOOLS
from holdfast import Component, Pattern, Schedule, Stores, System, patterns_in
from holdfast.clock import Clock, RunClock
from holdfast.guarantees import Period, redact

READ_BY_ALL: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.project,
    patterns.artefacts,
    patterns.artefact,
    patterns.project_events,
    patterns.recent_events,
    patterns.project_escalations,
    patterns.escalation,
    patterns.project_actions,
    patterns.checkpoint,
    patterns.agent_config,
    patterns.agent_configs,
    patterns.escalations_in,
    patterns.projects_in,
    patterns.events_of_day,
    patterns.actions_between,
    patterns.held_actions,
    patterns.events_between,
    patterns.kept_content,
    *HOLD.reads,
)
RECORDS: Final = (patterns.record_event, patterns.record_reference)
WRITES_ARTEFACTS: Final = (patterns.create_artefact, patterns.put_artefact, patterns.keep_content)


def _routes(stores: Stores) -> Any:
    """Imported when they are wanted: only those who serve need a web framework."""
    from agenticpm.routes import routes

    return routes(stores)


async def _story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    from agenticpm.story import story

    await story(stores, console, clock, folder)


async def _sample(stores: Stores, **options: Any) -> int:
    from agenticpm.sample import sample

    return await sample(stores, **options)


def _jira(clock: Clock, folder: Path) -> Any:
    from agenticpm.sandbox.jira import JiraSandbox, jira_app

    return jira_app(JiraSandbox(clock=clock, folder=folder))


def _asana(clock: Clock, folder: Path) -> Any:
    from agenticpm.sandbox.asana import AsanaSandbox, asana_app

    return asana_app(AsanaSandbox(clock=clock, folder=folder))


def _outlook(clock: Clock) -> Any:
    from agenticpm.sandbox.outlook import OutlookSandbox, outlook_app

    return outlook_app(OutlookSandbox(clock=clock))


def _resend(clock: Clock, folder: Path) -> Any:
    from agenticpm.sandbox.resend import ResendSandbox, resend_app

    return resend_app(ResendSandbox(clock=clock, folder=folder))


SYSTEM = System(
    name="agenticpm",
    title="AgenticPM",
    purpose="An autonomous project manager: watches the tracker, keeps delivery state, RAID, decisions and backlog, escalates",
    tables=(table,),
    patterns=(*patterns_in(patterns), *HOLD.patterns, *LEASE.patterns),
    buckets=(contents,),
    components=(
        Component(
            "loop",
            "Reads trackers and mailboxes, tells signals, keeps artefacts, asks people, and holds what it would do",
            reads=(
                *READ_BY_ALL,
                patterns.integration_config,
                patterns.kept_snapshot,
                patterns.check_project,
                patterns.check_artefact,
                *LEASE.patterns.reads,
            ),
            writes=(
                *RECORDS,
                *WRITES_ARTEFACTS,
                *LEASE.patterns.writes,
                HOLD.patterns.hold,
                patterns.create_escalation,
                patterns.end_escalation,
                patterns.put_checkpoint,
                patterns.seed_config,
                patterns.put_record,
                patterns.keep_snapshot,
            ),
            schedules=(
                Schedule("loop", schedules.LOOP_S, schedules.tick),
                Schedule("daily", schedules.DAILY_S, schedules.daily),
                Schedule("sweep-contents", schedules.SWEEP_S, schedules.sweep),
            ),
        ),
        Component(
            "executor",
            "Does what was held, when it is due, and ends questions that nobody answered",
            reads=(
                patterns.project,
                patterns.integration_config,
                patterns.checkpoint,
                patterns.kept_snapshot,
                patterns.escalations_in,
                *HOLD.reads,
            ),
            writes=(*RECORDS, *HOLD.patterns.executing, patterns.end_escalation),
            schedules=(
                Schedule("held-actions", schedules.DUE_S, schedules.execute_due),
                Schedule("escalations", schedules.EXPIRY_S, schedules.expire),
            ),
        ),
        Component(
            "api",
            "What people do: projects, artefacts, decisions, held actions, settings, integrations",
            reads=(
                *READ_BY_ALL,
                patterns.integration_config,
                patterns.check_artefact,
                *LEASE.patterns.reads,
            ),
            writes=(
                *RECORDS,
                *WRITES_ARTEFACTS,
                HOLD.patterns.hold,
                HOLD.patterns.review,
                patterns.create_project,
                patterns.change_status,
                patterns.change_project,
                patterns.end_escalation,
                patterns.put_integration,
                patterns.note_health,
                patterns.seed_config,
                patterns.put_config,
            ),
        ),
        Component(
            "agent",
            "Answers questions about projects. It reads and never writes, and sees no credentials",
            reads=(*READ_BY_ALL, LEASE.patterns.read),
            # What a person would ask. The tools say the rest in words.
            offers=(
                patterns.project,
                patterns.artefacts,
                patterns.artefact,
                patterns.project_events,
                patterns.recent_events,
                patterns.events_of_day,
                patterns.project_escalations,
                patterns.escalations_in,
                patterns.project_actions,
                patterns.held_actions,
                patterns.projects_in,
                patterns.agent_configs,
            ),
        ),
    ),
    load=LOAD,
    what_if=WHAT_IF,
    stated_costs=STATED_COSTS,
    routes=_routes,
    commands=COMMANDS,
    why=why,
    sample=_sample,
    story=_story,
    tools=TOOLS,
    sandboxes={"jira": _jira, "asana": _asana, "outlook": _outlook, "resend": _resend},
    redact_logs=redact,
    retention={
        contents.name: Period(None, "contents of artefacts, which are kept for good; snapshots have an end")
    },
    extras=("objects", "agenticpm"),
)
