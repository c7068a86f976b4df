"""Missed connections and the order of help, computed from the itineraries in a disruption's context.

`context` has read the bookings and flights; `connections` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from skymarshal.disruptions.context import DisruptionContext
from skymarshal.domain import connections
from skymarshal.domain.statuses import DisruptionKind
from skymarshal.model import patterns
from skymarshal.model.entities import Booking, Flight, PassengerId

MissedByPassenger = Mapping[PassengerId, Sequence[connections.MissedConnection]]


def find_missed_by_passenger(context: DisruptionContext) -> MissedByPassenger:
    """Return the connections that the requested disruption breaks, for every passenger of the flight.

    A passenger who misses none has an empty sequence.
    """
    return _find_missed(
        context, connections.FlightDisruption(context.flight.flight_id, context.request.kind, context.delay)
    )


def find_missed_with_delay(context: DisruptionContext, delay: timedelta) -> MissedByPassenger:
    """Return the connections that a delay of this length would break, for every passenger of the flight."""
    return _find_missed(
        context, connections.FlightDisruption(context.flight.flight_id, DisruptionKind.DELAY, delay)
    )


def rank_passengers(
    context: DisruptionContext, missed: MissedByPassenger
) -> list[connections.RankedPassenger]:
    """Score all passengers of the flight by need, tier, cabin and missed connections, most urgent first."""
    return connections.rank_passengers(
        connections.PassengerProfile(
            passenger_id=passenger_id,
            special_services=get_special_services(context, passenger_id),
            tier=get_tier(context, passenger_id),
            cabin=bookings[0].cabin,
            missed_connections=len(missed[passenger_id]),
        )
        for passenger_id, bookings in context.bookings_by_passenger.items()
    )


def get_special_services(context: DisruptionContext, passenger_id: PassengerId) -> list[str]:
    """Return a passenger's special services: those of the profile, then of the bookings on this flight."""
    passenger = context.second.passengers.get(passenger_id)
    own = passenger.special_services if passenger else []
    booked = [
        service for each in context.bookings_by_passenger[passenger_id] for service in each.special_services
    ]
    return list(dict.fromkeys([*own, *booked]))


def get_tier(context: DisruptionContext, passenger_id: PassengerId) -> str | None:
    """Return the loyalty tier of a passenger, or None if the passenger has no profile or no tier."""
    passenger = context.second.passengers.get(passenger_id)
    return passenger.tier if passenger else None


def _find_missed(context: DisruptionContext, disruption: connections.FlightDisruption) -> MissedByPassenger:
    """Return the connections that a disruption of the flight breaks, for every passenger of the flight."""
    return {
        passenger_id: connections.find_missed_connections(
            _build_legs(context, context.second.itineraries[passenger_id]), disruption
        )
        for passenger_id in context.bookings_by_passenger
    }


def _build_legs(context: DisruptionContext, bookings: Sequence[Booking]) -> list[connections.Leg]:
    """Build the legs of an itinerary from the bookings that hold a seat.

    Other flights that are cancelled or unknown are left out. A flight booked twice is one leg.
    """
    flights = {
        booking.flight_id: context.third.flights[booking.flight_id]
        for booking in bookings
        if booking.booking_status.has_seat and booking.flight_id in context.third.flights
    }
    this = context.flight.flight_id
    return [
        _build_leg(flight)
        for flight in flights.values()
        if flight.flight_id == this or flight.flight_status != patterns.CANCELLED
    ]


def _build_leg(flight: Flight) -> connections.Leg:
    """Convert a flight to a leg with scheduled and estimated times."""
    return connections.Leg(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        departure=flight.scheduled_departure,
        arrival=flight.scheduled_arrival,
        estimated_departure=flight.estimated_departure,
        estimated_arrival=flight.estimated_arrival,
    )
