"""Rules for missed connections and for the order in which passengers of a disrupted flight are helped.

The functions take itineraries and passenger profiles and return missed connections and ranked passengers with
the reasons for their scores. `recovery_options` uses the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from skymarshal.domain.airports import get_min_connection_minutes, is_international
from skymarshal.domain.statuses import DisruptionKind, ReputationRisk

# A longer stay is a stopover, not a connection: the passenger leaves the airport.
MAX_CONNECTION = timedelta(hours=24)

# The order of help is policy; the points are working values of this project. Passengers who need assistance
# outrank every combination of tier and cabin.
NEED_POINTS: Mapping[str, tuple[int, str]] = MappingProxyType(
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
TIER_POINTS: Mapping[str, int] = MappingProxyType({"PLATINUM": 50, "GOLD": 35, "SILVER": 20, "BRONZE": 5})
CABIN_POINTS: Mapping[str, int] = MappingProxyType({"FIRST": 40, "BUSINESS": 30, "PREMIUM": 15, "ECONOMY": 0})
CABIN_LETTERS: Mapping[str, str] = MappingProxyType(
    {"F": "FIRST", "J": "BUSINESS", "C": "BUSINESS", "W": "PREMIUM", "Y": "ECONOMY"}
)
RISK_POINTS: Mapping[ReputationRisk, int] = MappingProxyType(
    {ReputationRisk.HIGH: 25, ReputationRisk.MEDIUM: 10, ReputationRisk.LOW: 0}
)
MISSED_CONNECTION_POINTS = 40
MAX_MISSED_CONNECTIONS_COUNTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One flight of an itinerary, times in UTC. An estimate, where known, replaces the planned time."""

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
    def expected_departure(self) -> datetime:
        """The estimated departure, or without an estimate the planned one."""
        return self.estimated_departure or self.departure

    @property
    def expected_arrival(self) -> datetime:
        """The estimated arrival, or without an estimate the planned one."""
        return self.estimated_arrival or self.arrival


@dataclass(frozen=True, slots=True)
class FlightDisruption:
    """The disruption of one flight. `delay` counts from the plan; a swap that keeps the time has none."""

    flight_id: str
    kind: DisruptionKind
    delay: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class MissedConnection:
    """A connection that no longer works, given by the ids of its two flights.

    `available` is None if the inbound flight is cancelled, negative if the outbound flight leaves earlier.
    `legs_lost` counts the outbound flight and the ones connecting after it.
    """

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
        return f"{minutes} minutes at {self.airport} for {self.outbound}, {needed} are needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class PassengerProfile:
    """The facts that decide how soon a passenger is helped."""

    passenger_id: str
    special_services: Sequence[str] = ()
    tier: str | None = None
    cabin: str | None = None
    missed_connections: int = 0
    reputation_risk: ReputationRisk = ReputationRisk.LOW


@dataclass(frozen=True, slots=True)
class RankedPassenger:
    """A passenger's score, with the points and the text of each reason, most points first."""

    passenger_id: str
    score: int
    reasons: tuple[tuple[int, str], ...]


def find_missed_connections(legs: Iterable[Leg], disruption: FlightDisruption) -> list[MissedConnection]:
    """Return the connections of one itinerary that the disruption breaks.

    A delay is not blamed for connections that were too short before. A cancellation breaks every connection
    of the flight, the too short ones included: a passenger who might have run for it needs another way now.

    After a missed flight the passenger is on none of the following ones, so each broken chain is returned
    once, with the number of legs lost.
    """
    planned = [_drop_estimate(leg, disruption) for leg in sorted(legs, key=lambda leg: leg.departure)]
    disrupted = [_apply_delay(leg, disruption) for leg in planned]
    missed = []
    for index, (before, after) in enumerate(zip(pairwise(planned), pairwise(disrupted), strict=True)):
        found = _check_connection(before, after, disruption) if _is_connection(*before) else None
        if found:
            missed.append(replace(found, legs_lost=_count_chain_legs(planned[index + 1 :])))
    return missed


