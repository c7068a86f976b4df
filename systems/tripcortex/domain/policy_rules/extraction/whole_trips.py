"""Reads rules about trips as a whole: where nobody travels, what needs an approval, and what is exempt.

A statement about trips has a scope (places, distance, nights, levels), and prohibits them, asks for an
approval, or exempts them from one. What has no scope of its own is a rule only if it speaks of all trips.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import Approval, drop_approvers, is_refusal
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.level_scopes import find_level_spans
from tripcortex.domain.policy_rules.extraction.lexicon import (
    OBSOLETE,
    OTHER_ACT,
    PROHIBITION,
    RECOMMENDATION,
    REGARDLESS,
    TRAVEL,
    is_prohibition,
)
from tripcortex.domain.policy_rules.extraction.plain_words import find_odd_words
from tripcortex.domain.policy_rules.extraction.route_scopes import strip_examples
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope
from tripcortex.domain.policy_rules.extraction.wording import DAYS, find_range
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, RoutePattern, RuleScope

_ALL_TRIPS: Final = re.compile(
    r"\b(?:all|any|every|each|international|foreign|domestic|overseas|intercontinental|business|air)"
    r" (?:\w+ ){0,2}"
    r"(?:travel|trips?|journeys?|flights?|bookings?)\b(?! (?:to|from|of|by|for|with|that|which|who) )",
    re.IGNORECASE,
)
_DUTY: Final = re.compile(
    r"\bmust\b|\brequire|\bneed|\bshall\b|\bha(?:s|ve) to\b|\bsubject to\b|\bonly (?:with|when|if"
    r"|after)\b|\bapproval of\b|\btakes?\b"
    r"|\b(?:is|are) (?:to be )?(?:approved|authori[sz]ed|cleared|signed)|\bpre-approved by\b|\bpossible"
    r" (?:when|if|with)\b|\bagree",
    re.IGNORECASE,
)
# Subjects that are not a trip even where the sentence names a country.
_OTHER_SUBJECT: Final = re.compile(
    r"\blaptops?\b|\bdevices?\b|\bphones?\b|\bbag(?:s|gage)?\b|\bluggage\b|\bvisas?\b|\binsurance\b"
    r"|\bmeals?\b|\bhotels?\b|\bdriv(?:e|ing)\b"
    r"|\btrains?\b|\brail\w*\b|\bcars?\b|\bmileage\b|\bper diem\b|\broaming\b|\bequipment\b"
    r"|\bsamples?\b|\ballowance\b|\bvaccin|\bcharter"
    r"|\btax(?:es)?\b|\bpassports?\b|\bprivately\b|\bprivate\b",
    re.IGNORECASE,
)
_OTHER_SUBJECTS: Final = re.compile(
    r"\b(?:class|cabin|seats?|fares?|limits?|higher|lower|caps?|ceilings?|prices?|airlines?"
    r"|carriers?)\b|[@$%]",
    re.IGNORECASE,
)
_OPEN_DOOR: Final = re.compile(
    r"\b(?:without|unless|except with|until|only (?:with|when|if|after)|other than with)\b", re.IGNORECASE
)
_NOT_OVERRIDDEN: Final = re.compile(
    r"\b(?:nobody|no (?:one|\w+(?:,? \w+){0,4}))\b[^.;]*\b(?:can|may|could)\b[^.;]*\b(?:approve"
    r"|override|permit|allow|authori[sz]e|waive|sign|lift)"
    r"|\bcannot (?:be )?(?:approv|overrid|waiv|authori[sz]|lift)",
    re.IGNORECASE,
)
_FREE: Final = re.compile(
    r"\b(?:free|open|permitted|allowed|green|unrestricted|no restrictions?|need(?:s)? (?:no|nobody)"
    r"|without restriction)\b",
    re.IGNORECASE,
)
_LIST_WORDS: Final = re.compile(r"[^\W\d_]{3,}")
MAX_LIST_WORDS: Final = 6


def extract_trip_rules(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield what a sentence or row says of trips as a whole."""
    sentence = sentence.with_text(REGARDLESS.sub("", strip_examples(sentence.text)))
    text = sentence.text
    places = find_places(text)
    if _is_about_something_else(sentence, has_places=bool(places)):
        return
    scope = sentence.parse_scope()
    if sentence.outer.scope.season:
        scope = ParsedScope(
            scope.scope.model_copy(update={"season": sentence.outer.scope.season}), scope.problem
        )
    approval = _find_needed(sentence)
    is_stated = scope.scope != RuleScope() or scope.is_other or bool(scope.problem)
    is_banned = (
        is_prohibition(text) and not (approval and _OPEN_DOOR.search(text)) and _speaks_of_trips(sentence)
    )
    if _NOT_OVERRIDDEN.search(text) or is_refusal(text):
        is_banned, approval = is_banned or is_prohibition(text), None
    if approval and not (is_banned and not _DUTY.search(text)):
        yield from _read_approval(sentence, scope, approval, is_stated=is_stated)
    elif is_banned and is_stated:
        yield from _build_prohibition(sentence, scope)
    elif places and not approval:
        yield from _read_list(sentence, scope)


