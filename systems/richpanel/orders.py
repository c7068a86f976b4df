"""Order numbers in a text, and whether an order may be spoken of to whoever wrote it.

Order data is disclosed on a deterministic match only: the number must be that of an order, and the address the message
came from must be the one it was ordered with, compared as hashes. Nothing here guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

LAST: Final = 4
# Behind a word or sign that says so, or standing alone in an answer to our question.
_NAMED: Final = re.compile(
    r"(?:#|\b(?:order|ordr|reference|ref|number|nr|no)\b\.?(?:\s+(?:number|no|nr|is|id))*)\s*[:#]?\s*#?"
    r"((?:[a-z]{1,4}-?)?\d[\d-]{3,18}\d)(?![\w-])",
    re.IGNORECASE,
)
_BARE: Final = re.compile(r"(?<![\w.,:/+-])#?((?:[a-z]{1,4}-?)?\d{4,19})(?![\w:/-]|[.,]\d)", re.IGNORECASE)
# 555-123-4567, 1-555-123-4567, and ten digits in one.
_PHONE: Final = re.compile(r"(?:\d{1,3}-)?\d{3}-?\d{3}-?\d{4}")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CARD_DIGITS: Final = range(13, 20)
# What an order number is called, where a phone's or a card's is called a number too.
_ORDERED: Final = re.compile(r"#|ord|ref", re.IGNORECASE)


@dataclass(frozen=True)
class Order:
    """What the shop knows of an order, as far as an answer needs it."""

    number: str
    email_sha256: str
    status: str
    detail: str = ""


def order_number(text: str, *, expected: bool = False) -> str | None:
    """The one order number of a text. Where it names several there is none; `expected` takes a bare number too."""
    folded = unicodedata.normalize("NFKC", text)
    named = [each for each in _NAMED.finditer(folded) if not _is_another(each[1], called=each[0])]
    found = {normalised_number(each[1]) for each in named}
    if not found and expected:
        bare = [each[1] for each in _BARE.finditer(folded) if not _is_another(each[1])]
        found = {normalised_number(each) for each in bare}
    return found.pop() if len(found) == 1 else None


def normalised_number(number: str) -> str:
    """As it is compared: shops write the sign before it, customers often do not."""
    return number.strip().lstrip("#").replace("-", "").upper()


def email_sha256(address: str) -> str:
    """By this an address is compared and a customer known; the address itself is not kept. Empty for what is none."""
    compared = normalised_address(address)
    return hashlib.sha256(compared.encode("utf-8", "surrogatepass")).hexdigest() if compared else ""


def normalised_address(address: str) -> str:
    """As it is compared: two that mail could take to two places are never made one.

    Before the @ only the case of a to z is left aside. A domain is written as the name service knows it, in lower case
    and with other letters in Punycode, so that `straße` stays another than `strasse`.
    """
    local, at, domain = address.strip().rpartition("@")
    if not (local and at and domain) or any(each.isspace() for each in local + domain):
        return ""
    labels = unicodedata.normalize("NFC", domain).lower().split(".")
    return f"{_ascii_lower(local)}@{'.'.join(map(_in_ascii, labels))}"


def is_verified(order: Order | None, number: str | None, address: str | None) -> bool:
    """Whether this is the order that was named, and the writer the one who ordered."""
    if order is None or not number or not address:
        return False
    writer = email_sha256(address)
    if not writer or not order.email_sha256:
        return False
    same_number = normalised_number(order.number) == normalised_number(number)
    return same_number and hmac.compare_digest(order.email_sha256, writer)


def last4(number: str) -> str:
    return normalised_number(number)[-LAST:]


# --- what is no order number -------------------------------------------------------------------------------------


def _is_another(number: str, *, called: str = "") -> bool:
    """Whether it has the shape of a date, a card's or a phone's number. Ten digits in one may be an order's, if called so."""
    digits = number.replace("-", "")
    if _DATE.fullmatch(number) or (len(digits) in _CARD_DIGITS and _is_luhn(digits)):
        return True
    if not _PHONE.fullmatch(number):
        return False
    return "-" in number or not _ORDERED.search(called.removesuffix(number))


def _is_luhn(digits: str) -> bool:
    """The check digit of cards."""
    if not digits.isdecimal():
        return False
    doubled = [int(each) * (2 if place % 2 else 1) for place, each in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _ascii_lower(text: str) -> str:
    return "".join(each.lower() if each.isascii() else each for each in text)


def _in_ascii(label: str) -> str:
    if label.isascii():
        return label
    try:
        return "xn--" + label.encode("punycode").decode("ascii")
    except UnicodeError:
        return label
