"""Finder of order numbers in a normalized text: numbers called an order, and common forms of shops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_VALUE: Final = r"[A-Z]{0,5}[-_]?[0-9](?:[-_]?[0-9A-Z]){0,40}"
_END: Final = r"(?![0-9A-Z])"
_FORMS: Final = re.compile(
    # #1001, #W2378156; not the &#8217; of HTML
    rf"(?<![\w&#])\#[ ]?[A-Z]{{0,5}}[-_]?[0-9]{{3,20}}(?:[-_][0-9A-Z]{{1,12}}){{0,4}}{_END}"
    # SO-2024-0012, ORD12345
    rf"|(?<![0-9A-Z])(?:SO|PO|ORD|ORDER|RMA|INV)[-_]?[0-9]{{3,20}}(?:[-_][0-9A-Z]{{1,12}}){{0,4}}{_END}"
    # 114-3941689-8772232
    rf"|(?<![0-9A-Z-])[0-9]{{3}}-[0-9]{{7}}-[0-9]{{7}}{_END}",
    re.IGNORECASE,
)
# Letters before many digits, as on a receipt: W2378156.
_CAPITAL_FORM: Final = re.compile(r"(?<![0-9A-Za-z])[A-Z]{1,4}-?[0-9]{6,20}(?![0-9A-Za-z])")
_NAMED: Final = re.compile(
    r"(?<![0-9A-Z])(?:(?:orders?|bestellung|bestelling|auftrag|commande|pedido|ordine)"
    r"(?P<exact>[ _-]{0,2}(?:(?:numbers?|nos?|nr|num|ids?|code|ref(?:erence)?|nummer|n[uú]mero)\b|n°))?"
    r"|(?P<compound>(?:bestell|auftrags?)[ _-]?(?:nummern?|nr|id)\b))"
    r"[\s.:\#=\"'(\[{<-]{0,6}(?:(?:is|was|are|ist|est|es)[\s:\#]{1,3})?"
    rf"(?P<list>{_VALUE}(?:[ ]?(?:,|&|/|\+|and|or)[ ]?\#?{_VALUE}){{0,20}}){_END}",
    re.IGNORECASE,
)
_SINGLE: Final = re.compile(_VALUE, re.IGNORECASE)
_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}[-_][0-9]{1,2}[-_][0-9]{1,2}")
# After the bare word, a number of fewer digits is a quantity: "order 100 of them".
_MIN_DIGITS: Final = 4


def find_orders(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each order number, in no order; spans may overlap.

    After the bare word "order" a number needs four digits: fewer are a quantity. Dates are skipped.
    """
    for form in (_FORMS, _CAPITAL_FORM):
        for match in form.finditer(text):
            yield match.span()
    for match in _NAMED.finditer(text):
        least = 1 if match["exact"] or match["compound"] else _MIN_DIGITS
        for one in _SINGLE.finditer(text, match.start("list"), match.end("list")):
            if sum(sign.isdigit() for sign in one[0]) >= least and not _DATE.fullmatch(one[0]):
                yield one.span()
