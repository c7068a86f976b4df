"""SYSTEM of the Richpanel middleware: its stores, patterns, components, load, routes and retention.

`api.ingress` (webhook → queue) → `workers.worker` → `workers.context`, `domain.rules`, `domain.plans`,
`workers.actions` → the help desk. `domain.idempotency_keys`, `domain.inbound_events` and
`domain.webhook_formats` define events; `model` defines what is stored; `api.explain` answers why something
was done; `workers.erasure` finds what to delete for a person. `integrations` holds the clients of the help
desk and the shop.
"""

from __future__ import annotations

from typing import Any

from holdfast import Component, Consumer, Load, Schedule, Stores, System, Volume
from holdfast.guarantees import RATE_LIMITS, Period, redact
from holdfast.model.system import Admin, Deployment, Design, Http, Privacy
from richpanel.api.explain import explain_routing
from richpanel.api.mcp_tools import ARGUMENTS, TOOLS
from richpanel.api.prompts import PROMPTS
from richpanel.api.quality import COMMANDS as QUALITY_COMMANDS
from richpanel.api.read_command import COMMANDS as READ_COMMANDS
from richpanel.domain.feature_flags import LIFETIME
from richpanel.model import patterns, replay_archive
from richpanel.model.entities import TABLES, events
from richpanel.model.patterns import ACTIONS, AUDIT, CALLS, EVENTS
from richpanel.settings import DAY_S, PRODUCTION, QUALITY_DAYS, RichpanelSettings
from richpanel.workers import erasure
from richpanel.workers.worker import open_handler

SETTINGS = RichpanelSettings.load()


def _build_ingress_routes(stores: Stores) -> Any:
    """Build the webhook routes. Imported here because only the web server needs a web framework."""
    from richpanel.api.routes import build_ingress_routes

    return build_ingress_routes(stores)


def _build_api_routes(stores: Stores) -> Any:
    """Build the routes for people and tools."""
    from richpanel.api.routes import build_api_routes

    return build_api_routes(stores)


WORKER = Component(
    "worker",
    "Processes events: decides, acts at the help desk, writes state and audit",
    uses=(
        EVENTS,
        ACTIONS,
        CALLS,
        # The worker appends to the audit and never reads it.
        AUDIT.writes,
        patterns.record,
        patterns.state,
        patterns.read_switches,
        patterns.create_state,
        patterns.put_state,
        patterns.link_customer,
        patterns.reply_quality,
        patterns.count_reply,
        replay_archive.keep,
    ),
    consumers=(Consumer(events, open_handler, concurrency=16, retry_delay_s=0.5, max_retry_delay_s=60.0),),
    schedules=(Schedule("sweep-archive", replay_archive.SWEEP_EVERY_S, replay_archive.sweep),),
)

SYSTEM = System(
    "richpanel",
    "Customer-support automation that never replies or routes twice and stores no personal text",
    title="Richpanel middleware",
    tables=(*TABLES, RATE_LIMITS),
    buckets=(replay_archive.archive,),
    components=(
        Component(
            "ingress",
            "The webhook endpoint: it writes to the queue and nothing else",
            uses=(patterns.enqueue,),
            routes=_build_ingress_routes,
            has_own_authentication=True,
        ),
        WORKER,
        Component(
            "api",
            "Answers people: why something was routed, the state of a conversation, the switches",
            uses=(
                AUDIT.reads,
                patterns.state,
                patterns.record,
                patterns.read_switches,
                patterns.create_switches,
                patterns.turn_switches,
                patterns.reply_quality,
                patterns.resume_replies,
            ),
        ),
        Component(
            "agent",
            "Answers questions about past actions. It only reads",
            uses=(AUDIT.reads, patterns.state),
            read_only=True,
            # The MCP tools cover the other reads.
            exposed_tools=(AUDIT.pattern_set.between,),
        ),
        Component(
            "replay", "Reads the replay archive, if it is on", uses=(replay_archive.archived,), read_only=True
        ),
        Component(
            "privacy",
            "Erases a conversation or a customer",
            uses=(
                AUDIT.reads,
                patterns.state,
                patterns.conversations_of_customer,
                patterns.customers_of_conversation,
                patterns.delete_state,
                patterns.delete_link,
                replay_archive.of_conversation,
                replay_archive.look_at,
                replay_archive.forget,
            ),
        ),
    ),
    design=Design(
        load=Load(
            volumes={
                "event": Volume(300_000, distinct_keys=300_000),
                "action": Volume(700_000, distinct_keys=700_000),
                "conversation": Volume(60_000, distinct_keys=60_000),
                "question": Volume(3_000, distinct_keys=2_000),
                "half minute of a worker": Volume(4 * 2 * 60 * 24 * 30),
                "change of the switches": Volume(20),
                "judged reply": Volume(40_000, distinct_keys=15),
                # Zero unless an operator sets a budget.
                "limited call": Volume(0),
                "erasure": Volume(100, distinct_keys=100),
                "archived event": Volume(0),
                "replay": Volume(0),
            },
            peak_factor=8,
        ),
    ),
    http=Http(routes=_build_api_routes),
    admin=Admin(
        commands={**READ_COMMANDS, **QUALITY_COMMANDS},
        tools=TOOLS,
        prompts=PROMPTS,
        arguments=ARGUMENTS,
        why=explain_routing,
    ),
    privacy=Privacy(
        redact_logs=redact,
        retention={
            "rp_mw_idempotency": Period(SETTINGS.idempotency_days * DAY_S, "as long as a copy may arrive"),
            "rp_mw_conversation_state": Period(
                SETTINGS.state_retention_days * DAY_S, "as long as a conversation may continue"
            ),
            "rp_mw_audit_actions": Period(SETTINGS.audit_days * DAY_S, "to explain why something was done"),
            "rp_mw_customers": Period(
                SETTINGS.customer_retention_days * DAY_S,
                "longer than everything found through it, for erasure",
            ),
            "rp_mw_reply_quality": Period(QUALITY_DAYS * DAY_S, "to see how an intent's replies develop"),
            "rp_mw_switches": Period.from_timedelta(LIFETIME, "a permission that no operator renews expires"),
        },
        subjects={"conversation": erasure.collect_conversation, "customer": erasure.collect_customer},
    ),
    deployment=Deployment(
        needs_environment=True, extras=("objects", "redaction", "sentences", "http"), production=PRODUCTION
    ),
)
