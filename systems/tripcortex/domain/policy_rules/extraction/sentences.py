"""Reads all rules of one sentence or table row.

The readers of each subject, in an order that avoids double meanings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import find_approval
from tripcortex.domain.policy_rules.extraction.cabins import extract_cabin_rules
from tripcortex.domain.policy_rules.extraction.carriers import extract_carrier_rules
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.fares import extract_fare_rules, is_about_fares, read_overage
from tripcortex.domain.policy_rules.extraction.lexicon import (
    INCLUDED,
    OBSOLETE,
    OTHER_ACT,
    OTHER_COST,
    RECOMMENDATION,
    is_prohibition,
)
from tripcortex.domain.policy_rules.extraction.notices import extract_notice_rules, is_about_notice
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope
from tripcortex.domain.policy_rules.extraction.vocabulary import normalize_document
from tripcortex.domain.policy_rules.extraction.whole_trips import extract_trip_rules
from tripcortex.domain.policy_rules.extraction.wording import DAYS, find_range
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, Range, RuleScope, SubjectName

_AIR: Final = re.compile(
    r"\bflights?\b|\bfly|\bfares?\b|\btickets?\b|\bair(?:lines?|fares?| travel)\b|\btravel\b|\btrips?\b", re.I
)


def read_sentence(sentence: Sentence, remembered: Range) -> Iterator[PolicyRule]:
    """Yield the rules of a sentence. `remembered` are the flight hours that the sentence before it named."""
    found = [*_read_subjects(sentence, remembered)]
    yield from found
    if not found and (subject := _find_open_subject(sentence)):
        yield _build_unknown(sentence, subject)


def read_open_table(table: Sentence, rows: Sequence[Sequence[str]]) -> Iterator[PolicyRule]:
    """Yield the statement that a table about fares or notice was not understood, if it gave no rule."""
    cells = " | ".join(cell for row in rows for cell in row)
    text = normalize_document(f"{table.block.section or ''} : {table.block.lead} : {cells}", table.vocabulary)
    if OTHER_COST.search(INCLUDED.sub(" ", text)) or table.vocabulary.is_definition(text):
        return
    is_fare = _FARE_LIMIT.search(text) and _AIR.search(text) and re.search(r"\$\d|\b\d{3,5}\b", text)
    is_notice = _NOTICE.search(text) and re.search(r"\d+ days|\d+ to \d+|\bdays\b", text)
    if is_fare or is_notice:
        yield _build_unknown(table, "fare" if is_fare else "notice")


_FARE_LIMIT: Final = re.compile(
    r"\bcaps?\b|\bceilings?\b|\blimit\w*\b|\bmaxim\w+\b|\bat most\b|\bup to\b|\b(?:no|not) more than\b"
    r"|\bexceed\w*\b|\babove\b|\bover\b"
    r"|\ballowance\b|\bbudget\b|\bwithin\b",
    re.IGNORECASE,
)
_NOTICE: Final = re.compile(
    r"\bin advance\b|\bahead\b|\b(?:before|prior to) (?:the )?(?:departure|travel|flight|trip)"
    r"|\bnotice\b|\blead[- ]time\b|\bdays between\b|\blate bookings?\b",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(
    r"\blowest\b|\bcheap(?:er|est)\b|\bdearer\b|\b(?:more|less) expensive\b|\bcompar|\bdifference\b",
    re.IGNORECASE,
)


def _find_open_subject(sentence: Sentence) -> SubjectName:
    """Return the subject of a statement that restricts flights and gave no rule; empty for another."""
    text = sentence.text
    if RECOMMENDATION.search(text) or OBSOLETE.search(text) or OTHER_COST.search(INCLUDED.sub(" ", text)):
        return ""
    is_limit = is_about_fares(sentence) and _FARE_LIMIT.search(text) and not _RELATIVE.search(text)
    if is_limit and not _NO_LIMIT.search(text) and not OTHER_ACT.search(text):
        return "fare"
    if is_about_notice(sentence) and _NOTICE.search(text) and not OTHER_ACT.search(text):
        return "notice"
    if _RELATIVE.search(text) and not re.search(r"\$\d", text):
        return ""  # The other fares are not known.
    return "trip" if _is_restrictive(sentence) else ""


_NO_LIMIT: Final = re.compile(
    r"\bno (?:\w+ )?(?:limit|cap|ceiling|maximum)|\bdo(?:es)? not (?:set|work with|apply)|\bjust book\b",
    re.IGNORECASE,
)


def _build_unknown(sentence: Sentence, subject: SubjectName) -> PolicyRule:
    """Return a statement that was not understood, for an administrator to edit or reject."""
    scope = sentence.parse_scope()
    if re.search(r"\b(?:airlines?|carriers?)\b", sentence.text, re.IGNORECASE):
        # The places are those of the airlines, not of the trip.
        scope = ParsedScope(RuleScope(cabins=scope.scope.cabins), scope.problem)
        sentence = replace(sentence, outer=ParsedScope(RuleScope()))
    outcome = Outcome.approval
    return build_rule(sentence, Effect.unknown, scope, subject=subject, outcome=outcome, is_complete=False)


def _read_subjects(sentence: Sentence, remembered: Range) -> Iterator[PolicyRule]:
    overage = read_overage(sentence)
    if overage is not None:
        yield overage
        return
    cabins = [*extract_cabin_rules(sentence, remembered)]
    yield from cabins
    yield from extract_fare_rules(sentence)
    if not cabins or find_range(sentence.text, DAYS):
        yield from extract_notice_rules(sentence)
    carriers = [*extract_carrier_rules(sentence)]
    yield from carriers
    if not (cabins or carriers or "$" in sentence.text):
        yield from extract_trip_rules(sentence)


def read_row(row: Sentence, key: str, value: str, headers: str) -> Iterator[PolicyRule]:
    """Yield the rules of a table's row whose value is an approval, read as "key: value"."""
    text = f"{key}: {value}" if value else key
    sentence = replace(row, text=text, key=key, value=value, about=f"{row.about} {headers}", is_value=True)
    price = _find_price(sentence, key, headers)
    if price is not None:
        yield from _read_price_tier(sentence, price)
        return
    yield from _read_subjects(sentence, Range())


