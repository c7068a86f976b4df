"""Whether a plan, and later a flight, is inside the policy: what is against it, who says so, and what would comply.

A plan is judged before any flight is known, by the distance of its airports; a flight by its own times and price. A hard
breach ends the request; a soft one may pass with somebody's approval (`approvals.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from holdfast import Document
from tripcortex.model import (
    BookingPlan,
    Breach,
    Cabin,
    Citation,
    Confidence,
    FlightOption,
    PolicyConstraints,
    Segment,
    TripParameters,
)
from tripcortex.planning.carriers import carrier_names
from tripcortex.rules.distances import country_of, estimated_hours, is_airport, place_names, route_of
from tripcortex.rules.limits import Flight, InForce, Limit, in_force, worded
from tripcortex.rules.money import shown
from tripcortex.rules.policy import Policies, Reason
from tripcortex.rules.reading import Passage


class PlanJudgement(Document):
    """`ok`: nothing hard is against it. `notes` tell where the text and the rules differ, what could not be read, and
    which airline that was asked for is not flown with."""

    ok: bool
    needs_approval: bool
    confidence: str
    policy_version: str
    constraints: PolicyConstraints = PolicyConstraints()
    breaches: tuple[Breach, ...] = ()
    citations: tuple[Citation, ...] = ()
    notes: tuple[str, ...] = ()


class OptionJudgement(Document):
    """`ok`: nothing is against it. `is_bookable`: nothing hard is, so that an approver may let it pass."""

    option_id: str
    ok: bool
    is_bookable: bool
    is_preferred_vendor: bool = False
    breaches: tuple[Breach, ...] = ()
    citations: tuple[Citation, ...] = ()


def judged(
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    today: date,
    *,
    confidence: Confidence | None = None,
    stop_without_policy: bool = False,
) -> PlanJudgement:
    """The plan under the rules. `today` is the day where the employee is; `confidence` that of the retrieval."""
    rules = in_force(policies, passages, confidence)
    impossible = tuple(_impossible(plan.parameters, today))
    if impossible:
        return _judgement(rules, impossible)
    if rules.confidence == "none" and stop_without_policy:
        return _judgement(rules, (_no_policy(),))
    flight = _estimated(plan.parameters, rules, today)
    limits = _Limits.of(rules, flight)
    breaches = (
        *_destination(plan.parameters.destination, rules),
        *_cabin(plan.parameters.cabin_class, flight, limits.cabin, rules),
        *_late(flight, limits, rules, today),
    )
    judgement = _judgement(rules, breaches, limits, _constraints(rules, limits))
    asked = tuple(_asked_in_vain(plan.preferences.vendors, rules))
    return judgement.model_copy(update={"notes": (*judgement.notes, *asked)}) if asked else judgement


def judged_option(
    option: FlightOption,
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    today: date,
    *,
    confidence: Confidence | None = None,
) -> OptionJudgement:
    """One flight under the rules."""
    return option_under(in_force(policies, passages, confidence), option, plan, today)


def option_under(rules: InForce, option: FlightOption, plan: BookingPlan, today: date) -> OptionJudgement:
    """As `judged_option`, with the passages read already."""
    departure = option.outbound[0].departs_at.date() if option.outbound else plan.parameters.departure_date
    route = route_of(plan.parameters.origin, plan.parameters.destination, rules.long_haul_km)
    notice_days = (departure - today).days
    # The cabin must be right in each direction: the direction with the lowest one decides.
    flights = [Flight(route, hours, notice_days) for hours in _longest_flights(option)]
    flight = min(flights, key=lambda each: _rank(rules.cabin(each)))
    limits = _Limits.of(rules, flight)
    breaches = (
        *_destination(plan.parameters.destination, rules),
        *_carriers(option, rules),
        *_cabin(option.cabin, flight, limits.cabin, rules),
        *_fare(option.price_usd, limits.fare, rules),
        *_late(flight, limits, rules, today),
        *_budget(option.price_usd, plan.preferences.budget_usd, limits.fare),
    )
    return OptionJudgement(
        option_id=option.option_id,
        ok=not breaches,
        is_bookable=not any(breach.severity == "hard" for breach in breaches),
        is_preferred_vendor=is_one_of(option, rules.preferred.carriers),
        breaches=breaches,
        citations=limits.citations,
    )


@dataclass(frozen=True)
class _Limits:
    """What holds for one flight."""

    cabin: Limit[Cabin] | None
    fare: Limit[Decimal] | None
    soft: Limit[int] | None
    hard: Limit[int] | None
    tolerance: Limit[Decimal] | None

    @classmethod
    def of(cls, rules: InForce, flight: Flight) -> _Limits:
        soft, hard = (rules.notice(flight, hard=is_hard) for is_hard in (False, True))
        return cls(rules.cabin(flight), rules.fare(flight), soft, hard, rules.tolerance())

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Each sentence once, though it may say several rules."""
        cited = (limit.citation for limit in self._all)
        return tuple({(each.chunk_id, each.quote): each for each in cited}.values())

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for each in self._all for note in each.notes)

    @property
    def _all(self) -> list[Limit[Cabin] | Limit[Decimal] | Limit[int]]:
        limits = (self.cabin, self.fare, self.soft, self.hard, self.tolerance)
        return [limit for limit in limits if limit is not None]


