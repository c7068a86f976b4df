"""Numbers for property tests: DynamoDB's range, written in the many ways a client may write them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from holdfast.core.limits import NUMBER_DIGITS_MAX, NUMBER_EXPONENT_MAX, NUMBER_EXPONENT_MIN
from holdfast.operations import numbers

# Digits that form pairs: runs of zeros and nines, and lengths around every boundary.
_digit_runs = st.lists(
    st.sampled_from(["0", "00", "000", "9", "99", "1", "5", "10", "01", "0000000000"]),
    min_size=1,
    max_size=12,
).map("".join)
_significands = (
    st.one_of(_digit_runs, st.integers(1, 10**NUMBER_DIGITS_MAX - 1).map(str), st.integers(1, 120).map(str))
    .map(lambda digits: digits.strip("0")[:NUMBER_DIGITS_MAX].rstrip("0"))
    .filter(bool)
)
_powers = st.one_of(
    st.integers(NUMBER_EXPONENT_MIN, NUMBER_EXPONENT_MAX),
    st.integers(-3, 3),
    st.sampled_from([NUMBER_EXPONENT_MIN, NUMBER_EXPONENT_MAX]),
)
_signs = st.sampled_from(["", "-"])

_scientific = st.builds(
    lambda sign, digits, power: f"{sign}{digits[0]}.{digits[1:] or '0'}e{power}",
    _signs,
    _significands,
    _powers,
)

texts = st.one_of(
    st.just("0"), st.just("-0.00"), st.integers(-(10**38) + 1, 10**38 - 1).map(str), _scientific
)
"""Texts of storable numbers. Near each other often enough that their order is worth a question."""

storable = texts.map(numbers.parse)


def exact(text: str) -> Fraction:
    """Return the number a text means, computed independently."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    return Fraction(int(whole + fraction)) * Fraction(10) ** (int(exponent or "0") - len(fraction))