def rank_passengers(passengers: Iterable[PassengerProfile]) -> list[RankedPassenger]:
    """Score passengers and sort them, most urgent first; equal scores by id, so that the order is stable."""
    ranked = [_score_passenger(passenger) for passenger in passengers]
    return sorted(ranked, key=lambda entry: (-entry.score, entry.passenger_id))


def _check_connection(
    before: tuple[Leg, Leg], after: tuple[Leg, Leg], disruption: FlightDisruption
) -> MissedConnection | None:
    """Return the connection if the disruption breaks it, otherwise None.

    `before` and `after` are its two legs without and with the disruption. `legs_lost` is left at 0.
    """
    inbound, outbound = after
    needed = _get_needed_time(inbound, outbound)
    missed = MissedConnection(inbound.flight_id, outbound.flight_id, inbound.destination, None, needed, 0)
    if inbound.flight_id == disruption.flight_id and disruption.kind is DisruptionKind.CANCEL:
        return missed
    available = outbound.expected_departure - inbound.expected_arrival
    if available < needed <= before[1].expected_departure - before[0].expected_arrival:
        return replace(missed, available=available)
    return None


def _drop_estimate(leg: Leg, disruption: FlightDisruption) -> Leg:
    """Remove the disrupted flight's own estimate, which may already include the delay: it must count once."""
    if leg.flight_id != disruption.flight_id:
        return leg
    return replace(leg, estimated_departure=None, estimated_arrival=None)


def _apply_delay(leg: Leg, disruption: FlightDisruption) -> Leg:
    """Return the leg with the delay as its estimate if it is the disrupted flight, otherwise as it is."""
    if leg.flight_id != disruption.flight_id:
        return leg
    return replace(
        leg,
        estimated_departure=leg.departure + disruption.delay,
        estimated_arrival=leg.arrival + disruption.delay,
    )


def _is_connection(inbound: Leg, outbound: Leg) -> bool:
    """Return whether the legs meet at one airport with a planned stay of at most 24 hours."""
    stay = outbound.departure - inbound.arrival
    return inbound.destination == outbound.origin and timedelta(0) <= stay <= MAX_CONNECTION


def _get_needed_time(inbound: Leg, outbound: Leg) -> timedelta:
    """Return the minimum connection time between two legs. Unknown terminals count as the same."""
    minutes = get_min_connection_minutes(
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


def _count_chain_legs(legs: Sequence[Leg]) -> int:
    """Count the first leg and the following ones that connect without a break."""
    length = 1
    for inbound, outbound in pairwise(legs):
        if not _is_connection(inbound, outbound):
            break
        length += 1
    return length


def _score_passenger(passenger: PassengerProfile) -> RankedPassenger:
    """Score one passenger by needs, missed connections, tier, cabin and risk.

    Reasons without points are left out.
    """
    reasons = [
        NEED_POINTS[code] for code in _parse_service_codes(passenger.special_services) if code in NEED_POINTS
    ]
    tier = (passenger.tier or "").strip().upper()
    cabin = (passenger.cabin or "").strip().upper()
    cabin = CABIN_LETTERS.get(cabin, cabin)
    missed = passenger.missed_connections
    reasons += [
        (
            MISSED_CONNECTION_POINTS * min(missed, MAX_MISSED_CONNECTIONS_COUNTED),
            f"{missed} missed connection{'s' if missed > 1 else ''}",
        ),
        (TIER_POINTS.get(tier, 0), f"{tier.capitalize()} member"),
        (CABIN_POINTS.get(cabin, 0), f"{cabin.capitalize()} cabin"),
        (
            RISK_POINTS[passenger.reputation_risk],
            f"{passenger.reputation_risk.value.lower()} reputation risk",
        ),
    ]
    counted = tuple(
        sorted((reason for reason in reasons if reason[0]), key=lambda reason: (-reason[0], reason[1]))
    )
    return RankedPassenger(passenger.passenger_id, sum(points for points, _ in counted), counted)


def _parse_service_codes(special_services: Sequence[str]) -> list[str]:
    """Return the distinct four-letter codes of the services, sorted."""
    return sorted({service.strip().upper()[:4] for service in special_services})
