"""What the logs of the gateway do not let through.

Its own lines name requests, services and codes, and nothing of what a request is about. What others say may: an error of
pydantic shows the value that it refuses, one of PostgreSQL the row, a piece of FHIR may stand in a text. These are cut out
of every line and every traceback, and what looks like a person's number or address is masked.

It is the second line: models of what clients and payers send hide their input by themselves (`hide_input_in_errors`).
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.guarantees import Kind, Redactor

HIDDEN: Final = "[hidden]"

# pydantic: [type=string_type, input_value={'name': …}, input_type=dict]. What ends it is the type's name and a bracket.
_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=\w+\]|$)", re.DOTALL)
# PostgreSQL: Key (npi)=(…) already exists; Failing row contains (…).
_KEY: Final = re.compile(r"(Key \([^)]*\))=\(.*?\)(?= |\.|$)")
_ROW: Final = re.compile(r"(Failing row contains) \(.*\)", re.DOTALL)
_PARAMETERS: Final = re.compile(r"(unnamed portal with parameters|CONTEXT:\s+unnamed portal parameter) .*")
# JSON or a dict of Python that is FHIR, or that has what only a person has: cut to the end of the line.
_DOCUMENT: Final = re.compile(
    r"""[\[{][^\n]*?["'](?:resourceType|birthDate|family|given|memberId|member_id|subscriberId|patient|telecom|address)"""
    r"""["']\s*:[^\n]*"""
)
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_BIRTH: Final = re.compile(
    r"(?i)\b(birth_?date|dob|date of birth)(\W{1,4})(\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4})"
)
# No order numbers: every id of ours would be one.
_PERSONAL: Final = Redactor(kinds=frozenset({Kind.email, Kind.phone}))
# Ids and times of ours hold digits in a row, and are no telephone's.
_OURS: Final = re.compile(
    r"PAGW-[0-9A-HJKMNP-TV-Z]{26}|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b[0-9a-f]{64}\b|\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def redact(text: str) -> str:
    """A text as it may stand in a log."""
    text = _INPUT.sub(f"input_value={HIDDEN}", text)
    text = _KEY.sub(rf"\1=({HIDDEN})", text)
    text = _ROW.sub(rf"\1 ({HIDDEN})", text)
    text = _PARAMETERS.sub(rf"\1 {HIDDEN}", text)
    text = _DOCUMENT.sub(HIDDEN, text)
    text = _SOCIAL_SECURITY.sub(HIDDEN, text)
    text = _BIRTH.sub(rf"\1\2{HIDDEN}", text)
    return _around_ours(text)


def _around_ours(text: str) -> str:
    """Masks what stands between our own ids, and leaves these as they are: by them a line is found."""
    parts: list[str] = []
    end = 0
    for each in _OURS.finditer(text):
        parts += (_PERSONAL.redact(text[end : each.start()]), each[0])
        end = each.end()
    return "".join((*parts, _PERSONAL.redact(text[end:])))
