"""Freight on the flights of a block: shipments of one flight, and some that change planes in Abu Dhabi."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from random import Random
from typing import Final

from skymarshal.identifiers import awb_check_digit
from skymarshal.model import AssignmentId, CargoAssignment, ShipmentId
from skymarshal.sampling.messages import with_message
from skymarshal.sampling.schedule import Block, Departure, Leg
from skymarshal.statuses import CargoSpecialHandling as Handling
from skymarshal.statuses import LoadingStatus

SHIPMENTS: Final = 200
ASSIGNMENTS: Final = 200
# The document's shipment 42 has two legs, so those with two begin there.
FIRST_THROUGH_SHIPMENT: Final = 41
THROUGH: Final[tuple[tuple[Leg, Leg, int], ...]] = (
    (("EY9913", -1), ("EY31", 0), 8),
    (("EY205", -1), ("EY11", 0), 4),
    (("EY205", -2), ("EY11", -1), 4),
)
# How many consignments these flights have in all. The document's flight 5 is EY31 of day 0.
CONSIGNMENTS: Final[dict[Leg, int]] = {
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
    """One shipment on one flight; `place` is its number there, from 0."""

    shipment: int
    leg: int
    departure: Departure
    place: int
    weight: Decimal

    @property
    def handling(self) -> list[Handling]:
        return HANDLING[self.shipment % len(HANDLING)]


def cargo_assignments(block: Block) -> Iterator[CargoAssignment]:
    several = [*_through(block), *_single(block)]
    places: Counter[Leg] = Counter()
    for number, (shipment, leg, departure, weight) in enumerate(several, 1):
        consignment = Consignment(shipment, leg, departure, places[departure.leg], weight)
        places[departure.leg] += 1
        yield _assignment(block, number, consignment)


def _through(block: Block) -> Iterator[tuple[int, int, Departure, Decimal]]:
    draw, shipments = block.random("through freight"), count(FIRST_THROUGH_SHIPMENT)
    for inbound, onward, several in THROUGH:
        for _ in range(several):
            shipment, weight = next(shipments), _weight(draw)
            for leg, flown in enumerate((inbound, onward), 1):
                yield shipment, leg, block.departures[flown], weight


def _single(block: Block) -> Iterator[tuple[int, int, Departure, Decimal]]:
    """What goes by one flight alone, numbered around the others."""
    draw, through = block.random("freight"), sum(several for *_, several in THROUGH)
    shipments = (
        number
        for number in count(1)
        if not FIRST_THROUGH_SHIPMENT <= number < FIRST_THROUGH_SHIPMENT + through
    )
    for flown, total in CONSIGNMENTS.items():
        taken = sum(several for *legs, several in THROUGH if flown in legs)
        for _ in range(taken, total if block.names(flown) else block.share(total)):
            yield next(shipments), 1, block.departures[flown], _weight(draw)


def _weight(draw: Random) -> Decimal:
    return Decimal(draw.randrange(200, 12_000)) / 10


def _assignment(block: Block, number: int, consignment: Consignment) -> CargoAssignment:
    flight, shipment = consignment.departure.flight, block.number(SHIPMENTS, consignment.shipment)
    status = _status(consignment)
    # What is not on a unit yet has neither a number nor, now and then, a weight.
    is_open = status is LoadingStatus.PENDING
    awb, uld = _awb(shipment), f"AKE{10_000 + shipment * 7 % 90_000}EY"
    head = (
        f"{flight.flight_number}/{flight.scheduled_departure:%d%b}/{flight.origin}{flight.destination}\n".upper()
        + f"{awb[:3]}-{awb[3:]}/T{shipment % 9 + 1}K{consignment.weight}/{'/'.join(consignment.handling)}"
    )
    fields = {
        "assignment_id": AssignmentId(f"A-{block.number(ASSIGNMENTS, number):04d}"),
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
    return CargoAssignment(**with_message("FWB", head, fields))


def _status(consignment: Consignment) -> LoadingStatus:
    if consignment.departure.has_landed:
        return LoadingStatus.ARRIVED if consignment.place % 3 == 0 else LoadingStatus.DELIVERED
    if consignment.departure.is_flown:
        return LoadingStatus.DEPARTED
    if consignment.place == 5:
        return LoadingStatus.OFFLOADED
    return LoadingStatus.PENDING if consignment.place % 3 == 1 else LoadingStatus.LOADED


def _awb(shipment: int) -> str:
    serial = f"{(1_234_500 + shipment * 37) % 10_000_000:07d}"
    return f"607{serial}{awb_check_digit(serial)}"
