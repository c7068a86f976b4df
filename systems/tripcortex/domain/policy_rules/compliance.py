"""Policy compliance of a plan and of a flight: the breaches, their citations, and what would comply.

A plan is checked before any flight is known, by the distance between its airports; a flight by its own times
and price. A hard breach ends the request; an approver may let a soft one pass (`approvals.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from holdfast import Document
from tripcortex.domain.planner.carriers import get_carrier_names
from tripcortex.domain.policy_rules.distances import (
    classify_route,
    estimate_flight_hours,
    get_country,
    get_place_names,
)
from tripcortex.domain.policy_rules.feasibility import build_hard_breach, check_budget, check_feasibility
from tripcortex.domain.policy_rules.limits import (
    ApplicableRules,
    Flight,
    Limit,
    build_applicable_rules,
    to_words,
)
from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.text_rules import Passage
from tripcortex.domain.policy_rules.travel_policy import Policies, Reason
from tripcortex.model.entities import (
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


class PlanJudgement(Document):
    """The result of checking a plan. `ok` means that there is no hard breach.

    `notes` report where the text and the rules differ, what could not be read, and which requested airlines
    are prohibited.
    """

    ok: bool
    needs_approval: bool
    confidence: str
    policy_version: str
    constraints: PolicyConstraints = PolicyConstraints()
    breaches: tuple[Breach, ...] = ()
    citations: tuple[Citation, ...] = ()
    notes: tuple[str, ...] = ()


class OptionJudgement(Document):
    """The result of checking a flight.

    `ok` means no breach; `is_bookable` means no hard breach, so that an approver may let it pass.
    """

    option_id: str
    ok: bool
    is_bookable: bool
    is_preferred_vendor: bool = False
    breaches: tuple[Breach, ...] = ()
    citations: tuple[Citation, ...] = ()


def check_plan(
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    today: date,
    *,
    confidence: Confidence | None = None,
    stop_without_policy: bool = False,
) -> PlanJudgement:
    """Check a plan against the machine-readable policies and the rules in the passages.

    `today` is the date at the employee's place; `confidence` is that of the retrieval. If
    `stop_without_policy` is set, a trip without a relevant passage is refused. Impossible trips are refused
    without a look at the rules.
    """
    rules = build_applicable_rules(policies, passages, confidence)
    impossible = tuple(check_feasibility(plan.parameters, today))
    if impossible:
        return _build_judgement(rules, impossible)
    if rules.confidence == "none" and stop_without_policy:
        return _build_judgement(rules, (_build_no_policy_breach(),))
    flight = _estimate_flight(plan.parameters, rules, today)
    limits = _FlightLimits.for_flight(rules, flight)
    breaches = (
        *_check_destination(plan.parameters.destination, rules),
        *_check_cabin(plan.parameters.cabin_class, flight, limits.cabin, rules),
        *_check_notice(flight, limits, rules, today),
    )
    judgement = _build_judgement(rules, breaches, limits, _build_constraints(rules, limits))
    asked = tuple(_note_prohibited_vendors(plan.preferences.vendors, rules))
    return judgement.model_copy(update={"notes": (*judgement.notes, *asked)}) if asked else judgement


def check_option(
    option: FlightOption,
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    today: date,
    *,
    confidence: Confidence | None = None,
) -> OptionJudgement:
    """Check one flight against the policies and passages; `today` and `confidence` as in `check_plan`."""
    return check_option_against(build_applicable_rules(policies, passages, confidence), option, plan, today)


def check_option_against(
    rules: ApplicableRules, option: FlightOption, plan: BookingPlan, today: date
) -> OptionJudgement:
    """Check one flight against rules that were already extracted."""
    departure = option.outbound[0].departs_at.date() if option.outbound else plan.parameters.departure_date
    route = classify_route(plan.parameters.origin, plan.parameters.destination, rules.long_haul_km)
    notice_days = (departure - today).days
    # The cabin must comply in each direction, so the direction with the lowest limit decides.
    flights = [Flight(route, hours, notice_days) for hours in _list_longest_hours(option)]
    flight = min(flights, key=lambda each: _get_rank(rules.get_cabin_limit(each)))
    limits = _FlightLimits.for_flight(rules, flight)
    breaches = (
        *_check_destination(plan.parameters.destination, rules),
        *_check_carriers(option, rules),
        *_check_cabin(option.cabin, flight, limits.cabin, rules),
        *_check_fare(option.price_usd, limits.fare, rules),
        *_check_notice(flight, limits, rules, today),
        *check_budget(
            option.price_usd, plan.preferences.budget_usd, limits.fare.value if limits.fare else None
        ),
    )
    return OptionJudgement(
        option_id=option.option_id,
        ok=not breaches,
        is_bookable=not any(breach.severity == "hard" for breach in breaches),
        is_preferred_vendor=is_flown_by(option, rules.preferred_carriers.carriers),
        breaches=breaches,
        citations=limits.citations,
    )


@dataclass(frozen=True)
class _FlightLimits:
    """The limits that apply to one flight. `soft` and `hard` are days of notice."""

    cabin: Limit[Cabin] | None
    fare: Limit[Decimal] | None
    soft: Limit[int] | None
    hard: Limit[int] | None
    tolerance: Limit[Decimal] | None

    @classmethod
    def for_flight(cls, rules: ApplicableRules, flight: Flight) -> _FlightLimits:
        """Return the limits that the rules set for the flight."""
        soft, hard = (rules.get_notice_limit(flight, hard=is_hard) for is_hard in (False, True))
        return cls(
            rules.get_cabin_limit(flight),
            rules.get_fare_limit(flight),
            soft,
            hard,
            rules.get_fare_tolerance(),
        )

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return the citations of all limits; a sentence that states several rules appears once."""
        cited = (limit.citation for limit in self._present)
        return tuple({(each.chunk_id, each.quote): each for each in cited}.values())

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for each in self._present for note in each.notes)

    @property
    def _present(self) -> list[Limit[Cabin] | Limit[Decimal] | Limit[int]]:
        """Return the limits that are set."""
        limits = (self.cabin, self.fare, self.soft, self.hard, self.tolerance)
        return [limit for limit in limits if limit is not None]


