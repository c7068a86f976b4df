"""Whose connections a disruption breaks: the passengers' bookings put together to itineraries.

`gathering` has read the bookings and the flights; `connections` knows what is missed and who comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from skymarshal import connections, patterns
from skymarshal.gathering import Found
from skymarshal.model import Booking, Flight, PassengerId
from skymarshal.statuses import DisruptionKind

Missed = Mapping[PassengerId, Sequence[connections.MissedConnection]]


def missed_as_asked(found: Found) -> Missed:
    """What the disruption breaks as it was told."""
    return _missed(found, connections.Disruption(found.flight.flight_id, found.asked.kind, found.delay))


def missed_by_passenger(found: Found, delay: timedelta) -> Missed:
    """What a delay would break."""
    return _missed(found, connections.Disruption(found.flight.flight_id, DisruptionKind.DELAY, delay))


def rank(found: Found, missed: Missed) -> list[connections.RankedPassenger]:
    """Everybody on the flight, in the order in which they are to be helped."""
    return connections.rank_passengers(
        connections.Passenger(
            passenger_id=passenger_id,
            special_services=services_of(found, passenger_id),
            tier=tier_of(found, passenger_id),
            cabin=bookings[0].cabin,
            missed_connections=len(missed[passenger_id]),
        )
        for passenger_id, bookings in found.people.items()
    )


def services_of(found: Found, passenger_id: PassengerId) -> list[str]:
    """What the passenger needs always, and what was asked for with this booking."""
    passenger = found.second.passengers.get(passenger_id)
    own = passenger.special_services if passenger else []
    booked = [service for each in found.people[passenger_id] for service in each.special_services]
    return list(dict.fromkeys([*own, *booked]))


def tier_of(found: Found, passenger_id: PassengerId) -> str | None:
    passenger = found.second.passengers.get(passenger_id)
    return passenger.tier if passenger else None


def _missed(found: Found, disruption: connections.Disruption) -> Missed:
    return {
        passenger_id: connections.missed_connections(
            _legs(found, found.second.itineraries[passenger_id]), disruption
        )
        for passenger_id in found.people
    }


def _legs(found: Found, bookings: Sequence[Booking]) -> list[connections.Leg]:
    """The flights of an itinerary that are flown; a flight booked twice is one leg."""
    flights = {
        booking.flight_id: found.third.flights[booking.flight_id]
        for booking in bookings
        if booking.booking_status.holds_a_seat and booking.flight_id in found.third.flights
    }
    this = found.flight.flight_id
    return [
        _leg(flight)
        for flight in flights.values()
        if flight.flight_id == this or flight.flight_status != patterns.CANCELLED
    ]


def _leg(flight: Flight) -> connections.Leg:
    return connections.Leg(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        departure=flight.scheduled_departure,
        arrival=flight.scheduled_arrival,
        estimated_departure=flight.estimated_departure,
        estimated_arrival=flight.estimated_arrival,
    )
