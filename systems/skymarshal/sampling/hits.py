"""Disruptions of the past and the passengers they hit: 346 in a block, as the document has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from typing import Final

from skymarshal.model import DisruptedPassenger, Disruption, DisruptionId
from skymarshal.sampling.journeys import Journey
from skymarshal.sampling.schedule import Block, Leg
from skymarshal.statuses import DisruptionKind, ReputationRisk, risk_rank

TIER_RISKS: Final = {
    "PLATINUM": ReputationRisk.HIGH,
    "GOLD": ReputationRisk.HIGH,
    "SILVER": ReputationRisk.MEDIUM,
}


@dataclass(frozen=True)
class Past:
    """What happened to a flight, and how many passengers felt it."""

    leg: Leg
    kind: DisruptionKind
    minutes: int
    code: str
    hit: int


# The first is a change of aircraft on the document's flight, the evening before. Later blocks have it on another
# flight number, so that what is filed under EY11 stays the same at any scale.
SWAP: Final = Past(("EY11", 0), DisruptionKind.SWAP, 0, "46", 120)
SWAP_LATER: Final = Past(("EY19", -1), DisruptionKind.SWAP, 0, "46", 120)
DELAYS: Final = (
    Past(("EY31", -1), DisruptionKind.DELAY, 185, "41", 150),
    Past(("EY1", -2), DisruptionKind.DELAY, 95, "81", 76),
)


def disruptions(
    block: Block, journeys: Sequence[Journey]
) -> Iterator[tuple[Disruption, list[DisruptedPassenger]]]:
    several = (SWAP if block.is_first else SWAP_LATER, *DELAYS)
    for number, past in enumerate(several, 1):
        disruption_id = DisruptionId(f"D-{block.number(len(several), number)}")
        aboard = (each for each in journeys if each.holds_a_seat and each.main.leg == past.leg)
        passengers = [_hit(disruption_id, past, each) for each in islice(aboard, past.hit)]
        yield _disruption(block, disruption_id, past, len(passengers)), passengers


def _disruption(block: Block, disruption_id: DisruptionId, past: Past, hit: int) -> Disruption:
    flight = block.departures[past.leg].flight
    is_swap = past.kind is DisruptionKind.SWAP
    return Disruption(
        disruption_id=disruption_id,
        flight_id=flight.flight_id,
        flight_number=flight.flight_number,
        disruption_kind=past.kind,
        delay_minutes=past.minutes,
        delay_code=past.code,
        aircraft_registration=flight.aircraft_registration if is_swap else None,
        option=past.kind.value,
        decided_by="duty manager",
        decided_at=flight.scheduled_departure - timedelta(hours=9 if is_swap else 1),
        passengers_hit=hit,
        settled=True,
    )


def _hit(disruption_id: DisruptionId, past: Past, journey: Journey) -> DisruptedPassenger:
    risk = TIER_RISKS.get(journey.passenger.tier or "", ReputationRisk.LOW)
    return DisruptedPassenger(
        passenger_id=journey.passenger.passenger_id,
        disruption_id=disruption_id,
        flight_number=past.leg[0],
        risk_rank=risk_rank(risk),
        reputation_risk=risk,
        booking_id=journey.booking_ids[0],
        score=Decimal({ReputationRisk.HIGH: 25, ReputationRisk.MEDIUM: 10}.get(risk, 0)),
    )
