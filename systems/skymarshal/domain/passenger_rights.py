"""Passenger rights: EU261 and UK261 compensation and care, US refunds, the Montreal baggage limit.

It takes a planned journey and its disruption, and returns amounts with the rule behind them. Amounts and
thresholds are data (`data/eu261.json`). The result is an estimate for operations, not legal advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from skymarshal.domain.airports import Zone, compute_distance_km, get_airport
from skymarshal.domain.delay_codes import parse_delay_code
from skymarshal.domain.reference_data import Record, Source, load_document
from skymarshal.domain.statuses import DisruptionKind

RegimeName = Literal["EU261", "UK261"]
HALF = Decimal("0.5")


class CompensationBand(Record):
    """The compensation for flights up to `km_max` (null: longer ones), and its thresholds in hours."""

    km_max: int | None
    amount: Decimal
    reduced_within_hours: int
    care_after_hours: int


class Regime(Record):
    """The currency and the distance bands of EU261 or UK261, shortest first."""

    currency: str
    source: Source
    bands: tuple[CompensationBand, ...]


class NoticeRule(Record):
    """With at least `days_min` days of notice, a replacement within these limits excuses the carrier.

    Without limits, the notice alone does.
    """

    days_min: int
    departs_early_hours_max: int | None
    arrives_late_hours_below: int | None
    paragraph: str


class UsRefundRule(Record):
    """The delays in hours from which US law (14 CFR part 260) requires a refund."""

    domestic_hours: int
    international_hours: int
    source: Source


class MontrealLimits(Record):
    """The liability limits of the Montreal Convention in special drawing rights."""

    baggage_sdr: Decimal
    delay_sdr: Decimal
    cargo_sdr_per_kg: Decimal
    source: Source


class PassengerRights(Record):
    """The data file of all rules. `carriers` lists the airline codes licensed in each zone."""

    regimes: Mapping[RegimeName, Regime]
    compensated_delay_hours: int
    refund_delay_hours: int
    notice: tuple[NoticeRule, ...]
    us_refund: UsRefundRule
    montreal: MontrealLimits
    carriers: Mapping[Zone, tuple[str, ...]]
    carriers_note: str


RIGHTS = load_document("eu261.json", PassengerRights)


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in one currency."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"


@dataclass(frozen=True, slots=True)
class Reroute:
    """The replacement flight: how much earlier it departs and how much later it arrives than planned."""

    departs_early: timedelta = timedelta(0)
    arrives_late: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptedJourney:
    """One journey, from first airport to final destination, and its disruption.

    `arrival_delay` is at the final destination, where a missed connection makes it far longer than the
    flight's own. `departure_delay` defaults to the same value.
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
    def effective_departure_delay(self) -> timedelta:
        """The departure delay, or the arrival delay if none is given."""
        return self.arrival_delay if self.departure_delay is None else self.departure_delay


@dataclass(frozen=True, slots=True)
class Exposure:
    """The carrier's exposure: compensation per passenger and in total with its rule, care and refund."""

    passengers: int
    per_passenger: Money
    total: Money
    regime: RegimeName | None
    rule: str
    care_due: bool
    refund_due: bool
    refund_rule: str


def compute_exposure(journey: DisruptedJourney, passengers: int = 1) -> Exposure:
    """Compute the compensation that the passengers may claim, and whether care and refund are due.

    Raise ValueError for a negative number of passengers or an unknown airport.
    """
    if passengers < 0:
        raise ValueError(f"Invalid number of passengers {passengers}: expected 0 or more.")
    name = find_regime(journey.origin, journey.destination, journey.carrier)
    amount, rule = _compute_compensation(journey, name)
    currency = RIGHTS.regimes[name].currency if name else "EUR"
    refund_due, refund_rule = _check_refund(journey, name)
    return Exposure(
        passengers=passengers,
        per_passenger=Money(amount, currency),
        total=Money(amount * passengers, currency),
        regime=name,
        rule=rule,
        care_due=_is_care_due(journey, name),
        refund_due=refund_due,
        refund_rule=refund_rule,
    )


def find_regime(origin: str, destination: str, carrier: str) -> RegimeName | None:
    """Return the regime that covers the flight, or None.

    Departures are covered with any carrier, arrivals only with certain carriers: for EU261 those of the EU,
    for UK261 those of the UK or the EU. UK261 also covers UK carriers to the EU. `carrier` is an airline code
    or a flight number.
    """
    start, end, home = get_airport(origin).zone, get_airport(destination).zone, get_carrier_zone(carrier)
    if start == "EU" or (end == "EU" and home == "EU" and start != "UK"):
        return "EU261"
    if start == "UK" or (end == "UK" and home in ("UK", "EU")) or (end == "EU" and home == "UK"):
        return "UK261"
    return None


def get_carrier_zone(carrier: str) -> Zone:
    """Return the zone of the carrier's licence: EU (with EEA and Switzerland), UK, or "" for neither.

    Accepts an airline code or a flight number.
    """
    code = carrier.strip().upper()[:2]
    return next((zone for zone, codes in RIGHTS.carriers.items() if code in codes), "")


def get_baggage_limit(passengers: int = 1) -> Money:
    """Return the Montreal Convention's liability limit for baggage in special drawing rights."""
    return Money(RIGHTS.montreal.baggage_sdr * passengers, "XDR")


