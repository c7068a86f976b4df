"""Tests of the compliance checks of plans and flights: the strictest rule applies; breaches are cited.

Each breach has a reason, a citation and a remedy.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast_demo.tripcortex.sample.policy_document import build_policy_pdf, build_policy_rules
from tests.cases import all_cases
from tests.systems.tripcortex.unit.policy_rules.trips import (
    POLICY,
    SILENT,
    TODAY,
    Text,
    make_option,
    make_plan,
    make_policy,
)
from tripcortex.documents.factory import open_parser
from tripcortex.domain.policy_rules import Reason, TravelPolicy, check_option, check_plan
from tripcortex.domain.policy_rules.text_rules import Passage
from tripcortex.model.entities import BookingPlan, Breach, Cabin, FlightOption, TripParameters


def get_plan_breach(trip: BookingPlan, by: TravelPolicy | None = POLICY, *passages: Passage) -> Breach:
    """Check the plan and return its only breach; `by` is the policy."""
    (breach,) = check_plan(trip, by, passages or SILENT, TODAY).breaches
    return breach


def get_option_breach(flight: FlightOption, trip: BookingPlan | None = None, *passages: Passage) -> Breach:
    """Check the flight and return its only breach."""
    (breach,) = check_option(flight, trip or make_plan(), POLICY, passages or SILENT, TODAY).breaches
    return breach


# --- plans --------------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-92", "TC-64")
def test_compliant_plan_gets_cited_constraints() -> None:
    judgement = check_plan(make_plan(), POLICY, SILENT, TODAY)
    assert judgement.ok and not judgement.needs_approval and judgement.breaches == ()
    assert judgement.constraints.max_budget_usd == 500
    assert judgement.constraints.preferred_vendors == ["UA", "Delta"]
    assert judgement.constraints.max_cabin is Cabin.economy
    assert {(each.file_name, each.section_title) for each in judgement.citations} >= {
        ("northwind.json", "cabins"),
        ("northwind.json", "caps"),
    }


def test_constraint_is_the_policys_cap_not_the_employees_budget() -> None:
    judgement = check_plan(make_plan(budget_usd=Decimal("299.50")), POLICY, SILENT, TODAY)
    assert judgement.constraints.max_budget_usd == 500


@pytest.mark.proves("TC-92")
def test_refuses_a_cabin_above_the_durations_and_names_the_allowed_one() -> None:
    judgement = check_plan(make_plan(cabin=Cabin.business), POLICY, SILENT, TODAY)
    (breach,) = judgement.breaches
    assert not judgement.ok and not judgement.needs_approval
    assert (breach.code, breach.severity, breach.remedy) == (
        Reason.cabin_above_policy,
        "hard",
        "book economy",
    )
    assert breach.citation is not None and breach.citation.file_name == "northwind.json"


@pytest.mark.proves("TC-92")
def test_breach_cites_the_most_relevant_passage() -> None:
    passages = (
        Text("Economy class is required for flights under 6 hours.", "3 Cabins", 4, 0.71, "far"),
        Text("Economy class is required for flights under 6 hours.", "3.1 Short flights", 5, 0.83, "near"),
        Text("Hotels cost at most $200 a night.", "9 Hotels", 9, 0.95, "other"),
    )
    cited = get_plan_breach(make_plan(cabin=Cabin.business), POLICY, *passages).citation
    assert cited is not None
    assert (cited.chunk_id, cited.source_page, cited.section_title, cited.similarity) == (
        "near",
        5,
        "3.1 Short flights",
        0.83,
    )
    assert cited.quote == "Economy class is required for flights under 6 hours."


@pytest.mark.proves("TC-X24")
def test_long_trip_is_not_limited_by_the_short_haul_cap() -> None:
    # The document's own example: Hyderabad to Chicago with a cap of 500 dollars, which no such flight costs.
    judgement = check_plan(make_plan("HYD", "ORD", cabin=Cabin.business), POLICY, SILENT, TODAY)
    assert judgement.ok
    assert judgement.constraints.max_budget_usd == 3_200
    assert judgement.constraints.max_cabin is Cabin.business


@all_cases(
    ("days", "severity", "remedy"),
    [
        (0, "hard", "leave on or after 2026-03-11 with approval, or on or after 2026-03-24 without"),
        (1, "soft", "leave on or after 2026-03-24"),
        (13, "soft", "leave on or after 2026-03-24"),
    ],
)
def test_a_late_booking_is_hard_or_soft_by_its_notice(days: int, severity: str, remedy: str) -> None:
    judgement = check_plan(make_plan(days_ahead=days), POLICY, SILENT, TODAY)
    (breach,) = judgement.breaches
    assert (breach.code, breach.severity, breach.remedy) == (Reason.late_booking, severity, remedy)
    assert judgement.ok is judgement.needs_approval is (severity == "soft")


def test_names_no_approval_day_when_late_bookings_are_never_approved() -> None:
    by = make_policy(hard_stops=["late_booking"])
    assert get_plan_breach(make_plan(days_ahead=0), by).remedy == "leave on or after 2026-03-24"


def test_booking_with_the_required_notice_is_not_late() -> None:
    assert check_plan(make_plan(days_ahead=14), POLICY, SILENT, TODAY).breaches == ()


@all_cases("airport", ["SVO", "FNJ"])
def test_a_prohibited_airport_or_country_is_refused(airport: str) -> None:
    breach = get_plan_breach(make_plan(destination=airport))
    assert (breach.code, breach.severity) == (Reason.destination_prohibited, "hard")
    assert breach.citation is not None and breach.citation.section_title == "prohibited.destinations"


@all_cases(
    ("changes", "reason"),
    [
        ({"destination": "QQQ"}, Reason.airport_unknown),
        ({"destination": "SFO"}, Reason.nowhere_to_go),
        ({"departure_date": "2026-03-09"}, Reason.departure_past),
        ({"return_date": "2026-03-11"}, Reason.return_before_departure),
    ],
)
def test_refuses_an_impossible_trip_before_checking_the_policy(
    changes: dict[str, Any], reason: Reason
) -> None:
    trip = make_plan()
    trip = trip.model_copy(update={"parameters": {**trip.parameters.model_dump(), **changes}})
    assert isinstance(trip.parameters, TripParameters)
    judgement = check_plan(trip, POLICY, SILENT, TODAY)
    assert not judgement.ok
    assert [breach.code for breach in judgement.breaches] == [reason]


# --- text and rules -----------------------------------------------------------------------------------------


@all_cases(("said", "counts"), [(450, 450), (500, 500), (700, 500)])
def test_stricter_of_text_and_rule_applies(said: int, counts: int) -> None:
    text = Text(f"The maximum fare for domestic flights is ${said}.", "4 Fares", 6)
    judgement = check_plan(make_plan(), POLICY, [text], TODAY)
    assert judgement.constraints.max_budget_usd == counts
    assert any(f"${said}" in note and "$500" in note for note in judgement.notes) is (said != 500)


def test_notes_both_values_and_the_one_that_applies() -> None:
    text = Text("The maximum fare for domestic flights is $450.", "4 Fares", 6)
    assert check_plan(make_plan(), POLICY, [text], TODAY).notes == (
        "northwind.pdf, page 6, says $450, the rule caps in northwind.json says $500: $450 counts.",
    )


def test_exception_in_the_text_overrides_its_rule() -> None:
    text = Text(
        "Economy class is the standard and must be booked. Business class is allowed on flights over 10 "
        "hours."
    )
    judgement = check_plan(make_plan("HYD", "ORD", cabin=Cabin.business), POLICY, [text], TODAY)
    assert judgement.ok and judgement.notes == ()


def test_prohibition_overrides_an_exception() -> None:
    text = Text(
        "Business class is allowed on flights over 10 hours. Business class is never booked to India."
    )
    judgement = check_plan(make_plan("ORD", "HYD", cabin=Cabin.business), POLICY, [text], TODAY)
    assert [breach.remedy for breach in judgement.breaches] == ["book premium economy"]


@all_cases(
    ("said", "severity"),
    [
        ("First class is never booked, whatever the duration and whoever pays.", "hard"),
        ("First class is not permitted.", "hard"),
        ("Business class and first class are prohibited on flights under 6 hours.", "hard"),
        # These allow exceptions or concern other flights.
        ("First class is not permitted without approval of the director.", "soft"),
        ("First class is never booked to India.", "soft"),
        ("First class is not the standard.", "soft"),
        ("Business class is not permitted on flights over 6 hours.", "soft"),
    ],
)
def test_only_an_unconditional_prohibition_in_the_text_is_a_hard_breach(said: str, severity: str) -> None:
    by, text = make_policy(hard_stops=[]), Text(said, "3 Cabins", 4)
    on_plan = get_plan_breach(make_plan(cabin=Cabin.first), by, text)
    (on_flight,) = check_option(make_option(cabin=Cabin.first), make_plan(), by, [text], TODAY).breaches
    assert on_plan.severity == on_flight.severity == severity
    assert on_plan.citation is not None
    assert (on_plan.citation.quote == said) is (severity == "hard")


def test_longer_notice_in_the_text_applies() -> None:
    text = Text("Flights are booked at least 30 days before departure.", "2.2 Advance purchase", 2, 0.9)
    breach = get_plan_breach(make_plan(days_ahead=20), POLICY, text)
    assert breach.remedy == "leave on or after 2026-04-09"
    assert breach.citation is not None and breach.citation.section_title == "2.2 Advance purchase"


def test_unrelated_text_leaves_no_note() -> None:
    text = Text("First class is never booked, whatever the duration.")
    assert check_plan(make_plan(), POLICY, [text], TODAY).notes == ()


@pytest.fixture(scope="module")
def sample() -> tuple[Text, ...]:
    """Return the passages of the sample policy's PDF."""
    body = build_policy_pdf()
    entities = open_parser("northwind.pdf", body).parse(body, "northwind.pdf")
    return tuple(
        Text(each.text, each.section_title, each.page or 0, chunk_id=f"c-{number:03}")
        for number, each in enumerate(entities)
    )


