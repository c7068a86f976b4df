"""Checks of a booking by the confirmed rules: its plan before any flight is known, and each flight found.

Both become a `Trip` for `judge_trip`, as a sample trip of the dry run does. What needs no policy is checked
here too: impossible dates and airports, and the employee's own budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Final

from tripcortex.domain.planner.carriers import get_carrier_names
from tripcortex.domain.policy_rules.feasibility import check_budget, check_feasibility
from tripcortex.domain.policy_rules.judgement import Judgement, Trip, judge_trip
from tripcortex.domain.policy_rules.option_ranking import OptionJudgement, Ranking, is_flown_by, rank_judged
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule
from tripcortex.domain.policy_rules.scope_matching import TripFacts
from tripcortex.domain.policy_rules.travel_policy import Reason
from tripcortex.model.entities import MAX_OPTIONS, BookingPlan, FlightOption, Segment

Rules = Sequence[PolicyRule]
IATA_CODE_CHARS: Final = 2


def judge_plan(
    plan: BookingPlan, rules: Rules, today: date, *, employee_level: str | None = None
) -> Judgement:
    """Judge a plan; a trip that is impossible is forbidden without a look at the rules.

    If only the estimate of its hours makes it forbidden, it is not: each flight is judged by its own hours.
    `today` is the date at the employee's place. An unknown level has no permissions that are for some levels.
    """
    if impossible := tuple(check_feasibility(plan.parameters, today)):
        return Judgement(verdict=Outcome.forbidden, breaches=impossible)
    trip = build_plan_trip(plan, today, employee_level=employee_level)
    judgement = _judge_with_doubt(rules, trip)
    notes = tuple(_note_prohibited_vendors(plan.preferences.vendors, rules, trip))
    return judgement.model_copy(update={"notes": (*judgement.notes, *notes)}) if notes else judgement


def rank_by_rules(
    options: Iterable[FlightOption],
    plan: BookingPlan,
    rules: Rules,
    count: int = MAX_OPTIONS,
    *,
    today: date,
    employee_level: str | None = None,
) -> Ranking:
    """Rank the flights that are not forbidden, each with its verdict, and keep at most `count` of them.

    Preferred airlines are compared with the lowest fare that is not forbidden.
    """
    found = {option.option_id: option for option in sorted(options, key=lambda each: each.option_id)}
    rules = _add_codes(rules, found.values())
    trips = {
        option_id: build_option_trip(option, plan, today, employee_level=employee_level)
        for option_id, option in found.items()
    }
    lowest = _find_lowest_fare(rules, trips.values())
    judgements = {
        option_id: judge_trip(rules, trip.model_copy(update={"lowest_usd": lowest}))
        for option_id, trip in trips.items()
    }
    marked = [
        each.model_copy(update={"verdict": judgements[each.option_id].verdict.value})
        for each in found.values()
    ]
    checked = [_check_option(each, plan, judgements[each.option_id]) for each in marked]
    return rank_judged(marked, checked, plan, count, near_percent=_get_near_percent(rules))


def _judge_with_doubt(rules: Rules, trip: Trip) -> Judgement:
    """Judge a trip whose hours are estimated, with the longest hours that it may have if the estimate forbids
    it.
    """
    judgement = judge_trip(rules, trip)
    if judgement.verdict is not Outcome.forbidden:
        return judgement
    longest = max(each.high or Decimal(0) for each in TripFacts(trip).hours)
    doubted = judge_trip(rules, trip.model_copy(update={"outbound_hours": longest, "inbound_hours": longest}))
    return judgement if doubted.verdict is Outcome.forbidden else doubted


def build_plan_trip(plan: BookingPlan, today: date, *, employee_level: str | None = None) -> Trip:
    """Return the plan as a trip without a fare; the hours of its flights are estimated by distance."""
    asked = plan.parameters
    return Trip(
        origin=asked.origin,
        destination=asked.destination,
        depart=asked.departure_date,
        return_date=asked.return_date,
        cabin=asked.cabin_class,
        booked_on=today,
        employee_level=employee_level,
    )


def build_option_trip(
    option: FlightOption, plan: BookingPlan, today: date, *, employee_level: str | None = None
) -> Trip:
    """Return a flight as a trip: its own fare, airlines, cabin, times and longest hours."""
    trip, out = build_plan_trip(plan, today, employee_level=employee_level), option.outbound
    return trip.model_copy(
        update={
            "depart": out[0].departs_at.date() if out else trip.depart,
            "cabin": option.cabin,
            "carrier": option.carrier,
            "carriers": tuple(dict.fromkeys(each.carrier for each in (*out, *option.inbound))),
            "price_usd": option.price_usd,
            "outbound_hours": _find_longest_hours(out) or Decimal(option.duration_minutes) / 60,
            "inbound_hours": _find_longest_hours(option.inbound),
            "departs_at": _find_departure(out),
            "returns_at": _find_departure(option.inbound),
        }
    )


def _add_codes(rules: Rules, options: Collection[FlightOption]) -> Rules:
    """Return the rules with the codes of airlines that they name by a name which only the portal knows."""
    names = {each for rule in rules for each in rule.carriers if len(each) > IATA_CODE_CHARS}
    codes = {name: [each.carrier for each in options if is_flown_by(each, (name,))] for name in names}
    if not any(codes.values()):
        return rules
    return [
        rule.model_copy(
            update={
                "carriers": (
                    *rule.carriers,
                    *(code for each in rule.carriers for code in codes.get(each, ())),
                )
            }
        )
        for rule in rules
    ]


def _find_lowest_fare(rules: Rules, trips: Iterable[Trip]) -> Decimal | None:
    """Return the lowest fare of the trips that the rules do not forbid, or None if they forbid all."""
    fares = [
        trip.price_usd
        for trip in trips
        if trip.price_usd is not None and judge_trip(rules, trip).verdict is not Outcome.forbidden
    ]
    return min(fares, default=None)


def _check_option(option: FlightOption, plan: BookingPlan, judgement: Judgement) -> OptionJudgement:
    """Return the judgement with the employee's own budget, as the ranking reads it."""
    cap = judgement.constraints.max_budget_usd
    breaches = (*judgement.breaches, *check_budget(option.price_usd, plan.preferences.budget_usd, cap))
    is_forbidden = judgement.verdict is Outcome.forbidden
    return OptionJudgement(
        option_id=option.option_id,
        ok=judgement.verdict is Outcome.allowed and not breaches,
        is_bookable=not is_forbidden and not any(each.severity == "hard" for each in breaches),
        is_preferred_vendor=is_flown_by(option, judgement.constraints.preferred_vendors),
        breaches=breaches,
        citations=judgement.citations,
    )


