"""Attribute values as the SDK has them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.numbers import canonical
from holdfast.operations.values import Item, same
from holdfast.stores.tables.dynamodb.values import plain_item, plain_value, tagged_item, tagged_value

NUMBERS = st.integers(-(10**37), 10**37) | st.decimals(-1000, 1000, places=3).map(canonical)
SCALARS: st.SearchStrategy[Any] = st.text() | NUMBERS | st.binary() | st.booleans() | st.none()
SETS: st.SearchStrategy[Any] = st.one_of(
    st.frozensets(st.text(), min_size=1),
    st.frozensets(NUMBERS, min_size=1),
    st.frozensets(st.binary(), min_size=1),
)
VALUES = st.recursive(
    SCALARS | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES))
def test_an_item_comes_back_as_it_went(item: Item) -> None:
    assert same(plain_item(tagged_item(item)), item)


@pytest.mark.parametrize(
    ("value", "tagged"),
    [
        (True, {"BOOL": True}),
        (1, {"N": "1"}),
        (Decimal("1.50"), {"N": "1.5"}),
        (Decimal("1E+3"), {"N": "1000"}),
        (None, {"NULL": True}),
        (b"\x00", {"B": b"\x00"}),
        (frozenset({10, 9}), {"NS": ["9", "10"]}),
        (frozenset({"b", "a"}), {"SS": ["a", "b"]}),
        ([1, {"a": "b"}], {"L": [{"N": "1"}, {"M": {"a": {"S": "b"}}}]}),
    ],
)
def test_a_value_has_the_form_of_its_type(value: Any, tagged: dict[str, Any]) -> None:
    assert tagged_value(value) == tagged


def test_a_number_from_the_service_is_canonical() -> None:
    assert type(plain_value({"N": "3.00"})) is int
    assert plain_value({"NS": ["1.50", "1E2"]}) == frozenset({Decimal("1.5"), 100})


@pytest.mark.parametrize("value", [1.0, frozenset(), frozenset({1, "a"}), (1,), Decimal("Infinity"), 10**126])
def test_what_cannot_be_stored_is_refused_before_it_is_sent(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        tagged_item({"x": [value]})