@all_cases("days", [0, 1, 6, 7, 13, 14, 60])
@all_cases(("origin", "destination"), [("SFO", "ORD"), ("LHR", "CDG"), ("HYD", "ORD"), ("JFK", "LHR")])
def test_sample_document_agrees_with_its_rules_and_breaches_cite_pages(
    sample: tuple[Text, ...], origin: str, destination: str, days: int
) -> None:
    judgement = check_plan(
        make_plan(origin, destination, days, Cabin.first),
        TravelPolicy.parse(build_policy_rules()),
        sample,
        TODAY,
    )
    assert judgement.notes == ()
    assert judgement.breaches[0].code == Reason.cabin_above_policy
    for cited in (*judgement.citations, *(breach.citation for breach in judgement.breaches)):
        assert cited is not None and cited.file_name == "northwind.pdf" and cited.source_page


# --- confidence ---------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-92")
def test_strictest_defaults_apply_without_a_relevant_passage() -> None:
    for known in (POLICY, None):
        judgement = check_plan(make_plan(), known, (), TODAY)
        assert judgement.confidence == "none"
        assert judgement.constraints.max_budget_usd == 300
        assert judgement.constraints.max_cabin is Cabin.economy
        assert "strictest defaults" in judgement.notes[0]


def test_stricter_company_rules_apply_in_addition_to_the_defaults() -> None:
    known = make_policy(caps=[{"route": "domestic", "max_usd": 120}])
    assert check_plan(make_plan(), known, (), TODAY).constraints.max_budget_usd == 120
    assert not check_plan(make_plan(destination="SVO"), known, (), TODAY).ok


