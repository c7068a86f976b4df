"""Budget limits in a request's sentence: finds the amounts with their currencies and removes them.

An amount that is not an upper limit ("at least") is removed too, but not returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

THOUSAND: Final = 1000
USD: Final = "USD"

_CURRENCIES: Final = {
    word: name
    for name, words in {
        USD: "$ us$ usd dollar dollars buck bucks",
        "EUR": "€ eur euro euros",
        "GBP": "£ gbp pound pounds quid",
        "JPY": "¥ jpy yen",
        "INR": "₹ inr rupee rupees rs",
        "CAD": "cad c$ ca$",
        "AUD": "aud a$ au$",
        "CHF": "chf francs",
        "CNY": "cny rmb yuan",
        "MXN": "mxn pesos",
        "BRL": "brl r$ reais",
        "SEK": "sek kronor",
        "NOK": "nok kroner",
        "DKK": "dkk",
        "SGD": "sgd s$",
        "HKD": "hkd hk$",
        "NZD": "nzd nz$",
        "AED": "aed dirham dirhams",
        "SAR": "sar riyal riyals",
        "QAR": "qar",
        "ZAR": "zar rand",
        "KRW": "krw won",
        "PLN": "pln zloty",
        "CZK": "czk",
        "HUF": "huf forint",
        "THB": "thb baht",
        "TRY": "lira",
        "ILS": "ils shekel shekels",
        "COP": "cop",
        "CLP": "clp",
        "ARS": "ars",
    }.items()
    for word in words.split()
}
_CURRENCY: Final = "|".join(re.escape(each) for each in sorted(_CURRENCIES, key=len, reverse=True))
# Matches a whole number in any notation: a part of it would be a different number.
_AMOUNT: Final = r"(?<![\d.])(?P<amount>(?>\d+(?:\.\d+)*(?:e\d+)?)) ?(?P<k>k\b)?"
_PLAIN: Final = re.compile(r"\d{1,7}(?:\.\d{1,2})?")
_DOTTED: Final = re.compile(r"\d{1,3}(?:\.\d{3}){1,2}")
_MINIMUM: Final = r"(?:\b(?P<least>at least|more than|over|above|minimum(?: of)?) )?"
_LIMIT: Final = (
    r"(?:under|below|max(?:imum)?(?: of)?|up to|at most|no more than|not more than|less than|not "
    r"over|within|cheaper than"
    r"|(?:my |the |a )?(?:budget|limit|cap)(?: is| of| at)?|spend|not exceeding)"
)
_PATTERNS: Final = tuple(
    re.compile(form)
    for form in (
        rf"(?:\b{_LIMIT} )?{_MINIMUM}(?<![a-z])(?P<currency>{_CURRENCY}) ?{_AMOUNT}(?: (?:us )?dollars| "
        r"usd)?(?: (?:budget|max(?:imum)?|tops|at (?:the )?most|or less|limit))?",
        rf"(?:\b{_LIMIT} )?{_MINIMUM}{_AMOUNT} ?(?:us )?(?P<currency>{_CURRENCY})(?![a-z])(?: (?:budget|"
        rf"max(?:imum)?|tops|at (?:the )?most|or less|limit))?",
        # Without a currency, only after a word that makes it a limit, and never for hours, stops or dates.
        rf"\b{_LIMIT} (?P<least>)(?P<currency>){_AMOUNT}(?![\d/-])(?! "
        r"?(?:am|pm|hours?|hrs?|minutes|mins|stops?|days?|nights?"
        r"|weeks?|layovers?|connections?|%|people|passengers))",
    )
)


@dataclass(frozen=True)
class Money:
    """An amount of money. `currency` is an ISO 4217 code, or "" if the employee has to confirm it.

    An amount of 0 was not understood.
    """

    amount: Decimal
    currency: str


def parse_money(text: str) -> tuple[str, tuple[Money, ...]]:
    """Return the normalized text with "|" for each amount, and the upper limits among them, each once.

    Call it before `parse_dates`, which would take an amount for a day.
    """
    found: list[Money] = []

    def take(match: re.Match[str]) -> str:
        if not match["least"]:
            found.append(_to_money(match["amount"], _CURRENCIES.get(match["currency"], ""), bool(match["k"])))
        return " | "

    for form in _PATTERNS:
        text = form.sub(take, text)
    return text, tuple(dict.fromkeys(found))


def _to_money(number: str, currency: str, is_thousands: bool) -> Money:
    """Return the amount of a number: "1.200" is 1200, unreadable is 0; with `is_thousands` it had a "k"."""
    if _PLAIN.fullmatch(number):
        return Money(Decimal(number) * (THOUSAND if is_thousands else 1), currency)
    if _DOTTED.fullmatch(number) and not is_thousands:
        # "1.200 dollars" is probably 1200: without a currency, the planner asks the employee to confirm it.
        return Money(Decimal(number.replace(".", "")), "" if currency == USD else currency)
    return Money(Decimal(0), currency or USD)
