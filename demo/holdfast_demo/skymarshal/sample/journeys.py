"""Sample passengers with their journeys and bookings: first journeys of several flights, then of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import count
from random import Random
from typing import Final

from holdfast_demo.skymarshal.sample.messages import add_message
from holdfast_demo.skymarshal.sample.schedule import Block, Departure, LegKey
from skymarshal.domain.airports import compute_distance_km
from skymarshal.domain.reference_data import load_rows
from skymarshal.domain.statuses import BookingStatus
from skymarshal.model.entities import Booking, BookingId, Passenger, PassengerId

BOOKINGS: Final = 9_351
PASSENGERS: Final = 9_000
# The design document names this passenger, but no booking reference or frequent flyer number.
KNOWN_PASSENGER: Final = PassengerId("OZ69826352P")
KNOWN_PNR: Final = "OZ6982"

# The exact counts of the design document's flights: confirmed, waitlisted, cancelled.
DOCUMENTED_STATUSES: Final[dict[LegKey, tuple[int, int, int]]] = {
    ("EY11", 0): (412, 18, 14),
    ("EY31", 0): (270, 8, 10),
}
CANCELLED_EVERY, NO_SHOW_EVERY, WAITLISTED_EVERY = 37, 61, 43

GIVEN_NAMES: Final = (
    "AHMED SARA OMAR FATIMA ALI MARYAM JOHN EMMA RAJ PRIYA ARUN ANITA WEI LI CHEN MEI PIERRE CLAIRE HANS "
    "ANNA LUCA GIULIA JAMES OLIVIA HASSAN LAYLA YUSUF NOOR KUMAR DEEPA TARIQ HUDA LIAM GRACE NOAH MIA IVAN "
    "OLGA JOSE MARIA"
).split()
FAMILY_NAMES: Final = (
    "ALMANSOORI KHAN SHARMA PATEL SMITH JONES BROWN WILSON TAYLOR SINGH GUPTA KUMAR NAIR MENON FERNANDO "
    "PERERA SILVA GARCIA LOPEZ MARTIN BERNARD DUBOIS SCHMIDT MUELLER WEBER ROSSI BIANCHI CHEN WANG ZHANG "
    "TANAKA SATO KIM PARK HADDAD SALEH NASSER ALHASHIMI ALZAABI OBRIEN MURPHY CAMPBELL STEWART"
).split()
SERVICE_CODES: Final = ("WCHR", "UMNR", "WCHC", "INFT", "BLND", "MEDA", "DEAF", "WCHS")
TIERS: Final = ("BRONZE", "SILVER", "GOLD", "PLATINUM")


@dataclass(frozen=True)
class Journey:
    """One passenger's journey over one or more flights.

    `booking_ids` follow `legs_in_booking_order`: the main flight's booking comes first, and the bags belong
    to it.
    """

    passenger: Passenger
    legs: Sequence[Departure]
    main: Departure
    status: BookingStatus
    booking_ids: Sequence[BookingId]

    @property
    def has_seat(self) -> bool:
        """Whether the journey is confirmed or flown, not waitlisted, cancelled or missed."""
        return self.status in (BookingStatus.CONFIRMED, BookingStatus.FLOWN)

    @property
    def legs_in_booking_order(self) -> list[Departure]:
        """The legs with the main flight first."""
        return [self.main, *(leg for leg in self.legs if leg is not self.main)]


@dataclass
class _Counters:
    """The random generator and the running numbers of the block that is being planned."""

    block: Block
    rng: Random
    passengers: Iterator[int] = field(default_factory=lambda: count(1))
    bookings: Iterator[int] = field(default_factory=lambda: count(1))


def build_journeys(block: Block) -> list[Journey]:
    """Build every journey of a block. Those of the design document's flight come first."""
    numbers = _Counters(block, block.create_random("journeys"))
    result, taken = [], Counter[LegKey]()
    for row in load_rows("sample_journeys.csv"):
        legs = [_find_departure(block, token) for token in row["flights"].split()]
        for _ in range(_scale_passengers(block, legs, int(row["passengers"]))):
            result.append(_build_journey(numbers, legs, _get_seated_status(legs)))
            taken.update(leg.leg_key for leg in legs)
    for departure in block.departures.values():
        for status in _list_remaining_statuses(block, departure, taken[departure.leg_key]):
            result.append(_build_journey(numbers, [departure], status))
    return result