def test_retrieval_without_confidence_counts_as_no_passages() -> None:
    assert check_plan(make_plan(), POLICY, SILENT, TODAY, confidence="none") == check_plan(
        make_plan(), POLICY, (), TODAY
    )


def test_refuses_without_a_relevant_passage_if_configured() -> None:
    judgement = check_plan(make_plan(), POLICY, (), TODAY, stop_without_policy=True)
    assert [breach.code for breach in judgement.breaches] == [Reason.no_relevant_policy]
    assert not judgement.ok
    assert check_plan(make_plan(), POLICY, SILENT, TODAY, stop_without_policy=True).ok


def test_notes_a_low_confidence() -> None:
    judgement = check_plan(make_plan(), POLICY, SILENT, TODAY, confidence="low")
    assert judgement.ok and "only roughly" in judgement.notes[0]


def test_text_can_only_tighten_the_defaults_without_rules() -> None:
    lower, higher = (Text(f"The maximum fare for domestic flights is ${usd}.") for usd in (250, 450))
    constraints = check_plan(make_plan(), None, [lower], TODAY).constraints
    assert (constraints.max_budget_usd, constraints.max_cabin) == (Decimal(250), Cabin.economy)
    assert check_plan(make_plan(), None, [higher], TODAY).constraints.max_budget_usd == Decimal(300)


