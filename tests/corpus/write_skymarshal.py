"""Generator of the SkyMarshal archive: open pages, an interrupted decision, a roster migration.

Run by hand: `python -m tests.corpus.write_skymarshal tests/corpus/v0_1`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx

from holdfast import Entity, Stores, batch_put, open_stores
from holdfast.config.settings import Settings
from holdfast.guarantees.table_migration import Pace, migrate
from holdfast.model.entities import PagedRead, get_declaration
from holdfast.operations.tables import TransactWriteItems
from holdfast.runtime import add_indexes, create_tables
from holdfast.web import make_app
from skymarshal.api.routes import build_routes
from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CrewPosition,
    LoadingStatus,
    MelCategory,
    ReputationRisk,
    WorkOrderStatus,
    encode_risk_rank,
)
from skymarshal.model import examples, patterns
from skymarshal.model.entities import CrewDuty, DisruptedPassenger, Disruption
from skymarshal.model.roster import CREW_ROSTER_V2, assign
from skymarshal.system import SYSTEM
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.library.clock import ManualClock
from tests.corpus.library.process import Killed, hide_machine, make_dying_process
from tests.systems.skymarshal.acceptance import small_airline
from tests.systems.skymarshal.acceptance.small_airline import at

NAME: Final = "skymarshal"
ENVIRONMENT: Final = "corpus"
# The evening before the day on which everything happens.
WRITTEN_AT: Final = datetime(2026, 1, 29, 22, tzinfo=UTC).timestamp()
PASSENGERS: Final = [f"P-{number}" for number in range(6)]
TRAVELLER: Final = PASSENGERS[0]
CREW: Final = 12
RECEIVED: Final = "a message as it was received"
PACE: Final = Pace(lease_s=15, segments=2, batch_size=3)

# Flight 1: decided and interrupted. Flight 2: decided and settled.
LATE: Final[dict[str, Any]] = {
    "kind": "delay",
    "flight_id": "1",
    "delay_minutes": 240,
    "delay_code": "41",
    "known_at": "2026-01-29T22:00:00Z",
}
CUT_SHORT: Final = {
    "disruption_id": "D-cut-short",
    "option": "delay",
    "decided_by": "duty manager",
    "despite_blockers": True,
}
# Rejected: the flight has changed since this decision.
OUTDATED: Final = {**LATE, "confirm": {**CUT_SHORT, "disruption_id": "D-outdated", "version": 7}}
SETTLED: Final = {**CUT_SHORT, "disruption_id": "D-settled", "option": "cancel"}


def main(folder: Path) -> None:
    """Write the archive and its notes into `folder`."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place, "data")
        notes = asyncio.run(_write(data))
        pack(data, folder / f"{NAME}{SUFFIX}")
        save_notes(folder, NAME, notes)


def open_airline(folder: Path, clock: ManualClock) -> Stores:
    """Open the data folder as the system's processes do."""
    settings = Settings(tables=f"sqlite:{folder / 'tables.db'}", environment=ENVIRONMENT)
    return open_stores(SYSTEM, settings, clock=clock)


def open_client(stores: Stores) -> httpx.AsyncClient:
    """Return a client of the system's HTTP API, served in this process."""
    app = make_app("SkyMarshal", "1", build_routes(stores.for_component("api")))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


# --- queries ------------------------------------------------------------------------------------------------


def build_queries() -> dict[str, PagedRead[Any, Any]]:
    """Return the first page, of one row, of every paged pattern, by the pattern's id."""
    day, since, until = small_airline.DAY, at(-12), at(36)
    asked: dict[str, PagedRead[Any, Any]] = {
        "FL3": patterns.flights_numbered("EY11", day),
        "FL5": patterns.flights_of_aircraft("A6-BLA", since, until),
        "PX3": patterns.passengers_of_frequent_flyer("EY100000001"),
        "PX4": patterns.passengers_of_pnr("OZ6982"),
        "BK2": patterns.bookings_of_passenger(_id(TRAVELLER)),
        "BK3": patterns.bookings_of_passenger_on(_id(TRAVELLER), _id("1")),
        "BK5": patterns.bookings_on_flight(_id("1"), BookingStatus.CONFIRMED),
        "BK7": patterns.bookings_on_flight_between(
            _id("1"), BookingStatus.CANCELLED, BookingStatus.WAITLISTED
        ),
        "BG2": patterns.bags_of_booking(_id("B-0")),
        "BG4": patterns.bags_at("AUH"),
        "BG5": patterns.bags_at_with_status("AUH", BaggageStatus.LOADED),
        "CR1": patterns.crew_of_flight(_id("1")),
        "CR2": patterns.crew_in_position(_id("1"), CrewPosition.CABIN_CREW),
        "CR3": patterns.crew_of_flight_v2(_id("1")),
        "CR4": patterns.crew_in_position_v2(_id("1"), CrewPosition.CABIN_CREW),
        "CR5": patterns.duties_of_crew(_id("C-0"), since, until),
        "CG1": patterns.cargo_on_flight(_id("1")),
        "CG2": patterns.cargo_on_flight_with(_id("1"), LoadingStatus.PENDING),
        "CG3": patterns.shipment_legs(_id("S-1")),
        "MX1": patterns.staff_of_work_order(_id("WO-1")),
        "MX2": patterns.staff_of_work_order_between(_id("WO-1"), since, until),
        "MX4": patterns.work_orders_of_aircraft("A6-BLA"),
        "DX2": patterns.disruptions_of_passenger(_id(TRAVELLER)),
        "DX3": patterns.disrupted_on_flight("EY77"),
    }
    return {name: query.page(1) for name, query in asked.items()}


