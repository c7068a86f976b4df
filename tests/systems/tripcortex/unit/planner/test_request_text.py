"""Tests of what is read before the trip: letters, names of people, amounts in words, holidays."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from tests.cases import all_cases
from tripcortex.domain.intents import Intent, classify
from tripcortex.domain.planner.letter_parts import remove_letter_parts
from tripcortex.domain.planner.money import Money, parse_money
from tripcortex.domain.planner.person_names import hide_person_names
from tripcortex.domain.planner.public_holidays import find_easter, find_holiday
from tripcortex.domain.planner.text_normalization import normalize_text


@all_cases(
    ("text", "rest"),
    [
        ("Hi Jordan, Rome on 4 May. Thanks, Paris Whitfield", "Rome on 4 May."),
        ("Dear Desk, Rome on 4 May.\n\nBest regards,\nFlorence Lyon, +1 617 555 0199", "Rome on 4 May."),
        ("Rome on 4 May\nSent from my iPhone", "Rome on 4 May"),
        ("hey paris can you book Rome", "can you book Rome"),
        ("Thanks! Now London to Paris on 4 May", "Thanks! Now London to Paris on 4 May"),
        ("Hello London to Paris", "Hello London to Paris"),
        ("thanks", "thanks"),
    ],
)
def test_removes_greeting_and_signature_only(text: str, rest: str) -> None:
    assert remove_letter_parts(text).strip() == rest


@all_cases(
    ("text", "hidden"),
    [
        ("I am meeting Paris Williams in Atlanta", "I am meeting someone in Atlanta"),
        ("June asked me to join her in Lisbon", "someone asked me to join her in Lisbon"),
        ("to Denver with Mr Houston from legal", "to Denver with someone from legal"),
        ("from Miami to Denver and I'll be back", "from Miami to Denver and I'll be back"),
        ("fly to Melbourne Nov 23", "fly to Melbourne Nov 23"),
        ("Ho Chi Minh City tomorrow please", "Ho Chi Minh City tomorrow please"),
        ("BOOK ME TO PARIS WILLIAMS", "BOOK ME TO PARIS WILLIAMS"),
    ],
)
def test_hides_names_of_people_and_no_places(text: str, hidden: str) -> None:
    assert hide_person_names(text) == hidden


@all_cases(
    ("text", "money"),
    [
        ("not more than eight hundred dollars", Money(Decimal(800), "USD")),
        ("under twelve hundred euros", Money(Decimal(1200), "EUR")),
        ("one thousand two hundred and fifty euros", Money(Decimal(1250), "EUR")),
        ("between $400 and $600", Money(Decimal(600), "USD")),
        ("400 to 600 USD", Money(Decimal(600), "USD")),
        ("not a cent over 950", Money(Decimal(950), "")),
        ("max 6000 pesos", Money(Decimal(6000), "pesos")),
        ("$250 each way", Money(Decimal(250), "USD", is_each_way=True)),
        ("our 2,000 dollar customer", None),
        ("at least $300", None),
    ],
)
def test_finds_the_highest_price(text: str, money: Money | None) -> None:
    _, found = parse_money(normalize_text(text))
    assert found == ((money,) if money else ())


@all_cases(
    ("name", "country", "day"),
    [
        ("easter monday", "US", date(2026, 4, 6)),
        ("thanksgiving", "US", date(2026, 11, 26)),
        ("thanksgiving", "CA", date(2026, 10, 12)),
        ("labor day", "US", date(2026, 9, 7)),
        ("labor day", "DE", date(2026, 5, 1)),
        ("memorial day", "US", date(2026, 5, 25)),
        ("independence day", "IN", date(2026, 8, 15)),
        ("valentines day", "US", date(2027, 2, 14)),
    ],
)
def test_dates_a_holiday_in_the_employees_country(name: str, country: str, day: date) -> None:
    assert find_holiday(name).list_dates(date(2026, 3, 10), country) == (day,)


def test_a_holiday_without_a_country_has_each_date() -> None:
    found = find_holiday("thanksgiving").list_dates(date(2026, 3, 10))
    assert sorted(found) == [date(2026, 10, 12), date(2026, 11, 26)]


@all_cases(("year", "day"), [(2025, date(2025, 4, 20)), (2026, date(2026, 4, 5)), (2038, date(2038, 4, 25))])
def test_finds_easter(year: int, day: date) -> None:
    assert find_easter(year) == day


@all_cases(
    ("sentence",),
    [
        ("I no longer need Boston to Denver on 3 December, back 5 December",),
        ("Boston to Denver on 3 December, back 5 December is booked, but I want to leave later",),
        ("can I change Boston to Denver on 3 December, back 5 December?",),
        ("Tom booked Boston to Denver on 3 December, back 5 December",),
        ("She said: book Boston to Denver on 3 December, back 5 December",),
        ("My wife needs Boston to Denver on 3 December, back 5 December",),
        ("Tell Anna to book Boston to Denver on 3 December, back 5 December",),
        ("I might need Boston to Denver on 3 December, back 5 December, not sure yet",),
        ("show me Boston to Denver on 3 December, back 5 December",),
        ("forget about Boston to Denver on 3 December, back 5 December",),
        ("The samples have to be flown to Denver by 3 December",),
        ("My colleague Paul is in Denver from 3 December to 5 December",),
        ("Thanks for booking Denver on 3 December, back on 5 December",),
        ("Boston to Denver on 3 December was cancelled by the airline, what now?",),
        ("turn my one-way to Denver into a round trip, back on the 30th",),
    ],
)
def test_a_trip_that_is_only_mentioned_is_not_booked(sentence: str) -> None:
    assert classify(sentence).intent is not Intent.book
