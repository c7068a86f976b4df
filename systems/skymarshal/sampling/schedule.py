"""Which flights a block has. Everything else of the sample hangs on them.

Block 0 holds the document's rows, around 30 January 2026. Every further block is the same five days earlier, with
flights, people, crews and aircraft of its own: so one flight, one passenger and one aircraft have as much as ever,
whatever the scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from random import Random
from typing import Final

from skymarshal.model import Flight, FlightId
from skymarshal.network import aircraft, fleet, services
from skymarshal.reference import rows

# When the sample was taken: flight 1 is being loaded.
NOW: Final = datetime(2026, 1, 30, 1, tzinfo=UTC)
DAY_ZERO: Final = datetime(2026, 1, 30, tzinfo=UTC)
BLOCK_DAYS: Final = 5
# A block's own registrations: three letters after these, so that the fleet list and they never meet.
FLEET_PREFIX: Final = "A6-Z"

Leg = tuple[str, int]

# The document's flights 1 and 5.
DOCUMENTED: Final[frozenset[Leg]] = frozenset({("EY11", 0), ("EY31", 0)})


@dataclass(frozen=True)
class Departure:
    """A flight of the sample, and how many bookings of all kinds it has."""

    leg: Leg
    flight: Flight
    sold: int

    @property
    def is_flown(self) -> bool:
        return self.flight.scheduled_departure < NOW

    @property
    def has_landed(self) -> bool:
        return self.flight.arrival < NOW


@dataclass(frozen=True)
class Block:
    """Five days of flying. A fraction below 1 sells fewer seats, but for the flights that the document names."""

    index: int
    fraction: float = 1.0

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def names(self, leg: Leg) -> bool:
        """Whether this is one of the flights that the document names, and which must have what it says."""
        return self.is_first and leg in DOCUMENTED

    def random(self, purpose: str) -> Random:
        """The same numbers on every run, whatever else was drawn."""
        return Random(f"skymarshal {purpose} {self.index}")

    def number(self, per_block: int, count: int) -> int:
        """A running number over all blocks, from 1."""
        return self.index * per_block + count

    def share(self, count: int) -> int:
        return round(count * self.fraction)

    @cached_property
    def departures(self) -> Mapping[Leg, Departure]:
        lines = rows("sample_flights.csv")
        several = [self._departure(line, row, len(lines)) for line, row in enumerate(lines, 1)]
        return {each.leg: each for each in several}

    @cached_property
    def lines_of_flying(self) -> Sequence[Sequence[Departure]]:
        """Each aircraft's departures in order of time, those of partners left out: their crews are not ours."""
        by_aircraft: dict[str, list[Departure]] = {}
        for each in sorted(self.departures.values(), key=lambda each: each.flight.scheduled_departure):
            by_aircraft.setdefault(each.flight.aircraft_registration, []).append(each)
        return [several for tail, several in by_aircraft.items() if tail.startswith("A6-")]

    @property
    def registrations(self) -> list[str]:
        return [several[0].flight.aircraft_registration for several in self.lines_of_flying]

    def _departure(self, line: int, row: Mapping[str, str], lines: int) -> Departure:
        service = next(each for each in services() if each.flight_number == row["flight_number"])
        tail, leg = aircraft(row["aircraft"]), (row["flight_number"], int(row["day"]))
        day = DAY_ZERO + timedelta(days=leg[1] - BLOCK_DAYS * self.index)
        departs = datetime.combine(day, time.fromisoformat(service.departure), UTC)
        arrives = departs + timedelta(minutes=service.minutes)
        late = timedelta(minutes=int(row["delay"])) if row["delay"] else None
        flight = Flight(
            flight_id=FlightId(str(self.number(lines, line))),
            flight_number=service.flight_number,
            origin=service.origin,
            destination=service.destination,
            scheduled_departure=departs,
            scheduled_arrival=arrives,
            estimated_departure=None if late is None else departs + late,
            estimated_arrival=None if late is None else arrives + late,
            aircraft_registration=self._fleet.get(tail.registration, tail.registration),
            aircraft_type=tail.type,
            capacity=tail.seats,
            flight_status="ARRIVED" if arrives + (late or timedelta(0)) < NOW else "SCHEDULED",
            delay_code=row["code"] or None,
        )
        sold = int(row["sold"])
        return Departure(leg, flight, sold if self.names(leg) else self.share(sold))

    @cached_property
    def _fleet(self) -> Mapping[str, str]:
        """The block's own registrations for those of the fleet list. A partner's aircraft fly in every block."""
        if self.is_first:
            return {}
        ours = [each for each in fleet() if each.startswith("A6-")]
        return {each: _registration(self.index * len(ours) + count) for count, each in enumerate(ours)}


def blocks(scale: float) -> Iterator[Block]:
    """As many whole blocks as the scale has, then a part of one."""
    whole = int(scale)
    yield from (Block(index) for index in range(whole))
    if rest := scale - whole:
        yield Block(whole, rest)


def _registration(number: int) -> str:
    return FLEET_PREFIX + "".join(chr(65 + number // 26**power % 26) for power in (2, 1, 0))
