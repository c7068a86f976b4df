"""Conversion of tagged JSON to plain values and back, and every error for invalid values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.operations import numbers
from holdfast.operations.values import Value, are_equal
from holdfast.wire.values import (
    EMPTY_VALUE,
    SEVERAL_VALUES,
    TOO_DEEP,
    UncheckedItem,
    check_types,
    encode_item,
    encode_value,
    parse_attribute_value,
    read_item,
    to_plain_item,
    to_plain_start_key,
)
from tests.cases import all_cases

INVALID = "One or more parameter values were invalid: "

_NUMBERS = st.one_of(
    st.integers(-(10**37), 10**37),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=6),
).map(numbers.canonicalize)
_SCALARS = st.one_of(st.text(), _NUMBERS, st.binary(), st.booleans(), st.none())
_SETS = st.one_of(
    st.frozensets(st.text(), min_size=1),
    st.frozensets(_NUMBERS, min_size=1),
    st.frozensets(st.binary(), min_size=1),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_SCALARS, _SETS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)
# Any JSON, with type tags likely enough to occur.
_TAG = st.sampled_from(["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M", "X"])
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TAG, inner, max_size=3)),
    max_leaves=10,
)


def refusal(value: Any) -> str:
    """Read a value and return the message of the `InvalidRequest` when the operation converts it."""
    read = read_item({"a": value})
    with pytest.raises(InvalidRequest) as refused:
        to_plain_item(read)
    return refused.value.message


def malformed_message(value: Any) -> str:
    """Return the message of the `MalformedRequest` when the value is read."""
    with pytest.raises(MalformedRequest) as refused:
        read_item({"a": value})
    return refused.value.message


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_item_survives_a_round_trip(item: dict[str, Value]) -> None:
    over_the_wire = json.loads(json.dumps(encode_item(item)))
    assert are_equal(to_plain_item(read_item(over_the_wire)), item)


@given(VALUES)
def test_strict_reader_agrees_with_the_fast_reader(value: Value) -> None:
    tagged = encode_value(value)
    quick = read_item({"a": tagged})
    assert isinstance(quick, dict)
    check_types(tagged)
    assert are_equal(parse_attribute_value(tagged), quick["a"])


@given(st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=3))
def test_any_json_is_read_or_refused_with_a_service_error(tagged: dict[str, Any]) -> None:
    try:
        item = to_plain_item(read_item(tagged))
    except (MalformedRequest, InvalidRequest):
        return
    encode_item(item)


@all_cases(
    ("tagged", "plain"),
    [
        ({"S": ""}, ""),
        ({"B": ""}, b""),
        ({"N": "-0.50"}, Decimal("-0.5")),
        ({"N": "1e3"}, 1000),
        ({"B": "AAE="}, b"\x00\x01"),
        ({"BOOL": False}, False),
        ({"BOOL": "true"}, True),
        ({"NULL": True}, None),
        ({"NULL": "yes"}, None),
        ({"SS": ["", "a"]}, frozenset({"", "a"})),
        ({"NS": ["1", "2.5"]}, frozenset({1, Decimal("2.5")})),
        ({"BS": ["", "AA=="]}, frozenset({b"", b"\x00"})),
        ({"L": []}, []),
        ({"M": {"": {"L": [{"S": "x"}]}}}, {"": ["x"]}),
        ({"S": "a", "N": None}, "a"),
        ({"S": "a", "Unknown": "b"}, "a"),
    ],
)
def test_reads_each_type_as_its_plain_value(tagged: Any, plain: Value) -> None:
    assert are_equal(to_plain_item(read_item({"a": tagged})), {"a": plain})


@pytest.mark.parametrize("text", ["=+/=", "äöü="])
def test_rejects_padding_and_other_characters_within_base64(text: str) -> None:
    assert malformed_message({"B": text}) == "Invalid last non-pad Base64 character dectected"


def test_reports_wrong_types_before_invalid_values() -> None:
    with pytest.raises(MalformedRequest):
        read_item({"a": {"N": "not a number"}, "b": {"S": 1}})


@all_cases(
    ("tagged", "text"),
    [
        ({}, EMPTY_VALUE),
        (None, EMPTY_VALUE),
        ({"a": ""}, EMPTY_VALUE),
        ({"S": None}, EMPTY_VALUE),
        ({"M": {"a": {}}}, EMPTY_VALUE),
        ({"L": [None]}, EMPTY_VALUE),
        ({"S": "a", "N": "1"}, SEVERAL_VALUES),
        ({"S": "a", "N": "b"}, "The parameter cannot be converted to a numeric value: b"),
        ({"N": ""}, "The parameter cannot be converted to a numeric value"),
        ({"NS": ["1", "b"]}, "The parameter cannot be converted to a numeric value: b"),
        ({"NULL": "no"}, f"{INVALID}Null attribute value types must have the value of true"),
        ({"SS": ["a", None]}, f"{INVALID}An string set may not have a null string as a member"),
        ({"BS": [None]}, f"{INVALID}Binary sets may not contain null or empty values"),
    ],
)
def test_reports_an_invalid_value_when_the_operation_checks(tagged: Any, text: str) -> None:
    assert refusal(tagged) == text


def test_invalid_value_is_not_reported_before_the_check() -> None:
    assert isinstance(read_item({"a": {"SS": []}}), UncheckedItem)


def nest(levels: int, kind: str) -> Any:
    """Return a value inside this many lists (kind L) or maps (kind M)."""
    value: Any = {"S": "leaf"}
    for _ in range(levels):
        value = {"M": {"n": value}} if kind == "M" else {"L": [value]}
    return value


@pytest.mark.parametrize("kind", ["L", "M"])
def test_refuses_thousands_of_nested_containers(kind: str) -> None:
    assert refusal(nest(20_000, kind)) == TOO_DEEP


def test_start_key_errors_are_prefixed_except_for_numbers_and_duplicates() -> None:
    """Prefix errors of a start key, except those about numbers, number sets and duplicates."""
    for tagged, text in [
        ({}, f"The provided starting key is invalid: {EMPTY_VALUE}"),
        ({"SS": []}, f"The provided starting key is invalid: {INVALID}An string set  may not be empty"),
        ({"N": "b"}, "The parameter cannot be converted to a numeric value: b"),
        ({"NS": []}, f"{INVALID}An number set  may not be empty"),
        ({"SS": ["a", "a"]}, f"{INVALID}Input collection [a, a] contains duplicates."),
    ]:
        with pytest.raises(InvalidRequest) as refused:
            to_plain_start_key(read_item({"a": tagged}))
        assert refused.value.message == text
    assert to_plain_start_key(None) is None


def test_encodes_sets_in_display_order() -> None:
    assert encode_value(frozenset({"b", "a", "ä"})) == {"SS": ["a", "b", "ä"]}
    assert encode_value(frozenset({10, 9, Decimal("9.5")})) == {"NS": ["9", "9.5", "10"]}
    assert encode_value(frozenset({b"\x01", b"\x00"})) == {"BS": ["AA==", "AQ=="]}
