"""Who flies what: passengers and their bookings, journeys of several flights first, then each flight filled up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import count
from random import Random
from typing import Final

from skymarshal.airports import distance_km
from skymarshal.model import Booking, BookingId, Passenger, PassengerId
from skymarshal.reference import rows
from skymarshal.sampling.messages import with_message
from skymarshal.sampling.schedule import Block, Departure, Leg
from skymarshal.statuses import BookingStatus

BOOKINGS: Final = 9_351
PASSENGERS: Final = 9_000
# The document names this passenger; the booking reference and the frequent flyer number are ours.
KNOWN_PASSENGER: Final = PassengerId("OZ69826352P")
KNOWN_PNR: Final = "OZ6982"

# What the flights that the document names have, exactly: confirmed, waitlisted, cancelled.
STATUSES: Final[dict[Leg, tuple[int, int, int]]] = {("EY11", 0): (412, 18, 14), ("EY31", 0): (270, 8, 10)}
CANCELLED_EVERY, NO_SHOW_EVERY, WAITLISTED_EVERY = 37, 61, 43

GIVEN: Final = (
    "AHMED SARA OMAR FATIMA ALI MARYAM JOHN EMMA RAJ PRIYA ARUN ANITA WEI LI CHEN MEI PIERRE CLAIRE HANS ANNA LUCA "
    "GIULIA JAMES OLIVIA HASSAN LAYLA YUSUF NOOR KUMAR DEEPA TARIQ HUDA LIAM GRACE NOAH MIA IVAN OLGA JOSE MARIA"
).split()
FAMILY: Final = (
    "ALMANSOORI KHAN SHARMA PATEL SMITH JONES BROWN WILSON TAYLOR SINGH GUPTA KUMAR NAIR MENON FERNANDO PERERA SILVA "
    "GARCIA LOPEZ MARTIN BERNARD DUBOIS SCHMIDT MUELLER WEBER ROSSI BIANCHI CHEN WANG ZHANG TANAKA SATO KIM PARK "
    "HADDAD SALEH NASSER ALHASHIMI ALZAABI OBRIEN MURPHY CAMPBELL STEWART"
).split()
NEEDS: Final = ("WCHR", "UMNR", "WCHC", "INFT", "BLND", "MEDA", "DEAF", "WCHS")
TIERS: Final = ("BRONZE", "SILVER", "GOLD", "PLATINUM")


@dataclass(frozen=True)
class Journey:
    """One passenger and the bookings of one journey, the main flight's first: bags are filed under that one."""

    passenger: Passenger
    legs: Sequence[Departure]
    main: Departure
    status: BookingStatus
    booking_ids: Sequence[BookingId]

    @property
    def holds_a_seat(self) -> bool:
        return self.status in (BookingStatus.CONFIRMED, BookingStatus.FLOWN)

    @property
    def in_order_of_booking(self) -> list[Departure]:
        return [self.main, *(leg for leg in self.legs if leg is not self.main)]


@dataclass
class _Numbers:
    """What is counted while a block is planned."""

    block: Block
    random: Random
    passengers: Iterator[int] = field(default_factory=lambda: count(1))
    bookings: Iterator[int] = field(default_factory=lambda: count(1))


def journeys(block: Block) -> list[Journey]:
    """Every journey of a block. Those of the document's flight come first."""
    numbers = _Numbers(block, block.random("journeys"))
    found, taken = [], Counter[Leg]()
    for row in rows("sample_journeys.csv"):
        legs = [_leg(block, token) for token in row["flights"].split()]
        for _ in range(_how_many(block, legs, int(row["passengers"]))):
            found.append(_journey(numbers, legs, _seated(legs)))
            taken.update(leg.leg for leg in legs)
    for departure in block.departures.values():
        for status in _statuses_left(block, departure, taken[departure.leg]):
            found.append(_journey(numbers, [departure], status))
    return found


def bookings(several: Sequence[Journey], bag_counts: Sequence[int]) -> Iterator[Booking]:
    """The bookings of all journeys; `bag_counts` says how many bags each journey paid for."""
    seats: Counter[Leg] = Counter()
    for journey, bags in zip(several, bag_counts, strict=True):
        for departure, booking_id in zip(journey.in_order_of_booking, journey.booking_ids, strict=True):
            is_main = departure is journey.main
            status = _on_leg(journey.status, departure)
            seat, cabin = None, _cabin(departure, seats[departure.leg])
            if journey.holds_a_seat:
                seat = _seat(departure, seats[departure.leg])
                seats[departure.leg] += 1
            yield _booking(journey, departure, booking_id, status, seat, cabin, bags if is_main else 0)


