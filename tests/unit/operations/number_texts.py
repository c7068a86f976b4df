"""Hypothesis strategies of number texts in DynamoDB's range, written in the many ways a client may use."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from holdfast.core.limits import MAX_NUMBER_DIGITS, MAX_NUMBER_EXPONENT, MIN_NUMBER_EXPONENT
from holdfast.operations import numbers

# Digits that form pairs: runs of zeros and nines, and lengths around every boundary.
_digit_runs = st.lists(
    st.sampled_from(["0", "00", "000", "9", "99", "1", "5", "10", "01", "0000000000"]),
    min_size=1,
    max_size=12,
).map("".join)
_significands = (
    st.one_of(_digit_runs, st.integers(1, 10**MAX_NUMBER_DIGITS - 1).map(str), st.integers(1, 120).map(str))
    .map(lambda digits: digits.strip("0")[:MAX_NUMBER_DIGITS].rstrip("0"))
    .filter(bool)
)
_powers = st.one_of(
    st.integers(MIN_NUMBER_EXPONENT, MAX_NUMBER_EXPONENT),
    st.integers(-3, 3),
    st.sampled_from([MIN_NUMBER_EXPONENT, MAX_NUMBER_EXPONENT]),
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
"""Texts of storable numbers, often near each other, so that a test of their order means something."""

storable = texts.map(numbers.parse)


def exact(text: str) -> Fraction:
    """Return the number a text means, computed independently."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    return Fraction(int(whole + fraction)) * Fraction(10) ** (int(exponent or "0") - len(fraction))
