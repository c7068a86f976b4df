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
from tripcortex.domain.policy_rules.extraction.approvers import find_approval
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.lexicon import RECOMMENDATION, is_prohibition
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, RuleScope

_PREFER: Final = re.compile(
    r"\bprefer|\bpartners?\b|\bwe like\b|\bcontract(?:ed|s)?\b|\bfirst choice\b|\bcorporate (?:agreement"
    r"|rate|deal)|\bnegotiated\b|\b(?:is|are|must be|shall be|to be) (?:used|chosen|flown|booked"
    r"|made)\b|\bmade on\b|\bencourage|\baccredited\b|\bdesignated\b|\bauthori[sz]ed (?:airlines?"
    r"|carriers?)"
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
_AIRLINE_WORD: Final = re.compile(
    r"\b(?:airlines?|carriers?|fly|book(?:ed|ing)?|used?|reimburs\w*|flown|flights?|prohibit\w*|banned"
    r"|avoid|use of|prefer\w*)\b",
    re.IGNORECASE,
)
# A code behind the name: "Iraqi Airways (IA)".
_CODE: Final = re.compile(r"(?<=[A-Za-z] )\(([A-Z][A-Z0-9]|[0-9][A-Z])\)")
# Names that are also other words.
_AMBIGUOUS: Final = frozenset(
    "american british swiss austrian turkish thai norwegian ethiopian malaysian alaska united delta spirit "
    "frontier alliance"
    " play rex peach flair breeze condor boa emirates iberia hawaiian tap lot sas ita eva swoop".split()
)


def find_carriers(text: str) -> tuple[str, ...]:
    """Return the codes of the airlines that a text names with a capital letter, in its order."""
    text = re.sub(r"\bAlaska(?= (?:and|or|&) Hawaii)|(?<=Hawaii and )Alaska", "-", text)
    spans = [(place.start, place.end) for place in find_places(text)]
    named = [
        each[0].casefold()
        for each in _compile_names().finditer(text)
        if not any(
            start <= each.start() and each.end() <= end and end - start > len(each[0]) for start, end in spans
        )
    ]
    is_plain = sum(name not in _AMBIGUOUS for name in named)
    is_about_airlines = (len(named) > 1 and (is_plain or len(named) > 2)) or bool(_AIRLINE_WORD.search(text))
    names = _load_names()
    stated = _CODE.findall(text) if is_about_airlines or _AIRLINE_WORD.search(text) else []
    codes = (
        names.get(name) or names.get(re.sub(r" (?:air ?lines?|airways)$", "", name))
        for name in named
        if is_about_airlines or name not in _AMBIGUOUS
    )
    return tuple(dict.fromkeys([*(code for code in codes if code), *stated]))


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
    first = _compile_names().search(text)
    if first and not sentence.parse_scope(text[: first.start()]).scope.routes:
        # The places behind the airlines are where they come from.
        scope = ParsedScope(scope.scope.model_copy(update={"routes": (), "except_routes": ()}), scope.problem)
    approval = find_approval(text)
    if (
        is_prohibition(text)
        and not RECOMMENDATION.search(text)
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
    elif is_prohibition(sentence.about) and not _PREFER.search(context):
        yield _build(sentence, Effect.prohibited_carriers, scope, carriers, Outcome.forbidden)
    elif _PREFER.search(context):
        percent = Decimal(margin[1] or margin[2]) if margin else None
        rule = _build(sentence, Effect.preferred_carriers, scope, carriers, Outcome.allowed)
        yield rule.model_copy(update={"percent": percent})


def _read_kind(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the airlines of a kind that the document lists, if the sentence requires them."""
    text = sentence.text
    for term, carriers in sentence.vocabulary.carriers.items():
        if term in text.casefold() and _MUST_USE.search(text) and not is_prohibition(text):
            scope = ParsedScope(RuleScope(), sentence.parse_scope().problem)
            yield _build(sentence, Effect.preferred_carriers, scope, carriers, Outcome.approval)


def find_other_carriers_outcome(sentence: Sentence) -> tuple[Outcome, tuple[str, ...]] | None:
    """Return what an airline that is not preferred needs, if the sentence says so."""
    text = sentence.text
    if not _OTHERS.search(text):
        return None
    approval = find_approval(text)
    if approval:
        return approval.outcome, approval.approvers
    return (Outcome.forbidden, ()) if is_prohibition(text) else None


def _build(
    sentence: Sentence, effect: Effect, scope: ParsedScope, carriers: tuple[str, ...], outcome: Outcome,
    approvers: tuple[str, ...] = (),
) -> PolicyRule:  # fmt: skip
    return build_rule(sentence, effect, scope, carriers=carriers, outcome=outcome, approvers=approvers)


def _drop_carriers(text: str) -> str:
    return _compile_names().sub(" air ", _CODE.sub(" ", text))


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
