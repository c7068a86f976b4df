"""The National Provider Identifier: ten digits, the last of which checks the others."""

from __future__ import annotations

from typing import Final

# Luhn's sum runs over the number as it stands on a card: 80 for health, 840 for the United States.
CARD_PREFIX: Final = "80840"
DIGITS: Final = 10


def is_npi(text: str) -> bool:
    """Whether it is ten ASCII digits with the right check digit."""
    return (
        len(text) == DIGITS
        and text.isascii()
        and text.isdecimal()
        and _luhn_sum(CARD_PREFIX + text) % 10 == 0
    )


def npi_of(nine_digits: str) -> str:
    """The number whose first nine digits these are, with its check digit."""
    missing = -_luhn_sum(CARD_PREFIX + nine_digits + "0") % 10
    return f"{nine_digits}{missing}"


def _luhn_sum(digits: str) -> int:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total
