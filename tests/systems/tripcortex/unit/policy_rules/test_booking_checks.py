"""Plans and flights of a booking judged by confirmed rules: verdicts, the order of flights, and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from tests.systems.tripcortex.unit.policy_rules.trips import (
    POLICY,
    TODAY,
    make_option,
    make_plan,
    make_policy,
)
from tripcortex.domain.policy_rules.booking_checks import build_option_trip, judge_plan, rank_by_rules
from tripcortex.domain.policy_rules.conversion import convert_policy
from tripcortex.domain.policy_rules.option_ranking import Ranking
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, RuleScope
from tripcortex.model.entities import MAX_OPTIONS, OPTIONS_CAP, BookingPlan, Cabin, FlightOption

RULES = convert_policy(POLICY)


def rank(
    flights: Iterable[FlightOption],
    plan: BookingPlan | None = None,
    rules: tuple[PolicyRule, ...] = RULES,
    **more: Any,
) -> Ranking:
    return rank_by_rules(flights, plan or make_plan(), rules, today=TODAY, **more)


def list_ids(ranking: Ranking) -> list[str]:
    return [each.option_id for each in ranking.options]


# --- plans --------------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-92", "TC-64")
def test_a_compliant_plan_gets_the_constraints_and_citations_of_the_rules() -> None:
    judgement = judge_plan(make_plan(), RULES, TODAY)
    assert judgement.verdict is Outcome.allowed
    assert judgement.constraints.max_budget_usd == 500
    assert judgement.constraints.preferred_vendors == ["UA", "DL"]
    assert judgement.citations and {each.file_name for each in judgement.citations} == {"northwind.json"}


@pytest.mark.proves("TC-92")
@pytest.mark.parametrize(
    ("asked", "code", "remedy"),
    [
        ({"cabin": Cabin.business}, "cabin_above_policy", "book economy"),
        (
            {"destination": "SVO"},
            "destination_prohibited",
            "choose another destination, or ask the travel desk",
        ),
        ({"destination": "SFO"}, "nowhere_to_go", "name another destination"),
        ({"destination": "QQQ"}, "airport_unknown", "name an airport or its IATA code, such as ORD"),
        ({"days_ahead": -1}, "departure_past", "leave on 2026-03-10 or later"),
    ],
)
def test_a_forbidden_plan_names_the_reason_and_what_would_comply(
    asked: dict[str, Any], code: str, remedy: str
) -> None:
    judgement = judge_plan(make_plan(**asked), RULES, TODAY)
    assert judgement.verdict is Outcome.forbidden
    [breach] = [each for each in judgement.breaches if each.severity == "hard"]
    assert (breach.code, breach.remedy) == (code, remedy)


def test_a_flight_whose_hours_are_near_a_limit_is_judged_by_its_own_hours() -> None:
    """Boston to San Francisco is estimated at 5.6 hours, and premium economy begins at 6."""
    plan = make_plan("BOS", "SFO", cabin=Cabin.premium_economy)
    assert judge_plan(plan, RULES, TODAY).verdict is Outcome.allowed
    flights = [
        make_option("short", cabin=Cabin.premium_economy, flights=(355,)),
        make_option("long", cabin=Cabin.premium_economy, flights=(365,)),
    ]
    assert list_ids(rank(flights, plan)) == ["long"]
    assert (
        judge_plan(make_plan("BOS", "ORD", cabin=Cabin.premium_economy), RULES, TODAY).verdict == "forbidden"
    )


def test_impossible_trips_are_refused_without_rules_too() -> None:
    assert judge_plan(make_plan(destination="SFO"), (), TODAY).verdict is Outcome.forbidden


def test_a_plan_that_no_rule_covers_needs_an_approval() -> None:
    judgement = judge_plan(make_plan(), (), TODAY)
    assert (judgement.verdict, judgement.uncovered) == (Outcome.approval, ("cabin", "notice"))


def test_a_requested_airline_that_is_prohibited_is_explained() -> None:
    rules = convert_policy(make_policy(prohibited={"carriers": ["Spirit"]}))
    judgement = judge_plan(make_plan(vendors=["NK", "UA"]), rules, TODAY)
    assert judgement.notes == ("Spirit Airlines is prohibited (northwind.json, prohibited.carriers).",)
    assert judgement.verdict is Outcome.allowed


def test_a_permission_of_a_level_applies_only_to_an_employee_of_that_level() -> None:
    permission = PolicyRule(
        text="Directors may fly business.",
        effect=Effect.max_cabin,
        cabin=Cabin.business,
        scope=RuleScope(levels=("director",)),
    ).with_id()
    rules = convert_policy(make_policy(cabins=[], hard_stops=[]))
    rules = (*(each for each in rules if each.effect is not Effect.max_cabin), permission)
    plan = make_plan(cabin=Cabin.business)
    assert judge_plan(plan, rules, TODAY).verdict is Outcome.approval
    assert judge_plan(plan, rules, TODAY, employee_level="director").verdict is Outcome.allowed


# --- flights ------------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-93")
def test_forbidden_flights_are_not_offered_and_others_carry_their_verdict() -> None:
    flights = [
        make_option("fits", "400"),
        make_option("dear", "550"),
        make_option("prohibited", "100", "ZZ"),
        make_option("cabin", "300", cabin=Cabin.business),
    ]
    ranking = rank(flights)
    assert [(each.option_id, each.verdict) for each in ranking.options] == [
        ("fits", "allowed"),
        ("dear", "approval"),
    ]
    [dear] = [each for each in ranking.options if each.needs_approval]
    [breach] = dear.breaches
    assert (breach.code, breach.approvers) == ("fare_above_cap", ["line-manager", "travel-desk"])
    assert len(ranking.judgements) == 4


@pytest.mark.proves("TC-X24")
def test_the_longest_flight_of_a_direction_decides_about_the_cabin() -> None:
    plan = make_plan("SFO", "LHR", cabin=Cabin.business)
    flights = [
        make_option("nonstop", "3000", cabin=Cabin.business, flights=(640,), back=(660,)),
        make_option("stops", "3000", cabin=Cabin.business, flights=(300, 350), back=(660,)),
    ]
    assert list_ids(rank(flights, plan)) == ["nonstop"]


@pytest.mark.parametrize("name", ["Zed Air", "Zed", "zed air", "ZZ"])
def test_an_airline_is_prohibited_by_its_code_or_by_the_portals_name(name: str) -> None:
    rules = convert_policy(make_policy(prohibited={"carriers": [name]}))
    ranking = rank([make_option("no", "100", "ZZ"), make_option("yes")], rules=rules)
    assert list_ids(ranking) == ["yes"]


def test_a_flight_that_no_rule_covers_is_offered_with_an_approval() -> None:
    [option] = rank([make_option()], rules=()).options
    assert (option.verdict, option.needs_approval) == ("approval", True)
    assert {each.code for each in option.breaches} == {"not_covered"}


def test_the_employees_own_budget_is_a_limit_that_no_approver_lifts() -> None:
    ranking = rank([make_option("o-1", "450")], make_plan(budget_usd=Decimal(400)))
    assert ranking.options == () and ranking.failure is not None
    assert ranking.failure.code == "nothing_complies"
    assert ranking.failure.remedy == "a budget of at least $450"
    above = rank([make_option("o-1", "550")], make_plan(budget_usd=Decimal(400))).failure
    assert above is not None and "between your budget of $400 and the policy's cap of $500" in str(
        above.remedy
    )


@pytest.mark.proves("TC-X20")
def test_shows_three_flights_by_default_and_never_more_than_five() -> None:
    flights = [make_option(f"o-{number}", str(300 + number)) for number in range(8)]
    assert len(rank(flights).options) == MAX_OPTIONS == 3
    assert len(rank(flights, count=100).options) == OPTIONS_CAP == 5


def test_a_preferred_airline_comes_first_only_near_the_lowest_fare() -> None:
    near = [make_option("lowest", "300", "AA"), make_option("preferred", "320", "UA")]
    far = [make_option("lowest", "300", "AA"), make_option("preferred", "340", "UA")]
    assert list_ids(rank(near)) == ["preferred", "lowest"]
    assert list_ids(rank(far)) == ["lowest", "preferred"]


def test_the_order_of_the_flights_does_not_depend_on_the_order_of_the_offers() -> None:
    flights = [
        make_option("a", "480", "AA"),
        make_option("b", "520", "UA"),
        make_option("c", "470", "DL"),
        make_option("d", "470", "UA", hour=17),
    ]
    orders = {tuple(list_ids(rank(each))) for each in permutations(flights)}
    assert len(orders) == 1
    [order] = orders
    assert "b" not in order  # it needs an approval, and three flights comply


def test_a_stricter_rule_never_lets_more_flights_pass() -> None:
    flights = [make_option(f"o-{price}", str(price)) for price in (300, 450, 550, 700)]
    stricter = PolicyRule(
        text="A fare is at most $350.", effect=Effect.fare_cap, amount_usd=Decimal(350), basis="one_way"
    ).with_id()

    def list_allowed(rules: tuple[PolicyRule, ...]) -> set[str]:
        return {each.option_id for each in rank(flights, rules=rules, count=5).options if not each.breaches}

    assert list_allowed((*RULES, stricter)) <= list_allowed(RULES)
    assert list_allowed(RULES)


def test_no_flights_is_said_in_words() -> None:
    failure = rank([]).failure
    assert failure is not None and failure.code == "no_flights"


def test_a_trip_has_the_facts_of_its_flight() -> None:
    option = make_option(flights=(200, 100), back=(310,), hour=6)
    trip = build_option_trip(option, make_plan(), TODAY, employee_level="VP")
    assert (trip.carrier, trip.carriers, trip.price_usd) == ("UA", ("UA",), Decimal(400))
    assert trip.outbound_hours == Decimal(200) / 60 and trip.inbound_hours == Decimal(310) / 60
    assert trip.departs_at is not None and trip.departs_at.hour == 6
    assert (trip.booked_on, trip.employee_level) == (TODAY, "VP")