def _is_about_something_else(sentence: Sentence, *, has_places: bool) -> bool:
    """Return True if the sentence is about cabins, amounts, notice or other things than trips."""
    text = sentence.text
    if _OTHER_SUBJECTS.search(text) or RECOMMENDATION.search(text) or OBSOLETE.search(text):
        return True
    is_notice = find_range(text, DAYS) and not re.search(
        r"regardless|irrespective|independent", text, re.IGNORECASE
    )
    if has_places:
        act = PROHIBITION.search(text) or re.search(r"\bapprov|\bconsent|\bsign", text)
        return bool(_OTHER_SUBJECT.search(text[: act.end()] if act else text)) or bool(is_notice)
    return bool(OTHER_ACT.search(text)) or bool(is_notice)


def _find_needed(sentence: Sentence) -> Approval | None:
    found = sentence.find_approval()
    return found if found and found.outcome is Outcome.approval else None


def _speaks_of_trips(sentence: Sentence) -> bool:
    """Return True if the sentence is about trips; of a row or item, what introduces it may say so."""
    is_listed = sentence.is_value or bool(sentence.value)
    return bool(TRAVEL.search(sentence.text) or (is_listed and TRAVEL.search(sentence.about)))


def _read_approval(
    sentence: Sentence, scope: ParsedScope, approval: Approval, *, is_stated: bool
) -> Iterator[PolicyRule]:
    """Yield the approval that trips within the scope need."""
    text = sentence.text
    is_row = bool(sentence.value) or sentence.is_value
    if not is_stated:
        has_condition = re.search(r"\b(?:if|unless|when|where|exceed\w*|above|over)\b", text, re.IGNORECASE)
        odd = find_odd_words(drop_approvers(text), sentence.vocabulary)
        if has_condition or odd or not (_ALL_TRIPS.search(text) and _DUTY.search(text)):
            return
    elif not (is_row or _DUTY.search(text) or _speaks_of_trips(sentence)):
        return
    if scope.scope == RuleScope() and scope.problem and not is_row:
        return
    if is_row and not scope.problem:
        odd = find_odd_words(sentence.key or drop_approvers(text), sentence.vocabulary)
        scope = ParsedScope(scope.scope, odd, scope.is_other)
    if is_row and scope.problem and not _names_something(scope.scope):
        return
    yield build_rule(
        sentence, Effect.trip_outcome, scope, outcome=Outcome.approval, approvers=approval.approvers
    )


def _names_something(scope: RuleScope) -> bool:
    """Return True if the scope has more than levels: a row that was not understood is not about all trips."""
    return scope.model_copy(update={"levels": (), "except_levels": ()}) != RuleScope()


def _build_prohibition(sentence: Sentence, scope: ParsedScope) -> Iterator[PolicyRule]:
    """Yield the prohibition of a destination, or of trips within a scope."""
    if scope.scope == RuleScope():
        return
    tokens = _get_destinations(scope)
    if tokens:
        forbidden = Outcome.forbidden
        plain = ParsedScope(RuleScope(levels=scope.scope.levels))
        yield build_rule(
            sentence, Effect.prohibited_destinations, plain, destinations=tokens, outcome=forbidden
        )
    else:
        yield build_rule(sentence, Effect.trip_outcome, scope, outcome=Outcome.forbidden)


def _get_destinations(scope: ParsedScope) -> tuple[str, ...]:
    """Return the places to which all routes of the scope lead; empty if it is about something else too."""
    routes = scope.scope.routes
    is_plain = routes and all(not route.one and route.other and route.is_domestic is None for route in routes)
    is_alone = scope.scope.model_copy(update={"routes": (), "levels": (), "except_levels": ()}) == RuleScope()
    return tuple(token for route in routes for token in route.other) if is_plain and is_alone else ()