def build_bookings(journeys: Sequence[Journey], bag_counts: Sequence[int]) -> Iterator[Booking]:
    """Yield the bookings of all journeys. `bag_counts` has the number of bags that each journey paid for."""
    seats: Counter[LegKey] = Counter()
    for journey, bags in zip(journeys, bag_counts, strict=True):
        for departure, booking_id in zip(journey.legs_in_booking_order, journey.booking_ids, strict=True):
            is_main = departure is journey.main
            status = _get_leg_status(journey.status, departure)
            seat, cabin = None, _get_cabin(departure, seats[departure.leg_key])
            if journey.has_seat:
                seat = _format_seat(departure, seats[departure.leg_key])
                seats[departure.leg_key] += 1
            yield _build_booking(journey, departure, booking_id, status, seat, cabin, bags if is_main else 0)


def _find_departure(block: Block, token: str) -> Departure:
    """Return the departure of a token such as EY11@0: flight number and day."""
    number, _, day = token.partition("@")
    return block.departures[number, int(day)]


def _scale_passengers(block: Block, legs: Sequence[Departure], passengers: int) -> int:
    """Scale a number of passengers by the block's fraction, except on flights that the document names."""
    is_fixed = any(block.is_documented(leg.leg_key) for leg in legs)
    return passengers if is_fixed else block.scale_count(passengers)


def _get_seated_status(legs: Sequence[Departure]) -> BookingStatus:
    """Return FLOWN if all legs have departed, otherwise CONFIRMED."""
    return BookingStatus.FLOWN if all(leg.is_flown for leg in legs) else BookingStatus.CONFIRMED


def _get_leg_status(status: BookingStatus, departure: Departure) -> BookingStatus:
    """Return the status of one leg. A journey under way has flown its first flights."""
    return BookingStatus.FLOWN if status is BookingStatus.CONFIRMED and departure.is_flown else status


def _list_remaining_statuses(block: Block, departure: Departure, taken: int) -> Iterator[BookingStatus]:
    """Yield the statuses of the flight's other bookings: the design document's counts, or a usual mix.

    `taken` is the number of bookings that the flight already has.
    """
    usual = BookingStatus.FLOWN if departure.is_flown else BookingStatus.CONFIRMED
    if block.is_documented(departure.leg_key):
        confirmed, waitlisted, cancelled = DOCUMENTED_STATUSES[departure.leg_key]
        yield from [usual] * (confirmed - taken)
        yield from [BookingStatus.WAITLISTED] * waitlisted
        yield from [BookingStatus.CANCELLED] * cancelled
        return
    for place in range(taken + 1, departure.sold + 1):
        if place % CANCELLED_EVERY == 0:
            yield BookingStatus.CANCELLED
        elif departure.is_flown and place % NO_SHOW_EVERY == 0:
            yield BookingStatus.NO_SHOW
        elif not departure.is_flown and place % WAITLISTED_EVERY == 0:
            yield BookingStatus.WAITLISTED
        else:
            yield usual


def _build_journey(counters: _Counters, legs: Sequence[Departure], status: BookingStatus) -> Journey:
    """Build a journey for a new passenger.

    Its main flight leaves Abu Dhabi if one does, on the largest aircraft.
    """
    main = max(legs, key=lambda leg: (leg.flight.origin == "AUH", leg.flight.capacity))
    ids = [BookingId(str(counters.block.to_global_number(BOOKINGS, next(counters.bookings)))) for _ in legs]
    return Journey(_build_passenger(counters), legs, main, status, ids)