def _judgement(
    rules: InForce,
    breaches: tuple[Breach, ...],
    limits: _Limits | None = None,
    constraints: PolicyConstraints | None = None,
) -> PlanJudgement:
    ok = not any(breach.severity == "hard" for breach in breaches)
    return PlanJudgement(
        ok=ok,
        needs_approval=ok and bool(breaches),
        confidence=rules.confidence,
        policy_version=rules.version,
        constraints=constraints or PolicyConstraints(),
        breaches=breaches,
        citations=limits.citations if limits else (),
        notes=(*_about_passages(rules), *(limits.notes if limits else ()), *rules.read.notes),
    )


def _about_passages(rules: InForce) -> Iterator[str]:
    if rules.confidence == "none":
        yield "No relevant passage of a policy was found: the strictest defaults hold."
    elif rules.confidence == "low":
        yield "The passages that were found match only roughly: nothing is approved by silence."


def _asked_in_vain(vendors: Sequence[str], rules: InForce) -> Iterator[str]:
    """Airlines that were asked for and are prohibited: nobody is to wonder why none of theirs is shown."""
    for code in vendors:
        names = carrier_names(code)
        known = {each.casefold() for each in (code, *names)}
        for named in (each for each in rules.prohibited("carriers") if each.casefold() in known):
            cited = rules.prohibition("carriers", [named, *names])
            page = f", page {cited.source_page}" if cited.source_page is not None else ""
            yield f"{names[0]} is not to be flown with ({cited.file_name}{page}, {cited.section_title or 'policy'})."


def _constraints(rules: InForce, limits: _Limits) -> PolicyConstraints:
    """What the policy says; an own limit of the employee is in the preferences."""
    return PolicyConstraints(
        max_budget_usd=limits.fare.value if limits.fare else None,
        preferred_vendors=list(rules.preferred.carriers),
        max_cabin=limits.cabin.value if limits.cabin else Cabin.first,
    )


# --- the flight that is judged -------------------------------------------------------------------------------------


def _estimated(trip: TripParameters, rules: InForce, today: date) -> Flight:
    return Flight(
        route_of(trip.origin, trip.destination, rules.long_haul_km),
        estimated_hours(trip.origin, trip.destination),
        (trip.departure_date - today).days,
    )


def _longest_flights(option: FlightOption) -> list[Decimal]:
    """Of each direction the hours of its longest flight: time at airports earns no better cabin."""
    directions: list[list[Segment]] = [each for each in (option.outbound, option.inbound) if each]
    minutes = [max(segment.duration_minutes for segment in direction) for direction in directions]
    return [Decimal(each) / 60 for each in minutes or [option.duration_minutes]]


def _rank(cabin: Limit[Cabin] | None) -> int:
    return cabin.value.rank if cabin else len(Cabin)


# --- breaches ------------------------------------------------------------------------------------------------------


def _impossible(trip: TripParameters, today: date) -> Iterator[Breach]:
    """What no policy is needed for."""
    for airport in {trip.origin: None, trip.destination: None}:
        if not is_airport(airport):
            yield _own(
                Reason.airport_unknown,
                f"{airport} is no airport.",
                "name an airport or its IATA code, such as ORD",
            )
    if trip.origin == trip.destination:
        yield _own(
            Reason.nowhere_to_go, f"The trip begins and ends at {trip.origin}.", "name another destination"
        )
    if trip.departure_date < today:
        yield _own(
            Reason.departure_past, f"{trip.departure_date} is past.", f"leave on {today} or on a later day"
        )
    if trip.return_date is not None and trip.return_date < trip.departure_date:
        yield _own(
            Reason.return_before_departure,
            f"The return on {trip.return_date} is before the departure on {trip.departure_date}.",
            f"return on {trip.departure_date} or on a later day",
        )


def _no_policy() -> Breach:
    return _own(
        Reason.no_relevant_policy,
        "No passage of a policy says what holds for this trip, and nothing is booked without one.",
        "ask the travel desk, or have the policy uploaded",
    )


def _destination(destination: str, rules: InForce) -> Iterator[Breach]:
    country = country_of(destination)
    if named := [each for each in rules.prohibited("destinations") if each in (destination, country)]:
        yield Breach(
            code=Reason.destination_prohibited,
            severity="hard",
            text=f"Trips to {destination} ({country}) are prohibited.",
            remedy="choose another destination, or speak to the travel desk",
            citation=rules.prohibition("destinations", [*named, *place_names(destination)]),
        )


