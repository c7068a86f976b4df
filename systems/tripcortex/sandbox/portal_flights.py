"""What the sandbox portal flies, and for how much: made from a seed, so that the same question has the same answer.

Every pair of airports is flown on every day: without a stop where one of them is a carrier's hub (or both are in its country
and near enough), else over the hub that is least out of the way. Durations follow the great circle; times are local, with
their offsets. A fare is made of

    distance × cabin × notice (dearer from three weeks before departure on) × the carrier's level × stops

and moves: every `price_step_s` seconds by the clock each flight draws a factor between 0.94 and 1.08 (`moved`). A price is
that of its moment, whatever was said before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import pairwise
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final
from zoneinfo import ZoneInfo

import airportsdata

from tripcortex.model import Cabin
from tripcortex.portal.ports import Leg, Offer

EARTH_RADIUS_KM: Final = 6371.0088
SPEED_KM_H: Final = 850.0
GROUND_MINUTES: Final = 40
LONG_HAUL_KM: Final = 14_500.0
DOMESTIC_NONSTOP_KM_MAX: Final = 4_500.0
# Between these, nobody changes planes.
HUB_KM_MIN: Final = 150.0
CARRIERS_MAX: Final = 5
DEPARTURES: Final = 2
FIRST_DEPARTURE: Final = time(6, 0)
DEPARTURE_MINUTES: Final = 15 * 60
LAYOVER_MINUTES: Final = (70, 175)
NEAREST_KM: Final = 30.0

CABIN_FACTOR: Final = {
    Cabin.economy: Decimal("1"),
    Cabin.premium_economy: Decimal("1.65"),
    Cabin.business: Decimal("3.4"),
    Cabin.first: Decimal("5.2"),
}
# From so many days before departure on.
NOTICE_FACTOR: Final = (
    (21, Decimal("1")),
    (14, Decimal("1.15")),
    (7, Decimal("1.35")),
    (3, Decimal("1.6")),
    (0, Decimal("1.9")),
)
CENT: Final = Decimal("0.01")
_OFFER_ID: Final = re.compile(
    r"OF-(?P<origin>[A-Z]{3})-(?P<destination>[A-Z]{3})-(?P<out>[0-9]{8})-(?P<back>[0-9]{8}|0)"
    r"-(?P<cabin>[a-z_]+)-(?P<carrier>[A-Z0-9]{2})(?P<departure>[0-9])-(?P<since>[0-9]{9,11})"
)


@dataclass(frozen=True)
class Carrier:
    """`prefix` is what its ticket numbers begin with, `range_km` how far its planes fly."""

    code: str
    name: str
    prefix: str
    country: str
    hubs: tuple[str, ...]
    range_km: float = LONG_HAUL_KM


SHORT_RANGE_KM: Final = {"WN": 4_500.0, "B6": 6_000.0, "AS": 6_500.0, "6E": 6_000.0}
CARRIERS: Final = tuple(
    Carrier(code, name, prefix, country, tuple(hubs.split()), SHORT_RANGE_KM.get(code, LONG_HAUL_KM))
    for code, name, prefix, country, hubs in (
        ("UA", "United Airlines", "016", "US", "ORD DEN EWR IAH SFO IAD LAX"),
        ("AA", "American Airlines", "001", "US", "DFW CLT ORD PHL MIA PHX LAX"),
        ("DL", "Delta Air Lines", "006", "US", "ATL DTW MSP SLC SEA JFK BOS"),
        ("WN", "Southwest Airlines", "526", "US", "MDW DAL BWI LAS DEN HOU OAK"),
        ("AS", "Alaska Airlines", "027", "US", "SEA PDX SFO ANC"),
        ("B6", "JetBlue", "279", "US", "JFK BOS FLL"),
        ("AC", "Air Canada", "014", "CA", "YYZ YUL YVR"),
        ("AM", "Aeromexico", "139", "MX", "MEX MTY"),
        ("LA", "LATAM Airlines", "045", "CL", "SCL GRU LIM"),
        ("BA", "British Airways", "125", "GB", "LHR LGW"),
        ("LH", "Lufthansa", "220", "DE", "FRA MUC"),
        ("AF", "Air France", "057", "FR", "CDG ORY"),
        ("KL", "KLM", "074", "NL", "AMS"),
        ("IB", "Iberia", "075", "ES", "MAD"),
        ("TK", "Turkish Airlines", "235", "TR", "IST"),
        ("EK", "Emirates", "176", "AE", "DXB"),
        ("QR", "Qatar Airways", "157", "QA", "DOH"),
        ("ET", "Ethiopian Airlines", "071", "ET", "ADD"),
        ("AI", "Air India", "098", "IN", "DEL BOM"),
        ("6E", "IndiGo", "312", "IN", "DEL HYD BLR BOM"),
        ("SQ", "Singapore Airlines", "618", "SG", "SIN"),
        ("CX", "Cathay Pacific", "160", "HK", "HKG"),
        ("NH", "All Nippon Airways", "205", "JP", "HND NRT"),
        ("QF", "Qantas", "081", "AU", "SYD MEL"),
    )
)
CARRIER_OF: Final = {each.code: each for each in CARRIERS}


class Unflown(Exception):
    """Nothing is flown so: an airport that is not there, or twice the same."""


@dataclass(frozen=True)
class Airport:
    iata: str
    country: str
    latitude: float
    longitude: float
    zone: ZoneInfo


@dataclass(frozen=True)
class Asked:
    """One pair of airports, and when. `back` is None where nobody returns."""

    origin: str
    destination: str
    out: date
    back: date | None
    cabin: Cabin


@dataclass(frozen=True)
class Timetable:
    """All flights of a seed."""

    seed: int = 0
    price_step_s: float = 900.0
    offer_life_s: float = 3600.0

    def offers(self, asked: Asked, now: float) -> Iterator[Offer]:
        """What may be bought for one pair of airports, as it is now."""
        for carrier in self.carriers(asked.origin, asked.destination):
            for departure in range(DEPARTURES):
                yield self.offer(asked, carrier, departure, int(now), now)

    def offer(self, asked: Asked, carrier: Carrier, departure: int, since: int, now: float) -> Offer:
        """The same offer at what it costs now; `since` is when it was made."""
        outbound = self.legs(carrier, asked.origin, asked.destination, asked.out, departure)
        inbound = (
            self.legs(carrier, asked.destination, asked.origin, asked.back, departure) if asked.back else []
        )
        fare = self._fare(outbound, asked.cabin, now) + (
            self._fare(inbound, asked.cabin, now) if inbound else Decimal(0)
        )
        return Offer(
            offer_id=offer_id(asked, carrier, departure, since),
            expires_at=datetime.fromtimestamp(since + self.offer_life_s, UTC),
            carrier=carrier.code,
            carrier_name=carrier.name,
            cabin=asked.cabin,
            price_usd=fare.quantize(CENT, ROUND_HALF_UP),
            outbound=outbound,
            inbound=inbound,
        )

    def carriers(self, origin: str, destination: str) -> list[Carrier]:
        """Those with the shortest ways, the shortest first; one of either country is never far down."""
        start, end = airport(origin), airport(destination)
        if start == end:
            raise Unflown("from an airport to itself")
        at_home = {start.country, end.country}

        def rank(carrier: Carrier) -> tuple[float, str]:
            way = _distance_km(self.stops(carrier, origin, destination))
            return way * (0.8 if carrier.country in at_home else 1.0), carrier.code

        # Inside a country its own carriers fly, where it has any here.
        domestic = [each for each in CARRIERS if start.country == end.country == each.country]
        able = [each for each in domestic or CARRIERS if self._reaches(each, origin, destination)]
        return sorted(able or CARRIERS, key=rank)[:CARRIERS_MAX]

    def _reaches(self, carrier: Carrier, origin: str, destination: str) -> bool:
        way = self.stops(carrier, origin, destination)
        return all(distance_km(start, end) <= carrier.range_km for start, end in pairwise(way))

    def stops(self, carrier: Carrier, origin: str, destination: str) -> list[Airport]:
        """The airports of the way, both ends included."""
        start, end = airport(origin), airport(destination)
        km = distance_km(start, end)
        is_domestic = start.country == end.country == carrier.country and km <= DOMESTIC_NONSTOP_KM_MAX
        is_from_hub = bool({origin, destination} & set(carrier.hubs)) and km <= carrier.range_km
        # Two flights in three of those that could be are flown without a stop.
        is_nonstop = is_from_hub or (is_domestic and self._drawn(carrier.code, origin, destination) % 3 > 0)
        hubs = [
            hub
            for hub in map(airport, carrier.hubs)
            if min(distance_km(start, hub), distance_km(hub, end)) >= HUB_KM_MIN
        ]
        if is_nonstop or not hubs:
            return [start, end]
        return [start, min(hubs, key=lambda hub: _distance_km([start, hub, end])), end]

    def legs(self, carrier: Carrier, origin: str, destination: str, day: date, departure: int) -> list[Leg]:
        way = self.stops(carrier, origin, destination)
        drawn = self._drawn(carrier.code, origin, destination, departure)
        minutes = drawn % (DEPARTURE_MINUTES // DEPARTURES // 5) * 5 + departure * (
            DEPARTURE_MINUTES // DEPARTURES
        )
        leaves = datetime.combine(day, FIRST_DEPARTURE, way[0].zone) + timedelta(minutes=minutes)
        made: list[Leg] = []
        for start, end in pairwise(way):
            leg = self._leg(carrier, start, end, leaves.astimezone(UTC))
            made.append(leg)
            shortest, longest = LAYOVER_MINUTES
            wait = shortest + self._drawn(leg.flight_number, day.isoformat()) % (longest - shortest)
            leaves = leg.arrives_at + timedelta(minutes=wait - wait % 5)
        return made

    def _leg(self, carrier: Carrier, start: Airport, end: Airport, leaves: datetime) -> Leg:
        minutes = round(distance_km(start, end) / SPEED_KM_H * 60) + GROUND_MINUTES
        number = 100 + self._drawn(carrier.code, start.iata, end.iata, leaves.hour) % 8900
        return Leg(
            carrier=carrier.code,
            flight_number=f"{carrier.code}{number}",
            origin=start.iata,
            destination=end.iata,
            departs_at=_local(leaves, start.zone),
            arrives_at=_local(leaves + timedelta(minutes=minutes), end.zone),
            duration_minutes=minutes,
        )

    def _fare(self, legs: list[Leg], cabin: Cabin, now: float) -> Decimal:
        """Of one direction."""
        km = max(_distance_km([airport(legs[0].origin), airport(legs[-1].destination)]), NEAREST_KM)
        days = (legs[0].departs_at.date() - datetime.fromtimestamp(now, UTC).date()).days
        level = Decimal(90 + self._drawn(legs[0].carrier, legs[0].flight_number) % 26) / 100
        detour = Decimal("1.10") if len(legs) == 1 else Decimal("0.93")
        base = Decimal(40) + Decimal(round(km)) * (Decimal("0.09") if km < 4000 else Decimal("0.06"))
        return base * CABIN_FACTOR[cabin] * _notice(days) * level * detour * self.moved(legs[0], now)

    def moved(self, leg: Leg, now: float) -> Decimal:
        """The factor of this step of the clock. With `price_step_s` 0, prices stand."""
        if not self.price_step_s:
            return Decimal(1)
        step = int(now // self.price_step_s)
        return Decimal(94 + self._drawn("price", leg.flight_number, leg.departs_at.date(), step) % 15) / 100

    def _drawn(self, *of: object) -> int:
        text = "|".join(map(str, (self.seed, *of)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def offer_id(asked: Asked, carrier: Carrier, departure: int, since: int) -> str:
    """It says everything of the offer, so that a portal that was restarted still knows what it offered."""
    back = f"{asked.back:%Y%m%d}" if asked.back else "0"
    way = f"{asked.origin}-{asked.destination}-{asked.out:%Y%m%d}-{back}"
    return f"OF-{way}-{asked.cabin}-{carrier.code}{departure}-{since}"


def read_offer_id(text: str) -> tuple[Asked, Carrier, int, int] | None:
    """What an offer was made of: the trip, the carrier, which departure, since when."""
    found = _OFFER_ID.fullmatch(text)
    if found is None or found["carrier"] not in CARRIER_OF or found["cabin"] not in list(Cabin):
        return None
    try:
        out = datetime.strptime(found["out"], "%Y%m%d").date()
        back = None if found["back"] == "0" else datetime.strptime(found["back"], "%Y%m%d").date()
        asked = Asked(found["origin"], found["destination"], out, back, Cabin(found["cabin"]))
        airport(asked.origin), airport(asked.destination)
    except (ValueError, Unflown):
        return None
    departure = int(found["departure"])
    if departure >= DEPARTURES or asked.origin == asked.destination:
        return None
    return asked, CARRIER_OF[found["carrier"]], departure, int(found["since"])


@cache
def airport(iata: str) -> Airport:
    row = _airports().get(iata)
    if row is None:
        raise Unflown(f"no airport has the code {iata}")
    return Airport(iata, row["country"], row["lat"], row["lon"], ZoneInfo(row["tz"]))


@cache
def _airports() -> dict[str, Any]:
    return dict(airportsdata.load("IATA"))


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    """With its offset and not its zone: Python reckons between two times of one zone as if no clock ever changed."""
    there = moment.astimezone(zone)
    return there.replace(tzinfo=timezone(there.utcoffset() or timedelta()))


def distance_km(start: Airport, end: Airport) -> float:
    """Along the great circle."""
    latitudes = sin(radians(end.latitude - start.latitude) / 2) ** 2
    longitudes = sin(radians(end.longitude - start.longitude) / 2) ** 2
    share = latitudes + cos(radians(start.latitude)) * cos(radians(end.latitude)) * longitudes
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, share)))


def _distance_km(way: list[Airport]) -> float:
    return sum(distance_km(start, end) for start, end in pairwise(way))


def _notice(days: int) -> Decimal:
    return next((factor for least, factor in NOTICE_FACTOR if days >= least), NOTICE_FACTOR[-1][1])