def _get_near_percent(rules: Rules) -> Decimal:
    """Return the margin within which a preferred airline ranks first: the smallest of the rules, or 0."""
    stated = (each.percent for each in rules if each.effect is Effect.preferred_carriers)
    return min((each for each in stated if each is not None), default=Decimal(0))


def _note_prohibited_vendors(vendors: Sequence[str], rules: Rules, trip: Trip) -> Iterator[str]:
    """Yield a note for each requested airline that is prohibited, to explain why it is not offered."""
    for code in vendors:
        flown = judge_trip(rules, trip.model_copy(update={"carrier": code}))
        for breach in flown.breaches:
            if breach.code == Reason.carrier_prohibited and breach.citation is not None:
                cited = breach.citation
                page = f", page {cited.source_page}" if cited.source_page is not None else ""
                name = get_carrier_names(code)[0]
                yield f"{name} is prohibited ({cited.file_name}{page}, {cited.section_title or 'policy'})."


def _find_longest_hours(direction: Sequence[Segment]) -> Decimal | None:
    """Return the hours of the longest flight: time at airports does not justify a better cabin."""
    minutes = max((each.duration_minutes for each in direction), default=None)
    return None if minutes is None else Decimal(minutes) / 60


def _find_departure(direction: Sequence[Segment]) -> time | None:
    """Return the local time at which the direction starts."""
    return direction[0].departs_at.time() if direction else None