def _build_judgement(
    rules: ApplicableRules,
    breaches: tuple[Breach, ...],
    limits: _FlightLimits | None = None,
    constraints: PolicyConstraints | None = None,
) -> PlanJudgement:
    """Return the judgement of a plan, with the notes of retrieval, limits and extracted rules."""
    ok = not any(breach.severity == "hard" for breach in breaches)
    return PlanJudgement(
        ok=ok,
        needs_approval=ok and bool(breaches),
        confidence=rules.confidence,
        policy_version=rules.version,
        constraints=constraints or PolicyConstraints(),
        breaches=breaches,
        citations=limits.citations if limits else (),
        notes=(*_describe_retrieval(rules), *(limits.notes if limits else ()), *rules.extracted.notes),
    )


def _describe_retrieval(rules: ApplicableRules) -> Iterator[str]:
    """Yield a note if the retrieved passages match only roughly or not at all."""
    if rules.confidence == "none":
        yield "No relevant policy passage was found: the strictest defaults apply."
    elif rules.confidence == "low":
        yield "The policy passages found match only roughly: nothing is approved automatically at a deadline."


def _note_prohibited_vendors(vendors: Sequence[str], rules: ApplicableRules) -> Iterator[str]:
    """Yield a note for each requested airline that is prohibited, to explain why it is not offered."""
    for code in vendors:
        names = get_carrier_names(code)
        known = {each.casefold() for each in (code, *names)}
        for named in (each for each in rules.list_prohibited("carriers") if each.casefold() in known):
            cited = rules.cite_prohibition("carriers", [named, *names])
            page = f", page {cited.source_page}" if cited.source_page is not None else ""
            yield f"{names[0]} is prohibited ({cited.file_name}{page}, {cited.section_title or 'policy'})."


def _build_constraints(rules: ApplicableRules, limits: _FlightLimits) -> PolicyConstraints:
    """Return the policy's constraints. The employee's own limits are in the preferences."""
    return PolicyConstraints(
        max_budget_usd=limits.fare.value if limits.fare else None,
        preferred_vendors=list(rules.preferred_carriers.carriers),
        max_cabin=limits.cabin.value if limits.cabin else Cabin.first,
    )


# --- the flight that is checked ---------------------------------------------------------------------------


def _estimate_flight(trip: TripParameters, rules: ApplicableRules, today: date) -> Flight:
    """Return the facts of the plan's flight, with its hours estimated from the distance."""
    return Flight(
        classify_route(trip.origin, trip.destination, rules.long_haul_km),
        estimate_flight_hours(trip.origin, trip.destination),
        (trip.departure_date - today).days,
    )


def _list_longest_hours(option: FlightOption) -> list[Decimal]:
    """Return the hours of the longest segment in each direction.

    Time at airports does not justify a better cabin.
    """
    directions: list[list[Segment]] = [each for each in (option.outbound, option.inbound) if each]
    minutes = [max(segment.duration_minutes for segment in direction) for direction in directions]
    return [Decimal(each) / 60 for each in minutes or [option.duration_minutes]]


def _get_rank(cabin: Limit[Cabin] | None) -> int:
    """Return the rank of the cabin; without a limit, above every cabin."""
    return cabin.value.rank if cabin else len(Cabin)


# --- breaches ---------------------------------------------------------------------------------------------


