"""The bags of a block: the number per journey, and where each bag is.

No journey in the sample ends in Abu Dhabi with a checked bag, and only the first block has bags that are
still there: the airport holds the design document's 847 bags at any scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import chain, count, repeat
from typing import Final

from holdfast_demo.skymarshal.sample.journeys import Journey
from holdfast_demo.skymarshal.sample.messages import add_message
from holdfast_demo.skymarshal.sample.schedule import Block
from skymarshal.domain.statuses import BaggageStatus
from skymarshal.model.entities import Bag, BagScan, BookingId

BAGS: Final = 11_600
BAGS_AT_HUB: Final = 847
HUB: Final = "AUH"
CARRIER_CODE: Final = "607"
# The design document's summary for the hub, completed to its total.
HUB_STATUS_COUNTS: Final[dict[BaggageStatus, int]] = {
    BaggageStatus.CHECKED_IN: 450,
    BaggageStatus.LOADED: 320,
    BaggageStatus.TRANSFER: 40,
    BaggageStatus.SCREENED: 20,
    BaggageStatus.ARRIVED: 10,
    BaggageStatus.MISHANDLED: 5,
    BaggageStatus.OFFLOADED: 2,
}
# Journeys whose booking paid for one bag more than exists, so that the check for missing bags finds some.
MISSING_BAG_JOURNEYS: Final = (50, 150, 250)


def count_bags(block: Block, journeys: Sequence[Journey]) -> list[int]:
    """Return the number of checked bags of each journey, in the order of the journeys.

    The bags are shared among journeys that wait at the hub and those that have ended elsewhere; others have
    none.
    """
    at_hub = [index for index, journey in enumerate(journeys) if _is_waiting_at_hub(block, journey)]
    landed = [index for index, journey in enumerate(journeys) if _is_claimed(journey)]
    counts = [0] * len(journeys)
    elsewhere = max(0, block.scale_count(BAGS) - BAGS_AT_HUB * block.is_first)
    for indexes, total in ((at_hub, BAGS_AT_HUB), (landed, elsewhere)):
        if not indexes:
            continue
        # Spread evenly, larger shares first; then move single bags between some journeys.
        for order, index in enumerate(indexes):
            counts[index] = _count_up_to(order + 1, total, len(indexes)) - _count_up_to(
                order, total, len(indexes)
            )
        for lender, borrower in zip(indexes[4::7], indexes[6::7], strict=False):
            if counts[lender]:
                counts[lender], counts[borrower] = counts[lender] - 1, counts[borrower] + 1
    return counts


def _count_up_to(order: int, total: int, places: int) -> int:
    """Return how many of the total the first `order` places have together, rounded up."""
    return -(-order * total // places)


def count_paid_bags(block: Block, counts: Sequence[int]) -> list[int]:
    """Return the number of bags that each booking paid for, which for a few is one more than exists."""
    return [bags + (block.is_first and index in MISSING_BAG_JOURNEYS) for index, bags in enumerate(counts)]


def build_bags(block: Block, journeys: Sequence[Journey], counts: Sequence[int]) -> Iterator[Bag]:
    """Yield the bags of all journeys. `counts` has the number of bags of each journey."""
    draw, numbers = block.create_random("bags"), count(1)
    at_hub = list(chain.from_iterable(repeat(status, share) for status, share in HUB_STATUS_COUNTS.items()))
    draw.shuffle(at_hub)
    for journey, bag_count in zip(journeys, counts, strict=True):
        is_waiting = _is_waiting_at_hub(block, journey)
        for piece in range(bag_count):
            status = at_hub.pop() if is_waiting else BaggageStatus.DELIVERED
            weight = Decimal(draw.randrange(80, 320)) / 10
            yield _build_bag(journey, block.to_global_number(BAGS, next(numbers)), piece, status, weight)


def _is_waiting_at_hub(block: Block, journey: Journey) -> bool:
    """Return whether the passenger has a seat on one of the document's flights, still at the hub."""
    return journey.has_seat and block.is_documented(journey.main.leg_key)


def _is_claimed(journey: Journey) -> bool:
    """Return whether the passenger had a seat and the journey has ended, elsewhere than in Abu Dhabi."""
    last = journey.legs[-1]
    return journey.has_seat and last.has_landed and last.flight.destination != HUB


def _build_bag(journey: Journey, number: int, piece: int, status: BaggageStatus, weight: Decimal) -> Bag:
    """Build a bag of the journey's first booking.

    `number` is its number in the sample, `piece` in the journey.
    """
    flight, tag = journey.main.flight, _format_tag(number)
    head = (
        f".F/{flight.flight_number}/{flight.scheduled_departure:%d%b}/{flight.destination}/Y\n".upper()
        + f".N/{tag}001\n.W/K/{piece + 1}/{weight}\n.P/1{journey.passenger.name}\n.L/{journey.passenger.pnr}"
    )
    scans = _build_scans(journey, status)
    fields = {
        "baggage_tag": tag,
        "booking_id": BookingId(journey.booking_ids[0]),
        "current_location": scans[-1].location,
        "baggage_status": status,
        "weight_kg": weight,
        "scans": scans,
    }
    return Bag(**add_message("BSM", head, fields))


def _format_tag(number: int) -> str:
    """Format the bag tag of a running number. Each leading digit has a million serials."""
    return f"{number // 1_000_000 % 10}{CARRIER_CODE}{number % 1_000_000:06d}"


def _build_scans(journey: Journey, status: BaggageStatus) -> list[BagScan]:
    """Build the scans at the tracking points of IATA resolution 753, up to the bag's current status."""
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
