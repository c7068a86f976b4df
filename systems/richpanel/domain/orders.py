"""Orders, hashes of addresses, and the check that the writer may see an order.

Order data is disclosed on a deterministic match only: the number must be that of an order, and the sender's
address must be the one used for the order, compared as hashes. Nothing here guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from dataclasses import dataclass
from typing import Final

SHOWN_DIGITS: Final = 4


@dataclass(frozen=True)
class Order:
    """The parts of a shop's order that a reply needs."""

    number: str
    email_sha256: str
    status: str
    detail: str = ""


def normalise_number(number: str) -> str:
    """Return a number in the form for comparison, without `#` and dashes: shops write the sign, customers
    often do not.
    """
    return unicodedata.normalize("NFKC", number).strip().lstrip("# ").replace("-", "").upper()


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
