"""Tests of rules extracted from plain sentences and tables, and of texts that must give none."""

from __future__ import annotations

from decimal import Decimal

from tests.cases import all_cases
from tests.systems.tripcortex.unit.policy_rules.trips import Text
from tripcortex.domain.policy_rules.phrases import DAYS, HOURS, parse_span
from tripcortex.domain.policy_rules.text_rules import RuleKind, TextRule, extract_rules
from tripcortex.domain.policy_rules.travel_policy import Route
from tripcortex.model.entities import Cabin


def read_single_rule(text: str, section: str | None = None) -> TextRule:
    """Extract the rules of the text and return the only one."""
    (rule,) = extract_rules([Text(text, section)]).rules
    return rule


def get_cabin_at(hours: str, text: str, route: Route = Route.short_haul) -> list[Cabin | None]:
    """Return the cabins of the text's rules that apply to a flight of this many hours."""
    rules = extract_rules([Text(text)]).rules
    assert all(rule.kind is RuleKind.cabin for rule in rules)
    return [rule.cabin for rule in rules if rule.applies_to(route, Decimal(hours), 20)]


@all_cases(
    ("words", "inside", "outside"),
    [
        ("under 6 hours", "5.9", "6"),
        ("of less than six hours", "5.9", "6"),
        ("up to 6 hours", "6", "6.1"),
        ("of no more than 6 hours", "6", "6.1"),
        ("6 hours or less", "6", "6.1"),
        ("over 6 hours", "6.1", "6"),
        ("longer than 6 hrs", "6.1", "6"),
        ("of 6 hours or more", "6", "5.9"),
        ("of at least 6 hours", "6", "5.9"),
        ("6+ hours", "6", "5.9"),
        ("between 6 and 10 hours", "10", "10.1"),
        ("6–10 hours", "6", "5.9"),
        ("6 to under 10 hours", "6", "10"),
    ],
)
def test_understands_a_span_of_hours(words: str, inside: str, outside: str) -> None:
    span = parse_span(f"on flights {words}", HOURS)
    assert Decimal(inside) in span and Decimal(outside) not in span


def test_counts_weeks_in_days() -> None:
    assert parse_span("at least two weeks before departure", DAYS).low == 14


@all_cases(
    ("sentence", "hours", "cabin"),
    [
        ("Economy class is required for flights under 6 hours.", "4", Cabin.economy),
        ("Business class may be booked on flights of 8 hours or longer.", "9", Cabin.business),
        ("Business class is not permitted on flights under 8 hours.", "4", Cabin.premium_economy),
        ("Business and first class are never allowed.", "14", Cabin.premium_economy),
        ("First class is never booked, whatever the duration.", "14", Cabin.business),
        ("Travelers must book coach class.", "3", Cabin.economy),
    ],
)
def test_reads_a_cabin(sentence: str, hours: str, cabin: Cabin) -> None:
    assert get_cabin_at(hours, sentence) == [cabin]


def test_reads_two_cabins_of_one_sentence() -> None:
    text = (
        "Premium economy is allowed on flights of 6 to 10 hours, and business class on flights over 10 hours."
    )
    assert get_cabin_at("8", text) == [Cabin.premium_economy]
    assert get_cabin_at("12", text) == [Cabin.business]
    assert get_cabin_at("3", text) == []


@all_cases(
    ("sentence", "most", "routes"),
    [
        ("The maximum fare for domestic flights is $500.", "500", {Route.domestic}),
        (
            "Fares for international flights must not exceed USD 1,250.50, taxes and fees included.",
            "1250.50",
            {Route.short_haul, Route.long_haul},
        ),
        ("Airfare above 900 USD requires approval.", "900", set()),
    ],
)
def test_reads_a_fare_cap(sentence: str, most: str, routes: set[Route]) -> None:
    rule = read_single_rule(sentence)
    assert (rule.kind, rule.max_usd, set(rule.routes)) == (RuleKind.fare, Decimal(most), routes)
    assert rule.citation.quote == sentence


def test_reads_several_caps_of_one_sentence() -> None:
    rules = extract_rules(
        [Text("The maximum fare is $500 for domestic and $1,500 for long-haul flights.")]
    ).rules
    assert {(rule.max_usd, *rule.routes) for rule in rules} == {
        (Decimal(500), Route.domestic),
        (Decimal(1500), Route.long_haul),
    }


def test_section_title_gives_the_route() -> None:
    assert read_single_rule("The maximum fare is $500.", "4.1 Domestic flights").routes == {Route.domestic}


@all_cases(
    "text",
    [
        "Hotels cost at most $200 a night.",
        "A receipt is needed for tickets above $75.",
        "Checked bags on flights are paid up to $40.",
        "A fare may be up to $100 above the lowest.",
        "The average fare fell from $500 to $400.",
        "We fly on business for many reasons.",
        "First, tell your manager.",
        "May I fly business class to Tokyo?",
        "Trains are booked in first class only beyond two hours.",
        "More trips were booked at least two weeks ahead.",
        "Expenses are handed in within thirty days after the trip.",
        "Flights may be booked at most 330 days in advance for 14 to 20 days.",
    ],
)
def test_ignores_text_that_is_not_a_rule(text: str) -> None:
    assert extract_rules([Text(text)]).rules == ()


