"""The declaration of the system Trip Cortex: SYSTEM with its tables, components, routes and flow.

A request comes in through `api` (HTTP and WebSocket), starts a booking in `workers.booking_requests`, and the
flow in `workers.flow` drives it: retrieve the policy, plan, validate, search, choose, buy.
`workers.message_sender` delivers messages to employees.

`model` declares what the tables store and how it is read; policies are stored in SQL.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from holdfast import Component, Schedule, Stores, System
from holdfast.flows import FLOWS
from holdfast.guarantees import OUTBOX, Period, redact
from holdfast.model.system import Admin, Deployment, Design, Http, Privacy
from tripcortex.api import explain
from tripcortex.api.commands import COMMANDS
from tripcortex.api.mcp_tools import ARGUMENTS, TOOLS
from tripcortex.api.prompts import PROMPTS
from tripcortex.integrations.portal.circuit import BREAKER
from tripcortex.integrations.portal.purchases import PORTAL_CALLS
from tripcortex.model import directory, pattern_sets, patterns
from tripcortex.model.entities import TABLES, policy_files
from tripcortex.model.load_profile import LOAD, WHAT_IF
from tripcortex.model.notices import NOTICES
from tripcortex.model.policies import files
from tripcortex.model.policies import patterns as policies
from tripcortex.model.policies import rules_patterns as rules
from tripcortex.model.policies.schema import tripcortex
from tripcortex.settings import PRODUCTION, TripCortexSettings
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.message_sender import CONSUMER, SCHEDULES

RETENTION: Final = (
    "a policy until it is removed, the log of decisions about its rules permanently, an employee until they "
    "are deleted from the directory"
)
# Finds policies whose upload notification was lost and policies whose ingestion was interrupted.
POLL_S: Final = 5.0
# A multipart form is a little larger than the policy file in it.
MAX_BODY_BYTES: Final = TripCortexSettings.load().policy_bytes_max + 1_000_000


def _build_api_routes(stores: Stores) -> Any:
    """Return the API routers. Imported here because only a server needs the web framework."""
    from tripcortex.api.routes import build_api_routes

    return build_api_routes(stores)


def _configure_app(app: Any) -> None:
    """Set the status and the logs of errors. Imported here, as in `_build_api_routes`."""
    from tripcortex.api.routes import configure_errors

    configure_errors(app)


def _list_trusted_origins() -> tuple[str, ...]:
    return TripCortexSettings.load().trusted_origins


def _open_dependencies(stores: Stores) -> AbstractAsyncContextManager[Any]:
    """Open the dependencies of the steps.

    Imported here because they load embeddings, airports and an HTTP client.
    """
    from tripcortex.workers.dependencies import open_dependencies

    return open_dependencies(stores)


async def _ingest_policies(stores: Stores) -> None:
    """Ingest the waiting policies, for the schedule. Imported here because it loads the embedding."""
    from tripcortex.workers.policy_ingestion import ingest_waiting_policies

    await ingest_waiting_policies(stores)


API: Final = Component(
    "api",
    "Serves employees over HTTP and WebSocket, and lets administrators manage policies and the directory",
    uses=(
        pattern_sets.API,
        pattern_sets.MESSAGES,
        (patterns.message, patterns.append_audit),
        (files.source, files.crop, files.crops_of, files.keep_source, files.delete_source, files.delete_crop),
        BOOKING_FLOW.starter,
        BOOKING_FLOW.answerer,
        # Pending approvals are found among the running executions.
        BOOKING_FLOW.pattern_set.executions,
        NOTICES.reads,
        NOTICES.relay,
        policies.READ_PATTERNS,
        policies.LOCK_PATTERNS,
        policies.WRITE_PATTERNS,
        directory.READ_PATTERNS,
        directory.WRITE_PATTERNS,
        rules.PATTERNS,
    ),
    # Every call carries a token from the employees' token issuer.
    has_own_authentication=True,
    routes=_build_api_routes,
)
WORKFLOW: Final = Component(
    "workflow",
    "Drives bookings: retrieves, plans, validates, searches, books. Appends to the audit log, never reads it",
    uses=(
        BOOKING_FLOW,
        pattern_sets.MESSAGES,
        (patterns.append_audit, patterns.leave_place),
        policies.QUESTION_PATTERNS,
        directory.APPROVER_PATTERNS,
        rules.QUESTION_PATTERNS,
        BREAKER.patterns,
        PORTAL_CALLS,
        NOTICES.reads,
        NOTICES.relay,
    ),
    consumers=(BOOKING_FLOW.consumer(_open_dependencies, concurrency=16),),
    schedules=BOOKING_FLOW.schedules,
)
SENDER: Final = Component(
    "sender",
    "Delivers messages to employees over their open connections, and removes connections that are gone",
    uses=(pattern_sets.SENDER, patterns.booking),
    consumers=(CONSUMER,),
    schedules=SCHEDULES,
)
INGESTER: Final = Component(
    "ingester",
    "Ingests uploaded policies and puts them into service",
    uses=(
        policies.READ_PATTERNS,
        policies.LOCK_PATTERNS,
        policies.WRITE_PATTERNS,
        rules.PATTERNS,
        (files.source, files.keep_crop, files.keep_source),
    ),
    schedules=(
        Schedule(
            "read-policies",
            POLL_S,
            _ingest_policies,
            wake_source=lambda stores: stores.listen(policies.UPLOAD_CHANNEL),
        ),
    ),
)
SUPPORT: Final = Component(
    "support",
    "Explains the outcome of a booking",
    uses=(
        (patterns.booking, patterns.trail, patterns.employee_audit, patterns.history, patterns.place_of),
        patterns.active_bookings_of,
        BOOKING_FLOW.pattern_set.execution,
        BOOKING_FLOW.pattern_set.executions,
        BOOKING_FLOW.pattern_set.item,
        BREAKER.reads,
        policies.READ_PATTERNS,
        directory.READ_PATTERNS,
        rules.READ_PATTERNS,
    ),
    read_only=True,
)
AGENT: Final = Component(
    "agent",
    "Answers questions about bookings and policies. Read-only",
    uses=(
        (patterns.booking, patterns.history, patterns.trail, patterns.employee_audit),
        policies.READ_PATTERNS,
        rules.READ_PATTERNS,
    ),
    read_only=True,
    exposed_tools=(patterns.history, patterns.trail),
)

SYSTEM: Final = System(
    "tripcortex",
    "Books corporate travel from a sentence, inside the company's policy, with a person choosing",
    title="Trip Cortex",
    tables=(*TABLES, FLOWS, OUTBOX),
    buckets=(policy_files,),
    schemas=(tripcortex,),
    components=(API, WORKFLOW, SENDER, INGESTER, SUPPORT, AGENT),
    design=Design(load=LOAD, what_if=WHAT_IF),
    http=Http(
        configure_app=_configure_app, max_body_bytes=MAX_BODY_BYTES, allowed_origins=_list_trusted_origins
    ),
    admin=Admin(
        commands=COMMANDS,
        tools=TOOLS,
        prompts=PROMPTS,
        arguments=ARGUMENTS,
        why=explain.explain_booking,
    ),
    privacy=Privacy(redact_logs=redact, retention={tripcortex.name: Period(None, RETENTION)}),
    deployment=Deployment(
        needs_environment=True,
        extras=("objects", "sql", "redaction", "sentences", "http", "tokens"),
        production=PRODUCTION,
    ),
)
