"""Who misses what: connections that a disruption breaks, and in which order the people are to be helped.

Takes itineraries and ends in ranked passengers whose scores can be explained to them; options build on the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from skymarshal.airports import is_international, minimum_connection_minutes
from skymarshal.statuses import DisruptionKind, ReputationRisk

# A longer stay is a stopover: the passenger left the airport, and no connection is at stake.
CONNECTION_MAX = timedelta(hours=24)

# Who comes first is policy: the points are working values of ours. People who cannot help themselves outrank any
# status and any cabin, whatever these add up to.
NEEDS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "UMNR": (400, "unaccompanied minor"),
        "MEDA": (380, "medical case"),
        "STCR": (380, "stretcher"),
        "OXYG": (360, "oxygen in flight"),
        "WCHC": (300, "wheelchair to the seat"),
        "DPNA": (300, "needs assistance"),
        "BLND": (280, "blind"),
        "DEAF": (280, "deaf"),
        "WCHS": (280, "wheelchair, no steps"),
        "INFT": (260, "travels with an infant"),
        "WCHR": (240, "wheelchair on the ramp"),
    }
)
TIERS: Mapping[str, int] = MappingProxyType({"PLATINUM": 50, "GOLD": 35, "SILVER": 20, "BRONZE": 5})
CABINS: Mapping[str, int] = MappingProxyType({"FIRST": 40, "BUSINESS": 30, "PREMIUM": 15, "ECONOMY": 0})
CABIN_LETTERS: Mapping[str, str] = MappingProxyType(
    {"F": "FIRST", "J": "BUSINESS", "C": "BUSINESS", "W": "PREMIUM", "Y": "ECONOMY"}
)
RISKS: Mapping[ReputationRisk, int] = MappingProxyType(
    {ReputationRisk.HIGH: 25, ReputationRisk.MEDIUM: 10, ReputationRisk.LOW: 0}
)
MISSED_CONNECTION_POINTS = 40
MISSED_CONNECTIONS_COUNTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One flight of an itinerary, times in UTC: as estimated where an estimate is known, else as planned."""

    flight_id: str
    origin: str
    destination: str
    departure: datetime
    arrival: datetime
    estimated_departure: datetime | None = None
    estimated_arrival: datetime | None = None
    arrival_terminal: str | None = None
    departure_terminal: str | None = None

    @property
    def leaves(self) -> datetime:
        return self.estimated_departure or self.departure

    @property
    def arrives(self) -> datetime:
        return self.estimated_arrival or self.arrival


@dataclass(frozen=True, slots=True)
class Disruption:
    """What happens to one flight. The delay is against the plan; a swap that keeps the time has none."""

    flight_id: str
    kind: DisruptionKind
    delay: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class MissedConnection:
    """A change of planes that no longer works; `available` is None when the flight in does not fly at all."""

    inbound: str
    outbound: str
    airport: str
    available: timedelta | None
    needed: timedelta
    legs_lost: int

    def __str__(self) -> str:
        if self.available is None:
            return f"{self.inbound} does not fly, so {self.outbound} from {self.airport} is lost."
        minutes = round(self.available.total_seconds() / 60)
        needed = round(self.needed.total_seconds() / 60)
        return f"{minutes} minutes at {self.airport} for {self.outbound}, and {needed} are needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Passenger:
    """What decides how soon a passenger is helped."""

    passenger_id: str
    special_services: Sequence[str] = ()
    tier: str | None = None
    cabin: str | None = None
    missed_connections: int = 0
    reputation_risk: ReputationRisk = ReputationRisk.LOW


@dataclass(frozen=True, slots=True)
class RankedPassenger:
    """A passenger in the order of help, with the points and what each was given for."""

    passenger_id: str
    score: int
    reasons: tuple[tuple[int, str], ...]


