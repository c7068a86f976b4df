"""Budget limits in a request's sentence: finds the amounts with their currencies and removes them.

An amount that is not an upper limit ("at least") is removed too, but not returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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
        "MXN": "mxn",
        "PHP": "php",
        "IDR": "idr rupiah",
        "MYR": "myr ringgit",
        "VND": "vnd dong",
        "TWD": "twd nt$",
        "EGP": "egp",
        "KES": "kes ksh",
        "NGN": "ngn naira",
        "PKR": "pkr",
        "LKR": "lkr",
        "BDT": "bdt taka",
        "RON": "ron lei",
        "BGN": "bgn leva",
        "KWD": "kwd",
        "BHD": "bhd",
        "OMR": "omr",
        "JOD": "jod",
        "MAD": "mad",
        "PEN": "pen soles",
        # Several countries have them.
        "pesos": "pesos peso",
        "dinars": "dinars",
        "crowns": "crowns kr",
        "BRL": "brl r$ reais",
        "SEK": "sek kronor krona",
        "NOK": "nok",
        "DKK": "dkk",
        "kroner": "kroner",
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
_HUNDRED: Final = 100
_SPELLED_NUMBERS: Final = (
    {
        word: number
        for number, word in enumerate(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen".split()
        )
    }
    | {
        word: ten * 10
        for ten, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
    }
    | {"a": 1}
)
_UNIT: Final = "|".join(_SPELLED_NUMBERS)
_SPELLED: Final = re.compile(
    rf"\b(?:(?:{_UNIT})[ -])+(?:hundred|thousand|grand)(?:(?: and)?[ -](?:{_UNIT}|hundred|thousand)\b(?! "
    rf"(?:nights?|days?|weeks?)))*"
)
# "Do not spend more than" is a limit, and no minimum.
_EACH_WAY: Final = re.compile(
    r"^ ?(?:max )?(?:each way|per (?:leg|direction|way))\b| (?:each way|per (?:leg|direction|way)) "
)
_NOT_MORE: Final = re.compile(
    r"\b(?:dont|do not|not|nothing|never|cant|cannot|shouldnt|should not|mustnt|must not|wont|without|"
    r"doesnt|no)"
    r"(?: (?!\d)\w+){0,3}? (?:more than|over|above|beyond|exceed(?:ing)?) (?=[^a-z]{0,3}\d|[a-z]{3} ?\d)"
)
# Of "between $400 and $600", the second is the limit.
_RANGE: Final = re.compile(
    rf"(?:\bbetween |\bfrom )?(?P<unit>{_CURRENCY}) ?\d[\d.]* ?(?:-|to|and) ?(?:{_CURRENCY})? "
    rf"?(?P<most>\d{{2,}}[\d.]*)"
    rf"|(?:\bbetween |\bfrom |\b(?=\d{{3}}))\d[\d.]* ?(?:{_CURRENCY})? ?(?:-|to|and) ?(?P<more>\d[\d.]* "
    rf"?(?:{_CURRENCY}))\b"
)
_MINIMUM: Final = r"(?:\b(?P<least>at least|more than|over|above|minimum(?: of)?) )?"
_LIMIT: Final = (
    r"(?:under|below|max(?:imum)?(?: of)?|up to|at most|no more than|not more than|less than|not "
    r"(?:a (?:cent|penny|dollar|euro) )?over|within|cheaper than"
    r"|(?:my |the |a )?(?:budget|limit|cap|ceiling)(?: is| of| at| max| around| about)*|capped at|spend|"
    r"(?:not|dont|without) (?:to )?exceed(?:ing)?|keep it (?:under|below|within|to)|<|<=|≤)"
)
_PATTERNS: Final = tuple(
    re.compile(form)
    for form in (
        rf"(?:\b{_LIMIT} )?{_MINIMUM}(?<![a-z])(?P<currency>{_CURRENCY}) ?{_AMOUNT}(?: (?:us )?dollars| "
        r"usd)?(?: (?:budget|max(?:imum)?|tops|at (?:the )?most|or less|limit))?",
        rf"(?:\b{_LIMIT} )?{_MINIMUM}{_AMOUNT} ?(?:us )?(?P<currency>{_CURRENCY})(?![a-z])"
        r"(?! (?:customers?|clients?|deals?|projects?|contracts?|orders?|accounts?|questions?|invoices?|"
        r"bills?|sales?|"
        r"pitch|opportunity|grant|funds?|budget (?:meeting|review)))"
        rf"(?: (?:budget|"
        rf"max(?:imum)?|tops|at (?:the )?most|or less|limit))?",
        # Without a currency, only after a word that makes it a limit, and never for hours, stops or dates.
        rf"\b{_LIMIT} (?P<least>)(?P<currency>){_AMOUNT}(?![\d/-])(?! "
        r"?(?:am|pm|hours?|hrs?|minutes|mins|stops?|days?|nights?"
        r"|weeks?|layovers?|connections?|%|people|passengers))",
        # The same with the word behind it.
        rf"(?P<least>)(?P<currency>){_AMOUNT}(?: each way| per (?:leg|direction|way|ticket)| all in| total)?"
        r" (?:max(?:imum)?|tops|at (?:the )?most|or less|is (?:the|my|our) (?:limit|max(?:imum)?|cap|"
        r"budget|ceiling))\b"
        r"(?! (?:stops?|layovers?|connections?|hours?))",
    )
)


@dataclass(frozen=True)
class Money:
    """An amount of money. `currency` is an ISO 4217 code, a name that several countries share, or "".

    An amount of 0 was not understood.
    """

    amount: Decimal
    currency: str
    # The number can be read in two ways.
    is_doubtful: bool = False
    # The limit is that of one direction.
    is_each_way: bool = False


def parse_money(text: str) -> tuple[str, tuple[Money, ...]]:
    """Return the normalized text with "|" for each amount, and the upper limits among them, each once.

    Call it before `parse_dates`, which would take an amount for a day.
    """
    found: list[Money] = []

    def take(match: re.Match[str]) -> str:
        if not match["least"]:
            currency = _CURRENCIES.get(match["currency"], "")
            one = _to_money(match["amount"], currency, bool(match["k"]))
            found.append(
                replace(one, is_each_way=bool(_EACH_WAY.search(match.string[match.end() :] + match[0])))
            )
        return " | "

    text = _NOT_MORE.sub(" max ", _SPELLED.sub(_write_digits, text))
    text = _RANGE.sub(_write_upper, text)
    for form in _PATTERNS:
        text = form.sub(take, text)
    return text, tuple(dict.fromkeys(found))


def _write_digits(match: re.Match[str]) -> str:
    """Return "1250" for "one thousand two hundred and fifty", and a text that is no such number unchanged."""
    total = part = 0
    for word in re.findall(r"[a-z]+", match[0]):
        if word == "hundred":
            part = (part or 1) * _HUNDRED
        elif word in ("thousand", "grand"):
            total, part = total + (part or 1) * THOUSAND, 0
        elif word != "and":
            part += _SPELLED_NUMBERS[word]
    return f"{total + part}{' ' if match[0].endswith(' ') else ''}"


def _write_upper(match: re.Match[str]) -> str:
    """Return the upper end of a range as a limit."""
    return f"max {match['unit']}{match['most']}" if match["most"] else f"max {match['more']}"


def _to_money(number: str, currency: str, is_thousands: bool) -> Money:
    """Return the amount of a number: "1.200" is 1200, unreadable is 0; with `is_thousands` it had a "k"."""
    if _PLAIN.fullmatch(number):
        amount = Decimal(number) * (THOUSAND if is_thousands else 1)
        return Money(Decimal(int(amount)) if is_thousands and amount == int(amount) else amount, currency)
    if _DOTTED.fullmatch(number) and not is_thousands:
        # "1.200 dollars" is probably 1200: the planner asks the employee to confirm it.
        return Money(Decimal(number.replace(".", "")), currency, is_doubtful=currency in (USD, ""))
    return Money(Decimal(0), currency or USD)
