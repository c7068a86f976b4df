"""Order numbers in texts, hashes of addresses, and the check that the writer may see an order.

Order data is disclosed on a deterministic match only: the number must be that of an order, and the sender's
address must be the one used for the order, compared as hashes. Nothing here guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

SHOWN_DIGITS: Final = 4
# After a word or sign that marks an order number, or bare in an answer to the middleware's question.
_NAMED_NUMBER: Final = re.compile(
    r"(?:#|\b(?:order|ordr|reference|ref|number|nr|no)\b\.?(?:\s+(?:number|no|nr|is|id))*)\s*[:#]?\s*#?"
    r"((?:[a-z]{1,4}-?)?\d[\d-]{3,18}\d)(?![\w-])",
    re.IGNORECASE,
)
_BARE_NUMBER: Final = re.compile(
    r"(?<![\w.,:/+-])#?((?:[a-z]{1,4}-?)?\d{4,19})(?![\w:/-]|[.,]\d)", re.IGNORECASE
)
# 555-123-4567, 1-555-123-4567, and ten digits without dashes.
_PHONE: Final = re.compile(r"(?:\d{1,3}-)?\d{3}-?\d{3}-?\d{4}")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CARD_DIGITS: Final = range(13, 20)
# Words that mark an order number and not a phone or card number.
_ORDER_WORDS: Final = re.compile(r"#|ord|ref", re.IGNORECASE)


@dataclass(frozen=True)
class Order:
    """The parts of a shop's order that a reply needs."""

    number: str
    email_sha256: str
    status: str
    detail: str = ""


def find_order_number(text: str, *, allow_bare: bool = False) -> str | None:
    """Return the order number of a text, or None if it names none or several. `allow_bare` also accepts a
    number without a word that marks it.
    """
    folded = unicodedata.normalize("NFKC", text)
    named = [
        each for each in _NAMED_NUMBER.finditer(folded) if not _is_other_number(each[1], matched_text=each[0])
    ]
    found = {normalise_number(each[1]) for each in named}
    if not found and allow_bare:
        bare = [each[1] for each in _BARE_NUMBER.finditer(folded) if not _is_other_number(each[1])]
        found = {normalise_number(each) for each in bare}
    return found.pop() if len(found) == 1 else None


def normalise_number(number: str) -> str:
    """Return a number in the form for comparison, without `#` and dashes: shops write the sign, customers
    often do not.
    """
    return number.strip().lstrip("#").replace("-", "").upper()


def hash_email(address: str) -> str:
    """Return the hash of an address, or an empty text if it is not an address. The address itself is never
    stored.
    """
    compared = normalise_address(address)
    return hashlib.sha256(compared.encode("utf-8", "surrogatepass")).hexdigest() if compared else ""


def normalise_address(address: str) -> str:
    """Return an address in the form for comparison, or an empty text if it is invalid. Addresses that may
    belong to two mailboxes stay different.

    Before the @, only a to z are lower-cased. The domain is lower-cased, with other letters in Punycode as in
    DNS, so that `straße` differs from `strasse`.
    """
    local, at, domain = address.strip().rpartition("@")
    if not (local and at and domain) or any(each.isspace() for each in local + domain):
        return ""
    labels = unicodedata.normalize("NFC", domain).lower().split(".")
    return f"{_lower_ascii(local)}@{'.'.join(map(_to_ascii, labels))}"


def is_verified(order: Order | None, number: str | None, address: str | None) -> bool:
    """Return whether the number is the order's and the address is that of the person who ordered."""
    if order is None or not number or not address:
        return False
    writer = hash_email(address)
    if not writer or not order.email_sha256:
        return False
    same_number = normalise_number(order.number) == normalise_number(number)
    return same_number and hmac.compare_digest(order.email_sha256, writer)


def get_last4(number: str) -> str:
    """Return the last four characters of an order number."""
    return normalise_number(number)[-SHOWN_DIGITS:]


# --- numbers that are not order numbers ---------------------------------------------------------------------


def _is_other_number(number: str, *, matched_text: str = "") -> bool:
    """Return whether a number has the form of a date, a card number or a phone number. Ten digits without
    dashes may be an order number, if the text calls them one.
    """
    digits = number.replace("-", "")
    if _DATE.fullmatch(number) or (len(digits) in _CARD_DIGITS and _is_luhn_valid(digits)):
        return True
    if not _PHONE.fullmatch(number):
        return False
    return "-" in number or not _ORDER_WORDS.search(matched_text.removesuffix(number))


def _is_luhn_valid(digits: str) -> bool:
    """Return whether the digits pass the check of card numbers (Luhn)."""
    if not digits.isdecimal():
        return False
    doubled = [int(each) * (2 if place % 2 else 1) for place, each in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _lower_ascii(text: str) -> str:
    """Lower-case a to z only."""
    return "".join(each.lower() if each.isascii() else each for each in text)


def _to_ascii(label: str) -> str:
    """Return a domain label in Punycode if it is not ASCII."""
    if label.isascii():
        return label
    try:
        return "xn--" + label.encode("punycode").decode("ascii")
    except UnicodeError:
        return label
