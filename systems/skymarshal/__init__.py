"""SkyMarshal: airline disruption operations. Who and what is hit by this flight, without a scan.

model → patterns → queries, disruption (patterns put together) → routes. `rules` of the trade are in modules of their
own: identifiers, statuses, airports, aircraft, duty, rights, connections, options, delay_codes.
"""

from __future__ import annotations

from typing import Any

from holdfast import Component, Load, Stores, System, Volume, patterns_in
from holdfast.guarantees import MIGRATIONS
from skymarshal import patterns, roster
from skymarshal.imports import IMPORTS
from skymarshal.model import TABLES
from skymarshal.sample import sample
from skymarshal.story import story
from skymarshal.tools import TOOLS


def _routes(stores: Stores) -> list[Any]:
    """The HTTP routes. Imported when they are wanted: only those who serve need a web framework."""
    from skymarshal.routes import routes as made

    return list(made(stores))


PATTERNS = (*patterns_in(patterns), *patterns_in(roster))
READS = tuple(each for each in PATTERNS if not each.example().writes)
WRITES = tuple(each for each in PATTERNS if each.example().writes)
# What an agent is offered beside the tools: what has a meaning alone. Never a roster, of which only one is the truth
# at a time; never an index that is not there by default. The other reads serve the tools.
AGENT_READS = tuple(each for each in READS if (index := each.example().index) is None or index.default)
OFFERED = (
    patterns.flights_numbered,
    patterns.flights_of_aircraft,
    patterns.passenger,
    patterns.booking,
    patterns.bookings_of_passenger,
    patterns.bookings_on_flight,
    patterns.bag,
    patterns.bags_of_booking,
    patterns.bags_at_with_status,
    patterns.work_orders_of_aircraft,
    patterns.disruption,
    patterns.disruptions_of_passenger,
)

SYSTEM = System(
    name="skymarshal",
    title="SkyMarshal",
    purpose="Airline disruption operations: who and what is hit by this flight, without a scan",
    tables=(*TABLES, MIGRATIONS),
    patterns=PATTERNS,
    components=(
        Component("agent", "Answers questions. It reads and never writes", reads=AGENT_READS, offers=OFFERED),
        Component(
            "api",
            "What people call: every question, and the confirmation of a decision",
            reads=READS,
            writes=tuple(each for each in WRITES if each.id.startswith(("DX", "RO"))),
        ),
        Component(
            "ingest",
            "Loads what other systems send",
            writes=tuple(e for e in WRITES if e.id.startswith("IN")),
        ),
    ),
    load=Load(
        # The document's scenario: 100,000 lookups and 50,000 writes of bookings a month. The rest is our estimate
        # for an airline of that size.
        volumes={
            "passenger lookup": Volume(100_000, distinct_keys=9_000),
            "booking change": Volume(50_000, distinct_keys=9_000),
            "bag change": Volume(60_000, distinct_keys=11_600),
            "passenger change": Volume(20_000, distinct_keys=9_000),
            "cargo change": Volume(1_000, distinct_keys=140),
            "shift change": Volume(3_000, distinct_keys=750),
            "work order change": Volume(500, distinct_keys=150),
            "departure": Volume(9_000, distinct_keys=300),
            "first load": Volume(1),
            "disruption": Volume(300, distinct_keys=300),
            "disrupted passenger": Volume(60_000, distinct_keys=9_000),
            "bag scan": Volume(500_000, distinct_keys=11_600),
            "airport view": Volume(30_000, distinct_keys=60, hottest=0.4),
            "roster view": Volume(20_000, distinct_keys=460),
            "roster change": Volume(2_000, distinct_keys=460),
            "shipment lookup": Volume(5_000, distinct_keys=100),
            "work order view": Volume(5_000, distinct_keys=150),
            "loyalty lookup": Volume(10_000, distinct_keys=9_000),
        },
        peak_factor=10,
    ),
    routes=_routes,
    sample=sample,
    imports=IMPORTS,
    story=story,
    tools=TOOLS,
    migrations={roster.NAME: roster.CREW_ROSTER_V2},
)
