"""Reads rules about airlines and destinations: preferred, prohibited, and what needs an approval."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Final

from tripcortex.domain.planner.gazetteer import read_table
from tripcortex.domain.policy_rules.extraction.approvers import find_approval, is_refusal
from tripcortex.domain.policy_rules.extraction.cabins import NEGATION
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, RoutePattern, RuleScope

_PREFER: Final = re.compile(
    r"\bprefer|\bpartners?\b|\bwe like\b|\bcontract(?:ed|s)?\b|\bfirst choice\b|\bcorporate (?:agreement"
    r"|rate|deal)|\bnegotiated\b"
    r"|\bshould be used\b|\bpanel\b|\bapproved (?:airlines?|carriers?)",
    re.IGNORECASE,
)
_MUST_USE: Final = re.compile(r"\bonly\b|\bmust\b|\bshall\b|\brequired\b|\bmandatory\b", re.IGNORECASE)
_MARGIN: Final = re.compile(
    r"\bwithin (\d+(?:\.\d+)?)%|\b(?:up to|no more than|not more than) (\d+(?:\.\d+)?)% (?:more|above|higher)"
)
_OTHERS: Final = re.compile(
    r"\b(?:non-preferred|any other|another|other) (?:airline|carrier)s?\b", re.IGNORECASE
)
_TRAVEL: Final = re.compile(
    r"\btravel|\btrips?\b|\bflights?\b|\bjourneys?\b|\bdestinations?\b|\bcountr|\bsend\b|\bfly\b|\bgo\b"
    r"|\bvisits?\b|\bbook",
    re.IGNORECASE,
)
_BANNED: Final = re.compile(
    r"\bprohibited\b|\bforbidden\b|\bbanned\b|\bnot (?:be )?(?:permit|allow|support|book|perform|approv"
    r"|authori|undertake|send|go|travel|fly|used?)"
    r"|\bno (?:\w+ ){0,2}(?:travel|trips?|flights?|journeys?)\b|\bnever\b|\bdoes not go\b|\bcannot (?:send"
    r"|go|travel|be)\b|\bwill not send\b"
    r"|\boff[- ]limits\b|\bred\b: not|\bembargo|\bdo not travel\b|\bsuspended\b|\bsanctioned\b|\bmay not\b"
    r"|\bmust not\b"
    r"|\bshall not\b|\bno(?:body| one)\b",
    re.IGNORECASE,
)
_AIRLINE_WORD: Final = re.compile(
    r"\b(?:airlines?|carriers?|fly|book|flown|flights?|prohibit\w*|banned|avoid|use of|prefer\w*)\b",
    re.IGNORECASE,
)
# Names that are also other words.
_AMBIGUOUS: Final = frozenset(
    "american british swiss austrian turkish thai norwegian ethiopian malaysian alaska united delta spirit "
    "frontier alliance"
    " play rex peach flair breeze condor boa emirates iberia hawaiian tap lot sas ita eva swoop".split()
)


def find_carriers(text: str) -> tuple[str, ...]:
    """Return the codes of the airlines that a text names with a capital letter, in its order."""
    text = re.sub(r"\bAlaska(?= (?:and|or|&) Hawaii)|(?<=Hawaii and )Alaska", "-", text)
    named = [each[0].casefold() for each in _compile_names().finditer(text)]
    is_about_airlines = len(named) > 1 or bool(_AIRLINE_WORD.search(text))
    names = _load_names()
    codes = (
        names.get(name) or names.get(re.sub(r" (?:air ?lines?|airways)$", "", name))
        for name in named
        if is_about_airlines or name not in _AMBIGUOUS
    )
    return tuple(dict.fromkeys(code for code in codes if code))


def extract_carrier_rules(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the airlines that a sentence prefers, prohibits, or lets fly with an approval."""
    text = sentence.text
    carriers = find_carriers(text)
    context = f"{sentence.about} {text}"
    margin = _MARGIN.search(text)
    if not carriers:
        yield from _read_kind(sentence)
        return
    scope = sentence.parse_scope(
        re.sub(r"\b(?:corporate|alliance|preferred) partners?\b", " ", _drop_carriers(text))
    )
    approval = find_approval(text)
    if (
        re.search(r"\b(?:not|never|no|excluded|banned|prohibited|forbidden)\b", text, re.IGNORECASE)
        and (NEGATION.search(text) or _BANNED.search(text))
        and not (re.search(r"\bnot a rule\b|\bno need\b|\bnot required\b|\bnot mandatory\b", text, re.I))
    ):
        outcome = (
            approval.outcome
            if approval and approval.outcome is Outcome.approval and re.search("without|unless", text)
            else Outcome.forbidden
        )
        yield _build(
            sentence,
            Effect.prohibited_carriers,
            scope,
            carriers,
            outcome,
            approval.approvers if approval else (),
        )
    elif approval and approval.outcome is Outcome.approval and not _PREFER.search(text):
        yield _build(
            sentence, Effect.prohibited_carriers, scope, carriers, Outcome.approval, approval.approvers
        )
    elif _BANNED.search(sentence.about) and not _PREFER.search(context):
        yield _build(sentence, Effect.prohibited_carriers, scope, carriers, Outcome.forbidden)
    elif _PREFER.search(context):
        percent = Decimal(margin[1] or margin[2]) if margin else None
        rule = _build(sentence, Effect.preferred_carriers, scope, carriers, Outcome.allowed)
        yield rule.model_copy(update={"percent": percent})


