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
    found = {normalised_number(each) for each in _NAMED.findall(folded)}
    if not found and expected:
        found = {normalised_number(each) for each in _BARE.findall(folded)}
    return found.pop() if len(found) == 1 else None


def normalised_number(number: str) -> str:
    """As it is compared: shops write the sign before it, customers often do not."""
    return number.strip().lstrip("#").replace("-", "").upper()


def email_sha256(address: str) -> str:
    """By this an address is compared and a customer known; the address itself is not kept."""
    folded = unicodedata.normalize("NFKC", address).strip().casefold()
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


def is_verified(order: Order | None, number: str | None, address: str | None) -> bool:
    """Whether this is the order that was named, and the writer the one who ordered."""
    if order is None or not number or not address:
        return False
    same_number = normalised_number(order.number) == normalised_number(number)
    return same_number and hmac.compare_digest(order.email_sha256, email_sha256(address))


def last4(number: str) -> str:
    return normalised_number(number)[-LAST:]
