"""Checks whether a document is complete.

It does not end within a sentence, and has the sections that it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tripcortex.domain.policy_rules.extraction.lexicon import OTHER_COST
from tripcortex.domain.policy_rules.extraction.statements import Block

MAX_SIGNATURE_CHARS: Final = 90
_ENDED: Final = re.compile(r"[.!?…)\]\"'”*]$")
_FOOTER: Final = re.compile(
    r"©|\bconfidential\b|\bcopyright\b|\bversion\b|\bpage \d|\bend of\b|\brevis|\b(?:19|20)\d\d\b|@"
    r"|\bsigned\b|\bapproved by\b"
    r"|\bowner\b|\bpolicy\b|\binternal\b|\bdocument\b",
    re.IGNORECASE,
)
_ABOUT_FLIGHTS: Final = re.compile(
    r"\b(?:fares?|cabins?|class|approv\w*|ceilings?|caps?|limits?|in advance|exceptions?|permitted"
    r"|allowed|airlines?"
    r"|carriers?|countries|destinations?|book\w*|tickets?|flights?)\b",
    re.IGNORECASE,
)
# A signature or a contact at the end: names and titles without a word of a rule.
_SIGNATURE: Final = re.compile(
    r"^\W*[–—~]|^\W*(?:prepared|issued|approved|authori[sz]ed|contact|questions|tel|ext)\b", re.I
)
_RULE_WORD: Final = re.compile(
    r"\b(?:is|are|be|may|must|shall|should|will|can|not|no|for|class|economy|business|premium|first"
    r"|fares?|flights?|travel|trips?"
    r"|tickets?|book\w*|airlines?|employees?|any|all|every|each)\b",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"\b(?:regards|sincerely|yours (?:truly|faithfully)|on behalf of|signed|greetings|best wishes"
    r"|respectfully)\b",
    re.I,
)
_REFERENCE: Final = re.compile(
    r"\b(?P<kind>[Ss]ections?|[Aa]ppendix|[Aa]ppendices|[Aa]nnex(?:es)?|[Ss]chedules?|[Aa]rticles?"
    r"|[Cc]hapters?|[Pp]arts?|§§?) ?"
    r"(?P<label>\d+(?:\.\d+)*|[A-Z]\b|[IVX]+\b)(?! ?(?:hours|days|%))"
)
_ELSEWHERE: Final = re.compile(
    r"^(?:\([\w.]+\))* ?,? ?(?:of|in|to) (?:the |our |its )?(?!this\b)(?:\w+ ){0,4}?"
    r"(?:Policy|Act|Code|Handbook|Manual|Regulations?|Agreement|Guide|Procedure|Directive|Standard|Law"
    r"|Treaty|Contract|CFR|FAR)\b"
)
_OPEN_LEAD: Final = re.compile(r"[:,;\-–—]$")
_DANGLING: Final = re.compile(
    r"\b(?:the|a|an|of|to|for|and|or|by|with|than|in|on|at|from|is|are|be|must|may|unless|except|if|when"
    r"|over|under|up|least|"
    r"within|per|not|no|that|which|requires?|only)$",
    re.IGNORECASE,
)


def find_gaps(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return why the document cannot be complete; empty if nothing is missing."""
    return (*_find_cut(blocks), *_find_missing_sections(blocks))


