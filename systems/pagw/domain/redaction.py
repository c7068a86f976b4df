"""Redaction of the gateway's logs: cut PHI out of foreign texts, mask phone numbers and addresses.

The gateway's own log lines name requests, services and codes, and no PHI. Foreign texts may contain PHI: a
pydantic error shows the rejected value, a PostgreSQL error the row, and a text may include FHIR. These parts
are cut out of every line and traceback, and phone numbers and email addresses are masked.

This is the second line of defence: the models of clients' and payers' input hide it by themselves
(`hide_input_in_errors`).
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.guarantees import IdentifierKind, Redactor

HIDDEN: Final = "[hidden]"

# pydantic: [type=string_type, input_value={'name': …}, input_type=dict]. The type's name and a bracket end
# the value.
_PYDANTIC_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=\w+\]|$)", re.DOTALL)
# PostgreSQL: Key (npi)=(…) already exists; Failing row contains (…).
_CONSTRAINT_KEY: Final = re.compile(r"(Key \([^)]*\))=\(.*?\)(?= |\.|$)")
_FAILING_ROW: Final = re.compile(r"(Failing row contains) \(.*\)", re.DOTALL)
_PARAMETERS: Final = re.compile(r"(unnamed portal with parameters|CONTEXT:\s+unnamed portal parameter) .*")
# JSON or a Python dict with FHIR or personal fields: cut to the end of the line.
_DOCUMENT: Final = re.compile(
    r"""[\[{][^\n]*?["'](?:resourceType|birthDate|family|given|memberId|member_id|subscriberId|patient|telecom|address)"""
    r"""["']\s*:[^\n]*"""
)
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_BIRTH_DATE: Final = re.compile(
    r"(?i)\b(birth_?date|dob|date of birth)(\W{1,4})(\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4})"
)
# Without order numbers, because every PAGW id looks like one.
_PERSONAL_DATA: Final = Redactor(kinds=frozenset({IdentifierKind.email, IdentifierKind.phone}))
# The gateway's ids and timestamps contain long digit runs that look like phone numbers.
_OWN_IDS: Final = re.compile(
    r"PAGW-[0-9A-HJKMNP-TV-Z]{26}|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b[0-9a-f]{64}\b|\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def redact(text: str) -> str:
    """Return the text without PHI, for a log."""
    text = _PYDANTIC_INPUT.sub(f"input_value={HIDDEN}", text)
    text = _CONSTRAINT_KEY.sub(rf"\1=({HIDDEN})", text)
    text = _FAILING_ROW.sub(rf"\1 ({HIDDEN})", text)
    text = _PARAMETERS.sub(rf"\1 {HIDDEN}", text)
    text = _DOCUMENT.sub(HIDDEN, text)
    text = _SOCIAL_SECURITY.sub(HIDDEN, text)
    text = _BIRTH_DATE.sub(rf"\1\2{HIDDEN}", text)
    return _mask_between_ids(text)


def _mask_between_ids(text: str) -> str:
    """Mask personal data between the gateway's own ids, which stay: operators search logs by them."""
    parts: list[str] = []
    end = 0
    for each in _OWN_IDS.finditer(text):
        parts += (_PERSONAL_DATA.redact(text[end : each.start()]), each[0])
        end = each.end()
    return "".join((*parts, _PERSONAL_DATA.redact(text[end:])))
