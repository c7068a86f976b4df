"""Attribute values: equality by type, sizes by DynamoDB's rules, and a lossless stored form (the codec)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.values import (
    Item,
    Value,
    are_equal,
    get_nesting_depth,
    get_type_tag,
    item_size,
    sort_elements,
    value_size,
)
from holdfast.stores.tables.embedded.storage import codec
from tests.cases import all_cases

from .number_texts import storable

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_bytes = st.binary(max_size=12)
_scalars = st.one_of(_texts, _bytes, storable, st.booleans(), st.none())
_sets = st.one_of(
    st.frozensets(_texts, min_size=1, max_size=5),
    st.frozensets(_bytes, min_size=1, max_size=5),
    st.frozensets(storable, min_size=1, max_size=5),
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_scalars, _sets),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=12,
)
items: st.SearchStrategy[Any] = st.dictionaries(_texts, values, max_size=6)


def tag_value(value: Value) -> Any:
    """Add type tags, so that values which Python finds equal across types (True and 1) differ."""
    match value:
        case list():
            return ("L", [tag_value(each) for each in value])
        case dict():
            return ("M", {name: tag_value(each) for name, each in value.items()})
        case frozenset():
            return (get_type_tag(value), frozenset(tag_value(each) for each in value))
        case int() | Decimal() if not isinstance(value, bool):
            return ("N", numbers.to_text(value))
        case _:
            return (get_type_tag(value), value)


@given(items)
def test_an_item_is_stored_and_read_back_exactly(item: Item) -> None:
    again = codec.decode(codec.encode(item))
    assert tag_value(again) == tag_value(item)
    assert list(again) == list(item)


@given(items)
def test_encoding_a_decoded_item_again_gives_the_same_bytes(item: Item) -> None:
    assert codec.encode(codec.decode(codec.encode(item))) == codec.encode(item)


@all_cases("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**37, -(10**37), 10**125])
def test_whole_numbers_around_the_edges_of_64_bits_keep_their_value(number: int) -> None:
    assert codec.decode(codec.encode({"n": number})) == {"n": number}


@pytest.mark.parametrize(
    ("given_", "kept"), [(Decimal("1.0"), 1), (Decimal("-0.0"), 0), (Decimal("1.50"), Decimal("1.5"))]
)
def test_a_decimal_that_is_not_canonical_is_stored_as_one_that_is(
    given_: Decimal, kept: int | Decimal
) -> None:
    again = codec.decode(codec.encode({"n": given_}))["n"]
    assert again == kept
    assert type(again) is type(kept)


@all_cases("value", [1.5, frozenset(), (1,), {1}, object(), frozenset({1.5}), [1.0], {"a": {"b": 2.0}}])
def test_codec_rejects_values_that_cannot_be_stored(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="cannot be stored"):
        codec.encode({"a": value})


@given(values, values)
def test_are_equal_compares_types_and_values_at_every_depth(left: Value, right: Value) -> None:
    assert are_equal(left, right) == (tag_value(left) == tag_value(right))
    assert are_equal(left, left)


@all_cases(
    ("left", "right"),
    [
        (True, 1),
        (False, 0),
        ([True], [1]),
        ({"a": True}, {"a": 1}),
        ([{"a": [0]}], [{"a": [False]}]),
        ("a", b"a"),
    ],
)
def test_values_of_different_types_are_not_equal(left: Value, right: Value) -> None:
    assert not are_equal(left, right)
    assert not are_equal(right, left)


@given(items)
def test_item_size_matches_the_reference(item: Item) -> None:
    assert item_size(item) == sum(len(name.encode()) + _reference_size(value) for name, value in item.items())


@given(values)
def test_value_size_matches_the_reference(value: Value) -> None:
    assert value_size(value) == _reference_size(value)


def _reference_size(value: Any) -> int:
    """Compute the size of a value by the documented rules, independently of the code."""
    tag = get_type_tag(value)
    if tag == "S":
        return len(value.encode())
    if tag == "B":
        return len(value)
    if tag in ("BOOL", "NULL"):
        return 1
    if tag == "N":
        return numbers.size(value)
    if tag in ("SS", "NS", "BS"):
        return sum(map(_reference_size, value))
    if tag == "L":
        return 3 + sum(1 + _reference_size(each) for each in value)
    return 3 + sum(1 + len(name.encode()) + _reference_size(each) for name, each in value.items())


@given(items)
def test_nesting_counts_the_levels_of_the_deepest_attribute(item: Item) -> None:
    assert get_nesting_depth(item) == max(map(_depth, item.values()), default=0)


def _depth(value: Any) -> int:
    """Count the levels of lists and maps in a value, recursively."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0
    return 1 + max(map(_depth, value), default=0)


@given(_sets)
def test_sort_elements_orders_by_bytes_or_numbers(elements: frozenset[Any]) -> None:
    shown = sort_elements(elements)
    assert frozenset(shown) == elements
    by_bytes = [each.encode() if isinstance(each, str) else each for each in shown]
    assert by_bytes == sorted(by_bytes)