def missed_connections(legs: Iterable[Leg], disruption: Disruption) -> list[MissedConnection]:
    """The connections of one itinerary that the disruption breaks.

    Of a delay, those that were too short before are not its fault. Of a cancelled flight every connection counts, the
    too short ones too: whoever might have run for it needs another way now.

    After a missed flight the passenger is on none of the following ones, so each broken chain is told once, with
    the number of legs that go with it.
    """
    planned = [_as_planned(leg, disruption) for leg in sorted(legs, key=lambda leg: leg.departure)]
    disrupted = [_disrupted(leg, disruption) for leg in planned]
    missed = []
    for index, (before, after) in enumerate(zip(pairwise(planned), pairwise(disrupted), strict=True)):
        found = _missed(before, after, disruption) if _connects(*before) else None
        if found:
            missed.append(replace(found, legs_lost=_chain_length(planned[index + 1 :])))
    return missed


def rank_passengers(passengers: Iterable[Passenger]) -> list[RankedPassenger]:
    """Those to be helped first, first; equals in the order of their ids, so that the list is the same every time."""
    ranked = [_ranked(passenger) for passenger in passengers]
    return sorted(ranked, key=lambda entry: (-entry.score, entry.passenger_id))


def _missed(
    before: tuple[Leg, Leg], after: tuple[Leg, Leg], disruption: Disruption
) -> MissedConnection | None:
    inbound, outbound = after
    needed = _needed(inbound, outbound)
    missed = MissedConnection(inbound.flight_id, outbound.flight_id, inbound.destination, None, needed, 0)
    if inbound.flight_id == disruption.flight_id and disruption.kind is DisruptionKind.CANCEL:
        return missed
    available = outbound.leaves - inbound.arrives
    if available < needed <= before[1].leaves - before[0].arrives:
        return replace(missed, available=available)
    return None


def _as_planned(leg: Leg, disruption: Disruption) -> Leg:
    """The disrupted flight's own estimate may already hold the delay: without it, the delay counts once."""
    if leg.flight_id != disruption.flight_id:
        return leg
    return replace(leg, estimated_departure=None, estimated_arrival=None)


def _disrupted(leg: Leg, disruption: Disruption) -> Leg:
    if leg.flight_id != disruption.flight_id:
        return leg
    return replace(
        leg,
        estimated_departure=leg.departure + disruption.delay,
        estimated_arrival=leg.arrival + disruption.delay,
    )


def _connects(inbound: Leg, outbound: Leg) -> bool:
    stay = outbound.departure - inbound.arrival
    return inbound.destination == outbound.origin and timedelta(0) <= stay <= CONNECTION_MAX


def _needed(inbound: Leg, outbound: Leg) -> timedelta:
    minutes = minimum_connection_minutes(
        inbound.destination,
        inbound_international=is_international(inbound.origin, inbound.destination),
        outbound_international=is_international(outbound.origin, outbound.destination),
        same_terminal=(
            inbound.arrival_terminal is None
            or outbound.departure_terminal is None
            or inbound.arrival_terminal == outbound.departure_terminal
        ),
    )
    return timedelta(minutes=minutes)


def _chain_length(legs: Sequence[Leg]) -> int:
    length = 1
    for inbound, outbound in pairwise(legs):
        if not _connects(inbound, outbound):
            break
        length += 1
    return length


def _ranked(passenger: Passenger) -> RankedPassenger:
    reasons = [NEEDS[code] for code in _codes(passenger.special_services) if code in NEEDS]
    tier = (passenger.tier or "").strip().upper()
    cabin = (passenger.cabin or "").strip().upper()
    cabin = CABIN_LETTERS.get(cabin, cabin)
    missed = passenger.missed_connections
    reasons += [
        (
            MISSED_CONNECTION_POINTS * min(missed, MISSED_CONNECTIONS_COUNTED),
            f"{missed} missed connection{'s' if missed > 1 else ''}",
        ),
        (TIERS.get(tier, 0), f"{tier.capitalize()} member"),
        (CABINS.get(cabin, 0), f"{cabin.capitalize()} cabin"),
        (RISKS[passenger.reputation_risk], f"{passenger.reputation_risk.value.lower()} reputation risk"),
    ]
    given = tuple(
        sorted((reason for reason in reasons if reason[0]), key=lambda reason: (-reason[0], reason[1]))
    )
    return RankedPassenger(passenger.passenger_id, sum(points for points, _ in given), given)


def _codes(special_services: Sequence[str]) -> list[str]:
    return sorted({service.strip().upper()[:4] for service in special_services})
