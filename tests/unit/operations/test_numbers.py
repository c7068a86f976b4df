"""Numbers: parsed, formatted, ordered and measured exactly, and refused with DynamoDB's messages."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.numbers import NOT_A_NUMBER, OVERFLOW, TOO_PRECISE, UNDERFLOW
from tests.cases import all_cases

from .number_texts import exact, storable, texts


@given(texts)
def test_parse_returns_the_exact_value_of_the_text(text: str) -> None:
    assert Fraction(numbers.parse(text)) == exact(text)


@given(storable)
def test_whole_numbers_are_ints_and_others_decimals_without_trailing_zeros(
    number: int | Decimal,
) -> None:
    if type(number) is int:
        return
    assert isinstance(number, Decimal)
    assert Fraction(number).denominator != 1
    assert number.as_tuple().digits[-1] != 0


@given(storable)
def test_written_number_reads_back_with_value_and_type(number: int | Decimal) -> None:
    again = numbers.parse(numbers.to_text(number))
    assert again == number
    assert type(again) is type(number)


@given(storable)
def test_to_text_uses_plain_notation_without_extra_zeros(number: int | Decimal) -> None:
    text = numbers.to_text(number)
    assert "e" not in text.lower()
    assert not ("." in text and text.endswith(("0", ".")))
    assert not text.startswith(("+", ".", "-."))
    assert text != "-0"


@given(texts)
def test_every_way_to_write_a_number_has_one_canonical_form(text: str) -> None:
    """Add trailing zeros and an explicit exponent: the parsed number is the same."""
    mantissa, _, exponent = text.partition("e")
    padded = f"{mantissa}{'' if '.' in mantissa else '.'}000E{exponent or '0'}"
    assert numbers.parse(padded) == numbers.parse(text)
    assert type(numbers.parse(padded)) is type(numbers.parse(text))


@given(storable)
def test_canonicalize_leaves_a_canonical_number_unchanged(number: int | Decimal) -> None:
    assert numbers.canonicalize(number) == number
    assert type(numbers.canonicalize(number)) is type(number)
    assert numbers.canonicalize(Decimal(number)) == number


@given(storable)
def test_sortable_bytes_decode_to_the_number(number: int | Decimal) -> None:
    decoded = numbers.decode_sortable(numbers.encode_sortable(number))
    assert decoded == numbers.canonicalize(number)


@given(storable, storable)
def test_sortable_bytes_have_the_order_of_the_numbers(left: int | Decimal, right: int | Decimal) -> None:
    one, two = numbers.encode_sortable(left), numbers.encode_sortable(right)
    assert (one < two) == (left < right)
    assert (one == two) == (left == right)


@all_cases(
    ("lower", "higher"),
    [
        ("-1.0005", "-1"),  # one continues the other with a pair of zeros
        ("-100.00000001", "-100"),
        ("-1", "-0.9"),
        ("1", "1.0005"),
        ("-1e125", "-1e-130"),
        ("-1e-130", "0"),
        ("0", "1e-130"),
        ("99", "100"),
        ("9" * 38, "1e38"),
    ],
)
def test_sortable_bytes_are_in_order_at_the_edges(lower: str, higher: str) -> None:
    assert numbers.encode_sortable(numbers.parse(lower)) < numbers.encode_sortable(numbers.parse(higher))


@given(st.lists(storable, max_size=30))
def test_sorting_by_bytes_is_sorting_by_value(found: list[int | Decimal]) -> None:
    assert sorted(found, key=numbers.encode_sortable) == sorted(found)


@given(storable)
def test_number_size_counts_pairs_of_digits(number: int | Decimal) -> None:
    assert numbers.size(number) == _count_size(number)


def _count_size(number: int | Decimal) -> int:
    """Lay the digits out around the decimal point in pairs, and count the pairs that are not zero."""
    magnitude = abs(Fraction(number))
    if not magnitude:
        return 1
    pairs = set()
    scaled, place = magnitude * 100**100, 0
    assert scaled.denominator == 1
    left = scaled.numerator
    while left:
        left, pair = divmod(left, 100)
        if pair:
            pairs.add(place)
        place += 1
    return 1 + max(pairs) - min(pairs) + 1 + (number < 0)


@pytest.mark.parametrize("text", ["1e126", "-1e126", "9.9e200", "1" + "0" * 126, "1e999999999999"])
def test_a_number_that_is_too_large_overflows(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        numbers.parse(text)
    assert refused.value.message == OVERFLOW


@pytest.mark.parametrize("text", ["1e-131", "-1e-131", "0." + "0" * 130 + "1", "1e-999999999999"])
def test_a_number_that_is_too_small_underflows(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        numbers.parse(text)
    assert refused.value.message == UNDERFLOW


@pytest.mark.parametrize("text", ["1" * 39, "0." + "1" * 39, "1" + "0" * 37 + "1", "1." + "0" * 40 + "1"])
def test_a_number_with_more_than_38_significant_digits_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        numbers.parse(text)
    assert refused.value.message == TOO_PRECISE


@pytest.mark.parametrize(
    "text", ["1" + "0" * 38, "0." + "0" * 50 + "1" * 38, "1." + "0" * 2000, "000" + "1" * 38]
)
def test_insignificant_zeros_are_not_counted(text: str) -> None:
    assert Fraction(numbers.parse(text)) == exact(text)


@all_cases("text", ["", "b", "-", "1.2.3", "1e", " 1", "1\n", "١", "NaN", "Infinity", "-inf", "0x10", "1_0"])
def test_reports_text_that_is_not_a_number(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        numbers.parse(text)
    assert refused.value.message == (f"{NOT_A_NUMBER}: {text}" if text else NOT_A_NUMBER)


@pytest.mark.parametrize("number", [Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])
def test_rejects_a_decimal_that_is_not_a_number(number: Decimal) -> None:
    with pytest.raises(InvalidRequest) as refused:
        numbers.canonicalize(number)
    assert refused.value.message == f"{NOT_A_NUMBER}: {number}"


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Parse arbitrary text: the only exception is `InvalidRequest`."""
    try:
        numbers.parse(text)
    except InvalidRequest:
        pass