def _id(text: str) -> Any:
    """Return the text typed as any id of the system."""
    return text


API_PAGES: Final = {
    "bookings": f"/passengers/{TRAVELLER}/bookings",
    "disruptions": f"/passengers/{TRAVELLER}/disruptions",
}


# --- writing ------------------------------------------------------------------------------------------------


async def _write(folder: Path) -> dict[str, Any]:
    # Loaded an hour before the roster migration begins, so that its stream does not contain every row again.
    """Fill a new data folder, stop a migration and a decision half-way, and return the notes."""
    clock = ManualClock(WRITTEN_AT - 3600)
    stores = open_airline(folder, clock)
    hide_machine(stores)
    await create_tables(stores, SYSTEM.tables)
    await add_indexes(stores, [index for index in SYSTEM.indexes if not index.default])
    for rows in _build_airline():
        await stores.run(batch_put([type(row).put(row) for row in rows]))
    clock.moment = WRITTEN_AT
    await _move_half_of_the_roster(stores)
    notes: dict[str, Any] = {"written_at": WRITTEN_AT}
    notes["decisions"] = await _decide(stores)
    notes["pages"] = {name: await _note_page(stores, query) for name, query in build_queries().items()}
    notes["api"] = await _note_api_pages(stores)
    await stores.close()
    return notes


def _build_airline() -> Sequence[Sequence[Entity]]:
    """Return the rows of the airline, one list per table."""
    loyal: dict[str, Any] = {"pnr": "OZ6982", "frequent_flyer_number": "EY100000001", "tier": "GOLD"}
    people = [small_airline.passenger(each, **loyal) for each in PASSENGERS]
    flights = [
        small_airline.flight(),
        small_airline.flight("1b", departs=at(20), arrives=at(27)),
        small_airline.flight("2", "EY21", "LHR-AUH", at(12), at(19)),
        small_airline.flight("3", "EY31", "AUH-CDG", at(13), at(20), tail="A6-BLB"),
    ]
    seated: dict[str, Any] = {
        "seat_number": "7A",
        "pnr": "OZ6982",
        "fare_paid": Decimal("412.5"),
        "source_message": RECEIVED,
    }
    booked = [small_airline.booking(f"B-{number}", each, **seated) for number, each in enumerate(PASSENGERS)]
    booked += [
        small_airline.booking("B-twice", TRAVELLER),
        small_airline.booking("B-back", TRAVELLER, "2"),
        small_airline.booking("B-on", TRAVELLER, "3"),
        small_airline.booking("B-waits", PASSENGERS[1], status=BookingStatus.WAITLISTED),
        small_airline.booking("B-gone", PASSENGERS[2], status=BookingStatus.CANCELLED),
        small_airline.booking("B-other", PASSENGERS[3], "2"),
    ]
    scan = {"at": at(0), "location": "AUH", "status": "LOADED"}
    weighed: dict[str, Any] = {"weight_kg": Decimal("20.5"), "scans": [scan], "source_message": RECEIVED}
    bags = [small_airline.bag(f"060700000{number}", "B-0", **weighed) for number in range(3)]
    bags += [small_airline.bag("0607000009", "B-1", BaggageStatus.MISHANDLED)]
    packed: dict[str, Any] = {
        "uld_number": "AKE12345EY",
        "awb_number": "607-12345675",
        "pieces": 3,
        "source_message": RECEIVED,
    }
    cargo = [small_airline.cargo(f"A-{number}", "100", **packed) for number in range(3)]
    cargo += [small_airline.cargo("A-loaded", "100", status=LoadingStatus.LOADED)]
    closed: dict[str, Any] = {"status": WorkOrderStatus.CLOSED, "category": MelCategory.B}
    orders = [small_airline.work_order(f"WO-{number}", **closed) for number in range(1, 4)]
    licensed = {"licence": "B1", "source_message": RECEIVED}
    shifts = [
        small_airline.shift(f"M-{n}", f"S-{n}", at(n), at(n + 8)).model_copy(update=licensed)
        for n in range(3)
    ]
    swapped = examples.disruption().model_copy(
        update={"aircraft_registration": "A6-BLB", "delay_code": "41", "minutes_told": 240, "settled": True}
    )
    hit = [_build_hit(f"D-{number}", each) for number in range(3) for each in PASSENGERS[:2]]
    return [people, flights, booked, bags, _build_crew(), cargo, orders, shifts, hit, [swapped]]


