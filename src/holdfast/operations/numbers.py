"""DynamoDB's numbers: 38 significant digits, stored and ordered exactly.

A canonical number is an `int` if whole and otherwise a `Decimal` without trailing zeros. `parse` and
`canonicalize` return canonical numbers and raise DynamoDB's errors for invalid ones. `to_text` formats a
number for the wire; `encode_sortable` encodes it for an index: bytes whose order is the order of the numbers.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_NUMBER_DIGITS, MAX_NUMBER_EXPONENT, MIN_NUMBER_EXPONENT

OVERFLOW: Final = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW: Final = (
    "Number underflow. Attempting to store a number with magnitude smaller than supported range"
)
TOO_PRECISE: Final = "Attempting to store more than 38 significant digits in a Number"
NOT_A_NUMBER: Final = "The parameter cannot be converted to a numeric value"

_NUMBER_PATTERN: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
_SAFE_INT: Final = 10**MAX_NUMBER_DIGITS
_MAX_MANTISSA_CHARS: Final = 1000
_EXPONENT_BOUND: Final = 1 << 63
_MAX_EXPONENT_DIGITS: Final = 19
_MAX_DECIMAL_EXPONENT: Final = 999_999
# Wide enough that the sum of the largest and the smallest number is exact before it is checked.
EXACT_CONTEXT: Final = Context(prec=300, Emin=-999999, Emax=999999)
# Pairs of digits, inverted: 00 becomes 0xfe, because 0xff terminates a negative number.
_INVERTED_PAIRS: Final = bytes((254 - byte) % 256 for byte in range(256))


def parse(text: str) -> int | Decimal:
    """Parse a text into a canonical number. Raise `InvalidRequest` with DynamoDB's text if it is not one it
    can store.
    """
    if len(text) <= MAX_NUMBER_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    if not text:
        raise InvalidRequest(NOT_A_NUMBER)
    match = _NUMBER_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"{NOT_A_NUMBER}: {text}")
    sign, mantissa, exponent = match.groups()
    power = _parse_exponent(exponent or "0")
    if power is None:
        raise InvalidRequest(f"{NOT_A_NUMBER}: {text}")
    return canonicalize(_build_decimal(sign, mantissa, power))


def _parse_exponent(exponent: str) -> int | None:
    """Return the exponent if DynamoDB can read it (a 64-bit integer), else None."""
    digits = exponent.lstrip("+-0") or "0"
    if len(digits) > _MAX_EXPONENT_DIGITS:
        return None
    power = -int(digits) if exponent.startswith("-") else int(digits)
    return power if -_EXPONENT_BOUND <= power < _EXPONENT_BOUND else None


def _build_decimal(sign: str, mantissa: str, power: int) -> Decimal:
    """Build a Decimal with bounded work for any input: an exponent of many digits never reaches `Decimal`.

    Raise `InvalidRequest` for an exponent far outside DynamoDB's range.
    """
    if not mantissa.strip("0."):
        return Decimal(0)
    if abs(power) > _MAX_DECIMAL_EXPONENT:
        raise InvalidRequest(UNDERFLOW if power < 0 else OVERFLOW)
    if len(mantissa) > _MAX_MANTISSA_CHARS:
        mantissa, power = _shorten_mantissa(mantissa, power)
    return Decimal(f"{sign}{mantissa}e{power}")


def _shorten_mantissa(mantissa: str, power: int) -> tuple[str, int]:
    """Return the mantissa as at most 1000 significant digits without a point, and the exponent that goes with
    it.
    """
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    power += len(digits) - len(fraction) - min(len(significant), _MAX_MANTISSA_CHARS)
    return significant[:_MAX_MANTISSA_CHARS], power


def canonicalize(number: int | Decimal) -> int | Decimal:
    """Return the number in canonical form. Raise `InvalidRequest` if DynamoDB could not store it."""
    if type(number) is int and -_SAFE_INT < number < _SAFE_INT:
        return number
    exact = Decimal(number)
    if not exact.is_finite():
        raise InvalidRequest(f"{NOT_A_NUMBER}: {number}")
    if not exact:
        return 0
    _, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)  # finite
    trailing = _count_trailing_zeros(digits)
    magnitude = exact.adjusted()
    if magnitude > MAX_NUMBER_EXPONENT:
        raise InvalidRequest(OVERFLOW)
    if magnitude < MIN_NUMBER_EXPONENT:
        raise InvalidRequest(UNDERFLOW)
    if len(digits) - trailing > MAX_NUMBER_DIGITS:
        raise InvalidRequest(TOO_PRECISE)
    return int(exact) if exponent + trailing >= 0 else exact.normalize(EXACT_CONTEXT)


def _count_trailing_zeros(digits: tuple[int, ...]) -> int:
    count = 0
    for digit in reversed(digits):
        if digit:
            break
        count += 1
    return count


def to_text(number: int | Decimal) -> str:
    """Format the number as DynamoDB does: plain notation, no trailing zeros."""
    return str(number) if type(number) is int else format(number, "f")


def significant_digits(number: int | Decimal) -> tuple[str, int]:
    """Return the significant digits of a canonical number and the power of ten of the first: 1200 is ("12",
    3).
    """
    if type(number) is int:
        digits = str(abs(number))
        return digits.rstrip("0"), len(digits) - 1
    assert isinstance(number, Decimal)
    return "".join(map(str, number.as_tuple().digits)).rstrip("0"), number.adjusted()


@lru_cache(maxsize=4096)
def size(number: int | Decimal) -> int:
    """Return the bytes that a number takes in an item: one, plus one per two digits aligned to even powers of
    ten, plus one if it is negative.
    """
    number = canonicalize(number)
    if not number:
        return 1
    digits, power = significant_digits(number)
    count = len(digits)
    unaligned = count % 2 == 0 and power % 2 == 0
    return 1 + (count + 1) // 2 + unaligned + (number < 0)


def encode_sortable(number: int | Decimal) -> bytes:
    """Encode a number as bytes in numeric order: sign, power of ten, then two digits per byte.

    A negative number is the complement of its positive, terminated by a byte above any digit pair. So when
    one negative number's digits are a prefix of another's, the longer sorts first.
    """
    return _encode_canonical(canonicalize(number))


@lru_cache(maxsize=4096)
def _encode_canonical(number: int | Decimal) -> bytes:
    """Encode a canonical number. A write encodes that of an index twice, a query those of a whole page."""
    if not number:
        return b"\x80"
    digits, power = significant_digits(number)
    if len(digits) % 2:
        digits += "0"
    pairs, biased = bytes.fromhex(digits), power - MIN_NUMBER_EXPONENT
    if number > 0:
        return bytes((0x81, biased)) + pairs
    return bytes((0x7F, 255 - biased)) + pairs.translate(_INVERTED_PAIRS) + b"\xff"


def decode_sortable(encoded: bytes) -> int | Decimal:
    """Return the number of which `encode_sortable` made these bytes."""
    if encoded == b"\x80":
        return 0
    if encoded[0] == 0x81:
        sign, biased, pairs = "", encoded[1], encoded[2:]
    else:
        sign, biased, pairs = "-", 255 - encoded[1], encoded[2:-1].translate(_INVERTED_PAIRS)
    digits = pairs.hex()
    return canonicalize(Decimal(f"{sign}{digits}e{biased + MIN_NUMBER_EXPONENT - len(digits) + 1}"))
