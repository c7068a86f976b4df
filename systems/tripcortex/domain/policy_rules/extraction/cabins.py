"""Reads rules about cabins.

The standard, what is permitted where, what needs an approval, and what is never booked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import find_approval, is_refusal
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.level_scopes import find_level_spans
from tripcortex.domain.policy_rules.extraction.lexicon import is_prohibition
from tripcortex.domain.policy_rules.extraction.plain_words import find_odd_words
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope, parse_scope
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK, complement, find_cabins
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, Range, RuleScope
from tripcortex.model.entities import Cabin

_NOT_A_FLIGHT: Final = re.compile(
    r"\b(?:trains?|rail\w*|amtrak|acela|eurostar|ferry|ferries|bus|coach services?|tatkal|sleeper|cars?"
    r"|vehicles?|lounge)\b",
    re.IGNORECASE,
)
_FLIGHT: Final = re.compile(
    r"\bflights?\b|\bfly|\bair\b|\bcabins?\b|\bairlines?\b|\btickets?\b", re.IGNORECASE
)
_UPGRADE: Final = re.compile(
    r"\bupgrad|\b(?:own|personal) (?:miles|points|money|funds|expense)", re.IGNORECASE
)
_UNLESS: Final = re.compile(
    r"\b(?:with (?:one|1|a|an|the)(?: single| only)? exception|unless|save that|except(?:ing)?(?: for|"
    r" where| when"
    r"| if| on)?|without|other than (?=with|by|on|for|in"
    r"|where|when)|until"
    r"|save (?:for|where|when|with))\b",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(
    r"\bonly\b|\brestricted to\b|\breserved for\b|\blimited to\b|\bexclusively\b|\bsolely\b", re.IGNORECASE
)
_GRANT: Final = re.compile(
    r"@[PBF] for\b|\bmay\b|\bcan\b|\bpermit|\ballow(?:s|ed|able)?\b|\bok\b|\bokay\b|\bfine\b|\bentitled?\b"
    r"|\bentitlement"
    r"|\beligible\b"
    r"|\bavailable\b|\bacceptable\b|\bauthori[sz]ed\b|\bapproved for\b|\bfor flights\b|\bfor travel\b"
    r"|\bconsidered\b"
    r"|\boption(?:al)?\b|\bbook(?:s|ed)? (?:in )?@|\bfl(?:y|ies) (?:in )?@|\btravels? (?:in )?@|\bis for\b"
    r"|\bwelcome\b|\bupgraded? to\b",
    re.IGNORECASE,
)
_STANDARD: Final = re.compile(
    r"\bstandard\b|\bdefault\b|\brequired\b|\bmust\b|\bshall\b|\bshould\b|\bonly\b|\bnorm(?:al|ally)?\b"
    r"|\bexpected\b"
    r"|\bhome base\b|\bbuys?\b|\bbooked\b|\bbook\b|\bfly\b|\btravels?\b|\bmaximum\b|\bhighest\b|\bused?\b"
    r"|\bunless\b"
    r"|\bgenerally\b|\b@E (?:for|on|is|applies|regardless|at all|across|throughout|always)\b|^\W*@E\W*$"
    r"|: ?@E\W*$|- ?@E\W*$",
    re.IGNORECASE,
)
_ABOVE: Final = re.compile(
    r"\b(?:other than|above|higher than|better than|anything but|nothing but|anything except|any"
    r" (?:class|cabin) but|any(?:thing)? (?:class )?(?:above|beyond|higher)"
    r"|beyond)(?: the)? (?=@)",
    re.IGNORECASE,
)
_OTHER_CABIN: Final = re.compile(
    r"\b(?:any|every|all) (?:other|higher|better) (?:cabin|class)", re.IGNORECASE
)
_AND_ABOVE: Final = re.compile(
    r"@[EPBF],? (?:and|or) (?:above|higher|better|up)|\bpremium (?:cabins|classes|class)\b", re.I
)
_OTHERWISE: Final = re.compile(
    r"\b(?:on )?(?:a |any )?shorter (?:flights?|journeys?|trips?|ones?|sectors?|routes?)\b"
    r"|\bbelow that\b|\bunder that\b|\bshorter than that\b|\banything shorter\b",
    re.IGNORECASE,
)
# "Where business class is permitted, the cap is …" permits nothing.
_IF_PERMITTED: Final = re.compile(
    r"\b(?:where|when|if|whenever|once|after|unless)\b[^,;.]*@[PBF][^,;.]*\b(?:is|are|been|was|has)\b"
    r"[^,;.]*(?:permit|entitle|approv|authori|allow|book|used)",
    re.IGNORECASE,
)
# "The limit is 1.6 times for premium economy" and "add $400 to the cap" are about fares.
_FARE_STATEMENT: Final = re.compile(
    r"\d times\b|\badd \$\d|\bcaps? (?:is|are) (?:increased|raised)", re.IGNORECASE
)
# "Economy, unless the flight is over 8 hours, in which case premium economy may be booked."
_IN_WHICH_CASE: Final = re.compile(
    r"@E[^@.;]*?,? unless (?P<condition>[^@;.]+?),? (?:in which case|then) (?P<allowed>.*@[PB].*)$",
    re.IGNORECASE,
)
_NEXT_LEVEL: Final = re.compile(r"(?:[,;] (?:and|while|but|whereas)|;) (?:the |for )?$", re.IGNORECASE)
_PREDICATE: Final = re.compile(
    r"^(?:is|are|may|can|cannot|will|shall|must|should|has|have|does|do|never|not|unless|without|except)\b",
    re.IGNORECASE,
)
_HEAD_ONLY: Final = re.compile(r"^(?:no(?:body| one)?|under no|in no|never|not)\b", re.IGNORECASE)
_NOT_RULES: Final = re.compile(
    r"\b(?:means?|defined as|definition|refers to|lowest available|comparable|price of|difference|compared"
    r"|equivalent of"
    r"|cost of an?|would have|screen ?(?:print|shot)|quotation|quote)\b",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(
    r";\s*|,?\s+(?:but|while|whereas|and then)\s+|,\s+and\s+|,\s+(?=@)|\.\s+", re.IGNORECASE
)


def extract_cabin_rules(sentence: Sentence, remembered: Range) -> Iterator[PolicyRule]:
    """Yield the rules about cabins in a sentence.

    `remembered` are the hours that the sentence before named.
    """
    whole = sentence.text
    if _FARE_STATEMENT.search(whole):
        return
    if not CABIN_MARK.search(whole) or (_NOT_A_FLIGHT.search(whole) and not _FLIGHT.search(whole)):
        return
    turned = _IN_WHICH_CASE.search(whole)
    if turned:
        yield build_rule(sentence, Effect.max_cabin, ParsedScope(RuleScope()), cabin=Cabin.economy)
        whole = f"{turned['allowed']} when {turned['condition']}"
    for clause in (each for part in _split_levels(whole, sentence) for each in _split_clauses(part)):
        if _UPGRADE.search(clause) or (_NOT_RULES.search(clause) and not is_prohibition(clause)):
            continue
        yield from _read_clause(sentence.with_text(clause), remembered)


def _split_levels(text: str, sentence: Sentence) -> list[str]:
    """Return the parts about different levels, each with what stands in front of the first of them.

    "@P: On long flights, directors may take it, and managers with approval" is two statements.
    """
    spans = find_level_spans(text, sentence.vocabulary)
    starts = [start for start, _ in spans if _NEXT_LEVEL.search(text[:start])]
    if not spans or not starts or len(set(CABIN_MARK.findall(text))) != 1:
        return [text]
    lead = text[: spans[0][0]]
    lead = lead if CABIN_MARK.search(lead) else f"{CABIN_MARK.findall(text)[0]}: {lead}"
    ends = [*starts, len(text)]
    parts = [text[: starts[0]], *(f"{lead}{text[start:end]}" for start, end in pairwise(ends))]
    return [re.sub(r"[,;]?\s*(?:and|while|but|whereas)?\s*$", "", part) for part in parts]


def _split_clauses(text: str) -> list[str]:
    """Return the clauses that each name a cabin; other parts belong to the clause before them."""
    clauses: list[str] = []
    for part in _CLAUSE.split(text):
        has_verb = bool(
            _GRANT.search(part) or is_prohibition(part) or _STANDARD.search(part) or find_approval(part)
        )
        if clauses and not (CABIN_MARK.search(part) and has_verb and _is_whole(clauses[-1])):
            clauses[-1] = f"{clauses[-1]}, {part}"
        else:
            clauses.append(part)
    return clauses


def _is_whole(clause: str) -> bool:
    """Return True if a clause has a cabin and says something about it."""
    says = (
        _GRANT.search(clause) or is_prohibition(clause) or _STANDARD.search(clause) or find_approval(clause)
    )
    return bool(CABIN_MARK.search(clause) and (says or re.search(r"@[EPBF] for\b", clause)))


def _read_clause(clause: Sentence, remembered: Range) -> Iterator[PolicyRule]:
    """Yield the rules of one clause: a prohibition, an approval, a permission, or the standard."""
    text = clause.text
    named = find_cabins(text)
    scope = _parse_clause_scope(clause, remembered)
    if is_prohibition(_find_core(text)) and not _is_waiver(text):
        yield from _read_prohibition(clause, named, scope)
        return
    approval = clause.find_approval()
    above = [cabin for cabin in named if cabin.rank] or list_above(text)
    if approval and approval.outcome is Outcome.approval and above and not _covers_shortcut(text):
        yield from _read_approval(clause, above, scope, approval.approvers)
    elif above and (_GRANT.search(text) or _ONLY.search(text) or clause.is_value):
        yield from _read_permission(clause, above[-1], scope)
    elif named == [Cabin.economy] and (_STANDARD.search(text) or clause.is_value or _GRANT.search(text)):
        yield build_rule(clause, Effect.max_cabin, scope, cabin=Cabin.economy)
    elif above and _STANDARD.search(text):
        yield from _read_permission(clause, above[-1], scope)


def _find_core(text: str) -> str:
    """Return the parts of a clause that are about the cabin: those that name it, and their predicates."""
    parts = re.split(r"([;,]\s+)", text)
    kept = [
        part
        for at, part in enumerate(parts)
        if CABIN_MARK.search(part)
        or _PREDICATE.match(part)
        or (at == 0 and len(parts) > 1 and _HEAD_ONLY.match(part))
    ]
    return ", ".join(kept)


def _covers_shortcut(text: str) -> bool:
    """Return True if no approval is meant: "without asking", "no approval"."""
    approval = find_approval(text)
    return approval is not None and approval.outcome is Outcome.allowed


def _is_waiver(text: str) -> bool:
    """Return True if the negation only waives the approval: "does not need approval"."""
    approval = find_approval(text)
    rest = re.sub(
        r"\bnot (?:require|need)\w*|\bnot (?:required|needed)|\bno (?:\w+ )?approval\w*|\bno need"
        r"|\bwithout [\w ]*(?:approval|asking)",
        " ", text, flags=re.IGNORECASE,
    )  # fmt: skip
    return approval is not None and approval.outcome is Outcome.allowed and not is_prohibition(rest)


def _parse_clause_scope(clause: Sentence, remembered: Range) -> ParsedScope:
    """Return the scope of a clause; "on a shorter flight" means outside the hours named before."""
    text = re.sub(r"\bbusiness (?:travel|trips?|purposes?|need|reasons?)\b", " ", clause.text)
    scope = clause.parse_scope(text)
    if re.match(r"(?:@[EPBF]: )?(?:otherwise|in (?:all|any) other cases?)\b", text, re.IGNORECASE):
        return ParsedScope(scope.scope, scope.problem, is_other=True)
    rest = complement(remembered)
    if scope.scope.hours.is_open and rest is not None and _OTHERWISE.search(text):
        return ParsedScope(scope.scope.model_copy(update={"hours": rest}), scope.problem)
    return scope


def _read_prohibition(clause: Sentence, named: list[Cabin], scope: ParsedScope) -> Iterator[PolicyRule]:
    """Yield what a negative clause forbids; with "unless" or "without approval" also what it leaves open."""
    text = clause.text
    cabins = list_forbidden(text, named)
    if not cabins:
        if named == [Cabin.economy] and _STANDARD.search(text):
            yield build_rule(clause, Effect.max_cabin, scope, cabin=Cabin.economy)
        return
    way = _UNLESS.search(text)
    approval = find_approval(f"needs {text[way.end() :]}") if way else None
    if way and approval and approval.outcome is Outcome.approval:
        yield from _read_exception(clause, cabins, text[: way.start()], text[way.end() :], approval.approvers)
    elif way:
        yield from _read_unless(clause, cabins, text[: way.start()], text[way.end() :])
    else:
        yield _build_outcome(clause, _with_higher(cabins), scope, Outcome.forbidden)


def _read_exception(
    clause: Sentence, cabins: list[Cabin], before: str, after: str, approvers: tuple[str, ...]
) -> Iterator[PolicyRule]:
    """Yield the approval that a prohibition leaves open, and the prohibition outside the approval's scope."""
    scope, exempt = clause.parse_scope(before), clause.parse_scope(after)
    yield _build_outcome(clause, tuple(cabins), _join(exempt, scope.scope), Outcome.approval, approvers)
    for outside in _list_outside(exempt.scope):
        yield _build_outcome(clause, _with_higher(cabins), _join(scope, outside), Outcome.forbidden)


