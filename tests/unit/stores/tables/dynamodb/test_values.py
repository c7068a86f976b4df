"""Conversion of attribute values to the SDK's form and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.numbers import canonicalize
from holdfast.operations.values import Item, are_equal
from holdfast.stores.tables.dynamodb.values import decode_item, decode_value, encode_item, encode_value
from tests.cases import all_cases

NUMBERS = st.integers(-(10**37), 10**37) | st.decimals(-1000, 1000, places=3).map(canonicalize)
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
def test_item_survives_a_round_trip(item: Item) -> None:
    assert are_equal(decode_item(encode_item(item)), item)


@all_cases(
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
def test_encodes_a_value_with_its_type_tag(value: Any, tagged: dict[str, Any]) -> None:
    assert encode_value(value) == tagged


def test_a_number_from_the_service_is_canonical() -> None:
    assert type(decode_value({"N": "3.00"})) is int
    assert decode_value({"NS": ["1.50", "1E2"]}) == frozenset({Decimal("1.5"), 100})


@all_cases("value", [1.0, frozenset(), frozenset({1, "a"}), (1,), Decimal("Infinity"), 10**126])
def test_rejects_invalid_values_before_sending(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        encode_item({"x": [value]})