def _build_crew() -> list[Entity]:
    captain = small_airline.crew("R-00", "C-0", CrewPosition.CAPTAIN, at(1), at(10))
    cabin = [
        small_airline.crew(f"R-{number:02}", f"C-{number % 3}", CrewPosition.CABIN_CREW, at(1), at(10))
        for number in range(1, CREW)
    ]
    return [each.model_copy(update={"source_message": RECEIVED}) for each in (captain, *cabin)]


def _build_hit(disruption_id: str, passenger_id: str) -> DisruptedPassenger:
    """Return the row of a passenger whom a disruption affects."""
    return DisruptedPassenger(
        passenger_id=_id(passenger_id),
        disruption_id=_id(disruption_id),
        flight_number="EY77",
        risk_rank=encode_risk_rank(ReputationRisk.HIGH),
        reputation_risk=ReputationRisk.HIGH,
        booking_id=_id("B-0"),
        missed_connections=0,
        score=7,  # type: ignore[arg-type]
    )


async def _move_half_of_the_roster(stores: Stores) -> None:
    """Leave the roster migration where its process was killed, with a change that it has not copied."""
    dying, tables = make_dying_process(stores)

    def kill_half_way(step: str, done: int, total: int | None) -> None:
        if step == "backfill" and done >= CREW / 2:
            tables.kill()

    with suppress(Killed):
        await migrate(CREW_ROSTER_V2, dying, pace=PACE, progress=kill_half_way)
    copied = await stores.run(CrewDuty.scan(reason="whether half was copied").count())
    assert 0 < copied.count < CREW
    await assign(stores, small_airline.crew("R-new", "C-0", CrewPosition.FIRST_OFFICER, at(1), at(10)))


async def _note_page(stores: Stores, query: PagedRead[Any, Any]) -> dict[str, Any]:
    """Return the cursor of the first page, its keys, and the keys of the rest."""
    first = await stores.run(query)
    assert first.cursor is not None, query.pattern
    rest = await stores.all(query.after(first.cursor))
    return {"cursor": first.cursor, "first": [*map(get_key, first)], "rest": [*map(get_key, rest)]}


def get_key(row: Entity) -> list[str]:
    """Return the values of the row's primary key as texts."""
    declaration = get_declaration(type(row))
    return [str(value) for value in declaration.extract_key(row.to_item()).values()]


def render_row(row: Entity) -> dict[str, Any]:
    """Return a row as the API shows it."""
    return row.model_dump(mode="json")


async def _note_api_pages(stores: Stores) -> dict[str, Any]:
    """Note the first pages that a client of the API has read, and the problem types of two errors."""
    noted = {}
    async with open_client(stores) as client:
        for name, path in API_PAGES.items():
            first = (await client.get(path, params={"limit": 1})).raise_for_status().json()
            whole = (await client.get(path)).raise_for_status().json()
            noted[name] = {"cursor": first["cursor"], "first": first["items"], "all": whole["items"]}
            assert first["cursor"] is not None
        changed = await client.post("/disruptions", json=OUTDATED)
        missing = await client.get("/flights/404")
        noted["problems"] = {"changed": changed.json()["type"], "missing": missing.json()["type"]}
    return noted


async def _decide(stores: Stores) -> dict[str, Any]:
    """Decide on one flight and settle it; decide on another and die before the passengers are recorded.

    Return both disruptions as the API shows them.
    """
    settled = {**LATE, "flight_id": "2"}
    async with open_client(stores) as client:
        (await client.post("/disruptions", json={**settled, "confirm": SETTLED})).raise_for_status()
    dying, tables = make_dying_process(stores)
    tables.last = (TransactWriteItems,)
    with suppress(Killed):
        async with open_client(dying) as client:
            await client.post("/disruptions", json={**LATE, "confirm": CUT_SHORT})
    assert not (await read_disruption(stores, "D-cut-short")).settled
    return {each: render_row(await read_disruption(stores, each)) for each in ("D-cut-short", "D-settled")}


async def read_disruption(stores: Stores, disruption_id: str) -> Disruption:
    found = await stores.run(patterns.disruption(_id(disruption_id)).consistent())
    assert found is not None, disruption_id
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