@all_cases("amount", ["€400", "EUR 400", "400 EUR", "C$400", "$400 CAD", "£400"])
def test_reports_an_amount_in_another_currency_without_comparing_it(amount: str) -> None:
    found = extract_rules([Text(f"The maximum fare for domestic flights is {amount}.")])
    assert found.rules == ()
    assert len(found.notes) == 1 and amount in found.notes[0]


@all_cases(
    ("sentence", "days", "is_refused"),
    [
        ("Flights are booked at least 14 days before departure.", 14, False),
        ("Book flights 21 days in advance.", 21, False),
        ("Bookings made less than 7 days before departure need approval.", 7, False),
        ("Flights within 3 days of departure are not booked.", 3, True),
        ("A flight that leaves in less than 1 day is refused.", 1, True),
    ],
)
def test_reads_how_long_ahead_to_book(sentence: str, days: int, is_refused: bool) -> None:
    rule = read_single_rule(sentence)
    assert (rule.kind, rule.days, rule.is_absolute) == (RuleKind.notice, days, is_refused)


CAPS = """
Table 2: Fare caps by route and notice

| Route | 14 days or more | 0 to 13 days |
|---|---|---|
| Domestic | $500 | 650 USD |
| International, long haul | 3,200 USD | 3,700 USD |
"""


@all_cases(
    ("route", "days", "most"),
    [
        (Route.domestic, 14, 500),
        (Route.domestic, 13, 650),
        (Route.long_haul, 3, 3_700),
        (Route.short_haul, 3, None),
    ],
)
def test_reads_a_table_with_a_column_per_notice(route: Route, days: int, most: int | None) -> None:
    holding = [
        rule.max_usd for rule in extract_rules([Text(CAPS)]).rules if rule.applies_to(route, None, days)
    ]
    assert holding == ([] if most is None else [most])


def test_reads_a_table_with_units_in_its_headers() -> None:
    text = "| Route | Days ahead | Maximum fare (USD) |\n|--|--|--|\n| Domestic | 14+ | 500 |\n| Domestic | 0-13 | 650 |"  # noqa: E501
    rules = extract_rules([Text(text)]).rules
    assert [(rule.max_usd, 13 in rule.days_ahead, 14 in rule.days_ahead) for rule in rules] == [
        (Decimal(500), False, True),
        (Decimal(650), True, False),
    ]


def test_reads_cabins_of_a_table_and_ignores_its_remarks() -> None:
    text = (
        "| Longest flight | Highest cabin | Remark |\n|---|---|---|\n| Under 6 hours | Economy | All "
        "domestic flights |\n"
        "| 10 hours and more | Business | Not in first class |"
    )
    assert get_cabin_at("4", text, Route.long_haul) == [Cabin.economy]
    assert get_cabin_at("11", text, Route.long_haul) == [Cabin.business]


def test_the_order_of_the_passages_does_not_matter() -> None:
    passages = [Text("The maximum fare is $500.", chunk_id="b"), Text(CAPS, chunk_id="a")]
    assert extract_rules(passages) == extract_rules(reversed(passages))


@all_cases(
    "sentence",
    [
        "Do not book business class unless the flight is over 8 hours.",
        "Business class is not permitted, except on flights of more than 8 hours.",
        "Premium economy is the highest cabin unless the flight exceeds 8 hours.",
    ],
)
def test_rule_does_not_apply_to_its_unless_clause(sentence: str) -> None:
    assert get_cabin_at("8", sentence) == [Cabin.premium_economy]
    assert get_cabin_at("8.1", sentence) == []


def test_fare_cap_applies_except_to_its_exception() -> None:
    rule = read_single_rule("The maximum fare is $500 unless the flight is long-haul.")
    assert rule.max_usd == 500
    assert rule.routes == {Route.domestic, Route.short_haul}


def test_ignores_an_exception_with_two_conditions() -> None:
    assert (
        extract_rules(
            [Text("Business class is not permitted unless the flight is long-haul and over 8 hours.")]
        ).rules
        == ()
    )


@all_cases(
    "sentence",
    [
        "Tickets are sent 3 days before departure.",
        "Flight tickets must be submitted with receipts 3 days before the trip.",
        "Check in for flights at least 1 day before departure.",
        "Unused tickets up to $10,000 are reimbursed.",
        "Directors may fly business class.",
        "Senior employees may fly business class on flights over 3 hours.",
        "Employees may fly economy class and directors may fly first class.",
        "Interns may not book premium economy.",
        "Business class is permitted for executives.",
        "Vice presidents may book fares up to $5,000.",
    ],
)
def test_ignores_rules_about_other_things_or_only_some_people(sentence: str) -> None:
    assert extract_rules([Text(sentence)]).rules == ()


@all_cases(
    "sentence",
    [
        "All employees may fly premium economy.",
        "On flights over 3 hours employees may fly premium economy.",
        "Travellers must not book business class.",
        "You may use premium economy.",
        "Premium economy is allowed if a director has given approval.",
    ],
)
def test_reads_rules_that_apply_to_everyone(sentence: str) -> None:
    assert get_cabin_at("9", sentence) == [Cabin.premium_economy]