def _read_list(sentence: Sentence, scope: ParsedScope) -> Iterator[PolicyRule]:
    """Yield the rule of a list of places below a heading or lead that prohibits them."""
    text, about = sentence.text, f"{sentence.block.section or ''} : {sentence.block.lead}"
    words = re.sub("|".join(re.escape(place.words) for place in find_places(text)), " ", text)
    is_list = len(_LIST_WORDS.findall(words)) <= MAX_LIST_WORDS and not _FREE.search(words)
    is_banned = bool(is_prohibition(about)) and TRAVEL.search(about)
    label = text.split(":")[0].strip().casefold()
    if not (is_list and is_banned) or label in sentence.vocabulary.terms:
        return
    tokens = tuple(dict.fromkeys(token for place in find_places(text) for token in place.tokens))
    routes = (RoutePattern(other=tokens),)
    yield from _build_prohibition(sentence, ParsedScope(scope.scope.model_copy(update={"routes": routes})))


# --- exemptions ---------------------------------------------------------------------------------------------

_EXEMPT: Final = re.compile(
    r"\bexempt(?:ed)? from\b|\b(?:does|do|is|are|shall|will) not (?:apply|appl\w+|subject|bound)\b"
    r"|\bnot subject to\b|\b(?:is|are) (?:not required|exempt)\b"
    r"|\bno (?:booking |purchase |advance )*(?:deadlines?|minimum|notice|lead[- ]?time|term|ceilings?"
    r"|caps?|limits?)\b|\b(?:set|have|has) no\b",
    re.IGNORECASE,
)
_NOTICE_WORDS: Final = re.compile(
    r"\bdeadlines?\b|\bnotice\b|\banticipation\b|\bin advance\b|\badvance\b|\bdays?\b|\blead[- ]?time\b"
    r"|\bearly\b|\bbooking (?:time|period|window)\b|\blate\b",
    re.IGNORECASE,
)
_FARE_WORDS: Final = re.compile(
    r"\bceilings?\b|\bcaps?\b|\bfare limits?\b|\bmaximum (?:fare|price)s?\b|\bprice limits?\b", re.IGNORECASE
)
_APPROVAL_WORDS: Final = re.compile(
    r"\bapproval\b|\bconsent\b|\bclearance\b|\bpermission\b|\bauthori[sz]ation\b|\bdistances?\b",
    re.IGNORECASE,
)


_EXEMPTION_WORDS: Final = re.compile(
    r"\bexempt(?:ed)? from\b|\bappl(?:y|ies|icable)\b|\bsubject\b|\bbound\b|\b(?:clause|section"
    r"|paragraph|part|rule|point|article|number)s? [\d.]+\w*"
    r"|\bdeadlines?\b|\bnotice\b|\banticipation\b|\badvance\b|\bpurchase\b|\blead\b|\bperiods?\b"
    r"|\bceilings?\b|\bcaps?\b|\brequirements?\b|\brules?\b"
    r"|\bminimum\b|\bexceptions?\b|\bdistances?\b|\bclearance\b|\bprior\b|\bset\b|\bterm\b|\btickets?\b"
    r"|\bparagraph\b|\bneighbours?\b|\bbecause\b.*$",
    re.IGNORECASE,
)


def find_exemption(sentence: Sentence, last: Effect | None) -> PolicyRule | None:
    """Return the exemption of some trips or levels from the rules of one subject, if the sentence is one.

    `last` is the effect of the rule before it in the section, for "this does not apply to …".
    """
    text = sentence.text
    exempt = _EXEMPT.search(text)
    if exempt is None or re.search(r"[@$]", text):
        return None
    subjects = (
        (_NOTICE_WORDS, Effect.notice), (_FARE_WORDS, Effect.fare_cap), (_APPROVAL_WORDS, Effect.trip_outcome)
    )  # fmt: skip
    effect = next((effect for words, effect in subjects if words.search(text)), last)
    if effect not in (Effect.notice, Effect.fare_cap, Effect.trip_outcome):
        return None
    scope = sentence.parse_scope()
    if scope.problem or scope.scope == RuleScope() or find_range(text, DAYS):
        return None
    before = text[: exempt.start()]
    is_named = bool(scope.scope.levels) and bool(find_level_spans(before, sentence.vocabulary))
    if not is_named and find_odd_words(_EXEMPTION_WORDS.sub(" ", text), sentence.vocabulary):
        return None
    return build_rule(sentence, effect, scope, outcome=Outcome.allowed, is_exception=True)