def _leg(block: Block, token: str) -> Departure:
    number, _, day = token.partition("@")
    return block.departures[number, int(day)]


def _how_many(block: Block, legs: Sequence[Departure], passengers: int) -> int:
    kept = any(block.names(leg.leg) for leg in legs)
    return passengers if kept else block.share(passengers)


def _seated(legs: Sequence[Departure]) -> BookingStatus:
    return BookingStatus.FLOWN if all(leg.is_flown for leg in legs) else BookingStatus.CONFIRMED


def _on_leg(status: BookingStatus, departure: Departure) -> BookingStatus:
    """A journey that is under way has flown its first flights."""
    return BookingStatus.FLOWN if status is BookingStatus.CONFIRMED and departure.is_flown else status


def _statuses_left(block: Block, departure: Departure, taken: int) -> Iterator[BookingStatus]:
    """What the flight's other bookings have: the document's counts where it names them, a usual mix elsewhere."""
    usual = BookingStatus.FLOWN if departure.is_flown else BookingStatus.CONFIRMED
    if block.names(departure.leg):
        confirmed, waitlisted, cancelled = STATUSES[departure.leg]
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


def _journey(numbers: _Numbers, legs: Sequence[Departure], status: BookingStatus) -> Journey:
    main = max(legs, key=lambda leg: (leg.flight.origin == "AUH", leg.flight.capacity))
    ids = [BookingId(str(numbers.block.number(BOOKINGS, next(numbers.bookings)))) for _ in legs]
    return Journey(_passenger(numbers), legs, main, status, ids)


def _passenger(numbers: _Numbers) -> Passenger:
    number, draw = numbers.block.number(PASSENGERS, next(numbers.passengers)), numbers.random
    is_known = number == 1
    has_card = is_known or draw.random() < 0.3
    return Passenger(
        passenger_id=KNOWN_PASSENGER if is_known else _passenger_id(number),
        name=f"{draw.choice(FAMILY)}/{draw.choice(GIVEN)}",
        pnr=KNOWN_PNR if is_known else _pnr(number),
        frequent_flyer_number=f"EY{100_000_000 + number}" if has_card else None,
        tier=TIERS[min(3, int(draw.expovariate(1.3)))] if has_card else None,
        special_services=[draw.choice(NEEDS)] if not is_known and draw.random() < 0.04 else [],
    )


def _passenger_id(number: int) -> PassengerId:
    digits = number * 7_654_321 % 10**8
    return PassengerId(
        f"{chr(65 + number % 25)}{chr(65 + number // 25 % 26)}{digits:08d}{chr(65 + number % 26)}"
    )


def _pnr(number: int) -> str:
    """Letters alone, so that none is the known one; two in a row of three share theirs, as couples do."""
    party = number - (number % 3 == 2)
    rest, letters = party * 100_000_007 % 26**6, ""
    for _ in range(6):
        rest, letter = divmod(rest, 26)
        letters += chr(65 + letter)
    return letters


def _cabin(departure: Departure, place: int) -> str:
    share = place / max(1, departure.flight.capacity)
    return "F" if share < 0.02 and departure.flight.capacity > 400 else "J" if share < 0.14 else "Y"


def _seat(departure: Departure, place: int) -> str:
    width = "ABCDEFGHJK" if departure.flight.capacity > 250 else "ABCDEF"
    return f"{place // len(width) + 1}{width[place % len(width)]}"


def _booking(
    journey: Journey,
    departure: Departure,
    booking_id: BookingId,
    status: BookingStatus,
    seat: str | None,
    cabin: str,
    bags: int,
) -> Booking:
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
        "fare_paid": _fare(flight.origin, flight.destination, cabin, int(booking_id)),
        "special_services": passenger.special_services,
    }
    return Booking(**with_message("PNL", head, fields))


@lru_cache(maxsize=16_384)
def _fare(origin: str, destination: str, cabin: str, booking: int) -> Decimal:
    usual = 180 + distance_km(origin, destination) * {"F": 1.4, "J": 0.55}.get(cabin, 0.12)
    return Decimal(round(usual * (0.8 + booking % 41 / 100)))
