"""What a disruption owes its passengers: EU261, UK261, refunds under the US rule, ceilings of Montreal.

Takes a journey as planned and what became of it; returns money with the rule that gives it. The amounts and
thresholds are data (`data/eu261.json`); the reasoning is here. An estimate for operations, not legal advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from skymarshal.airports import Zone, airport_of, distance_km
from skymarshal.delay_codes import delay_code
from skymarshal.reference import Record, Source, document
from skymarshal.statuses import DisruptionKind

RegimeName = Literal["EU261", "UK261"]
HALF = Decimal("0.5")


class Band(Record):
    km_max: int | None
    amount: Decimal
    reduced_within_hours: int
    care_after_hours: int


class Regime(Record):
    currency: str
    source: Source
    bands: tuple[Band, ...]


class Notice(Record):
    days_min: int
    departs_early_hours_max: int | None
    arrives_late_hours_below: int | None
    paragraph: str


class UsRefund(Record):
    domestic_hours: int
    international_hours: int
    source: Source


class Montreal(Record):
    baggage_sdr: Decimal
    delay_sdr: Decimal
    cargo_sdr_per_kg: Decimal
    source: Source


class PassengerRights(Record):
    regimes: Mapping[RegimeName, Regime]
    compensated_delay_hours: int
    refund_delay_hours: int
    notice: tuple[Notice, ...]
    us_refund: UsRefund
    montreal: Montreal
    carriers: Mapping[Zone, tuple[str, ...]]
    carriers_note: str


RIGHTS = document("eu261.json", PassengerRights)


@dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"


@dataclass(frozen=True, slots=True)
class Reroute:
    """The other flight offered: how much earlier it leaves and how much later it arrives than the one planned."""

    departs_early: timedelta = timedelta(0)
    arrives_late: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptedJourney:
    """One journey, first airport to final destination, and what happened to it.

    `arrival_delay` is at the final destination, which a missed connection makes far longer than the flight's own;
    `departure_delay` is taken to be the same where it is not given.
    """

    origin: str
    destination: str
    carrier: str
    kind: DisruptionKind = DisruptionKind.DELAY
    arrival_delay: timedelta = timedelta(0)
    departure_delay: timedelta | None = None
    delay_code: str | None = None
    notice_days: int = 0
    reroute: Reroute | None = None

    @property
    def leaves_late(self) -> timedelta:
        return self.arrival_delay if self.departure_delay is None else self.departure_delay


@dataclass(frozen=True, slots=True)
class Exposure:
    """What is owed: compensation per passenger and in all, with the rule; whether care and refund are due."""

    passengers: int
    per_passenger: Money
    total: Money
    regime: RegimeName | None
    rule: str
    care_due: bool
    refund_due: bool
    refund_rule: str


def exposure(journey: DisruptedJourney, passengers: int = 1) -> Exposure:
    """The compensation that so many passengers on this journey may claim, and what else is due to them."""
    if passengers < 0:
        raise ValueError(f"The number of passengers cannot be {passengers}; it must be 0 or more.")
    name = applicable_regime(journey.origin, journey.destination, journey.carrier)
    amount, rule = _compensation(journey, name)
    currency = RIGHTS.regimes[name].currency if name else "EUR"
    refund_due, refund_rule = _refund(journey, name)
    return Exposure(
        passengers=passengers,
        per_passenger=Money(amount, currency),
        total=Money(amount * passengers, currency),
        regime=name,
        rule=rule,
        care_due=_care_due(journey, name),
        refund_due=refund_due,
        refund_rule=refund_rule,
    )


def applicable_regime(origin: str, destination: str, carrier: str) -> RegimeName | None:
    """Departures are covered whoever flies; arrivals only with a carrier of the territory."""
    start, end, home = airport_of(origin).zone, airport_of(destination).zone, carrier_zone(carrier)
    if start == "EU" or (end == "EU" and home == "EU" and start != "UK"):
        return "EU261"
    if start == "UK" or (end == "UK" and home in ("UK", "EU")) or (end == "EU" and home == "UK"):
        return "UK261"
    return None


def carrier_zone(carrier: str) -> Zone:
    """Where the carrier holds its licence: EU (with EEA and Switzerland), UK, or neither. A flight number will do."""
    code = carrier.strip().upper()[:2]
    return next((zone for zone, codes in RIGHTS.carriers.items() if code in codes), "")


def baggage_ceiling(passengers: int = 1) -> Money:
    """The most that lost, damaged or late baggage can cost on an international journey."""
    return Money(RIGHTS.montreal.baggage_sdr * passengers, "XDR")


def _compensation(journey: DisruptedJourney, name: RegimeName | None) -> tuple[Decimal, str]:
    if name is None:
        return Decimal(0), "Neither EU261 nor UK261 applies to this route and carrier (Article 3)."
    if journey.delay_code and (cause := delay_code(journey.delay_code)).frees_from_compensation:
        return Decimal(
            0
        ), f"{name} Article 5(3): code {cause.code} ({cause.meaning}) is normally extraordinary."
    if journey.kind is DisruptionKind.CANCEL:
        return _for_cancellation(journey, name)
    return _for_delay(journey, name)


def _for_delay(journey: DisruptedJourney, name: RegimeName) -> tuple[Decimal, str]:
    least = timedelta(hours=RIGHTS.compensated_delay_hours)
    if journey.arrival_delay < least:
        return Decimal(
            0
        ), f"{name} Article 7 with C-402/07: under {least.seconds // 3600} hours late at destination."
    band = _band(journey, name)
    # The Court halves a delay, too, but only on the longest flights and below four hours (C-402/07, paragraph 63).
    if band.km_max is None and journey.arrival_delay < timedelta(hours=band.reduced_within_hours):
        return (
            band.amount * HALF,
            f"{name} Article 7(2)(c): halved, under {band.reduced_within_hours} hours late.",
        )
    return band.amount, f"{name} Article 7(1) with C-402/07: {_described(band)}."


def _for_cancellation(journey: DisruptedJourney, name: RegimeName) -> tuple[Decimal, str]:
    notice = next(entry for entry in RIGHTS.notice if journey.notice_days >= entry.days_min)
    if _is_excused(notice, journey.reroute):
        return Decimal(0), f"{name} {notice.paragraph}: told {journey.notice_days} days before, in good time."
    band = _band(journey, name)
    reroute = journey.reroute
    if reroute and reroute.arrives_late <= timedelta(hours=band.reduced_within_hours):
        hours = band.reduced_within_hours
        return band.amount * HALF, f"{name} Article 7(2): halved, re-routed to arrive within {hours} hours."
    return band.amount, f"{name} Articles 5(1)(c) and 7(1): {_described(band)}."


def _is_excused(notice: Notice, reroute: Reroute | None) -> bool:
    if notice.departs_early_hours_max is None or notice.arrives_late_hours_below is None:
        return True
    return (
        reroute is not None
        and reroute.departs_early <= timedelta(hours=notice.departs_early_hours_max)
        and reroute.arrives_late < timedelta(hours=notice.arrives_late_hours_below)
    )


def _care_due(journey: DisruptedJourney, name: RegimeName | None) -> bool:
    """Meals, calls, a bed if needed (Articles 6 and 9): due also when the cause is extraordinary."""
    if name is None:
        return False
    threshold = timedelta(hours=_band(journey, name).care_after_hours)
    return journey.kind is DisruptionKind.CANCEL or journey.leaves_late >= threshold


def _refund(journey: DisruptedJourney, name: RegimeName | None) -> tuple[bool, str]:
    cancelled = journey.kind is DisruptionKind.CANCEL
    least = timedelta(hours=RIGHTS.refund_delay_hours)
    if name and (cancelled or journey.leaves_late >= least):
        return True, f"{name} Article 8(1)(a)"
    countries = airport_of(journey.origin).country, airport_of(journey.destination).country
    if "US" not in countries:
        late = f"{name} Article 6(1)(iii): leaves under {RIGHTS.refund_delay_hours} hours late"
        return False, late if name else "No refund rule applies to this route and carrier."
    rule = RIGHTS.us_refund
    hours = rule.domestic_hours if countries == ("US", "US") else rule.international_hours
    due = cancelled or max(journey.arrival_delay, journey.leaves_late) >= timedelta(hours=hours)
    return due, f"14 CFR part 260: due when cancelled or changed by {hours} hours"


def _band(journey: DisruptedJourney, name: RegimeName) -> Band:
    """By distance; a flight inside the territory never goes beyond the middle band (Articles 6 and 7(1)(b))."""
    bands = RIGHTS.regimes[name].bands
    km = distance_km(journey.origin, journey.destination)
    inside = airport_of(journey.origin).zone == airport_of(journey.destination).zone != ""
    band = next(band for band in bands if band.km_max is None or km <= band.km_max)
    return bands[1] if inside and band.km_max is None else band


def _described(band: Band) -> str:
    return f"{band.amount} for up to {band.km_max} km" if band.km_max else f"{band.amount} for longer flights"
