"""National Provider Identifiers: ten digits, the last of which is a check digit."""

from __future__ import annotations

from typing import Final

# The Luhn sum covers the number as printed on a card: 80 for health, 840 for the United States.
CARD_PREFIX: Final = "80840"
DIGITS: Final = 10


def is_npi(text: str) -> bool:
    """Return whether the text is ten ASCII digits with a valid check digit."""
    return (
        len(text) == DIGITS
        and text.isascii()
        and text.isdecimal()
        and _compute_luhn_sum(CARD_PREFIX + text) % 10 == 0
    )


def build_npi(nine_digits: str) -> str:
    """Return the NPI that begins with these nine digits."""
    missing = -_compute_luhn_sum(CARD_PREFIX + nine_digits + "0") % 10
    return f"{nine_digits}{missing}"


def _compute_luhn_sum(digits: str) -> int:
    """Return the Luhn sum of the digits; it is divisible by 10 if the check digit is right."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total