def _build_passenger(counters: _Counters) -> Passenger:
    """Build the next passenger, with random name, tier and assistance.

    The first one is the design document's.
    """
    number, draw = counters.block.to_global_number(PASSENGERS, next(counters.passengers)), counters.rng
    is_known = number == 1
    has_card = is_known or draw.random() < 0.3
    return Passenger(
        passenger_id=KNOWN_PASSENGER if is_known else _format_passenger_id(number),
        name=f"{draw.choice(FAMILY_NAMES)}/{draw.choice(GIVEN_NAMES)}",
        pnr=KNOWN_PNR if is_known else _format_pnr(number),
        frequent_flyer_number=f"EY{100_000_000 + number}" if has_card else None,
        tier=TIERS[min(3, int(draw.expovariate(1.3)))] if has_card else None,
        special_services=[draw.choice(SERVICE_CODES)] if not is_known and draw.random() < 0.04 else [],
    )


def _format_passenger_id(number: int) -> PassengerId:
    """Format a passenger id of two letters, eight digits and a letter from a running number."""
    digits = number * 7_654_321 % 10**8
    return PassengerId(
        f"{chr(65 + number % 25)}{chr(65 + number // 25 % 26)}{digits:08d}{chr(65 + number % 26)}"
    )


def _format_pnr(number: int) -> str:
    """Format a booking reference of letters only, so that it never equals the known one.

    Of every three passengers, two share a reference, as couples do.
    """
    group = number - (number % 3 == 2)
    rest, letters = group * 100_000_007 % 26**6, ""
    for _ in range(6):
        rest, letter = divmod(rest, 26)
        letters += chr(65 + letter)
    return letters


def _get_cabin(departure: Departure, place: int) -> str:
    """Return the cabin letter of the `place`-th seat: F only on the largest aircraft, then J, then Y."""
    share = place / max(1, departure.flight.capacity)
    return "F" if share < 0.02 and departure.flight.capacity > 400 else "J" if share < 0.14 else "Y"


def _format_seat(departure: Departure, place: int) -> str:
    """Format the `place`-th seat of the aircraft, starting at 0, such as 12C."""
    width = "ABCDEFGHJK" if departure.flight.capacity > 250 else "ABCDEF"
    return f"{place // len(width) + 1}{width[place % len(width)]}"


def _build_booking(
    journey: Journey,
    departure: Departure,
    booking_id: BookingId,
    status: BookingStatus,
    seat: str | None,
    cabin: str,
    bags: int,
) -> Booking:
    """Build one booking of a journey. `bags` is the number of bags paid for."""
    passenger, flight = journey.passenger, departure.flight
    head = (
        f"{flight.flight_number}/{flight.scheduled_departure:%d%b} {flight.origin} PART1\n".upper()
        + f"-{flight.destination}{flight.capacity:03d}{cabin}\n1{passenger.name}-A1 .L/{passenger.pnr}\n"
        + f".R/TKNE HK1 607{2_300_000_000 + int(booking_id)}/1"
    )
    fields = {
        "booking_id": booking_id,
        "passenger_id": passenger.passenger_id,
        "flight_id": flight.flight_id,
        "booking_status": status,
        "seat_number": seat,
        "cabin": cabin,
        "pnr": passenger.pnr,
        "bag_count": bags,
        "fare_paid": _compute_fare(flight.origin, flight.destination, cabin, int(booking_id)),
        "special_services": passenger.special_services,
    }
    return Booking(**add_message("PNL", head, fields))


@lru_cache(maxsize=16_384)
def _compute_fare(origin: str, destination: str, cabin: str, booking: int) -> Decimal:
    """Compute a fare from distance and cabin, varied by the booking's number."""
    usual = 180 + compute_distance_km(origin, destination) * {"F": 1.4, "J": 0.55}.get(cabin, 0.12)
    return Decimal(round(usual * (0.8 + booking % 41 / 100)))