_PRICE: Final = re.compile(
    r"\bprices?\b|\bfares?\b|\btickets?\b|\bcosts?\b|\btotal\b|\bamounts?\b|\bvalue\b|\bairfare",
    re.IGNORECASE,
)
_OVER: Final = re.compile(
    r"\bover(?:age| the| cap)|\babove (?:the )?(?:cap|limit|ceil)|\bexcess\b|\bexceed|\bhow (?:far"
    r"|much) (?:above|over)|\boverrun",
    re.IGNORECASE,
)


_OVER_HEADER: Final = re.compile(r"\b(?:above|over|excess|exceed\w*|overage|overrun)\b", re.IGNORECASE)


def _find_price(sentence: Sentence, key: str, headers: str) -> Range | None:
    """Return the range of prices that the row of a table of approvals is for, or None."""
    about = f"{sentence.block.section or ''} {headers}"
    if (
        _OVER.search(key)
        or _OVER_HEADER.search(f"{about} {sentence.block.lead}")
        or "%" in key
        or not _PRICE.search(f"{about} {key}")
    ):
        return None
    found = find_range(key, "", r"\$")
    return found[0] if found else None


def _read_price_tier(sentence: Sentence, price: Range) -> Iterator[PolicyRule]:
    """Yield what a ticket of a price within the range needs."""
    approval = sentence.find_approval()
    if approval is None and not is_prohibition(sentence.value):
        return
    span = find_range(sentence.key, "", r"\$")
    key = f"{sentence.key[: span[1]]} {sentence.key[span[2] :]}" if span else sentence.key
    scope = replace(sentence, key=key or " ").parse_scope()
    yield build_rule(
        sentence, Effect.trip_outcome, scope, outcome=approval.outcome if approval else Outcome.forbidden,
        approvers=approval.approvers if approval else (), scope_values={"price_usd": price},
    )  # fmt: skip


def _is_restrictive(sentence: Sentence) -> bool:
    """Return True if the sentence prohibits something about flights, or asks for an approval."""
    text = sentence.text
    approval = find_approval(text)
    is_needed = approval is not None and approval.outcome is Outcome.approval
    is_other = (
        OTHER_ACT.search(text)
        or OTHER_COST.search(text)
        or RECOMMENDATION.search(text)
        or OBSOLETE.search(text)
    )
    is_harmless = _PERMISSION.search(text) or _PROCEDURE.search(text)
    return bool(_AIR.search(text) and (is_needed or is_prohibition(text)) and not (is_other or is_harmless))


# "No approval is needed for a trip that meets all of this": it permits what the rules permit.
_PERMISSION: Final = re.compile(
    r"\bneeds? no\b|\bdo(?:es)? not need\b|\bno (?:further |prior )?(?:approvals?|permissions?|signatures?)\b"
    r"|\b(?:no one|nobody|no one's|nobody's)\b|\bwithout (?:further |prior |any )?(?:approval|permission)"
    r"|\bbook (?:it )?yourself\b|\bbooked at once\b",
    re.IGNORECASE,
)
# How approvals are given, what words mean, which rule goes first, and what happens after the trip.
_PROCEDURE: Final = re.compile(
    r"\bmeans?\b|\bexpires?\b|\bstrictest\b|\bprevails?\b|\bneeds? both\b|\bafter the (?:trip|journey|return)"
    r"|\b(?:are|is) (?:given|recorded|documented|obtained|sought|requested|filed) (?:in|by|on|through|via)\b"
    r"|\bauthori[sz]ation must exist\b|\bworks agreement\b|\btravel agen\w+\b|\bair safety list\b"
    r"|\blist of banned airlines\b|\bblacklist",
    re.IGNORECASE,
)
