"""The declaration of the AgenticPM system: its components, access rights, schedules and commands.

The loop runs every polling interval: it reads the trackers and mailboxes, detects signals, decides by the
project's autonomy level, holds actions, asks people and writes artefacts. The executor performs held actions
that are due, each once. `model` has the entities and access patterns, `api` the HTTP routes, commands and MCP
tools, `integrations` the clients of the external services.
"""

from __future__ import annotations

from typing import Any, Final

from agenticpm.api.commands import COMMANDS
from agenticpm.api.explain import explain
from agenticpm.api.mcp_tools import ARGUMENTS, TOOLS
from agenticpm.api.prompts import PROMPTS
from agenticpm.model import patterns
from agenticpm.model.entities import Integration, contents, table
from agenticpm.model.integration_settings import get_sandbox_variable
from agenticpm.model.load import LOAD, STATED_COSTS, WHAT_IF
from agenticpm.model.patterns import ACTION_QUEUE, LEASE
from agenticpm.workers import schedules
from holdfast import Component, Pattern, Schedule, Stores, System
from holdfast.guarantees import Period, redact
from holdfast.model.system import Admin, Deployment, Design, Http, Privacy, RequiredSetting

COMMON_READS: Final[tuple[Pattern[..., Any], ...]] = (
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
    *ACTION_QUEUE.reads,
)
EVENT_WRITES: Final = (patterns.record_event, patterns.record_reference)
ARTEFACT_WRITES: Final = (patterns.create_artefact, patterns.put_artefact, patterns.keep_content)

# Integrations keep their credentials encrypted in the table; the addresses are those of sandboxes.
PRODUCTION: Final = (
    RequiredSetting(
        "HOLDFAST_KEYS",
        "the encryption keys of credentials: a KMS key, or a file outside the data folder",
        components=("loop", "executor", "api"),
    ),
    *(
        RequiredSetting(get_sandbox_variable(each), "it sends real actions to a sandbox", kind="unset")
        for each in Integration
    ),
)


def _build_routes(stores: Stores) -> Any:
    """Build the API routers. The import is local: only a serving process needs the web framework."""
    from agenticpm.api.routes import build_routes

    return build_routes(stores)


def _build_pages(stores: Stores) -> Any:
    """Build the pages of the console. The import is local: only the console needs its packages."""
    from agenticpm.pages import build_pages

    return build_pages(stores)


SYSTEM = System(
    "agenticpm",
    "An autonomous project manager: watches the tracker, keeps delivery state, RAID, decisions and "
    "backlog, escalates",
    title="AgenticPM",
    tables=(table,),
    buckets=(contents,),
    components=(
        Component(
            "loop",
            "Reads trackers and mailboxes, detects signals, writes artefacts, asks people, and holds actions",
            uses=(
                COMMON_READS,
                patterns.integration_config,
                patterns.kept_snapshot,
                patterns.check_project,
                patterns.check_artefact,
                LEASE.reads,
                EVENT_WRITES,
                ARTEFACT_WRITES,
                LEASE.writes,
                ACTION_QUEUE.author,
                patterns.create_escalation,
                patterns.end_escalation,
                patterns.put_checkpoint,
                patterns.seed_config,
                patterns.put_record,
                patterns.keep_snapshot,
            ),
            schedules=(
                Schedule("loop", schedules.LOOP_S, schedules.run_loop),
                Schedule("daily", schedules.DAILY_S, schedules.make_daily_digest),
                Schedule("sweep-contents", schedules.SWEEP_S, schedules.sweep_contents),
            ),
        ),
        Component(
            "executor",
            "Executes held actions when they are due, and expires escalations without a decision",
            uses=(
                patterns.project,
                patterns.integration_config,
                patterns.checkpoint,
                patterns.kept_snapshot,
                patterns.escalations_in,
                patterns.end_escalation,
                EVENT_WRITES,
                ACTION_QUEUE.reads,
                ACTION_QUEUE.executor,
            ),
            schedules=(
                Schedule("held-actions", schedules.DUE_S, schedules.execute_due),
                Schedule("escalations", schedules.EXPIRY_S, schedules.expire_escalations),
            ),
        ),
        Component(
            "api",
            "Serves people: projects, artefacts, decisions, held actions, settings, integrations",
            uses=(
                COMMON_READS,
                patterns.integration_config,
                patterns.check_artefact,
                LEASE.reads,
                EVENT_WRITES,
                ARTEFACT_WRITES,
                ACTION_QUEUE.author,
                ACTION_QUEUE.pattern_set.review,
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
            "console",
            "Serves the pages of the web console: decisions, held actions, artefacts",
            uses=(
                COMMON_READS,
                patterns.check_artefact,
                EVENT_WRITES,
                ARTEFACT_WRITES,
                ACTION_QUEUE.author,
                ACTION_QUEUE.pattern_set.review,
                patterns.end_escalation,
            ),
        ),
        Component(
            "agent",
            "Answers questions about projects. It only reads, and has no access to credentials",
            uses=(COMMON_READS, LEASE.observer),
            read_only=True,
            # The queries that a person would ask; the MCP tools combine the others.
            exposed_tools=(
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
    design=Design(load=LOAD, what_if=WHAT_IF, stated_costs=STATED_COSTS),
    http=Http(routes=_build_routes),
    pages=_build_pages,
    admin=Admin(commands=COMMANDS, tools=TOOLS, prompts=PROMPTS, arguments=ARGUMENTS, why=explain),
    privacy=Privacy(
        redact_logs=redact,
        retention={contents.name: Period(None, "artefact contents are kept forever; snapshots expire")},
    ),
    deployment=Deployment(extras=("objects", "redaction", "http"), production=PRODUCTION),
)
