"""The bags of a block: how many each journey has, where each is and how it came there.

Nobody in the sample ends a journey in Abu Dhabi with a checked bag, and only the first block has bags that are
still there: the airport holds the document's 847 at any scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import chain, count, repeat
from typing import Final

from skymarshal.model import Bag, BagScan, BookingId
from skymarshal.sampling.journeys import Journey
from skymarshal.sampling.messages import with_message
from skymarshal.sampling.schedule import Block
from skymarshal.statuses import BaggageStatus

BAGS: Final = 11_600
BAGS_AT_HUB: Final = 847
HUB: Final = "AUH"
CARRIER: Final = "607"
# The document's summary of the hub, completed to its total.
AT_HUB: Final[dict[BaggageStatus, int]] = {
    BaggageStatus.CHECKED_IN: 450,
    BaggageStatus.LOADED: 320,
    BaggageStatus.TRANSFER: 40,
    BaggageStatus.SCREENED: 20,
    BaggageStatus.ARRIVED: 10,
    BaggageStatus.MISHANDLED: 5,
    BaggageStatus.OFFLOADED: 2,
}
# Journeys whose booking says one bag more than there is, so that a count against the booking has something to find.
MISSING_BAG: Final = (50, 150, 250)


def bag_counts(block: Block, journeys: Sequence[Journey]) -> list[int]:
    """How many bags each journey has checked in."""
    at_hub = [place for place, journey in enumerate(journeys) if _waits_at_hub(block, journey)]
    landed = [place for place, journey in enumerate(journeys) if _is_claimed(journey)]
    counts = [0] * len(journeys)
    elsewhere = max(0, block.share(BAGS) - BAGS_AT_HUB * block.is_first)
    for places, total in ((at_hub, BAGS_AT_HUB), (landed, elsewhere)):
        if not places:
            continue
        # Spread evenly, the first getting the larger share; then some lend one to another.
        for order, place in enumerate(places):
            counts[place] = _up_to(order + 1, total, len(places)) - _up_to(order, total, len(places))
        for lender, borrower in zip(places[4::7], places[6::7], strict=False):
            if counts[lender]:
                counts[lender], counts[borrower] = counts[lender] - 1, counts[borrower] + 1
    return counts


def _up_to(order: int, total: int, places: int) -> int:
    """How many of the total the first places have together, rounded up."""
    return -(-order * total // places)


def paid_for(block: Block, counts: Sequence[int]) -> list[int]:
    """How many bags each booking says, which now and then is one more than there is."""
    return [bags + (block.is_first and place in MISSING_BAG) for place, bags in enumerate(counts)]


def bags(block: Block, journeys: Sequence[Journey], counts: Sequence[int]) -> Iterator[Bag]:
    draw, numbers = block.random("bags"), count(1)
    at_hub = list(chain.from_iterable(repeat(status, share) for status, share in AT_HUB.items()))
    draw.shuffle(at_hub)
    for journey, several in zip(journeys, counts, strict=True):
        waits = _waits_at_hub(block, journey)
        for piece in range(several):
            status = at_hub.pop() if waits else BaggageStatus.DELIVERED
            weight = Decimal(draw.randrange(80, 320)) / 10
            yield _bag(journey, block.number(BAGS, next(numbers)), piece, status, weight)


def _waits_at_hub(block: Block, journey: Journey) -> bool:
    return journey.holds_a_seat and block.names(journey.main.leg)


def _is_claimed(journey: Journey) -> bool:
    """The journey is over, and not in Abu Dhabi."""
    last = journey.legs[-1]
    return journey.holds_a_seat and last.has_landed and last.flight.destination != HUB


def _bag(journey: Journey, number: int, piece: int, status: BaggageStatus, weight: Decimal) -> Bag:
    flight, tag = journey.main.flight, _tag(number)
    head = (
        f".F/{flight.flight_number}/{flight.scheduled_departure:%d%b}/{flight.destination}/Y\n".upper()
        + f".N/{tag}001\n.W/K/{piece + 1}/{weight}\n.P/1{journey.passenger.name}\n.L/{journey.passenger.pnr}"
    )
    scans = _scans(journey, status)
    fields = {
        "baggage_tag": tag,
        "booking_id": BookingId(journey.booking_ids[0]),
        "current_location": scans[-1].location,
        "baggage_status": status,
        "weight_kg": weight,
        "scans": scans,
    }
    return Bag(**with_message("BSM", head, fields))


def _tag(number: int) -> str:
    """A million serials for each leading digit."""
    return f"{number // 1_000_000 % 10}{CARRIER}{number % 1_000_000:06d}"


def _scans(journey: Journey, status: BaggageStatus) -> list[BagScan]:
    """The points of IATA resolution 753 that the bag has passed, ending with the one it is at."""
    first, main, last = journey.legs[0].flight, journey.main.flight, journey.legs[-1].flight
    scans = [
        BagScan(
            at=first.scheduled_departure - timedelta(hours=2),
            location=first.origin,
            status=BaggageStatus.CHECKED_IN,
        )
    ]
    if status is BaggageStatus.DELIVERED:
        scans.append(BagScan(at=main.departure, location=main.origin, status=BaggageStatus.LOADED))
        scans.append(BagScan(at=last.arrival, location=last.destination, status=status))
    elif status is not BaggageStatus.CHECKED_IN or first is not main:
        scans.append(
            BagScan(at=main.scheduled_departure - timedelta(minutes=75), location=main.origin, status=status)
        )
    return scans
