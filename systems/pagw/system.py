"""SYSTEM of PAGW, the prior-authorisation gateway: its stores, patterns and components.

A request passes the API, the intake (orchestrator, parser, validator), the outbox, the stages with a queue
each, and the payer. The answer returns by the synchronous wait, by subscriptions or by callbacks. `model`
declares the data in four stores, `domain` holds the rules (FHIR among them), `integrations.payers` calls
payers, and `ops` and `api.commands` serve operators.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import Component, Pattern, Stores, System
from holdfast.model.system import Admin, Deployment, Design, Http, Privacy
from pagw.api import cancellation, explain
from pagw.api.commands import COMMANDS
from pagw.api.mcp_tools import ARGUMENTS, TOOLS
from pagw.api.prompts import PROMPTS
from pagw.domain.redaction import redact
from pagw.model import decision_patterns, delivery_patterns, files, patterns
from pagw.model.entities import (
    audit_events_bucket,
    idempotency,
    pagw,
    requests_bucket,
)
from pagw.model.environments import ENVIRONMENTS
from pagw.model.load_profile import LOAD, WHAT_IF
from pagw.model.patterns import CALLS, INBOX, OUTBOX, SUBMISSIONS
from pagw.model.rate_limits import TENANT_LIMIT
from pagw.model.registries import REGISTRIES
from pagw.model.sessions import SESSIONS
from pagw.ops import (
    annual_report,
    erasure,
    legal_holds,
    monitoring,
    payer_health,
    phi_access,
    redelivery,
    registry,
    request_replay,
    request_trail,
    retention,
    worklist,
)
from pagw.settings import PRODUCTION, RANGES
from pagw.workers import sweeper
from pagw.workers.components import AUDIT_WRITES, INBOX_SWEEP, SWEEPER, WORKERS
from pagw.workers.responses import READS as RESPONSE_READS

MONITORING: Final[tuple[Pattern[..., Any], ...]] = (
    monitoring.requests_by_status,
    monitoring.active_by_status,
    monitoring.outbox_pending,
    monitoring.average_seconds,
    monitoring.seconds_since,
    monitoring.stuck_since,
    monitoring.due_before,
    monitoring.decisions_between,
    monitoring.counted,
    *OUTBOX.reads,
)


def _build_api_routes(stores: Stores) -> Any:
    """Return the API's routes. The import is local because only a server needs the web framework."""
    from pagw.api.routes import build_api_routes

    return build_api_routes(stores)


def _build_callback_routes(stores: Stores) -> Any:
    from pagw.api.routes import build_callback_routes

    return build_callback_routes(stores)


def _build_pages(stores: Stores) -> Any:
    """Build the pages of the console. The import is local: only the console needs its packages."""
    from pagw.pages import build_pages

    return build_pages(stores)


def _configure_app(app: Any) -> None:
    from pagw.api.routes import configure_outcomes

    configure_outcomes(app)


API: Final = Component(
    "api",
    "Serves clients: submissions, inquiries, subscriptions, sessions and request status",
    uses=(
        (patterns.submission, patterns.newest_plain_key, patterns.request, patterns.requests_of),
        (patterns.found_by, patterns.audit_of, patterns.current_request),
        (patterns.create_request, patterns.make_findable, patterns.advance, patterns.tell_answered),
        delivery_patterns.subscription,
        delivery_patterns.subscriptions_of,
        delivery_patterns.live_subscriptions,
        delivery_patterns.deliveries_of,
        delivery_patterns.create_delivery,
        delivery_patterns.create_subscription,
        delivery_patterns.set_subscription,
        delivery_patterns.release_held,
        delivery_patterns.events_of,
        (*RESPONSE_READS, files.attachment, files.kept_subscription),
        decision_patterns.decisions_of,
        (files.keep_bundle, files.keep_subscription),
        (INBOX.pattern_set.stored, INBOX.pattern_set.take),
        AUDIT_WRITES,
        REGISTRIES,
        SUBMISSIONS,
        TENANT_LIMIT,
        SESSIONS,
    ),
    # Every client call carries a token of the client's issuer.
    has_own_authentication=True,
    routes=_build_api_routes,
)
PAYER_CALLBACKS: Final = Component(
    "payer-callbacks",
    "Receives payers' callbacks: stores and acknowledges them, and queues them for the callback handler",
    uses=(
        (patterns.request_of_payer, patterns.found_by_payer, patterns.note_callback, files.keep_callback),
        registry.payers,
        (INBOX.pattern_set.stored, INBOX.pattern_set.take),
        AUDIT_WRITES,
        REGISTRIES,
        TENANT_LIMIT,
    ),
    has_own_authentication=True,
    routes=_build_callback_routes,
    # In the API's process, so that one address (`PAGW_PUBLIC_URL`) serves both.
    process="api",
)
OPERATOR: Final = Component(
    "operator",
    "Serves operators: monitoring, replay, registries, legal holds, sweeping, retention. It reads no bundle",
    uses=(
        MONITORING,
        (monitoring.newest, patterns.audit_between),
        AUDIT_WRITES,
        CALLS,
        INBOX_SWEEP,
        OUTBOX.operator,
        explain.READS_HASHES,
        legal_holds.READS,
        legal_holds.WRITES,
        registry.PATTERNS,
        request_replay.PATTERNS,
        retention.PATTERNS,
        sweeper.PATTERNS,
    ),
)
CONSOLE: Final = Component(
    "console",
    "Serves the pages of the web console: worklist, requests, payers, metrics. It reads a bundle only when a "
    "user reveals it",
    uses=(
        AUDIT_WRITES,
        CALLS,
        annual_report.PATTERNS,
        cancellation.PATTERNS,
        legal_holds.READS,
        legal_holds.WRITES,
        payer_health.PATTERNS,
        phi_access.PATTERNS,
        redelivery.PATTERNS,
        request_replay.PATTERNS,
        request_trail.PATTERNS,
        worklist.PATTERNS,
    ),
)
AGENT: Final = Component(
    "agent",
    "Answers questions about requests from ids, states and times. It is read-only and sees no PHI",
    uses=(MONITORING, explain.READS),
    read_only=True,
    # Plain figures. The MCP tools serve the rest and leave out text written by clients.
    exposed_tools=(
        monitoring.requests_by_status,
        monitoring.active_by_status,
        monitoring.outbox_pending,
        monitoring.average_seconds,
        monitoring.seconds_since,
        monitoring.decisions_between,
    ),
)

SYSTEM = System(
    "pagw",
    "A healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that neither loses nor repeats a request",
    title="PAGW",
    tables=(idempotency,),
    schemas=(pagw,),
    buckets=(requests_bucket, audit_events_bucket),
    components=(API, PAYER_CALLBACKS, *WORKERS, OPERATOR, CONSOLE, SWEEPER, AGENT),
    design=Design(load=LOAD, what_if=WHAT_IF),
    http=Http(configure_app=_configure_app, max_body_bytes=RANGES["bundle_bytes_max"][2]),
    pages=_build_pages,
    admin=Admin(commands=COMMANDS, tools=TOOLS, prompts=PROMPTS, arguments=ARGUMENTS, why=explain.why),
    privacy=Privacy(
        redact_logs=redact,
        retention={pagw.name: retention.RETENTION_PERIOD},
        subjects={erasure.KIND: erasure.find_request_traces},
    ),
    deployment=Deployment(
        environments={each.name: each.region for each in ENVIRONMENTS.values()},
        needs_environment=True,
        extras=("objects", "sql", "cache", "http", "tokens"),
        production=PRODUCTION,
    ),
)
