"""Tests of the ranking of flights: compliant first, never a hard stop, at most five, order-independent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import all_cases
from tests.systems.tripcortex.unit.policy_rules.trips import (
    POLICY,
    RULES,
    TODAY,
    make_option,
    make_plan,
)
from tripcortex.domain.policy_rules import OptionJudgement, Ranking, Reason, TravelPolicy
from tripcortex.domain.policy_rules.booking_checks import rank_by_rules
from tripcortex.domain.policy_rules.conversion import convert_policy
from tripcortex.domain.policy_rules.option_ranking import get_part_of_day
from tripcortex.model.entities import MAX_ITEM_OPTIONS_BYTES, BookingPlan, Cabin, FlightOption


def pick_top_options(
    options: list[FlightOption], plan: BookingPlan, policy: TravelPolicy = POLICY, count: int = 3
) -> tuple[FlightOption, ...]:
    """Return the best options by the rules of a machine-readable policy."""
    return rank_by_rules(options, plan, convert_policy(policy), count, today=TODAY).options


def check_option(flight: FlightOption, plan: BookingPlan, policy: TravelPolicy = POLICY) -> OptionJudgement:
    """Return the judgement of one flight."""
    (judgement,) = rank_by_rules([flight], plan, convert_policy(policy), today=TODAY).judgements
    return judgement


def rank_ids(*options: FlightOption, trip: BookingPlan | None = None, count: int = 3) -> list[str]:
    """Return the ids of the best options, best first."""
    best = pick_top_options([*options], trip or make_plan(), POLICY, count)
    return [each.option_id for each in best]


# --- order --------------------------------------------------------------------------------------------------


def test_cheaper_fare_comes_first() -> None:
    assert rank_ids(
        make_option("b", "300", "AA"), make_option("a", "450", "AA"), make_option("c", "200", "AA")
    ) == [
        "c",
        "b",
        "a",
    ]


def test_preferred_airline_comes_first_near_the_lowest_fare() -> None:
    cheapest, near, dear = (
        make_option("x", "300", "AA"),
        make_option("y", "330", "DL"),
        make_option("z", "330.01", "UA"),
    )
    assert rank_ids(cheapest, near, dear) == ["y", "x", "z"]


def test_options_needing_approval_come_last_and_are_marked() -> None:
    best = pick_top_options(
        [make_option("soft", "501", "UA"), make_option("fine", "499", "AA")], make_plan(), POLICY
    )
    assert [(each.option_id, each.needs_approval) for each in best] == [("fine", False), ("soft", True)]
    assert [breach.code for breach in best[1].breaches] == [Reason.fare_above_cap]
    assert all(each.citations for each in best)


def test_fewer_breaches_rank_above_a_preferred_airline() -> None:
    dear_and_late, late = (
        make_option("two", "660", "UA", days_ahead=3),
        make_option("one", "640", "AA", days_ahead=3),
    )
    best = pick_top_options([dear_and_late, late], make_plan(days_ahead=3), POLICY)
    assert [(each.option_id, len(each.breaches)) for each in best] == [("one", 1), ("two", 2)]


def test_policy_decides_which_airline_is_preferred() -> None:
    boast = make_option("a", carrier="AA").model_copy(update={"is_preferred_vendor": True})
    best = pick_top_options([boast, make_option("b", "450", carrier="DL")], make_plan(), POLICY)
    assert {each.option_id: each.is_preferred_vendor for each in best} == {"a": False, "b": True}


@all_cases(
    ("wishes", "first"),
    [
        ({"vendors": ["American"]}, "american"),
        ({"nonstop": True}, "direct"),
        ({"depart_part": "evening"}, "evening"),
        ({}, "stops"),
    ],
)
def test_employees_preferences_decide_between_similar_fares(wishes: dict[str, Any], first: str) -> None:
    by = TravelPolicy.parse(RULES | {"preferred_carriers": {"carriers": ["XX"], "within_percent": 10}})
    options = [
        make_option("stops", "300", "DL", flights=(120, 100)),
        make_option("american", "304", "AA", flights=(120, 100)),
        make_option("direct", "303", "DL", flights=(240,)),
        make_option("evening", "302", "DL", flights=(120, 100), hour=18),
    ]
    best = pick_top_options(options, make_plan(**wishes), by)
    assert best[0].option_id == first


@all_cases(
    ("hour", "part"),
    [(4, "night"), (5, "morning"), (12, "afternoon"), (17, "evening"), (21, "night"), (23, "night")],
)
def test_part_of_day_follows_the_departure_hour(hour: int, part: str) -> None:
    assert get_part_of_day(make_option(hour=hour)) == part


@pytest.mark.proves("TC-65", "TC-X20")
@all_cases(("count", "many"), [(None, 3), (1, 1), (5, 5), (6, 5), (100, 5)])
def test_shows_three_options_and_at_most_five(count: int | None, many: int) -> None:
    options = [make_option(f"o-{number}", str(200 + number)) for number in range(12)]
    wanted = () if count is None else (count,)
    assert len(pick_top_options(options, make_plan(), POLICY, *wanted)) == many


@pytest.mark.proves("TC-65")
def test_shows_no_more_options_than_a_booking_item_can_hold() -> None:
    large = [
        make_option(f"o-{number}", str(200 + number)).model_copy(update={"carrier_name": "U" * 140_000})
        for number in range(3)
    ]
    assert len(pick_top_options(large, make_plan(), POLICY)) == 2


def test_explains_why_no_option_complies_and_how_to_comply() -> None:
    result = rank_by_rules(
        [
            make_option("a", "300", cabin=Cabin.business),
            make_option("b", "200", carrier="ZZ", cabin=Cabin.business),
        ],
        make_plan(),
        convert_policy(POLICY),
        today=TODAY,
    )
    assert result.options == ()
    assert result.failure is not None
    assert result.failure.code == "nothing_complies"
    assert result.failure.remedy == "book economy"
    assert "None of 2 flights" in result.failure.text
    assert [breach.citation is not None for breach in result.failure.breaches] == [True]


def test_reports_that_no_flight_was_found() -> None:
    failure = rank_by_rules([], make_plan(), convert_policy(POLICY), today=TODAY).failure
    assert failure is not None and failure.code == "no_flights"


# --- properties ---------------------------------------------------------------------------------------------

FLIGHTS = st.builds(
    make_option,
    price=st.integers(100, 900).map(str),
    carrier=st.sampled_from(["UA", "DL", "AA", "ZZ"]),
    cabin=st.sampled_from(Cabin),
    flights=st.lists(st.integers(40, 800), min_size=1, max_size=3).map(tuple),
    back=st.lists(st.integers(40, 800), max_size=2).map(tuple),
    days_ahead=st.integers(0, 40),
    hour=st.integers(0, 23),
)
MANY_FLIGHTS = st.lists(FLIGHTS, max_size=9).map(
    lambda flights: [
        flight.model_copy(update={"option_id": f"o-{number}"}) for number, flight in enumerate(flights)
    ]
)
WISHES = st.fixed_dictionaries(
    {
        "vendors": st.sampled_from([[], ["United"], ["AA"]]),
        "nonstop": st.booleans(),
        "depart_part": st.sampled_from([None, "morning", "night"]),
        "budget_usd": st.sampled_from([None, Decimal(450)]),
    }
)


def rank(flights: list[FlightOption], wishes: dict[str, Any], by: TravelPolicy = POLICY) -> Ranking:
    """Rank the flights for a plan with these preferences; keep up to five."""
    return rank_by_rules(flights, make_plan(**wishes), convert_policy(by), 5, today=TODAY)


@given(MANY_FLIGHTS, WISHES)
def test_compliant_flights_come_first(flights: list[FlightOption], wishes: dict[str, Any]) -> None:
    result = rank(flights, wishes)
    breaching = [bool(each.breaches) for each in result.options]
    assert breaching == sorted(breaching)
    assert not any(breach.severity == "hard" for each in result.options for breach in each.breaches)
    # A compliant option is left out only when other compliant ones fill the list.
    complying = sum(judgement.ok for judgement in result.judgements)
    assert breaching.count(False) == min(5, complying)
    assert (result.failure is None) is bool(result.options)


@given(MANY_FLIGHTS, WISHES, st.randoms(use_true_random=False))
def test_input_order_does_not_matter(
    flights: list[FlightOption], wishes: dict[str, Any], random: Any
) -> None:
    shuffled = random.sample(flights, len(flights))
    assert rank(shuffled, wishes) == rank(flights, wishes)


@st.composite
def stricter(draw: st.DrawFn) -> TravelPolicy:
    """Draw a policy with some of its rules made stricter and none laxer."""
    lower = draw(st.integers(0, 2))
    cabins = [
        {**rule, "cabin": list(Cabin)[max(0, Cabin(rule["cabin"]).rank - lower)]} for rule in RULES["cabins"]
    ]
    caps = [{**cap, "max_usd": Decimal(cap["max_usd"]) - draw(st.integers(0, 400))} for cap in RULES["caps"]]
    hard = draw(st.integers(1, 20))
    return TravelPolicy.parse(
        RULES
        | {
            "cabins": cabins,
            "caps": caps,
            "advance_purchase_days": {"hard": hard, "soft": max(14, hard) + draw(st.integers(0, 10))},
            "prohibited": {"carriers": ["ZZ", *draw(st.lists(st.sampled_from(["UA", "AA"])))]},
            "hard_stops": ["cabin_above_policy", *draw(st.lists(st.sampled_from(Reason), max_size=3))],
        }
    )


@given(FLIGHTS, WISHES, stricter())
def test_stricter_policy_never_accepts_more(
    flight: FlightOption, wishes: dict[str, Any], by: TravelPolicy
) -> None:
    before, after = (check_option(flight, make_plan(**wishes), each) for each in (POLICY, by))
    assert before.ok or not after.ok
    assert before.is_bookable or not after.is_bookable


def test_a_flight_on_another_day_than_planned_is_judged_by_its_own_day() -> None:
    late = make_option(days_ahead=3)
    (breach,) = check_option(late, make_plan(days_ahead=20)).breaches
    assert (breach.code, breach.text) == (
        Reason.late_booking, "The departure is 3 days ahead, less than the policy requires."
    )  # fmt: skip


def test_options_too_large_to_store_are_a_failure() -> None:
    huge = make_option("a").model_copy(update={"carrier_name": "x" * MAX_ITEM_OPTIONS_BYTES})
    ranking = rank_by_rules([huge], make_plan(), convert_policy(POLICY), today=TODAY)
    assert ranking.options == ()
    assert ranking.failure is not None and ranking.failure.code == "options_too_large"
