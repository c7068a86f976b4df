"""The declaration of SkyMarshal as a Holdfast system: tables, patterns, components, load and entry points.

`domain` holds the pure rules of the trade, `model` the tables, access patterns and queries, `disruptions` the
assessment of one disruption and the decision on it, and `api` the HTTP routes, the agent's tools and the CSV
imports.
"""

from __future__ import annotations

from typing import Any

from holdfast import Component, Load, Pattern, Stores, System, Volume
from holdfast.guarantees import MIGRATIONS
from holdfast.model.system import Admin, Design, Http, Privacy, collect_patterns
from skymarshal.api.csv_imports import IMPORTS
from skymarshal.api.mcp_tools import ARGUMENTS, TOOLS
from skymarshal.api.prompts import PROMPTS
from skymarshal.model import patterns, roster
from skymarshal.model.entities import TABLES


def _build_routes(stores: Stores) -> list[Any]:
    """Return the HTTP routers over these stores.

    The import is local: only a serving process needs a web framework.
    """
    from skymarshal.api.routes import build_routes

    return list(build_routes(stores))


def _select_patterns(*prefixes: str) -> tuple[Pattern[..., Any], ...]:
    """Return the patterns whose id starts with one of the prefixes."""
    return tuple(each for each in PATTERNS if each.id.startswith(prefixes))


PATTERNS = (*collect_patterns(patterns), *collect_patterns(roster))
READS = tuple(each for each in PATTERNS if not each.writes)
# The patterns that an agent may call directly, in addition to the tools: each answers a question by itself.
# Rosters are left out because only one of the two tables is authoritative at a time, and so are patterns on
# an index that is not created by default. The other reads serve the tools.
AGENT_READS = tuple(each for each in READS if (index := each.build_example().index) is None or index.default)
AGENT_OFFERS = (
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
    "skymarshal",
    "Airline disruption operations: find who and what a flight disruption affects, without a scan",
    title="SkyMarshal",
    tables=(*TABLES, MIGRATIONS),
    components=(
        Component(
            "agent",
            "Answers questions. Reads only",
            uses=AGENT_READS,
            read_only=True,
            exposed_tools=AGENT_OFFERS,
        ),
        Component(
            "api",
            "Serves HTTP: every query, and the confirmation of a decision",
            uses=(READS, _select_patterns("DX", "RO")),
        ),
        Component("ingest", "Imports the data that other systems send", uses=_select_patterns("IN")),
    ),
    # The names of passengers, and the assistance that a passenger needs.
    privacy=Privacy(personal_names=frozenset({"name", "special_services"})),
    design=Design(
        load=Load(
            # The design document's scenario has 100,000 lookups and 50,000 booking writes a month. The other
            # volumes are estimates for an airline of that size.
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
        )
    ),
    http=Http(routes=_build_routes),
    admin=Admin(
        tools=TOOLS,
        prompts=PROMPTS,
        arguments=ARGUMENTS,
        imports=IMPORTS,
        migrations={roster.MIGRATION_NAME: roster.CREW_ROSTER_V2},
    ),
)