def _read_unless(clause: Sentence, cabins: list[Cabin], before: str, after: str) -> Iterator[PolicyRule]:
    """Yield a prohibition with an exception: the cabin is permitted within the exception's scope."""
    scope, exempt = parse_scope(before, clause.vocabulary), parse_scope(after, clause.vocabulary)
    if exempt.is_open or exempt.problem:
        # The exception is not understood: the prohibition counts, an administrator may edit it.
        notes = ("The exception was not understood.",)
        yield _build_outcome(clause, _with_higher(cabins), scope, Outcome.forbidden, notes=notes)
        return
    for outside in _list_outside(exempt.scope):
        yield _build_outcome(clause, _with_higher(cabins), _join(scope, outside), Outcome.forbidden)
    yield build_rule(clause, Effect.max_cabin, _join(exempt, scope.scope), cabin=cabins[-1])


def _join(scope: ParsedScope, other: RuleScope) -> ParsedScope:
    """Return the scope with the members of the other that it does not state."""
    stated = {name: value for name, value in dict(scope.scope).items() if value != getattr(RuleScope(), name)}
    return ParsedScope(RuleScope.model_validate(dict(other) | stated), scope.problem, scope.is_other)


def _list_outside(scope: RuleScope) -> Iterator[RuleScope]:
    """Yield the scopes that together contain the trips outside a scope."""
    rest = complement(scope.hours)
    if rest is not None:
        yield RuleScope(hours=rest)
    if scope.levels:
        yield RuleScope(except_levels=scope.levels)
    if scope.routes:
        yield RuleScope(except_routes=scope.routes)