def _read_kind(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the airlines of a kind that the document lists, if the sentence requires them."""
    text = sentence.text
    for term, carriers in sentence.vocabulary.carriers.items():
        if term in text.casefold() and _MUST_USE.search(text) and not NEGATION.search(text):
            scope = ParsedScope(RuleScope(), sentence.parse_scope().problem)
            yield _build(sentence, Effect.preferred_carriers, scope, carriers, Outcome.approval)


def find_other_carriers_outcome(sentence: Sentence) -> tuple[Outcome, tuple[str, ...]] | None:
    """Return what an airline that is not preferred needs, if the sentence says so."""
    text = sentence.text
    if not _OTHERS.search(text):
        return None
    approval = find_approval(text)
    return (approval.outcome, approval.approvers) if approval else None


def _build(
    sentence: Sentence, effect: Effect, scope: ParsedScope, carriers: tuple[str, ...], outcome: Outcome,
    approvers: tuple[str, ...] = (),
) -> PolicyRule:  # fmt: skip
    return build_rule(sentence, effect, scope, carriers=carriers, outcome=outcome, approvers=approvers)


def extract_destination_rules(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the destinations that a sentence prohibits or lets be visited with an approval."""
    text = sentence.text
    places = [place for place in find_places(text) if place.tokens]
    is_of_airlines = re.search(r"\b(?:airlines?|carriers?)\b", text, re.IGNORECASE)
    if not places or (is_of_airlines and not re.search(r"\b(?:to|in|visit) (?:the )?[A-Z]", text)):
        return
    is_named_in_context = bool(_BANNED.search(sentence.about)) and len(places) > 1
    is_limited = re.search(
        r"\b(?:class|cabin|fares?|limits?|higher|lower|caps?|hotels?|cars?)\b|[@$]", text, re.IGNORECASE
    )
    is_banned = (
        bool(_BANNED.search(text))
        and not is_limited
        and bool(_TRAVEL.search(text) or _TRAVEL.search(sentence.about))
    )
    approval = find_approval(text)
    is_needed = approval is not None and approval.outcome is Outcome.approval
    if is_needed and re.search(r"\bno \w+(?:,? \w+)*[^.;]* (?:may|can) (?:approve|override)", text, re.I):
        is_needed = False
    is_needed = is_needed and not is_refusal(text)
    tokens = tuple(dict.fromkeys(token for place in places for token in place.tokens))
    if (is_banned and not is_needed) or (is_named_in_context and not approval):
        yield build_rule(
            sentence, Effect.prohibited_destinations, ParsedScope(RuleScope()), destinations=tokens,
            outcome=Outcome.forbidden,
        )  # fmt: skip
    elif is_needed and approval and _TRAVEL.search(f"{sentence.about} {text}"):
        scope = ParsedScope(RuleScope(routes=(RoutePattern(other=tokens),)), "")
        yield build_rule(
            sentence, Effect.trip_outcome, scope, outcome=Outcome.approval, approvers=approval.approvers
        )


def _drop_carriers(text: str) -> str:
    return _compile_names().sub(" ", text)


@cache
def _load_names() -> dict[str, str]:
    """Return the codes of airlines by lower-case name: those of the planner, and others of `airlines.csv`."""
    text = files("tripcortex.domain.policy_rules").joinpath("airlines.csv").read_text("utf-8")
    found = {
        name.casefold(): row["code"]
        for row in csv.DictReader(text.splitlines())
        for name in row["names"].split("|")
    }
    for row in read_table("carriers.csv"):
        for name in (row["name"], *filter(None, row["aliases"].split("|"))):
            found[name.casefold()] = row["code"]
    return found


@cache
def _compile_names() -> re.Pattern[str]:
    """Compile the pattern of all names with a capital letter, the longest first."""
    known = "|".join(re.escape(each) for each in sorted(_load_names(), key=len, reverse=True))
    return re.compile(
        rf"(?<![\w-])(?=[A-Z]|easy|fly|air)(?i:{known})(?: Air ?lines?| Airways)?(?![\w])(?! (?:States"
        rf"|Kingdom|Arab|Nations)\b)"
    )
