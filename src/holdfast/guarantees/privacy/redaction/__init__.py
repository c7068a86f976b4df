"""Redaction: remove personal identifiers from a text before it is stored, logged or cut.

The promise: no e-mail address, phone number, order number, tracking number or tracking link that is
recognised survives `redact`, in any Unicode form; of a phone or order number the last four digits are kept.

    masks.py            the kinds of identifiers, their masks, and masks already in a text
    normalized_text.py  the text to search: one form of digits, spaces and signs, mapped to the original
    emails.py  tracking_numbers.py  phones.py  orders.py    the finders of each kind
    redactor.py         the passes in their order, excerpts, and JSON-like values
"""

from __future__ import annotations

from holdfast.guarantees.privacy.redaction.masks import IdentifierKind, MaskStyle
from holdfast.guarantees.privacy.redaction.redactor import Redactor, redact, redact_excerpt, redact_value

__all__ = ["IdentifierKind", "MaskStyle", "Redactor", "redact", "redact_excerpt", "redact_value"]
