"""Joins a sentence with what it refers to in the one before: "these four cities", "they are: …", "do so"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tripcortex.domain.policy_rules.extraction.carriers import find_carriers
from tripcortex.domain.policy_rules.extraction.drafts import Sentence
from tripcortex.domain.policy_rules.extraction.lexicon import is_prohibition
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope, find_season, merge_scopes
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import RuleScope

_THESE_PLACES: Final = re.compile(
    r"\b(?:these|those|the same|such) (?:\d+ )?(?:cities|airports|places|towns|countries|destinations"
    r"|routes)\b"
    r"|^(?P<lead>for |to )(?:these|those|them)\b",
    re.IGNORECASE,
)
_LISTING: Final = re.compile(
    r"^(?:[^.;:]{0,40}\b)?(?:the|this) list\b[^.;:]{0,20}?\b(?:includes?|comprises|contains|is|names)\b"
    r"|^(?:(?:for this purpose|currently|at (?:the time of issue|this moment|present)),? )?(?:these"
    r"|they|those|such)\b[^.;:]{0,30}?\b(?:are|include\w*)\b",
    re.IGNORECASE,
)
_DO_SO: Final = re.compile(
    r"\b(?:do(?:es)? so|book (?:it|them|one)|pay (?:it|for it|them)|fly it|use (?:it|them)|on (?:those"
    r"|these) (?:same )?(?:flights|trips|routes)"
    r"|(?:it|this|that) (?:requires?|needs?|is|may|must|can|will)|it (?:over|under|above|below|on|in|at))\b",
    re.IGNORECASE,
)
_THOSE_DAYS: Final = re.compile(
    r"\b(?:on|in|during|at) (?:these|those|this|that) (?:days|dates|period|time|weeks?)\b", re.IGNORECASE
)
_TIER: Final = re.compile(
    r"(?:if (?:it|the excess|that|you(?:'re| are)|they)|more than|above|beyond|over|anything|up to"
    r"|larger|from|between|greater)\b",
    re.IGNORECASE,
)
_OVER: Final = re.compile(r"\b(?:excess|overage|over (?:the|by)|above the|exceed\w*)\b", re.IGNORECASE)
_SAME: Final = re.compile(
    r"\b(?:the same|this) (?:also )?(?:goes|applies|holds)\b(?: (?:for|to))?", re.IGNORECASE
)
_BELOW_THAT: Final = re.compile(
    r"\b(?:under|below|short of|within|less than|up to) (?:those|these|that|this)\b|\b(?:on )?shorter"
    r" (?:flights|trips|ones|distances|journeys)\b",
    re.IGNORECASE,
)


def is_ruling(sentence: Sentence) -> bool:
    """Return True if the sentence prohibits or asks for an approval, without naming places or airlines."""
    is_rule = is_prohibition(sentence.text) or bool(sentence.find_approval())
    return is_rule and not find_places(sentence.text) and not find_carriers(sentence.text)


def join_reference(sentence: Sentence, before: Sentence | None, ruling: Sentence | None) -> Sentence:
    """Return the sentence with what it refers to in the one before; unchanged if it refers to nothing.

    `ruling` is the last sentence of the paragraph that prohibits something without saying where.
    """
    if before is None:
        return sentence
    text = sentence.text
    if _TIER.match(text) and re.search(r"[$%]", text) and _OVER.search(f"{before.about} {before.text}"):
        return replace(sentence, about=f"{sentence.about} : over the limit : {before.text}")
    season = find_season(before.text)
    if season and _THOSE_DAYS.search(text):
        return replace(sentence, outer=merge_scopes(ParsedScope(RuleScope(season=season)), sentence.outer))
    places = find_places(before.text)
    if places and not find_places(text) and (found := _THESE_PLACES.search(text)):
        words = " and ".join(dict.fromkeys(place.words for place in places))
        return replace(
            sentence, text=f"{text[: found.start()]}{found['lead'] or ''}{words}{text[found.end() :]}"
        )
    same = _SAME.search(text)
    if same and find_places(text[same.end() :]) and places:
        plain = re.sub("|".join(re.escape(place.words) for place in places), " ", before.text)
        return replace(
            sentence,
            text=f"{text[same.end() :].strip(' .')}: {plain}",
            quote=f"{before.quote} {sentence.quote}",
        )
    if _LISTING.match(text) and (find_places(text) or find_carriers(text)):
        is_own = find_carriers(before.text) if find_carriers(text) else places
        return _join_texts(ruling or before, sentence) if ruling or not is_own else sentence
    marks = CABIN_MARK.findall(before.text)
    if marks and re.match(rf"{marks[-1]}: (?:It|This|That|They)\b", text):
        return replace(sentence, outer=merge_scopes(sentence.outer, ParsedScope(before.parse_scope().scope)))
    has_cabin = CABIN_MARK.search(before.text) and not CABIN_MARK.search(text)
    if has_cabin and _DO_SO.search(text):
        return _carry_cabin(sentence, before)
    return sentence


def _join_texts(before: Sentence, sentence: Sentence) -> Sentence:
    """Return one sentence of both: the first says what holds, the second for which places or airlines."""
    if not (is_prohibition(before.text) or before.find_approval()):
        return sentence
    text = f"{before.text.rstrip('.')}: {sentence.text}"
    return replace(sentence, text=text, quote=f"{before.quote} {sentence.quote}", about=before.about)


def _carry_cabin(sentence: Sentence, before: Sentence) -> Sentence:
    """Return the sentence with the best cabin of the one before it, and with its trips but not its levels."""
    mark = CABIN_MARK.findall(before.text)[-1]
    scope = before.parse_scope().scope
    carried = RuleScope(
        routes=scope.routes,
        except_routes=scope.except_routes,
        hours=scope.hours,
        distance_km=scope.distance_km,
    )
    if re.match(r"(?:It|This|That|They|These)\b", sentence.text):
        carried = carried.model_copy(update={"levels": scope.levels, "except_levels": scope.except_levels})
    outer = merge_scopes(sentence.outer, ParsedScope(carried))
    if _BELOW_THAT.search(sentence.text):
        # What is said of shorter trips counts where nothing else is said of a trip.
        outer = ParsedScope(sentence.outer.scope, is_other=True)
    return replace(sentence, text=f"{mark}: {sentence.text}", outer=outer)