def _read_approval(
    clause: Sentence, cabins: list[Cabin], scope: ParsedScope, approvers: tuple[str, ...]
) -> Iterator[PolicyRule]:
    """Yield what a cabin needs; "only" forbids it outside the scope."""
    if is_refusal(clause.text):
        yield _build_outcome(clause, _with_higher(cabins), scope, Outcome.forbidden)
        return
    covered = _with_higher(cabins) if _AND_ABOVE.search(clause.text) else tuple(cabins)
    yield _build_outcome(clause, covered, scope, Outcome.approval, approvers)
    if _ONLY.search(clause.text):
        for outside in _list_outside(scope.scope):
            yield _build_outcome(clause, _with_higher(cabins), ParsedScope(outside), Outcome.forbidden)


def _read_permission(clause: Sentence, cabin: Cabin, scope: ParsedScope) -> Iterator[PolicyRule]:
    """Yield the permission of a cabin; "only" forbids it outside the scope."""
    if _IF_PERMITTED.search(clause.text):
        return
    odd = find_odd_words(clause.text, clause.vocabulary)
    stated = ParsedScope(scope.scope, scope.problem or odd, scope.is_other)
    yield build_rule(clause, Effect.max_cabin, stated, cabin=cabin)
    if _ONLY.search(clause.text):
        for outside in _list_outside(scope.scope):
            yield _build_outcome(clause, _with_higher([cabin]), ParsedScope(outside), Outcome.forbidden)