def _build_no_policy_breach() -> Breach:
    return build_hard_breach(
        Reason.no_relevant_policy,
        "No policy passage covers this trip, and trips are not booked without one.",
        "ask the travel desk, or have the policy uploaded",
    )


def _check_destination(destination: str, rules: ApplicableRules) -> Iterator[Breach]:
    """Yield a hard breach if the destination's airport or country is prohibited."""
    country = get_country(destination)
    if named := [each for each in rules.list_prohibited("destinations") if each in (destination, country)]:
        yield Breach(
            code=Reason.destination_prohibited,
            severity="hard",
            text=f"Trips to {destination} ({country}) are prohibited.",
            remedy="choose another destination, or ask the travel desk",
            citation=rules.cite_prohibition("destinations", [*named, *get_place_names(destination)]),
        )


def _check_carriers(option: FlightOption, rules: ApplicableRules) -> Iterator[Breach]:
    """Yield a hard breach for each prohibited airline that sells the option or flies one of its segments."""
    for named in rules.list_prohibited("carriers"):
        if is_flown_by(option, (named,)) or any(
            segment.carrier.casefold() == named.casefold() for segment in (*option.outbound, *option.inbound)
        ):
            yield Breach(
                code=Reason.carrier_prohibited,
                severity="hard",
                text=f"{named} is prohibited.",
                remedy=f"choose an airline other than {named}",
                citation=rules.cite_prohibition("carriers", [named, option.carrier_name]),
            )


def _check_cabin(
    cabin: Cabin, flight: Flight, limit: Limit[Cabin] | None, rules: ApplicableRules
) -> Iterator[Breach]:
    """Yield a breach if the cabin is too good.

    It is hard if the policy says so or its text forbids the cabin.
    """
    if limit is not None and cabin.rank > limit.value.rank:
        never = rules.find_cabin_ban(cabin, flight)
        yield Breach(
            code=Reason.cabin_above_policy,
            severity=_to_severity(never is not None or rules.is_hard(Reason.cabin_above_policy)),
            text=f"{to_words(cabin).capitalize()} is above what the policy allows on a flight of "
            f"{flight.hours.quantize(Decimal('0.1'))} hours: {to_words(limit.value)}.",
            remedy=f"book {to_words(limit.value)}",
            citation=never or limit.citation,
        )


def _check_fare(price: Decimal, limit: Limit[Decimal] | None, rules: ApplicableRules) -> Iterator[Breach]:
    """Yield a breach if the price is above the cap; hard if the policy says so."""
    if limit is not None and price > limit.value:
        yield Breach(
            code=Reason.fare_above_cap,
            severity=_to_severity(rules.is_hard(Reason.fare_above_cap)),
            text=(
                f"A fare of {format_usd(price)} is above the cap of {format_usd(limit.value)} for this route "
                "and notice."
            ),
            remedy=f"a fare of at most {format_usd(limit.value)}",
            citation=limit.citation,
        )


def _check_notice(
    flight: Flight, limits: _FlightLimits, rules: ApplicableRules, today: date
) -> Iterator[Breach]:
    """Yield at most one breach: below the hard limit, the soft limit appears only in the remedy."""
    is_always_hard = rules.is_hard(Reason.late_booking)
    for limit, is_hard in ((limits.hard, True), (limits.soft, is_always_hard)):
        if limit is not None and flight.notice_days < limit.value:
            yield Breach(
                code=Reason.late_booking,
                severity=_to_severity(is_hard),
                text=(
                    f"The departure is {_format_days(flight.notice_days)} ahead; the policy requires "
                    f"{_format_days(limit.value)}."
                ),
                remedy=_suggest_dates(limit.value, limits, today, may_be_approved=not is_always_hard),
                citation=limit.citation,
            )
            return


def _suggest_dates(broken: int, limits: _FlightLimits, today: date, *, may_be_approved: bool) -> str:
    """Return the remedy: the first date without approval.

    If `broken` is the hard limit, return the first date with approval too.
    """
    wanted = max(each.value for each in (limits.soft, limits.hard) if each)
    free = f"on or after {today + timedelta(days=wanted)}"
    is_hard_broken = limits.hard is not None and limits.hard.value == broken
    if may_be_approved and is_hard_broken and broken < wanted:
        return f"leave on or after {today + timedelta(days=broken)} with approval, or {free} without"
    return f"leave {free}"


def _to_severity(is_hard: bool) -> str:
    return "hard" if is_hard else "soft"


def _format_days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def is_flown_by(option: FlightOption, named: Iterable[str]) -> bool:
    """Return True if the option's airline is among `named`: by code, name, or first words of its name."""
    code, name = option.carrier.casefold(), option.carrier_name.casefold()
    return any(each in (code, name) or name.startswith(f"{each} ") for each in map(str.casefold, named))