def _carriers(option: FlightOption, rules: InForce) -> Iterator[Breach]:
    for named in rules.prohibited("carriers"):
        if is_one_of(option, (named,)) or any(
            segment.carrier.casefold() == named.casefold() for segment in (*option.outbound, *option.inbound)
        ):
            yield Breach(
                code=Reason.carrier_prohibited,
                severity="hard",
                text=f"{named} is not to be flown with.",
                remedy=f"fly with another airline than {named}",
                citation=rules.prohibition("carriers", [named, option.carrier_name]),
            )


def _cabin(cabin: Cabin, flight: Flight, limit: Limit[Cabin] | None, rules: InForce) -> Iterator[Breach]:
    """Hard where the policy stops it, or where its text says that this cabin is never booked."""
    if limit is not None and cabin.rank > limit.value.rank:
        never = rules.never(cabin, flight)
        yield Breach(
            code=Reason.cabin_above_policy,
            severity=_severity(never is not None or rules.is_hard(Reason.cabin_above_policy)),
            text=f"{worded(cabin).capitalize()} is above what the policy allows on a flight of "
            f"{flight.hours.quantize(Decimal('0.1'))} hours: {worded(limit.value)}.",
            remedy=f"book {worded(limit.value)}",
            citation=never or limit.citation,
        )


def _fare(price: Decimal, limit: Limit[Decimal] | None, rules: InForce) -> Iterator[Breach]:
    if limit is not None and price > limit.value:
        yield Breach(
            code=Reason.fare_above_cap,
            severity=_severity(rules.is_hard(Reason.fare_above_cap)),
            text=f"A fare of {shown(price)} is above the cap of {shown(limit.value)} for this route and notice.",
            remedy=f"a fare of at most {shown(limit.value)}",
            citation=limit.citation,
        )


def _late(flight: Flight, limits: _Limits, rules: InForce, today: date) -> Iterator[Breach]:
    """At most one: below the hard limit the soft one is only told as what would comply."""
    is_always_hard = rules.is_hard(Reason.late_booking)
    for limit, is_hard in ((limits.hard, True), (limits.soft, is_always_hard)):
        if limit is not None and flight.notice_days < limit.value:
            yield Breach(
                code=Reason.late_booking,
                severity=_severity(is_hard),
                text=f"The departure is {_days(flight.notice_days)} ahead; the policy wants {_days(limit.value)}.",
                remedy=_later(limit.value, limits, today, may_be_approved=not is_always_hard),
                citation=limit.citation,
            )
            return


def _later(broken: int, limits: _Limits, today: date, *, may_be_approved: bool) -> str:
    """The first day without anybody's approval; and, where the hard limit is broken, the first day with one."""
    wanted = max(each.value for each in (limits.soft, limits.hard) if each)
    free = f"on or after {today + timedelta(days=wanted)}"
    is_hard_broken = limits.hard is not None and limits.hard.value == broken
    if may_be_approved and is_hard_broken and broken < wanted:
        return f"leave on or after {today + timedelta(days=broken)} with approval, or {free} without"
    return f"leave {free}"


def _budget(price: Decimal, budget: Decimal | None, cap: Limit[Decimal] | None) -> Iterator[Breach]:
    """The employee's own limit: nobody is asked to approve what they do not want."""
    if budget is not None and price > budget:
        text = f"A fare of {shown(price)} is above your budget of {shown(budget)}."
        yield _own(Reason.above_budget, text, _affordable(price, budget, cap))


def _affordable(price: Decimal, budget: Decimal, cap: Limit[Decimal] | None) -> str:
    """A higher budget, as far as the policy goes: beyond its cap it would not help."""
    if cap is None or price <= cap.value:
        return f"a budget of at least {shown(price)}"
    if budget < cap.value:
        return (
            f"other days or airports: nothing between your budget of {shown(budget)} and the policy's cap of "
            f"{shown(cap.value)} was found"
        )
    return f"other days or airports: nothing up to the policy's cap of {shown(cap.value)} was found"


def _own(reason: Reason, text: str, remedy: str) -> Breach:
    return Breach(code=reason, severity="hard", text=text, remedy=remedy)


def _severity(is_hard: bool) -> str:
    return "hard" if is_hard else "soft"


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def is_one_of(option: FlightOption, named: Iterable[str]) -> bool:
    """Whether the option's airline is among those: by code, by name, or by the first words of its name."""
    code, name = option.carrier.casefold(), option.carrier_name.casefold()
    return any(each in (code, name) or name.startswith(f"{each} ") for each in map(str.casefold, named))
