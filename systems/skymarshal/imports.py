"""How rows of other systems' CSV files become SkyMarshal's entities: what columns are also called, and few changes.

Statuses, bag tags, waybills, flight numbers, airports and times are brought to their stored form by the entities'
own types. Disruptions are not imported: they are decided here. Flights and rosters are changed here too, each change
raising the version: a file that has an older one (1, where it tells none) leaves such a row as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast import Importer, Stores
from holdfast.errors import Conflict
from skymarshal import patterns
from skymarshal.aircraft import aircraft_types
from skymarshal.model import (
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
from skymarshal.roster import reads_from_new_table
from skymarshal.statuses import risk_rank


def _flight(values: dict[str, Any]) -> dict[str, Any]:
    """The seats of a flight are those of its type, where the file does not count them."""
    known = aircraft_types().get(str(values.get("aircraft_type", "")).upper())
    return values if "capacity" in values or known is None else values | {"capacity": known.seats}


def _disrupted_passenger(values: dict[str, Any]) -> dict[str, Any]:
    """The rank follows from the risk, whatever a file says of it."""
    risk = values.get("reputation_risk")
    return values if risk is None else values | {"risk_rank": risk_rank(risk)}


async def _roster_not_moved(stores: Stores) -> None:
    """Once crews are read from the new table, rows of the old one would be seen by nobody."""
    if await reads_from_new_table(stores):
        raise Conflict(
            "The crew roster has moved to CrewRoster_v2: import the file there, its columns are the same."
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
            normalise=_flight,
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
            check=_roster_not_moved,
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
            normalise=_disrupted_passenger,
            derived=frozenset({"risk_rank"}),
        ),
    }
)
