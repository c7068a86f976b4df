"""Trip Cortex: books corporate travel from a sentence, inside the company's policy, with a person choosing.

routes, live (HTTP and WebSocket) → requesting → flow (steps) → knowledge, planning, rules, portal → live (what employees are told).
`model` and `patterns` say what is kept in tables, `knowledge` what is kept of policies in SQL; `parsing` takes documents apart;
`sandbox` stands in for the portal and for the issuer of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from holdfast import Component, Pattern, Schedule, Stores, System, patterns_in
from holdfast.clock import Clock, RunClock
from holdfast.flows import FLOWS
from holdfast.guarantees import OUTBOX, Period, redact
from tripcortex import explaining, patterns
from tripcortex.commands import COMMANDS
from tripcortex.flow import BOOKING, steps
from tripcortex.knowledge import files
from tripcortex.knowledge import patterns as policies
from tripcortex.knowledge.schema import tripcortex
from tripcortex.live import needs, notices
from tripcortex.live.notices import NOTICES
from tripcortex.live.sender import CONSUMER, SCHEDULES
from tripcortex.loads import LOAD, WHAT_IF
from tripcortex.model import TABLES, policy_files
from tripcortex.portal.booking_once import PORTAL_CALLS
from tripcortex.portal.circuit import PortalCircuit
from tripcortex.settings import TripCortexSettings
from tripcortex.tools import TOOLS

Patterns = tuple[Pattern[..., Any], ...]

# How often it is looked whether a policy waits to be read that nobody was told of, or was left half read.
POLL_S: Final = 5.0
# A policy as a form is a little larger than its file.
BODY_BYTES_MAX: Final = TripCortexSettings.load().policy_bytes_max + 1_000_000


def _api_routes(stores: Stores) -> Any:
    """Imported when they are wanted: only those who serve need a web framework."""
    from tripcortex.routes import api_routes

    return api_routes(stores)


def _manners(app: Any) -> None:
    from tripcortex.routes import described_schemes

    described_schemes(app)


def _working(stores: Stores) -> AbstractAsyncContextManager[Any]:
    """Imported when it is wanted: embeddings, airports and a client of HTTP come with it."""
    from tripcortex.workshop import working

    return working(stores)


async def _read_policies(stores: Stores) -> None:
    from tripcortex.reading_policies import read_waiting

    await read_waiting(stores)


async def _sample(
    stores: Stores, *, scale: float = 1, progress: Callable[[str, int, int], None] | None = None
) -> int:
    from tripcortex.sample import sample

    return await sample(stores, scale=scale, progress=progress)


async def _story(
    stores: Stores, console: Any, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> None:
    from tripcortex.story import story

    await story(stores, console, clock, folder, variables)


def _portal_sandbox(clock: Clock, folder: Path) -> Any:
    from tripcortex import sandbox

    return sandbox.portal(clock, folder)


def _issuer_sandbox(clock: Clock, folder: Path) -> Any:
    from tripcortex import sandbox

    return sandbox.issuer(clock, folder)


def _sandbox_variables(parties: Mapping[str, str], own: str) -> Mapping[str, str]:
    from tripcortex import sandbox

    return sandbox.variables(parties, own)


def _once(*several: Patterns) -> Patterns:
    """All of them, each once: what two parts of a component need is declared once."""
    return tuple({each.id: each for patterns in several for each in patterns}.values())


API: Final = Component(
    "api",
    "What employees ask, over HTTP and WebSocket; and what administrators do with policies",
    reads=_once(
        needs.API_READS,
        (patterns.message, files.source, files.crop, files.crops_of),
        BOOKING.looking,
        # Approvals that wait are found among the places.
        (BOOKING.use.places,),
        NOTICES.reads,
        policies.READING,
        policies.LOCKING,
    ),
    writes=_once(
        needs.API_WRITES,
        needs.TELLING,
        (patterns.append_audit,),
        BOOKING.starting,
        BOOKING.answering,
        NOTICES.relaying,
        policies.INGESTING,
        (files.keep_source, files.delete_source, files.delete_crop),
    ),
    # Every call has a token of the employees' issuer.
    is_signed=True,
    routes=_api_routes,
)
WORKFLOW: Final = Component(
    "workflow",
    "Drives bookings: retrieves, plans, validates, searches, books. It appends to the audit and never reads it",
    reads=_once(BOOKING.reads, policies.ASKING, PortalCircuit.reads, PORTAL_CALLS.reads, NOTICES.reads),
    writes=_once(
        BOOKING.writes,
        needs.TELLING,
        (patterns.append_audit, patterns.leave_place),
        PortalCircuit.writes,
        PORTAL_CALLS.writes,
        NOTICES.relaying,
    ),
    consumers=(BOOKING.consumer(_working, at_once=16),),
    schedules=BOOKING.schedules,
)
SENDER: Final = Component(
    "sender",
    "Tells employees what there is to tell, over every connection that is open, and finds those that are gone",
    reads=_once(needs.SENDER_READS, (patterns.booking,)),
    writes=needs.SENDER_WRITES,
    consumers=(CONSUMER,),
    schedules=SCHEDULES,
)
INGESTER: Final = Component(
    "ingester",
    "Reads policies that were uploaded, and lets them serve",
    reads=_once(policies.READING, policies.LOCKING, (files.source,)),
    writes=_once(policies.INGESTING, (files.keep_crop, files.keep_source)),
    schedules=(
        Schedule(
            "read-policies", POLL_S, _read_policies, wakes=lambda stores: stores.notices(policies.UPLOADED)
        ),
    ),
)
SUPPORT: Final = Component(
    "support",
    "Explains what became of a booking",
    reads=_once(
        (patterns.booking, patterns.trail, patterns.employee_audit, patterns.history, patterns.place_of),
        (BOOKING.use.place, BOOKING.use.places, BOOKING.use.one),
        (patterns.active_bookings_of,),
        PortalCircuit.reads,
        policies.READING,
    ),
)
AGENT: Final = Component(
    "agent",
    "Answers questions about bookings and policies. It reads and never writes",
    reads=_once(
        (patterns.booking, patterns.history, patterns.trail, patterns.employee_audit), policies.READING
    ),
    offers=(patterns.history, patterns.trail),
)

SYSTEM: Final = System(
    name="tripcortex",
    title="Trip Cortex",
    purpose="Books corporate travel from a sentence, inside the company's policy, with a person choosing",
    tables=(*TABLES, FLOWS, OUTBOX),
    queues=(steps, notices.notices),
    buckets=(policy_files,),
    schemas=(tripcortex,),
    patterns=_once(
        tuple(patterns_in(patterns)),
        policies.PATTERNS,
        tuple(patterns_in(files)),
        tuple(patterns_in(notices)),
        BOOKING.patterns,
        NOTICES.patterns,
        PortalCircuit.patterns,
        tuple(PORTAL_CALLS.patterns),
    ),
    components=(API, WORKFLOW, SENDER, INGESTER, SUPPORT, AGENT),
    load=LOAD,
    what_if=WHAT_IF,
    commands=COMMANDS,
    why=explaining.why,
    tools=TOOLS,
    flows=(BOOKING,),
    outboxes=(BOOKING.outbox, NOTICES),
    redact_logs=redact,
    retention={tripcortex.name: Period(None, "for as long as the policy is one")},
    manners=_manners,
    body_bytes_max=BODY_BYTES_MAX,
    sample=_sample,
    story=_story,
    sandboxes={"portal": _portal_sandbox, "issuer": _issuer_sandbox},
    sandbox_variables=_sandbox_variables,
    needs_environment=True,
    extras=("objects", "sql", "tripcortex"),
)