def test_no_sentence_allows_business_class_for_everyone_without_rules() -> None:
    for words in ("Directors may fly business class.", "Business class may be booked on all flights."):
        assert check_plan(make_plan(), None, [Text(words)], TODAY).constraints.max_cabin is Cabin.economy


# --- flights ------------------------------------------------------------------------------------------------


def test_a_flight_inside_the_policy_complies_and_is_cited() -> None:
    text = Text("The maximum fare for domestic flights is $500.", "4 Fares", 6)
    judgement = check_option(make_option(), make_plan(), POLICY, [text], TODAY)
    assert judgement.ok and judgement.is_bookable and judgement.is_preferred_vendor
    assert ("northwind.pdf", 6, "4 Fares", 0.8) in {
        (each.file_name, each.source_page, each.section_title, each.similarity)
        for each in judgement.citations
    }


def test_fare_above_the_cap_needs_approval_and_names_the_cap() -> None:
    breach = get_option_breach(make_option(price="500.01"))
    assert (breach.code, breach.severity, breach.remedy) == (
        Reason.fare_above_cap,
        "soft",
        "a fare of at most $500",
    )
    assert check_option(make_option(price="500.00"), make_plan(), POLICY, SILENT, TODAY).ok


@all_cases(
    ("flights", "back", "allowed"),
    [
        ((600,), (), True),
        ((359,), (), False),
        # Two short flights do not make a long one, and layovers are not flight time.
        ((359, 359), (), False),
        # Only the return flight is too short.
        ((600,), (359,), False),
    ],
)
def test_cabin_depends_on_the_longest_flight_of_each_direction(
    flights: tuple[int, ...], back: tuple[int, ...], allowed: bool
) -> None:
    flight = make_option(cabin=Cabin.premium_economy, flights=flights, back=back)
    assert check_option(flight, make_plan(), POLICY, SILENT, TODAY).is_bookable is allowed


@all_cases("named", ["ZZ", "Zed Air", "zed"])
def test_a_prohibited_airline_is_refused_by_code_and_by_name(named: str) -> None:
    by = make_policy(prohibited={"carriers": [named]})
    judgement = check_option(make_option(carrier="ZZ"), make_plan(), by, SILENT, TODAY)
    assert [breach.code for breach in judgement.breaches] == [Reason.carrier_prohibited]
    assert not judgement.is_bookable


def test_a_prohibited_airline_is_cited_by_the_sentence_that_names_it() -> None:
    text = Text("Zed Air is prohibited for safety reasons. United is fine.", "14 Safety", 11)
    cited = get_option_breach(make_option(carrier="ZZ"), None, text).citation
    assert cited is not None
    assert (cited.source_page, cited.quote) == (11, "Zed Air is prohibited for safety reasons.")


def test_a_prohibited_country_is_cited_by_the_passage_that_names_it_or_its_city() -> None:
    for words in ("Travel to Russia and Belarus is prohibited.", "Moscow"):
        text = Text(words, "5 Destinations that are prohibited", 5)
        cited = get_plan_breach(make_plan(destination="SVO"), POLICY, text).citation
        assert cited is not None and (cited.file_name, cited.quote) == ("northwind.pdf", words)