def _compute_compensation(journey: DisruptedJourney, name: RegimeName | None) -> tuple[Decimal, str]:
    """Return the amount per passenger and the rule.

    It is 0 without a regime or with an extraordinary cause.
    """
    if name is None:
        return Decimal(0), "Neither EU261 nor UK261 applies to this route and carrier (Article 3)."
    if journey.delay_code and (cause := parse_delay_code(journey.delay_code)).is_extraordinary:
        rule = f"{name} Article 5(3): code {cause.code} ({cause.meaning}) is normally extraordinary."
        return Decimal(0), rule
    if journey.kind is DisruptionKind.CANCEL:
        return _compensate_cancellation(journey, name)
    return _compensate_delay(journey, name)


def _compensate_delay(journey: DisruptedJourney, name: RegimeName) -> tuple[Decimal, str]:
    """Return the amount for a delay and the rule: 0 if it is short, half on some long flights."""
    least = timedelta(hours=RIGHTS.compensated_delay_hours)
    if journey.arrival_delay < least:
        rule = f"{name} Article 7 with C-402/07: under {least.seconds // 3600} hours late at destination."
        return Decimal(0), rule
    band = _find_band(journey, name)
    # The Court halves compensation for delay only on the longest flights and below four hours (C-402/07,
    # paragraph 63).
    if band.km_max is None and journey.arrival_delay < timedelta(hours=band.reduced_within_hours):
        return (
            band.amount * HALF,
            f"{name} Article 7(2)(c): halved, under {band.reduced_within_hours} hours late.",
        )
    return band.amount, f"{name} Article 7(1) with C-402/07: {_describe_band(band)}."


def _compensate_cancellation(journey: DisruptedJourney, name: RegimeName) -> tuple[Decimal, str]:
    """Return the amount for a cancellation and the rule, by the days of notice and the replacement flight."""
    notice = next(entry for entry in RIGHTS.notice if journey.notice_days >= entry.days_min)
    if _is_excused(notice, journey.reroute):
        return Decimal(0), f"{name} {notice.paragraph}: {journey.notice_days} days of notice, in good time."
    band = _find_band(journey, name)
    reroute = journey.reroute
    if reroute and reroute.arrives_late <= timedelta(hours=band.reduced_within_hours):
        hours = band.reduced_within_hours
        return band.amount * HALF, f"{name} Article 7(2): halved, re-routed to arrive within {hours} hours."
    return band.amount, f"{name} Articles 5(1)(c) and 7(1): {_describe_band(band)}."


def _is_excused(notice: NoticeRule, reroute: Reroute | None) -> bool:
    """Return whether the notice, with the replacement flight within its limits, excuses the carrier."""
    if notice.departs_early_hours_max is None or notice.arrives_late_hours_below is None:
        return True
    return (
        reroute is not None
        and reroute.departs_early <= timedelta(hours=notice.departs_early_hours_max)
        and reroute.arrives_late < timedelta(hours=notice.arrives_late_hours_below)
    )


def _is_care_due(journey: DisruptedJourney, name: RegimeName | None) -> bool:
    """Return whether meals, calls and a bed (Articles 6 and 9) are due, whatever the cause.

    Not without a regime.
    """
    if name is None:
        return False
    threshold = timedelta(hours=_find_band(journey, name).care_after_hours)
    return journey.kind is DisruptionKind.CANCEL or journey.effective_departure_delay >= threshold


def _check_refund(journey: DisruptedJourney, name: RegimeName | None) -> tuple[bool, str]:
    """Return whether a refund is due and under which rule: EU261 or UK261, otherwise US law for US routes."""
    cancelled = journey.kind is DisruptionKind.CANCEL
    least = timedelta(hours=RIGHTS.refund_delay_hours)
    if name and (cancelled or journey.effective_departure_delay >= least):
        return True, f"{name} Article 8(1)(a)"
    countries = get_airport(journey.origin).country, get_airport(journey.destination).country
    if "US" not in countries:
        late = f"{name} Article 6(1)(iii): leaves under {RIGHTS.refund_delay_hours} hours late"
        return False, late if name else "No refund rule applies to this route and carrier."
    rule = RIGHTS.us_refund
    hours = rule.domestic_hours if countries == ("US", "US") else rule.international_hours
    due = cancelled or max(journey.arrival_delay, journey.effective_departure_delay) >= timedelta(hours=hours)
    return due, f"14 CFR part 260: due when cancelled or changed by {hours} hours"


def _find_band(journey: DisruptedJourney, name: RegimeName) -> CompensationBand:
    """Return the band by distance.

    A flight inside the territory has at most the middle band (Articles 6, 7(1)(b)).
    """
    bands = RIGHTS.regimes[name].bands
    km = compute_distance_km(journey.origin, journey.destination)
    inside = get_airport(journey.origin).zone == get_airport(journey.destination).zone != ""
    band = next(band for band in bands if band.km_max is None or km <= band.km_max)
    return bands[1] if inside and band.km_max is None else band


def _describe_band(band: CompensationBand) -> str:
    """Describe the amount and the distance of a band."""
    return f"{band.amount} for up to {band.km_max} km" if band.km_max else f"{band.amount} for longer flights"