def _find_cut(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield a reason if the document ends within a sentence, after a heading or with a table."""
    if not blocks:
        yield "The document has no text."
        return
    last = blocks[-1]
    text = last.text.strip()
    if last.kind == "heading" and not _FOOTER.search(text):
        yield f"The document ends with the heading “{text[:80]}”."
    elif last.kind in ("paragraph", "item") and _is_cut(last, blocks):
        yield f"The document ends within a sentence: “…{text[-60:]}”."


def _is_cut(last: Block, blocks: Sequence[Block]) -> bool:
    """Return True if the last text has no end.

    A short footer and an item like its neighbours have none either.
    """
    text = last.text.strip()
    if not re.search(r"\w", text) or _OPEN_LEAD.search(text) or _DANGLING.search(text):
        return True
    if _ENDED.search(text):
        return False
    siblings = [
        block.text for block in blocks[:-1] if block.kind == "item" and block.sections == last.sections
    ]
    if last.kind == "item" and siblings:
        return all(_ENDED.search(each.strip()) for each in siblings)
    is_signed = len(text) < 100 and any(_CLOSING.search(block.text) for block in blocks[-4:])
    is_signed = is_signed or _is_signature(text)
    return not is_signed and not (_FOOTER.search(text) and len(text) < 160)


def _is_signature(text: str) -> bool:
    """Return True if a short last line is a name with a title or a contact."""
    if len(text) > MAX_SIGNATURE_CHARS or "|" in text or re.search(r"\w[.;:] ", text):
        return False
    words = re.findall(r"[^\W\d_]{2,}", text)
    capitals = [word for word in words if word[0].isupper()]
    is_named = len(words) > 1 and len(capitals) * 2 > len(words) and not _RULE_WORD.search(text)
    return bool(_SIGNATURE.search(text)) or is_named


def _find_missing_sections(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the sections that the text refers to and the document does not have."""
    labels = _list_labels(blocks)
    if not labels:
        return
    missing: dict[str, None] = {}
    for block in blocks:
        if block.kind == "heading":
            continue
        for found in _REFERENCE.finditer(block.text):
            label = found["label"]
            is_elsewhere = _ELSEWHERE.match(block.text[found.end() : found.end() + 60])
            if is_elsewhere or not _limits_flights(block.text, found.start()):
                continue
            if not _has_label(label, found["kind"], labels):
                missing[f"{found['kind']} {label}"] = None
    for each in missing:
        yield f"The document refers to {each}, which it does not have."


def _limits_flights(text: str, position: int) -> bool:
    """Return True if the sentence at the position is about what may be booked.

    What it refers to for daily allowances or records does not limit flights.
    """
    start = max((text.rfind(mark, 0, position) for mark in (". ", "; ", "| ")), default=-1) + 1
    sentence = re.split(r"(?<=[.;]) (?=[A-Z])", text[max(start, 0) :])[0]
    return bool(_ABOUT_FLIGHTS.search(sentence)) and not OTHER_COST.search(sentence)


def _list_labels(blocks: Sequence[Block]) -> set[str]:
    """Return the numbers and letters of headings, numbered paragraphs and tables."""
    found: set[str] = set()
    for block in blocks:
        text = block.text if block.kind != "table" else ""
        start = re.match(
            r"^(?:(?:section|appendix|annex|schedule|article|chapter|part|§)\s*)?(\d+(?:\.\d+)*"
            r"|[A-Z](?:[.-]\d+)*|[IVX]+)(?:[.):\s–—-]|$)",
            text,
            re.IGNORECASE
            if re.match(r"(?i)section|appendix|annex|schedule|article|chapter|part", text)
            else 0,
        )
        if start and (block.kind == "heading" or re.match(r"^(?:\d+\.\d|[A-Z][.-]\d|\d+\.)", text)):
            found.add(start[1].upper())
    return found


def _has_label(label: str, kind: str, labels: set[str]) -> bool:
    """Return True if a heading has the label, or a label that begins with it."""
    key = label.upper()
    prefixes = tuple(f"{key}{mark}" for mark in ".-")
    if key in labels or any(each.startswith(prefixes) for each in labels):
        return True
    is_same_kind = (
        any(each.isdigit() for each in labels)
        if key[0].isdigit()
        else any(each[0].isalpha() for each in labels)
    )
    if kind.lower().startswith(("append", "annex", "schedule")):
        return False
    # The headings carry no numbers of this kind: nothing can be said.
    return not is_same_kind
