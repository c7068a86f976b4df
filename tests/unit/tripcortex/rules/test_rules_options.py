"""Which flights are shown: those that comply first, never a hard stop, few, and always in the same order."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tripcortex.rules.trips import POLICY, RULES, SILENT, TODAY, Text, option, plan
from tripcortex.domain.policy_rules import (
    Ranking,
    Reason,
    TravelPolicy,
    check_option,
    pick_top_options,
    rank_options,
)
from tripcortex.domain.policy_rules.option_ranking import get_part_of_day
from tripcortex.model.entities import ITEM_OPTIONS_BYTES_MAX, BookingPlan, Cabin, FlightOption


def shown(*options: FlightOption, trip: BookingPlan | None = None, count: int = 3) -> list[str]:
    best = pick_top_options(options, trip or plan(), POLICY, SILENT, count, today=TODAY)
    return [each.option_id for each in best]


# --- order --------------------------------------------------------------------------------------------------


def test_the_cheaper_goes_first() -> None:
    assert shown(option("b", "300", "AA"), option("a", "450", "AA"), option("c", "200", "AA")) == [
        "c",
        "b",
        "a",
    ]


def test_a_preferred_airline_goes_first_while_it_is_near_the_lowest_fare() -> None:
    cheapest, near, dear = option("x", "300", "AA"), option("y", "330", "DL"), option("z", "330.01", "UA")

    assert shown(cheapest, near, dear) == ["y", "x", "z"]


def test_a_narrower_tolerance_in_the_text_counts() -> None:
    text = Text("Choose preferred carriers within 5 % of the lowest fare.")

    best = pick_top_options(
        [option("x", "300", "AA"), option("y", "330", "DL")], plan(), POLICY, [text], today=TODAY
    )
    assert [each.option_id for each in best] == ["x", "y"]


def test_what_needs_approval_comes_after_all_that_complies_and_is_marked() -> None:
    best = pick_top_options(
        [option("soft", "501", "UA"), option("fine", "499", "AA")], plan(), POLICY, SILENT, today=TODAY
    )

    assert [(each.option_id, each.needs_approval) for each in best] == [("fine", False), ("soft", True)]
    assert [breach.code for breach in best[1].breaches] == [Reason.fare_above_cap]
    assert all(each.citations for each in best)


def test_of_what_needs_approval_fewer_breaches_go_before_a_preferred_airline() -> None:
    dear_and_late, late = option("two", "660", "UA", days_ahead=3), option("one", "640", "AA", days_ahead=3)

    best = pick_top_options([dear_and_late, late], plan(days_ahead=3), POLICY, SILENT, today=TODAY)
    assert [(each.option_id, len(each.breaches)) for each in best] == [("one", 1), ("two", 2)]


def test_the_mark_of_a_preferred_airline_is_the_policys_not_the_portals() -> None:
    boast = option("a", carrier="AA").model_copy(update={"is_preferred_vendor": True})

    best = pick_top_options([boast, option("b", "450", carrier="DL")], plan(), POLICY, SILENT, today=TODAY)
    assert {each.option_id: each.is_preferred_vendor for each in best} == {"a": False, "b": True}


@pytest.mark.parametrize(
    ("wishes", "first"),
    [
        ({"vendors": ["American"]}, "american"),
        ({"nonstop": True}, "direct"),
        ({"depart_part": "evening"}, "evening"),
        ({}, "stops"),
    ],
)
def test_among_near_fares_the_employees_wishes_decide(wishes: dict[str, Any], first: str) -> None:
    by = TravelPolicy.parse(RULES | {"preferred_carriers": {"carriers": ["XX"], "within_percent": 10}})
    options = [
        option("stops", "300", "DL", flights=(120, 100)),
        option("american", "304", "AA", flights=(120, 100)),
        option("direct", "303", "DL", flights=(240,)),
        option("evening", "302", "DL", flights=(120, 100), hour=18),
    ]

    best = pick_top_options(options, plan(**wishes), by, SILENT, today=TODAY)
    assert best[0].option_id == first


@pytest.mark.parametrize(
    ("hour", "part"),
    [(4, "night"), (5, "morning"), (12, "afternoon"), (17, "evening"), (21, "night"), (23, "night")],
)
def test_a_day_has_four_parts(hour: int, part: str) -> None:
    assert get_part_of_day(option(hour=hour)) == part


# --- how many -----------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-65")
@pytest.mark.proves("TC-X20")
@pytest.mark.parametrize(("count", "many"), [(None, 3), (1, 1), (5, 5), (6, 5), (100, 5)])
def test_three_are_shown_and_never_more_than_five(count: int | None, many: int) -> None:
    options = [option(f"o-{number}", str(200 + number)) for number in range(12)]
    wanted = () if count is None else (count,)

    assert len(pick_top_options(options, plan(), POLICY, SILENT, *wanted, today=TODAY)) == many


@pytest.mark.proves("TC-65")
def test_no_more_is_shown_than_a_booking_can_hold() -> None:
    large = [
        option(f"o-{number}", str(200 + number)).model_copy(update={"carrier_name": "U" * 140_000})
        for number in range(3)
    ]

    assert len(pick_top_options(large, plan(), POLICY, SILENT, today=TODAY)) == 2


# --- nothing to choose from ---------------------------------------------------------------------------------


def test_where_nothing_complies_it_says_why_and_what_would() -> None:
    result = rank_options(
        [option("a", "300", cabin=Cabin.business), option("b", "200", carrier="ZZ", cabin=Cabin.business)],
        plan(),
        POLICY,
        SILENT,
        today=TODAY,
    )

    assert result.options == ()
    assert result.failure is not None
    assert result.failure.code == "nothing_complies"
    assert result.failure.remedy == "book economy"
    assert "None of 2 flights" in result.failure.text
    assert [breach.citation is not None for breach in result.failure.breaches] == [True]


def test_where_no_flight_was_found_it_says_so() -> None:
    failure = rank_options([], plan(), POLICY, SILENT, today=TODAY).failure

    assert failure is not None and failure.code == "no_flights"


# --- laws ---------------------------------------------------------------------------------------------------

FLIGHTS = st.builds(
    option,
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


def ranking(flights: list[FlightOption], wishes: dict[str, Any], by: TravelPolicy = POLICY) -> Ranking:
    return rank_options(flights, plan(**wishes), by, SILENT, 5, today=TODAY)


@given(MANY_FLIGHTS, WISHES)
def test_a_flight_that_complies_never_comes_after_one_that_does_not(
    flights: list[FlightOption], wishes: dict[str, Any]
) -> None:
    result = ranking(flights, wishes)

    breaching = [bool(each.breaches) for each in result.options]
    assert breaching == sorted(breaching)
    assert not any(breach.severity == "hard" for each in result.options for breach in each.breaches)
    # What complies and is not shown had no place: the places are taken by others that comply.
    complying = sum(judgement.ok for judgement in result.judgements)
    assert breaching.count(False) == min(5, complying)
    assert (result.failure is None) is bool(result.options)


@given(MANY_FLIGHTS, WISHES, st.randoms(use_true_random=False))
def test_the_order_in_which_flights_come_does_not_matter(
    flights: list[FlightOption], wishes: dict[str, Any], random: Any
) -> None:
    shuffled = random.sample(flights, len(flights))

    assert ranking(shuffled, wishes) == ranking(flights, wishes)


@st.composite
def stricter(draw: st.DrawFn) -> TravelPolicy:
    """The policy with some of its rules made stricter, and none laxer."""
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
def test_a_stricter_policy_never_lets_more_pass(
    flight: FlightOption, wishes: dict[str, Any], by: TravelPolicy
) -> None:
    before, after = (check_option(flight, plan(**wishes), each, SILENT, TODAY) for each in (POLICY, by))

    assert before.ok or not after.ok
    assert before.is_bookable or not after.is_bookable


@given(FLIGHTS, WISHES)
def test_without_a_relevant_passage_nothing_passes_that_would_not_with_one(
    flight: FlightOption, wishes: dict[str, Any]
) -> None:
    known = check_option(flight, plan(**wishes), POLICY, SILENT, TODAY)

    assert known.ok or not check_option(flight, plan(**wishes), POLICY, (), TODAY).ok


def test_a_flight_on_another_day_than_planned_is_judged_by_its_own_day() -> None:
    late = option(days_ahead=3)

    (breach,) = check_option(late, plan(days_ahead=20), POLICY, SILENT, TODAY).breaches
    assert breach.remedy == f"leave on or after {TODAY + timedelta(days=14)}"


def test_flights_that_are_too_large_to_be_kept_are_a_failure_and_no_empty_choice() -> None:
    huge = option("a").model_copy(update={"carrier_name": "x" * ITEM_OPTIONS_BYTES_MAX})

    ranking = rank_options([huge], plan(), POLICY, SILENT, today=TODAY)
    assert ranking.options == ()
    assert ranking.failure is not None and ranking.failure.code == "options_too_large"
