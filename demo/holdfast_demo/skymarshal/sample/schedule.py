"""The flights of a block of sample data, to which all other sample data refers.

Block 0 holds the design document's rows, around 30 January 2026. Every further block is the same, five days
earlier, with flights, people, crews and aircraft of its own. So the data per flight, passenger and aircraft
is the same at any scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from random import Random
from typing import Final

from skymarshal.domain.airline_network import get_aircraft, get_fleet, get_services
from skymarshal.domain.reference_data import load_rows
from skymarshal.model.entities import Flight, FlightId

# The sample's current time: flight 1 is being loaded.
SAMPLE_TIME: Final = datetime(2026, 1, 30, 1, tzinfo=UTC)
DAY_ZERO: Final = datetime(2026, 1, 30, tzinfo=UTC)
BLOCK_DAYS: Final = 5
# The registrations of a block: this prefix and three letters, so that they never collide with the fleet list.
FLEET_PREFIX: Final = "A6-Z"

LegKey = tuple[str, int]

# The design document's flights 1 and 5, as flight number and day.
DOCUMENTED_LEGS: Final[frozenset[LegKey]] = frozenset({("EY11", 0), ("EY31", 0)})


@dataclass(frozen=True)
class Departure:
    """A flight of the sample.

    `leg_key` is its number and day, `sold` its number of bookings of every status.
    """

    leg_key: LegKey
    flight: Flight
    sold: int

    @property
    def is_flown(self) -> bool:
        """Whether the flight was scheduled to depart before the sample's current time."""
        return self.flight.scheduled_departure < SAMPLE_TIME

    @property
    def has_landed(self) -> bool:
        """Whether the flight arrived before the sample's current time."""
        return self.flight.arrival < SAMPLE_TIME


@dataclass(frozen=True)
class Block:
    """Five days of flying. A fraction below 1 sells fewer seats, except on the design document's flights."""

    index: int
    fraction: float = 1.0

    @property
    def is_first(self) -> bool:
        """Whether this is block 0, which has the design document's rows."""
        return self.index == 0

    def is_documented(self, leg_key: LegKey) -> bool:
        """Return whether the design document names this flight, so that its counts are fixed."""
        return self.is_first and leg_key in DOCUMENTED_LEGS

    def create_random(self, purpose: str) -> Random:
        """Return a random generator for one purpose, with the same numbers on every run.

        Draws for other purposes do not change them.
        """
        return Random(f"skymarshal {purpose} {self.index}")

    def to_global_number(self, per_block: int, count: int) -> int:
        """Convert a number within this block to a number over all blocks, which have `per_block` each."""
        return self.index * per_block + count

    def scale_count(self, count: int) -> int:
        """Scale a count by the block's fraction, rounded."""
        return round(count * self.fraction)

    @cached_property
    def departures(self) -> Mapping[LegKey, Departure]:
        """The flights of the block, by flight number and day."""
        lines = load_rows("sample_flights.csv")
        departures = [self._build_departure(line, row, len(lines)) for line, row in enumerate(lines, 1)]
        return {each.leg_key: each for each in departures}

    @cached_property
    def lines_of_flying(self) -> Sequence[Sequence[Departure]]:
        """Each aircraft's departures in order of time.

        Partners' aircraft are left out: their crews are not in the roster.
        """
        by_aircraft: dict[str, list[Departure]] = {}
        for each in sorted(self.departures.values(), key=lambda each: each.flight.scheduled_departure):
            by_aircraft.setdefault(each.flight.aircraft_registration, []).append(each)
        return [departures for tail, departures in by_aircraft.items() if tail.startswith("A6-")]

    @property
    def registrations(self) -> list[str]:
        """The registrations of the airline's own aircraft that fly in this block."""
        return [departures[0].flight.aircraft_registration for departures in self.lines_of_flying]

    def _build_departure(self, line: int, row: Mapping[str, str], lines: int) -> Departure:
        """Build the departure of a row of the sample flights.

        `line` is its number, `lines` the number of rows.
        """
        service = next(each for each in get_services() if each.flight_number == row["flight_number"])
        tail, leg = get_aircraft(row["aircraft"]), (row["flight_number"], int(row["day"]))
        day = DAY_ZERO + timedelta(days=leg[1] - BLOCK_DAYS * self.index)
        departs = datetime.combine(day, time.fromisoformat(service.departure), UTC)
        arrives = departs + timedelta(minutes=service.minutes)
        late = timedelta(minutes=int(row["delay"])) if row["delay"] else None
        flight = Flight(
            flight_id=FlightId(str(self.to_global_number(lines, line))),
            flight_number=service.flight_number,
            origin=service.origin,
            destination=service.destination,
            scheduled_departure=departs,
            scheduled_arrival=arrives,
            estimated_departure=None if late is None else departs + late,
            estimated_arrival=None if late is None else arrives + late,
            aircraft_registration=self._registration_map.get(tail.registration, tail.registration),
            aircraft_type=tail.type,
            capacity=tail.seats,
            flight_status="ARRIVED" if arrives + (late or timedelta(0)) < SAMPLE_TIME else "SCHEDULED",
            delay_code=row["code"] or None,
        )
        sold = int(row["sold"])
        return Departure(leg, flight, sold if self.is_documented(leg) else self.scale_count(sold))

    @cached_property
    def _registration_map(self) -> Mapping[str, str]:
        """The block's own registrations, by those of the fleet list. Partners' aircraft fly in all blocks."""
        if self.is_first:
            return {}
        own = [each for each in get_fleet() if each.startswith("A6-")]
        return {each: _format_registration(self.index * len(own) + count) for count, each in enumerate(own)}


def build_blocks(scale: float) -> Iterator[Block]:
    """Yield as many whole blocks as the scale has, then a part of one for the remaining fraction."""
    whole = int(scale)
    yield from (Block(index) for index in range(whole))
    if rest := scale - whole:
        yield Block(whole, rest)


def _format_registration(number: int) -> str:
    """Format a registration with three letters that encode the number."""
    return FLEET_PREFIX + "".join(chr(65 + number // 26**power % 26) for power in (2, 1, 0))