def test_notes_a_requested_prohibited_airline_citing_the_passage_or_the_rule() -> None:
    """The note cites the passage that prohibits it, or else the rule.

    An airline that was not requested gets no note.
    """
    by = make_policy(prohibited={"carriers": ["NK"]})
    text = Text("Spirit is prohibited for safety reasons.", "14 Safety", 11)

    assert check_plan(make_plan(vendors=["NK", "UA"]), by, [text], TODAY).notes == (
        "Spirit Airlines is prohibited (northwind.pdf, page 11, 14 Safety).",
    )
    assert check_plan(make_plan(vendors=["NK"]), by, SILENT, TODAY).notes == (
        "Spirit Airlines is prohibited (northwind.json, prohibited.carriers).",
    )
    assert check_plan(make_plan(vendors=["UA"]), by, [text], TODAY).notes == ()


@all_cases(
    ("budget", "remedy"),
    [
        (
            350,
            "other days or airports: nothing between your budget of $350 and the policy's cap of $500 was "
            "found",
        ),
        (520, "other days or airports: nothing up to the policy's cap of $500 was found"),
    ],
)
def test_never_recommends_a_budget_above_the_cap(budget: int, remedy: str) -> None:
    judgement = check_option(
        make_option(price="556.69"), make_plan(budget_usd=Decimal(budget)), POLICY, SILENT, TODAY
    )
    (own,) = (each for each in judgement.breaches if each.code == Reason.above_budget)
    assert own.remedy == remedy


def test_fare_above_the_employees_budget_is_a_hard_breach() -> None:
    breach = get_option_breach(make_option(price="400"), make_plan(budget_usd=Decimal(350)))
    assert (breach.code, breach.severity, breach.remedy) == (
        Reason.above_budget,
        "hard",
        "a budget of at least $400",
    )


OTHER = TravelPolicy.parse(
    {
        "version": "emea-1",
        "cabins": [{"cabin": "economy"}],
        "caps": [{"route": "domestic", "max_usd": 420}],
        "advance_purchase_days": {"hard": 3, "soft": 3},
        "prohibited": {"carriers": ["Delta"]},
        "hard_stops": ["fare_above_cap"],
    },
    file_name="emea.json",
    policy_id="p-2",
)


@all_cases("policies", [(POLICY, OTHER), (OTHER, POLICY)])
def test_stricter_of_several_policies_applies(policies: tuple[TravelPolicy, ...]) -> None:
    judgement = check_plan(
        make_plan("HYD", "ORD", days_ahead=2, cabin=Cabin.business), policies, SILENT, TODAY
    )
    assert {(each.code, each.severity) for each in judgement.breaches} == {
        (Reason.cabin_above_policy, "hard"),
        (Reason.late_booking, "hard"),
    }
    assert {each.citation.file_name for each in judgement.breaches if each.citation} == {"emea.json"}
    assert judgement.policy_version.split(", ") == [each.version for each in policies]
    assert judgement.constraints.preferred_vendors == ["UA", "Delta"]


def test_notes_a_difference_between_two_policies() -> None:
    judgement = check_plan(make_plan(), (POLICY, OTHER), SILENT, TODAY)
    assert judgement.constraints.max_budget_usd == 420
    assert (
        "The rule caps in northwind.json says $500, that in emea.json $420: $420 counts." in judgement.notes
    )


def test_flight_must_comply_with_every_policy() -> None:
    by = (POLICY, OTHER)
    assert not check_option(make_option(price="450"), make_plan(), by, SILENT, TODAY).is_bookable
    assert not check_option(make_option(carrier="DL"), make_plan(), by, SILENT, TODAY).is_bookable
    assert not check_plan(make_plan(destination="SVO"), by, SILENT, TODAY).ok
    assert check_option(make_option(price="420"), make_plan(), by, SILENT, TODAY).ok
