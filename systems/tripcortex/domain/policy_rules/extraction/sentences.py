"""Reads all rules of one sentence or table row.

The readers of each subject, in an order that avoids double meanings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import find_approval
from tripcortex.domain.policy_rules.extraction.cabins import NEGATION, extract_cabin_rules
from tripcortex.domain.policy_rules.extraction.carriers import (
    extract_carrier_rules,
    extract_destination_rules,
)
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.fares import extract_fare_rules, read_overage
from tripcortex.domain.policy_rules.extraction.notices import extract_notice_rules
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK, DAYS, find_range
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, Range, RuleScope

_TRIPS: Final = re.compile(
    r"\b(?:all|any|every|each|international|foreign|domestic|overseas|intercontinental|business"
    r"|air) (?:\w+ ){0,2}"
    r"(?:travel|trips?|journeys?|flights?|bookings?)\b|\b(?:travel|trips?|journeys?) (?:to|of|by|outside"
    r"|within|for|abroad|in)\b",
    re.IGNORECASE,
)
_NOT_TRIPS: Final = re.compile(
    r"\bhotels?|\bcars?\b|\brental|\bexpenses?\b|\breimburs|\bexceptions?\b|\bmeals?|\bclaims?\b|\bupgrad"
    r"|\bpersonal\b|\bcancel|\bchang"
    r"|\bnon-preferred|\bgroup\b|\bconference|\bguests?\b|\bfamily|\bspouse|\bmileage|\bvehicle"
    r"|\bretroactive|\bas (?:set out|described)"
    r"|\bwhen it does not|\bif it does not|\boutside (?:the|these|this) (?:limits?|polic|rule)|\bdeviat"
    r"|\bout-of-policy|\bout of policy",
    re.IGNORECASE,
)
_AIR: Final = re.compile(
    r"\bflights?\b|\bfly|\bfares?\b|\btickets?\b|\bair(?:lines?|fares?| travel)\b|\btravel\b|\btrips?\b", re.I
)


def read_sentence(sentence: Sentence, remembered: Range) -> Iterator[PolicyRule]:
    """Yield the rules of a sentence. `remembered` are the flight hours that the sentence before it named."""
    found = [*_read_subjects(sentence, remembered)]
    yield from found
    if not found and _is_restrictive(sentence):
        scope = sentence.parse_scope()
        if re.search(r"\b(?:airlines?|carriers?)\b", sentence.text, re.IGNORECASE):
            # The places are those of the airlines, not of the trip.
            scope = ParsedScope(RuleScope(cabins=scope.scope.cabins), scope.problem)
        yield build_rule(sentence, Effect.unknown, scope, outcome=Outcome.approval, is_complete=False)


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
        yield from extract_destination_rules(sentence)
        yield from _read_trip_outcome(sentence)


def read_row(row: Sentence, key: str, value: str, headers: str) -> Iterator[PolicyRule]:
    """Yield the rules of a table's row whose value is an approval, read as "key: value"."""
    text = f"{key}: {value}" if value else key
    sentence = replace(row, text=text, key=key, value=value, about=f"{row.about} {headers}", is_value=True)
    yield from _read_subjects(sentence, Range())


def _read_trip_outcome(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield what all trips within a scope need."""
    text = sentence.text
    approval = find_approval(text)
    if (
        approval is None
        or approval.outcome is not Outcome.approval
        or find_range(text, DAYS)
        or CABIN_MARK.search(text)
    ):
        return
    if (
        _NOT_TRIPS.search(text)
        or not _TRIPS.search(text)
        or "%" in text
        or re.search(r"\b(?:if|unless)\b", text, re.I)
    ):
        return
    if not re.search(
        r"\bmust\b|\brequire|\bneed|\bshall\b|\bhas to\b|\bhave to\b|\bsubject to\b|\bonly with\b"
        r"|\bapproval of\b",
        text,
        re.I,
    ):
        return
    scope = sentence.parse_scope()
    if scope.scope.routes and any(
        not route.one and route.is_domestic is None for route in scope.scope.routes
    ):
        return
    yield build_rule(
        sentence, Effect.trip_outcome, scope, outcome=Outcome.approval, approvers=approval.approvers
    )


def _is_restrictive(sentence: Sentence) -> bool:
    """Return True if the sentence prohibits something about flights, or asks for an approval."""
    text = sentence.text
    approval = find_approval(text)
    is_needed = approval is not None and approval.outcome is Outcome.approval
    return bool(_AIR.search(text) and (is_needed or NEGATION.search(text)) and not _NOT_TRIPS.search(text))
