"""Candidates for order numbers: what customers call one, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from richpanel.domain.order_numbers import find_order_candidates


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Where is order 48213?", ["48213"]),
        ("order nr 90317. can u swap it", ["90317"]),
        ("The number in the mail is #2019 (short, I know).", ["#2019"]),
        ("Bestellung 4711-20 bitte stornieren", ["4711-20"]),
        ("commande CB-7719", ["CB-7719"]),
        ("El pedido es el 774120.", ["774120"]),
        ("annullare l'ordine 2026-4415", ["2026-4415"]),
        ("wanneer komt bestelling 44-9021?", ["44-9021"]),
        ("zamówienie nr 120944", ["120944"]),
        ("注文番号はBS-52207です。", ["BS-52207"]),
        ("orders 48213 and 48214", ["48213", "48214"]),
        ("60718 is the number on your invoice", ["60718"]),
        ("It is #W2378156.", ["#W2378156"]),
        ("Whoever ordered this (60718, $230.40) used her name", ["60718"]),
    ],
)
def test_finds_order_numbers_as_they_are_written(text: str, numbers: list[str]) -> None:
    assert [each.text for each in find_order_candidates(text)] == numbers


@pytest.mark.parametrize(
    "text",
    [
        "I ordered on 3 November 2026",
        "ordered in 2024, again in 2025",
        "Order from 2026-11-03 at 14:02",
        "I paid £1,249.00, or 89,90 €, or EUR 12500",
        "call me on +44 20 7946 0855 or 0113 496 0771 or (512) 555-0148",
        "030 23125 447, ab 16 Uhr",
        "parcel JD0002290118845570, tracking 1Z999AA10123456784",
        "Sendungsnummer 00340434161094022115",
        "pakketje 3SABCD0012345 niet gezien",
        "PayPal case PP-R-KLM-448120993",
        "invoice 20931 is paid",
        "my customer number is 550012",
        "14 rue des Tanneurs, 69005 Lyon",
        "22 Alder Close, Bristol BS6 7QX",
        "card 4111 1111 1111 1111",
        "iPhone 14, 8.5 x 11 inches, version 4.2.1",
        "It costs 12345 dollars",
        "see https://shop.example/orders/48213",
        "PayPal mi dà errore 10486",
        "2026年11月3日に注文しました",
        "I have 48000 followers",
    ],
)
def test_leaves_out_every_other_number(text: str) -> None:
    assert find_order_candidates(text) == ()


def test_bare_numbers_count_only_if_nothing_is_called_an_order() -> None:
    assert [each.is_named for each in find_order_candidates("it's 48213")] == [False]
    assert [each.text for each in find_order_candidates("order 48213, box 77012")] == ["48213"]


def test_the_subject_of_a_new_message_counts() -> None:
    assert [each.text for each in find_order_candidates("Any news?", "Order 10733")] == ["10733"]


@given(st.text(max_size=200))
def test_any_text_is_read_and_candidates_have_digits(text: str) -> None:
    for each in find_order_candidates(text):
        assert sum(character.isdigit() for character in each.text) >= 3
