"""The CSV importer of each table: its entity, import pattern, column aliases and derived values.

The entities' own types normalise statuses, bag tags, waybills, flight numbers, airports and times. The table
Disruptions has no importer: SkyMarshal itself records decisions. SkyMarshal also changes flights and rosters,
and each change raises their version: a file with an older version (1 if it has none) leaves such a row as it
is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast import Stores
from holdfast.core.errors import Conflict
from holdfast.runtime import Importer
from skymarshal.domain.aircraft_types import get_aircraft_types
from skymarshal.domain.statuses import encode_risk_rank
from skymarshal.model import patterns
from skymarshal.model.entities import (
    Bag,
    Booking,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    DisruptedPassenger,
    Flight,
    MaintenanceShift,
    Passenger,
    WorkOrder,
)
from skymarshal.model.roster import is_roster_switched


def _fill_capacity(values: dict[str, Any]) -> dict[str, Any]:
    """Add the seats of the aircraft type if the row has no capacity and the type is known."""
    known = get_aircraft_types().get(str(values.get("aircraft_type", "")).upper())
    return values if "capacity" in values or known is None else values | {"capacity": known.seats}


def _fill_risk_rank(values: dict[str, Any]) -> dict[str, Any]:
    """Add the risk rank that encodes the row's risk. A rank in the file is overwritten."""
    risk = values.get("reputation_risk")
    return values if risk is None else values | {"risk_rank": encode_risk_rank(risk)}


async def _check_roster_not_switched(stores: Stores) -> None:
    """Raise `Conflict` once crews are read from the new table: rows in the old one would never be read."""
    if await is_roster_switched(stores):
        raise Conflict(
            "The crew roster has moved to CrewRoster_v2. Import the file there; the columns are the same."
        )


IMPORTS: Mapping[str, Importer] = MappingProxyType(
    {
        "Passengers": Importer(
            Passenger,
            patterns.import_passengers,
            aliases={
                "pax_id": "passenger_id",
                "passenger_name": "name",
                "booking_reference": "pnr",
                "record_locator": "pnr",
                "ff_number": "frequent_flyer_number",
                "loyalty_tier": "tier",
                "ssr": "special_services",
            },
        ),
        "Flights": Importer(
            Flight,
            put_each=patterns.import_flight,
            aliases={
                "flight_no": "flight_number",
                "flight": "flight_number",
                "from": "origin",
                "origin_airport": "origin",
                "dep_airport": "origin",
                "to": "destination",
                "dest": "destination",
                "arr_airport": "destination",
                "std": "scheduled_departure",
                "sta": "scheduled_arrival",
                "etd": "estimated_departure",
                "eta": "estimated_arrival",
                "tail": "aircraft_registration",
                "tailnum": "aircraft_registration",
                "tail_number": "aircraft_registration",
                "registration": "aircraft_registration",
                "type": "aircraft_type",
                "seats": "capacity",
                "status": "flight_status",
            },
            normalise=_fill_capacity,
            derived=frozenset({"capacity"}),
        ),
        "Bookings": Importer(
            Booking,
            patterns.import_bookings,
            aliases={
                "pax_id": "passenger_id",
                "status": "booking_status",
                "seat": "seat_number",
                "class": "cabin",
                "record_locator": "pnr",
                "bags": "bag_count",
                "fare": "fare_paid",
                "ssr": "special_services",
            },
        ),
        "Baggage": Importer(
            Bag,
            patterns.import_bags,
            aliases={
                "tag": "baggage_tag",
                "bag_tag": "baggage_tag",
                "tag_number": "baggage_tag",
                "licence_plate": "baggage_tag",
                "location": "current_location",
                "station": "current_location",
                "status": "baggage_status",
                "bag_status": "baggage_status",
                "weight": "weight_kg",
            },
        ),
        "CrewRoster": Importer(
            CrewAssignment,
            put_each=patterns.import_crew_assignment,
            aliases={"position": "position_id", "status": "roster_status", "base": "home_base"},
            check=_check_roster_not_switched,
        ),
        "CrewRoster_v2": Importer(
            CrewDuty,
            put_each=patterns.import_crew_duty,
            aliases={"position": "position_id", "status": "roster_status", "base": "home_base"},
        ),
        "CargoFlightAssignments": Importer(
            CargoAssignment,
            patterns.import_cargo,
            aliases={
                "status": "loading_status",
                "weight": "weight_on_flight_kg",
                "weight_kg": "weight_on_flight_kg",
                "uld": "uld_number",
                "awb": "awb_number",
                "air_waybill": "awb_number",
                "shc": "special_handling",
            },
        ),
        "MaintenanceRoster": Importer(
            MaintenanceShift,
            patterns.import_maintenance_shifts,
            aliases={
                "shift_start": "shift_start_zulu",
                "shift_end": "shift_end_zulu",
                "work_order": "workorder_id",
                "work_order_id": "workorder_id",
                "technician_id": "staff_id",
                "license": "licence",
            },
        ),
        "WorkOrders": Importer(
            WorkOrder,
            patterns.import_work_orders,
            aliases={
                "tail": "aircraft_registration",
                "tail_number": "aircraft_registration",
                "registration": "aircraft_registration",
                "work_order": "workorder_id",
                "work_order_id": "workorder_id",
                "status": "work_status",
                "mel": "mel_category",
                "opened": "opened_on",
            },
        ),
        "DisruptedPassengers": Importer(
            DisruptedPassenger,
            patterns.note_disrupted_passengers,
            aliases={"flight": "flight_number", "risk": "reputation_risk"},
            normalise=_fill_risk_rank,
            derived=frozenset({"risk_rank"}),
        ),
    }
)
