"""Past disruptions of a block and their passengers: 346 passenger rows at full scale, as in the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from typing import Final

from holdfast_demo.skymarshal.sample.journeys import Journey
from holdfast_demo.skymarshal.sample.schedule import Block, LegKey
from skymarshal.domain.statuses import DisruptionKind, ReputationRisk, encode_risk_rank
from skymarshal.model.entities import DisruptedPassenger, Disruption, DisruptionId

TIER_RISKS: Final = {
    "PLATINUM": ReputationRisk.HIGH,
    "GOLD": ReputationRisk.HIGH,
    "SILVER": ReputationRisk.MEDIUM,
}


@dataclass(frozen=True)
class PastDisruption:
    """A past disruption of a flight: its delay in minutes, its code and the most passengers affected."""

    leg_key: LegKey
    kind: DisruptionKind
    minutes: int
    code: str
    passengers_hit: int


# The first is an aircraft change on the design document's flight, the evening before. Later blocks have it
# on another flight number, so that the rows of EY11 stay the same at any scale.
SWAP: Final = PastDisruption(("EY11", 0), DisruptionKind.SWAP, 0, "46", 120)
SWAP_LATER: Final = PastDisruption(("EY19", -1), DisruptionKind.SWAP, 0, "46", 120)
DELAYS: Final = (
    PastDisruption(("EY31", -1), DisruptionKind.DELAY, 185, "41", 150),
    PastDisruption(("EY1", -2), DisruptionKind.DELAY, 95, "81", 76),
)


def build_disruptions(
    block: Block, journeys: Sequence[Journey]
) -> Iterator[tuple[Disruption, list[DisruptedPassenger]]]:
    """Yield each past disruption of the block with its affected passengers.

    They are the first passengers with a seat on the flight, fewer than planned if fewer have one.
    """
    several = (SWAP if block.is_first else SWAP_LATER, *DELAYS)
    for number, past in enumerate(several, 1):
        disruption_id = DisruptionId(f"D-{block.to_global_number(len(several), number)}")
        aboard = (each for each in journeys if each.has_seat and each.main.leg_key == past.leg_key)
        passengers = [
            _build_disrupted_passenger(disruption_id, past, each)
            for each in islice(aboard, past.passengers_hit)
        ]
        yield _build_disruption(block, disruption_id, past, len(passengers)), passengers


def _build_disruption(
    block: Block, disruption_id: DisruptionId, past: PastDisruption, hit: int
) -> Disruption:
    """Build the settled decision on a past disruption. `hit` is the number of passengers affected."""
    flight = block.departures[past.leg_key].flight
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


def _build_disrupted_passenger(
    disruption_id: DisruptionId, past: PastDisruption, journey: Journey
) -> DisruptedPassenger:
    """Build a passenger's row. The loyalty tier alone sets the risk, and the risk the score: 25, 10 or 0."""
    risk = TIER_RISKS.get(journey.passenger.tier or "", ReputationRisk.LOW)
    return DisruptedPassenger(
        passenger_id=journey.passenger.passenger_id,
        disruption_id=disruption_id,
        flight_number=past.leg_key[0],
        risk_rank=encode_risk_rank(risk),
        reputation_risk=risk,
        booking_id=journey.booking_ids[0],
        score=Decimal({ReputationRisk.HIGH: 25, ReputationRisk.MEDIUM: 10}.get(risk, 0)),
    )
