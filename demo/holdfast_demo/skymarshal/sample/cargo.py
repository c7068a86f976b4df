"""The cargo assignments of a block: shipments on one flight, and some with two legs via Abu Dhabi."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from random import Random
from typing import Final

from holdfast_demo.skymarshal.sample.messages import add_message
from holdfast_demo.skymarshal.sample.schedule import Block, Departure, LegKey
from skymarshal.domain.identifiers import compute_awb_check_digit
from skymarshal.domain.statuses import CargoSpecialHandling as Handling
from skymarshal.domain.statuses import LoadingStatus
from skymarshal.model.entities import AssignmentId, CargoAssignment, ShipmentId

SHIPMENTS: Final = 200
ASSIGNMENTS: Final = 200
# The design document's shipment 42 has two legs, so the numbers of two-leg shipments start just before it.
FIRST_THROUGH_SHIPMENT: Final = 41
THROUGH_SHIPMENTS: Final[tuple[tuple[LegKey, LegKey, int], ...]] = (
    (("EY9913", -1), ("EY31", 0), 8),
    (("EY205", -1), ("EY11", 0), 4),
    (("EY205", -2), ("EY11", -1), 4),
)
# Total consignments of these flights. The design document's flight 5 is EY31 of day 0.
CONSIGNMENTS: Final[dict[LegKey, int]] = {
    ("EY31", 0): 23,
    ("EY11", 0): 14,
    ("EY9913", -1): 22,
    ("EY9813", 0): 24,
    ("EY205", -1): 6,
    ("EY205", -2): 6,
    ("EY11", -1): 12,
    ("EY31", -1): 12,
    ("EY454", -3): 8,
    ("EY1", -2): 7,
    ("EY6419", 0): 6,
}
HANDLING: Final = (
    [Handling.GEN],
    [Handling.PER, Handling.PEF],
    [Handling.GEN],
    [Handling.AVI],
    [Handling.DGR, Handling.ICE],
    [Handling.GEN],
    [Handling.PIL, Handling.COL],
    [Handling.VAL],
    [Handling.PER, Handling.PES],
    [Handling.MAL],
    [Handling.AOG],
)


@dataclass(frozen=True)
class Consignment:
    """One shipment on one flight, before it becomes an assignment.

    `shipment` is its number in the block, `leg` its leg starting at 1, `place` its index on that flight
    starting at 0.
    """

    shipment: int
    leg: int
    departure: Departure
    place: int
    weight: Decimal

    @property
    def handling(self) -> list[Handling]:
        """The handling codes, chosen by the number of the shipment."""
        return HANDLING[self.shipment % len(HANDLING)]


def build_cargo_assignments(block: Block) -> Iterator[CargoAssignment]:
    """Yield every cargo assignment of the block."""
    several = [*_plan_through_shipments(block), *_plan_single_shipments(block)]
    places: Counter[LegKey] = Counter()
    for number, (shipment, leg, departure, weight) in enumerate(several, 1):
        consignment = Consignment(shipment, leg, departure, places[departure.leg_key], weight)
        places[departure.leg_key] += 1
        yield _build_assignment(block, number, consignment)


def _plan_through_shipments(block: Block) -> Iterator[tuple[int, int, Departure, Decimal]]:
    """Yield both legs of each shipment that connects, as shipment, leg number, departure and weight."""
    draw, shipments = block.create_random("through freight"), count(FIRST_THROUGH_SHIPMENT)
    for inbound, onward, several in THROUGH_SHIPMENTS:
        for _ in range(several):
            shipment, weight = next(shipments), _draw_weight(draw)
            for leg, flown in enumerate((inbound, onward), 1):
                yield shipment, leg, block.departures[flown], weight


def _plan_single_shipments(block: Block) -> Iterator[tuple[int, int, Departure, Decimal]]:
    """Yield the shipments on one flight, as shipment, leg number, departure and weight.

    They have the numbers that the connecting ones leave free.
    """
    draw, through = block.create_random("freight"), sum(several for *_, several in THROUGH_SHIPMENTS)
    shipments = (
        number
        for number in count(1)
        if not FIRST_THROUGH_SHIPMENT <= number < FIRST_THROUGH_SHIPMENT + through
    )
    for flown, total in CONSIGNMENTS.items():
        taken = sum(several for *legs, several in THROUGH_SHIPMENTS if flown in legs)
        for _ in range(taken, total if block.is_documented(flown) else block.scale_count(total)):
            yield next(shipments), 1, block.departures[flown], _draw_weight(draw)


def _draw_weight(draw: Random) -> Decimal:
    """Draw a weight in kilograms, from 20 up to 1,200, with one decimal."""
    return Decimal(draw.randrange(200, 12_000)) / 10


def _build_assignment(block: Block, number: int, consignment: Consignment) -> CargoAssignment:
    """Build the stored assignment of a consignment. `number` is the assignment's number in the block."""
    flight, shipment = consignment.departure.flight, block.to_global_number(SHIPMENTS, consignment.shipment)
    status = _derive_status(consignment)
    # Cargo that is not loaded yet has no unit number and sometimes no weight.
    is_open = status is LoadingStatus.PENDING
    awb, uld = _format_awb(shipment), f"AKE{10_000 + shipment * 7 % 90_000}EY"
    route = f"{flight.origin}{flight.destination}"
    head = (
        f"{flight.flight_number}/{flight.scheduled_departure:%d%b}/{route}\n".upper()
        + f"{awb[:3]}-{awb[3:]}/T{shipment % 9 + 1}K{consignment.weight}/{'/'.join(consignment.handling)}"
    )
    fields = {
        "assignment_id": AssignmentId(f"A-{block.to_global_number(ASSIGNMENTS, number):04d}"),
        "shipment_id": ShipmentId(str(shipment)),
        "flight_id": flight.flight_id,
        "loading_status": status,
        "weight_on_flight_kg": None if is_open and consignment.place % 8 == 7 else consignment.weight,
        "uld_number": None if is_open else uld,
        "awb_number": awb,
        "pieces": shipment % 9 + 1,
        "leg": consignment.leg,
        "special_handling": consignment.handling,
    }
    return CargoAssignment(**add_message("FWB", head, fields))


def _derive_status(consignment: Consignment) -> LoadingStatus:
    """Return the loading status by the flight's progress at the sample's time and by the place on it."""
    if consignment.departure.has_landed:
        return LoadingStatus.ARRIVED if consignment.place % 3 == 0 else LoadingStatus.DELIVERED
    if consignment.departure.is_flown:
        return LoadingStatus.DEPARTED
    if consignment.place == 5:
        return LoadingStatus.OFFLOADED
    return LoadingStatus.PENDING if consignment.place % 3 == 1 else LoadingStatus.LOADED


def _format_awb(shipment: int) -> str:
    """Format the air waybill number of a shipment, with a valid check digit."""
    serial = f"{(1_234_500 + shipment * 37) % 10_000_000:07d}"
    return f"607{serial}{compute_awb_check_digit(serial)}"
