"""Converts amounts in other currencies to US dollars, by the rates of the policy or by default rates.

A rule is compared with prices in US dollars. The quote of a rule keeps the policy's own amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.money import CURRENCIES

# US dollars for one unit, rounded, as of November 2026: only for a policy that states no rate.
DEFAULT_RATES: Final[Mapping[str, Decimal]] = {
    code: Decimal(rate)
    for code, rate in (
        pair.split(":")
        for pair in (
            "AED:0.2723 ARS:0.0007 AUD:0.65 BHD:2.65 BRL:0.185 CAD:0.71 CHF:1.24 CLP:0.00105 CNY:0.14"
            " COP:0.00026 "
            "CZK:0.048 DKK:0.155 EGP:0.021 EUR:1.16 GBP:1.32 GHS:0.09 HKD:0.1285 HUF:0.003 IDR:0.00006"
            " ILS:0.3 "
            "INR:0.0113 JOD:1.41 JPY:0.0065 KES:0.0077 KRW:0.0007 KWD:3.26 LKR:0.0033 MAD:0.108 MXN:0.054 "
            "MYR:0.24 NGN:0.00068 NOK:0.099 NZD:0.57 OMR:2.6 PEN:0.29 PHP:0.017 PKR:0.0036 PLN:0.274"
            " QAR:0.2747 "
            "RON:0.228 SAR:0.2667 SEK:0.106 SGD:0.77 THB:0.031 TRY:0.024 TWD:0.032 TZS:0.0004 UGX:0.00028 "
            "VND:0.000038 XAF:0.00177 XOF:0.00177 ZAR:0.058"
        ).split()
    )
}
_SIGNS: Final = {
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "R$": "BRL",
    "A$": "AUD",
    "AU$": "AUD",
    "C$": "CAD",
    "CA$": "CAD",
    "CAD$": "CAD",
    "AUD$": "AUD",
    "S$": "SGD",
    "NZ$": "NZD",
    "HK$": "HKD",
    "NT$": "TWD",
    "Mex$": "MXN",
    "MX$": "MXN",
    "Rs.": "INR",
    "Rs": "INR",
    "KSh": "KES",
    "KShs": "KES",
    "Ksh": "KES",
    "RM": "MYR",
    "Fr.": "CHF",
    "SFr": "CHF",
    "zł": "PLN",
    "₩": "KRW",
    "₺": "TRY",
    "₦": "NGN",
    "₱": "PHP",
    "Dhs": "AED",
    "Dh": "AED",
    "US$": "USD",
    "U.S.$": "USD",
    "$": "$",
}
_WORDS: Final = {
    "euro": "EUR",
    "euros": "EUR",
    "pound": "GBP",
    "pounds": "GBP",
    "pounds sterling": "GBP",
    "sterling": "GBP",
    "pound sterling": "GBP",
    "yen": "JPY",
    "rupee": "INR",
    "rupees": "INR",
    "indian rupees": "INR",
    "reais": "BRL",
    "real": "BRL",
    "rand": "ZAR",
    "swiss francs": "CHF",
    "swiss franc": "CHF",
    "francs": "CHF",
    "dirhams": "AED",
    "dirham": "AED",
    "riyals": "SAR",
    "riyal": "SAR",
    "shillings": "KES",
    "kenya shillings": "KES",
    "kroner": "DKK",
    "danish kroner": "DKK",
    "norwegian kroner": "NOK",
    "swedish kronor": "SEK",
    "kronor": "SEK",
    "zloty": "PLN",
    "australian dollars": "AUD",
    "australian dollar": "AUD",
    "canadian dollars": "CAD",
    "canadian dollar": "CAD",
    "singapore dollars": "SGD",
    "singapore dollar": "SGD",
    "hong kong dollars": "HKD",
    "hong kong dollar": "HKD",
    "new zealand dollars": "NZD",
    "new zealand dollar": "NZD",
    "us dollars": "USD",
    "us dollar": "USD",
    "u.s. dollars": "USD",
    "u.s. dollar": "USD",
    "united states dollars": "USD",
    "united states dollar": "USD",
    "american dollar": "USD",
    "american dollars": "USD",
    "dollar": "$",
    "dollars": "$",
    "qatari riyals": "QAR",
    "pesos": "MXN",
    "mexican pesos": "MXN",
    "south african rand": "ZAR",
    "kenyan shillings": "KES",
}
_CODES: Final = "|".join(sorted(CURRENCIES - {"ALL", "TOP"}))
_SIGN: Final = "|".join(re.escape(each) for each in sorted(_SIGNS, key=len, reverse=True))
_WORD: Final = "|".join(sorted(_WORDS, key=len, reverse=True))
_NUMBER: Final = r"\d+(?:[,  '.]\d{3})*(?:\.\d+)?(?:k\b)?"
_SPACED: Final = re.compile(r"(?<=\d)[   '](?=\d{3}\b)")
_BEFORE: Final = re.compile(
    rf"(?<![\w$])(?:(?P<sign>{_SIGN}|R(?=\s?\d))|(?P<code>{_CODES})\b)\s?(?P<number>{_NUMBER})"
)
_AFTER: Final = re.compile(
    rf"(?<![\w$.,])(?P<number>{_NUMBER})\s?(?:(?P<code>{_CODES})\b|(?P<sign>€|£|zł|¥)"
    rf"|(?P<word>(?i:{_WORD}))\b)"
)
_UNIT: Final = re.compile(
    rf"\b(?:per|each|the|a|one|1|to the|to an|for a|for one|=)\s+(?:(?P<code>{_CODES})\b"
    rf"|(?P<word>(?i:{_WORD}))\b)"
)
_RATE: Final = re.compile(
    r"\brates?\b|=|\bconver\w+|\bexchange|\bequals?\b|\bparity\b|\bworth\b", re.IGNORECASE
)
_STATED: Final = re.compile(
    rf"\b(?:amounts?|figures?|limits?|prices?|sums?|values?|monetary|caps?|ceilings?|fares?|currency"
    rf"|dollars?)\b[^.;]{{0,60}}?"
    rf"\b(?:in|are|is|means?|=)\s+(?:the\s+)?(?:(?P<code>{_CODES})\b|(?P<word>(?i:{_WORD}))\b"
    rf"|(?P<sign>€|£|R\$))",
)
_FACTOR: Final = re.compile(r"\bdollars?\b[^.;]*\bmultipl\w+ (?:it |them )?by (\d+(?:\.\d+)?)", re.IGNORECASE)
# "AUD 2,000 (USD 1,300)": the dollars that the policy states itself.
_BOTH: Final = re.compile(
    r"\$(\d+(?:\.\d+)?)\s*\((?:about |approx\.? |approximately |ca\. |i\.e\. |equal to |≈"
    r" ?)?\$(\d+(?:\.\d+)?)\)"
)


@dataclass(frozen=True)
class Money:
    """The currencies of a document.

    `rates` are US dollars for one unit, `default` is the currency of a bare "$" or number.
    """

    rates: Mapping[str, Decimal] = field(default_factory=lambda: DEFAULT_RATES)
    default: str = "USD"

    def convert(self, text: str) -> str:
        """Return the text with all amounts in US dollars."""
        text = _SPACED.sub("", text) if re.search(r"\d[   ']\d{3}\b", text) else text
        text = _BEFORE.sub(self._replace, text)
        text = _AFTER.sub(self._replace, text)
        return _BOTH.sub(r"$\2", text)

    def convert_bare(self, number: Decimal) -> Decimal:
        """Return a number without a currency in US dollars."""
        rate = Decimal(1) if self.default == "USD" else self.rates.get(self.default, Decimal(1))
        return (number * rate).quantize(Decimal("0.01")) if rate != 1 else number

    def _replace(self, found: re.Match[str]) -> str:
        code = self._to_code(_get_currency(found))
        number = Decimal(_to_plain(found["number"]))
        if code != "USD" and code not in self.rates:
            return f"¤{number}"
        return f"${_format(number if code == 'USD' else number * self.rates[code])}"

    def _to_code(self, currency: str) -> str:
        return self.default if currency == "$" else currency


def find_money(texts: Iterable[str]) -> Money:
    """Return the currencies that a document uses: the default one, and the rates that it states."""
    listed = [text.replace("\xa0", " ").replace("**", "") for text in texts]
    default = next((code for text in listed if (code := _find_default(text))), "")
    if not default:
        used = [
            _get_currency(each)
            for text in listed
            if not _RATE.search(text)
            for each in (*_BEFORE.finditer(text), *_AFTER.finditer(text))
        ]
        named = [each for each in used if each != "USD"]
        default = "USD" if not named or "$" in used else max(set(named), key=named.count)
    rates = dict(DEFAULT_RATES)
    factor = next((found for text in listed if (found := _FACTOR.search(text))), None)
    if factor and default not in ("", "$", "USD"):
        rates[default] = 1 / Decimal(factor[1])
    for text in listed:
        rates |= dict(_find_rate(text, default))
    return Money(rates, "USD" if default == "$" else default)


def _find_default(text: str) -> str:
    """Return the currency that all amounts of the document have, as a sentence says."""
    found = _STATED.search(text)
    if found is None or (_RATE.search(text) and re.search(r"\d[.,]\d", text) and found["word"] is None):
        return ""
    code = _get_currency(found)
    return "USD" if code == "$" else code


def _find_rate(text: str, default: str) -> Iterable[tuple[str, Decimal]]:
    """Yield the rates of a text such as "1 EUR = 1.10 USD" or "R$ 5.50 per US dollar"."""
    for sentence in re.split(r"(?<=[.;])\s", text):
        if not _RATE.search(sentence) and not re.search(r" per | to (?:the|one|1|a) ", sentence):
            continue
        amounts = _list_amounts(sentence, default)
        dollars = [number for code, number in amounts if code == "USD"]
        others = [(code, number) for code, number in amounts if code != "USD"]
        for at, (code, number) in enumerate(others):
            usd = dollars[min(at, len(dollars) - 1)] if dollars else None
            if usd and number and 1 in (usd, number, *(100 * (number == 100),)):
                yield code, usd / number


def _list_amounts(sentence: str, default: str) -> list[tuple[str, Decimal]]:
    """Return the amounts of a sentence in their order; "per US dollar" is one dollar."""
    spans: dict[int, tuple[str, Decimal]] = {}
    taken: list[tuple[int, int]] = []
    for pattern in (_BEFORE, _AFTER, _UNIT):
        for found in pattern.finditer(sentence):
            if any(start < found.end() and found.start() < end for start, end in taken):
                continue
            taken.append(found.span())
            code = _get_currency(found)
            code = (default if default not in ("", "$") else "USD") if code == "$" else code
            number = Decimal(_to_plain(found["number"])) if "number" in found.re.groupindex else Decimal(1)
            spans[found.start()] = code, number
    return [spans[start] for start in sorted(spans)]


def _format(number: Decimal) -> str:
    """Return the number with at most two decimals and without zeros at the end."""
    return f"{number.quantize(Decimal('0.01')).normalize():f}"


def _get_currency(found: re.Match[str]) -> str:
    groups = found.groupdict()
    if groups.get("code"):
        return groups["code"]
    if groups.get("sign"):
        return _SIGNS.get(groups["sign"], "ZAR" if groups["sign"] == "R" else "USD")
    return _WORDS[" ".join(groups["word"].casefold().split())]


def _to_plain(number: str) -> str:
    """Return a number without separators; "1.350" before a currency is a thousand."""
    plain = re.sub(r"[,   ']", "", number)
    if plain.endswith("k"):
        return f"{plain[:-1]}000"
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", plain):
        return plain.replace(".", "")
    return plain
