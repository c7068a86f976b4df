"""The Richpanel middleware: customer-support automation that never replies or routes twice and stores no personal text.

ingress (webhook → queue) → handlers (the worker) → gathering, rules, plans, acting → the help desk. `keys`, `payloads`
and `senders` say what an event is; `model` and `patterns` what is kept; `explaining` why something was done; `erasing` how
it is forgotten. `parties` speaks to the help desk and the shop, for which `sandbox` stands in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Component, Consumer, Load, Schedule, Stores, System, Volume, patterns_in
from holdfast.clock import Clock, RunClock
from holdfast.guarantees import RATE_LIMITS, Period, redact
from richpanel import archive, erasing, patterns
from richpanel.explaining import why
from richpanel.handlers import handling
from richpanel.model import TABLES, events
from richpanel.patterns import ACTIONS, AUDIT, CALLS, EVENTS
from richpanel.sample import sample
from richpanel.settings import DAY_S, RichpanelSettings
from richpanel.switches import LIFETIME
from richpanel.tools import TOOLS

SETTINGS = RichpanelSettings.load()


def _ingress_routes(stores: Stores) -> Any:
    """Imported when they are wanted: only those who serve need a web framework."""
    from richpanel.routes import ingress_routes

    return ingress_routes(stores)


def _api_routes(stores: Stores) -> Any:
    from richpanel.routes import api_routes

    return api_routes(stores)


def _sandbox(clock: Clock) -> Any:
    from richpanel.sandbox import Sandbox, sandbox_app

    return sandbox_app(Sandbox(clock=clock))


async def _story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    from richpanel.story import story

    await story(stores, console, clock, folder)


WORKER = Component(
    "worker",
    "Works off events: decides, acts at the help desk, keeps state and audit",
    reads=(
        *EVENTS.reads,
        *ACTIONS.reads,
        *CALLS.reads,
        patterns.record,
        patterns.state,
        patterns.read_switches,
    ),
    # It appends to the audit and never reads it.
    writes=(
        *EVENTS.writes,
        *ACTIONS.writes,
        *AUDIT.writes,
        *CALLS.writes,
        patterns.create_state,
        patterns.put_state,
        patterns.link_customer,
        patterns.receive,
        patterns.done,
        patterns.hold,
        archive.keep,
    ),
    consumers=(
        Consumer(
            events,
            handling,
            receive=patterns.receive,
            delete=patterns.done,
            hold=patterns.hold,
            at_once=16,
            pause_s=0.5,
            pause_s_max=60.0,
        ),
    ),
    schedules=(Schedule("sweep-archive", archive.SWEEP_EVERY_S, archive.sweep),),
)

SYSTEM = System(
    name="richpanel",
    title="Richpanel middleware",
    purpose="Customer-support automation that never replies or routes twice and stores no personal text",
    tables=(*TABLES, RATE_LIMITS),
    patterns=(
        *patterns_in(patterns),
        *EVENTS.patterns,
        *ACTIONS.patterns,
        *AUDIT.patterns,
        *CALLS.patterns,
        *patterns_in(archive),
    ),
    queues=(events,),
    buckets=(archive.archive,),
    components=(
        Component(
            "ingress",
            "The door for webhooks: into the queue, and nothing else",
            writes=(patterns.enqueue,),
            routes=_ingress_routes,
            is_signed=True,
        ),
        WORKER,
        Component(
            "api",
            "What people ask: why something was routed, where a conversation stands, how the switches stand",
            reads=(*AUDIT.reads, patterns.state, patterns.record, patterns.read_switches),
            writes=(patterns.create_switches, patterns.turn_switches),
        ),
        Component(
            "agent",
            "Answers questions about what was done. It reads and never writes",
            reads=(*AUDIT.reads, patterns.state),
            # The tools say the same in words.
            offers=(AUDIT.span,),
        ),
        Component("replay", "Reads the replay archive, where it is kept", reads=(archive.archived,)),
        Component(
            "privacy",
            "Forgets a conversation or a customer",
            reads=(
                *AUDIT.reads,
                patterns.state,
                patterns.conversations_of_customer,
                patterns.customers_of_conversation,
                archive.of_conversation,
                archive.look_at,
            ),
            writes=(patterns.delete_state, patterns.delete_link, archive.forget),
        ),
    ),
    load=Load(
        volumes={
            "event": Volume(300_000, distinct_keys=300_000),
            "action": Volume(700_000, distinct_keys=700_000),
            "conversation": Volume(60_000, distinct_keys=60_000),
            "question": Volume(3_000, distinct_keys=2_000),
            "half minute of a worker": Volume(4 * 2 * 60 * 24 * 30),
            "change of the switches": Volume(20),
            # None, unless an operator sets a budget.
            "limited call": Volume(0),
            "erasure": Volume(100, distinct_keys=100),
            "archived event": Volume(0),
            "replay": Volume(0),
        },
        peak_factor=8,
    ),
    routes=_api_routes,
    why=why,
    sample=sample,
    story=_story,
    tools=TOOLS,
    sandboxes={"helpdesk": _sandbox},
    redact_logs=redact,
    retention={
        "rp_mw_idempotency": Period(SETTINGS.idempotency_days * DAY_S, "as long as a copy may come"),
        "rp_mw_conversation_state": Period(
            SETTINGS.state_kept_days * DAY_S, "as long as a conversation goes on"
        ),
        "rp_mw_audit_actions": Period(SETTINGS.audit_days * DAY_S, "to answer why something was done"),
        "rp_mw_customers": Period(
            SETTINGS.customer_days * DAY_S, "longer than anything that is found by it, to erase it"
        ),
        "rp_mw_switches": Period.of(LIFETIME, "a permission that nobody renews lapses"),
    },
    subjects={"conversation": erasing.of_conversation, "customer": erasing.of_customer},
    needs_environment=True,
    extras=("objects", "richpanel"),
)