def _build_outcome(
    clause: Sentence,
    cabins: tuple[Cabin, ...],
    scope: ParsedScope,
    outcome: Outcome,
    approvers: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> PolicyRule:
    named = [cabin for cabin in find_cabins(clause.text) if cabin in cabins]
    return build_rule(
        clause, Effect.cabin_outcome, scope, cabin=named[-1] if named else cabins[-1], outcome=outcome,
        approvers=approvers,
        notes=notes, scope_values={"cabins": cabins},
    )  # fmt: skip


def list_forbidden(text: str, named: list[Cabin]) -> list[Cabin]:
    """Return the cabins that a negative clause is about; "other than economy" means those above it."""
    if above := _ABOVE.search(text):
        after = find_cabins(text[above.end() : above.end() + 2])
        return [cabin for cabin in Cabin if after and cabin.rank > after[0].rank]
    if named == [Cabin.economy] and _OTHER_CABIN.search(text):
        return [cabin for cabin in Cabin if cabin is not Cabin.economy]
    return [cabin for cabin in named if cabin is not Cabin.economy]


def list_above(text: str) -> list[Cabin]:
    """Return the cabins that "other than economy" means, without first class.

    Empty if the text has no such words.
    """
    return list_forbidden(text, [])[:-1] if _ABOVE.search(text) else []


def _with_higher(cabins: list[Cabin]) -> tuple[Cabin, ...]:
    """Return the cabins and all better ones than the lowest of them."""
    return tuple(cabin for cabin in Cabin if cabin.rank >= cabins[0].rank)
