"""The sandbox portal's flights and fares, generated from a seed: the same query has the same result.

Every pair of airports is served on every day: nonstop if one of them is a carrier's hub (or both are in its
country and near enough), otherwise over the hub with the shortest detour. Durations follow the great circle;
times are local, with their UTC offsets. A fare is

    distance × cabin × notice (higher from three weeks before departure on) × the carrier's level × stops

and it changes: every `price_step_s` seconds of the clock each flight draws a factor between 0.94 and 1.08
(`compute_price_factor`). Only the current price counts, not an earlier one.
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

from tripcortex.integrations.portal.ports import Leg, Offer
from tripcortex.model.entities import Cabin

EARTH_RADIUS_KM: Final = 6371.0088
SPEED_KM_H: Final = 850.0
GROUND_MINUTES: Final = 40
LONG_HAUL_KM: Final = 14_500.0
MAX_DOMESTIC_NONSTOP_KM: Final = 4_500.0
# A hub nearer than this to either end is not used for a connection.
MIN_HUB_KM: Final = 150.0
MAX_CARRIERS: Final = 5
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
# Days before departure from which a factor applies.
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
    """An airline. `prefix` starts its ticket numbers, `range_km` is the range of its planes."""

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
CARRIERS_BY_CODE: Final = {each.code: each for each in CARRIERS}


class NotFlown(Exception):
    """The route is not served: an unknown airport, or the same airport twice."""


@dataclass(frozen=True)
class Airport:
    iata: str
    country: str
    latitude: float
    longitude: float
    zone: ZoneInfo


@dataclass(frozen=True)
class TripRequest:
    """One pair of airports and the dates. `return_date` is None for a one-way trip."""

    origin: str
    destination: str
    departure_date: date
    return_date: date | None
    cabin: Cabin


@dataclass(frozen=True)
class Timetable:
    """All flights of a seed. An offer expires `offer_life_s` seconds after it was made."""

    seed: int = 0
    price_step_s: float = 900.0
    offer_life_s: float = 3600.0

    def list_offers(self, trip: TripRequest, now: float) -> Iterator[Offer]:
        """Yield the current offers of a pair of airports: two departures of up to five carriers."""
        for carrier in self.find_carriers(trip.origin, trip.destination):
            for departure in range(DEPARTURES):
                yield self.get_offer(trip, carrier, departure, int(now), now)

    def get_offer(self, trip: TripRequest, carrier: Carrier, departure: int, since: int, now: float) -> Offer:
        """Return one offer at its price at `now`.

        `departure` is the number of the departure on its day (0 or 1); `since` is the time in epoch seconds
        at which the offer was made.
        """
        outbound = self.build_legs(carrier, trip.origin, trip.destination, trip.departure_date, departure)
        inbound = (
            self.build_legs(carrier, trip.destination, trip.origin, trip.return_date, departure)
            if trip.return_date
            else []
        )
        fare = self._compute_fare(outbound, trip.cabin, now) + (
            self._compute_fare(inbound, trip.cabin, now) if inbound else Decimal(0)
        )
        return Offer(
            offer_id=build_offer_id(trip, carrier, departure, since),
            expires_at=datetime.fromtimestamp(since + self.offer_life_s, UTC),
            carrier=carrier.code,
            carrier_name=carrier.name,
            cabin=trip.cabin,
            price_usd=fare.quantize(CENT, ROUND_HALF_UP),
            outbound=outbound,
            inbound=inbound,
        )

    def find_carriers(self, origin: str, destination: str) -> list[Carrier]:
        """Return at most five carriers, those with the shortest routes first.

        Carriers of either country get a bonus. Raise `NotFlown` for an unknown airport or the same airport
        twice.
        """
        start, end = get_airport(origin), get_airport(destination)
        if start == end:
            raise NotFlown("from an airport to itself")
        at_home = {start.country, end.country}

        def rank(carrier: Carrier) -> tuple[float, str]:
            way = _compute_route_km(self.find_stops(carrier, origin, destination))
            return way * (0.8 if carrier.country in at_home else 1.0), carrier.code

        # Domestic routes are flown by the country's own carriers, if the list has any.
        domestic = [each for each in CARRIERS if start.country == end.country == each.country]
        able = [each for each in domestic or CARRIERS if self._is_in_range(each, origin, destination)]
        return sorted(able or CARRIERS, key=rank)[:MAX_CARRIERS]

    def _is_in_range(self, carrier: Carrier, origin: str, destination: str) -> bool:
        """Return whether the carrier's planes can fly each leg of its route."""
        way = self.find_stops(carrier, origin, destination)
        return all(compute_distance_km(start, end) <= carrier.range_km for start, end in pairwise(way))

    def find_stops(self, carrier: Carrier, origin: str, destination: str) -> list[Airport]:
        """Return the airports of the carrier's route, both ends included: nonstop, or over one hub."""
        start, end = get_airport(origin), get_airport(destination)
        km = compute_distance_km(start, end)
        is_domestic = start.country == end.country == carrier.country and km <= MAX_DOMESTIC_NONSTOP_KM
        is_from_hub = bool({origin, destination} & set(carrier.hubs)) and km <= carrier.range_km
        # Two in three domestic routes are flown nonstop.
        is_nonstop = is_from_hub or (is_domestic and self._draw(carrier.code, origin, destination) % 3 > 0)
        hubs = [
            hub
            for hub in map(get_airport, carrier.hubs)
            if min(compute_distance_km(start, hub), compute_distance_km(hub, end)) >= MIN_HUB_KM
        ]
        if is_nonstop or not hubs:
            return [start, end]
        return [start, min(hubs, key=lambda hub: _compute_route_km([start, hub, end])), end]

    def build_legs(
        self, carrier: Carrier, origin: str, destination: str, day: date, departure: int
    ) -> list[Leg]:
        """Return the legs of one direction on a day; `departure` is the number of the departure (0 or 1)."""
        way = self.find_stops(carrier, origin, destination)
        drawn = self._draw(carrier.code, origin, destination, departure)
        minutes = drawn % (DEPARTURE_MINUTES // DEPARTURES // 5) * 5 + departure * (
            DEPARTURE_MINUTES // DEPARTURES
        )
        leaves = datetime.combine(day, FIRST_DEPARTURE, way[0].zone) + timedelta(minutes=minutes)
        legs_built: list[Leg] = []
        for start, end in pairwise(way):
            leg = self._build_leg(carrier, start, end, leaves.astimezone(UTC))
            legs_built.append(leg)
            shortest, longest = LAYOVER_MINUTES
            wait = shortest + self._draw(leg.flight_number, day.isoformat()) % (longest - shortest)
            leaves = leg.arrives_at + timedelta(minutes=wait - wait % 5)
        return legs_built

    def _build_leg(self, carrier: Carrier, start: Airport, end: Airport, leaves: datetime) -> Leg:
        """Return one flight; `leaves` is in UTC, the leg's times are local."""
        minutes = round(compute_distance_km(start, end) / SPEED_KM_H * 60) + GROUND_MINUTES
        number = 100 + self._draw(carrier.code, start.iata, end.iata, leaves.hour) % 8900
        return Leg(
            carrier=carrier.code,
            flight_number=f"{carrier.code}{number}",
            origin=start.iata,
            destination=end.iata,
            departs_at=_to_local(leaves, start.zone),
            arrives_at=_to_local(leaves + timedelta(minutes=minutes), end.zone),
            duration_minutes=minutes,
        )

    def _compute_fare(self, legs: list[Leg], cabin: Cabin, now: float) -> Decimal:
        """Return the fare of one direction."""
        km = max(
            _compute_route_km([get_airport(legs[0].origin), get_airport(legs[-1].destination)]), NEAREST_KM
        )
        days = (legs[0].departs_at.date() - datetime.fromtimestamp(now, UTC).date()).days
        level = Decimal(90 + self._draw(legs[0].carrier, legs[0].flight_number) % 26) / 100
        detour = Decimal("1.10") if len(legs) == 1 else Decimal("0.93")
        base = Decimal(40) + Decimal(round(km)) * (Decimal("0.09") if km < 4000 else Decimal("0.06"))
        return (
            base
            * CABIN_FACTOR[cabin]
            * _get_notice_factor(days)
            * level
            * detour
            * self.compute_price_factor(legs[0], now)
        )

    def compute_price_factor(self, leg: Leg, now: float) -> Decimal:
        """Return the leg's price factor in the clock's current step, from 0.94 to 1.08.

        It is 1 if `price_step_s` is 0.
        """
        if not self.price_step_s:
            return Decimal(1)
        step = int(now // self.price_step_s)
        return Decimal(94 + self._draw("price", leg.flight_number, leg.departs_at.date(), step) % 15) / 100

    def _draw(self, *of: object) -> int:
        """Return a random integer that is the same for the same seed and arguments."""
        text = "|".join(map(str, (self.seed, *of)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def build_offer_id(trip: TripRequest, carrier: Carrier, departure: int, since: int) -> str:
    """Return an id that encodes the whole offer, so that a restarted portal still knows its offers."""
    back = f"{trip.return_date:%Y%m%d}" if trip.return_date else "0"
    way = f"{trip.origin}-{trip.destination}-{trip.departure_date:%Y%m%d}-{back}"
    return f"OF-{way}-{trip.cabin}-{carrier.code}{departure}-{since}"


def parse_offer_id(text: str) -> tuple[TripRequest, Carrier, int, int] | None:
    """Parse an offer id: trip, carrier, number of the departure, time of the offer in epoch seconds.

    Return None if it is malformed or names an unknown carrier, cabin or airport.
    """
    found = _OFFER_ID.fullmatch(text)
    if found is None or found["carrier"] not in CARRIERS_BY_CODE or found["cabin"] not in list(Cabin):
        return None
    try:
        out = datetime.strptime(found["out"], "%Y%m%d").date()
        back = None if found["back"] == "0" else datetime.strptime(found["back"], "%Y%m%d").date()
        trip = TripRequest(found["origin"], found["destination"], out, back, Cabin(found["cabin"]))
        get_airport(trip.origin), get_airport(trip.destination)
    except (ValueError, NotFlown):
        return None
    departure = int(found["departure"])
    if departure >= DEPARTURES or trip.origin == trip.destination:
        return None
    return trip, CARRIERS_BY_CODE[found["carrier"]], departure, int(found["since"])


@cache
def get_airport(iata: str) -> Airport:
    """Return the airport with this IATA code. Raise `NotFlown` if there is none."""
    row = _load_airports().get(iata)
    if row is None:
        raise NotFlown(f"no airport has the code {iata}")
    return Airport(iata, row["country"], row["lat"], row["lon"], ZoneInfo(row["tz"]))


@cache
def _load_airports() -> dict[str, Any]:
    return dict(airportsdata.load("IATA"))


def _to_local(moment: datetime, zone: ZoneInfo) -> datetime:
    """Convert to local time with a fixed offset: Python ignores clock changes between times of one zone."""
    there = moment.astimezone(zone)
    return there.replace(tzinfo=timezone(there.utcoffset() or timedelta()))


def compute_distance_km(start: Airport, end: Airport) -> float:
    """Return the great-circle distance."""
    latitudes = sin(radians(end.latitude - start.latitude) / 2) ** 2
    longitudes = sin(radians(end.longitude - start.longitude) / 2) ** 2
    share = latitudes + cos(radians(start.latitude)) * cos(radians(end.latitude)) * longitudes
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, share)))


def _compute_route_km(way: list[Airport]) -> float:
    """Return the sum of the legs' distances."""
    return sum(compute_distance_km(start, end) for start, end in pairwise(way))


def _get_notice_factor(days: int) -> Decimal:
    """Return the fare factor for a departure this many days ahead: higher for less notice."""
    return next((factor for least, factor in NOTICE_FACTOR if days >= least), NOTICE_FACTOR[-1][1])
