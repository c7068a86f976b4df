"""Redaction: personal identifiers leave a text before it is stored, logged or cut.

The promise: no e-mail address, phone number, order number, tracking number or tracking link that is recognised
survives `redact`, however it is written in Unicode; of a phone or order number the last four digits are kept.

    masks.py       the kinds, how each is masked, and masks that are in a text already
    plain_form.py  the text as it is searched: one form of digits, spaces and signs, with the way back
    emails.py  tracking.py  phones.py  orders.py    where each kind stands in that form
    redactor.py    the four passes in their order, the cut, and JSON-like values
"""

from __future__ import annotations

from holdfast.guarantees.redaction.masks import Kind, Style
from holdfast.guarantees.redaction.redactor import Redactor, excerpt, redact, redact_value

__all__ = ["Kind", "Redactor", "Style", "excerpt", "redact", "redact_value"]
