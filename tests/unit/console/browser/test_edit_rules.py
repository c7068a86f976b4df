"""Which items may be edited: never a history, a guarantee's record, or one with encrypted content."""

from __future__ import annotations

import pytest

from holdfast.console.browser.edit_rules import explain_refusal, find_version_attribute
from holdfast.console.browser.entities import find_declaration
from holdfast.operations.values import Item

from .warehouse import CIPHERTEXT, SYSTEM, Customer, Order, build_customer, build_order, stock


def explain(item: Item) -> str:
    return explain_refusal(SYSTEM, find_declaration(stock, item), item)


def test_accepts_items_of_the_system_and_undeclared_ones() -> None:
    assert explain(build_order(1)) == ""
    assert explain(build_customer(1)) == ""
    assert explain_refusal(SYSTEM, None, {"PK": "x", "SK": "y"}) == ""


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"PK": "EVENTS#o-1", "SK": "2026-11-18T09:00:00Z#1"}, "append-only"),
        ({"PK": "RECEIPT#o-1", "SK": "RECEIPT", "text": "paid"}, "append-only"),
        ({"PK": "SHIFT#1", "SK": "SHIFT"}, "guarantee"),
        ({"PK": "ACCOUNT#1", "SK": "ACCOUNT", "keyEncrypted": CIPHERTEXT}, "encrypted"),
        ({"PK": "ORDER#o-1", "SK": "ORDER", "extra": {"inner": [CIPHERTEXT]}}, "encrypted"),
        ({"PK": "a", "SK": "b", **{f"a{number}": 1 for number in range(200)}}, "202 attributes"),
    ],
)
def test_refuses_what_others_rely_on(item: Item, reason: str) -> None:
    assert reason in explain(item)


def test_finds_the_version_that_patterns_check() -> None:
    assert find_version_attribute(SYSTEM, Order) == "version"
    assert find_version_attribute(SYSTEM, Customer) is None
