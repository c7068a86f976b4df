"""Reads the scope of a statement.

Routes, hours, levels and days, and whether some condition was not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.level_scopes import find_level_spans, find_levels
from tripcortex.domain.policy_rules.extraction.route_scopes import RouteScope, find_routes
from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary
from tripcortex.domain.policy_rules.extraction.wording import DAYS, HOURS, find_cabins, find_range
from tripcortex.domain.policy_rules.rules import Basis, Range, RuleScope

KM_PER_MILE: Final = Decimal("1.609")
# Hours that are not those of a flight.
_OTHER_HOURS: Final = re.compile(
    r"\b(?:layovers?|connections?|connecting time|stopovers?|respon\w*|refund\w*|within 24 hours"
    r"|business hours|hold\b|"
    r"rest\b|of booking|of purchase|of ticketing|SLA|turnaround|overtime|working hours)\b",
    re.IGNORECASE,
)
_FLIGHT_HOURS_MAX: Final = 22
_DISTANCE: Final = (r" (?:statute |air )?miles?\b", r" (?:km|kilomet(?:er|re)s?)\b")
_RED_EYE: Final = re.compile(r"\bred[- ]?eye|\bovernight flights?|\bnight flights?", re.IGNORECASE)
_CLOCK: Final = re.compile(r"(\d{1,2}):\d\d ?(?:am|pm)? ?(?:-|to|and) ?(\d{1,2}):\d\d", re.IGNORECASE)
# Conditions that no trip states. A permission that has one is incomplete.
_UNKNOWN_CONDITION: Final = re.compile(
    r"\b(?:outbound|inbound|return) (?:leg|flight|journey|way)s? only\b|\bone direction\b|\bonly (?:on"
    r"|for) the (?:outbound|inbound|return)\b"
    r"|\bmedical|\bdisabilit|\baccommodation|\bhealth\b|\bdoctor|\binjur|\bpregnan|\bclients?\b"
    r"|\bcustomers?\b|\bguests?\b"
    r"|\bcandidates?\b|\bred[- ]?eye|\bovernight\b|\bupgrad|(?<!\d )(?<!statute )\bmiles\b(?! (?:or|and))"
    r"|\bpoints\b"
    r"|\bown (?:expense|money|funds)"
    r"|\bpersonally\b|\bmeeting\b|\bsame[- ]day|\bno (?:extra|additional) cost|\bless expensive|\bcheaper\b"
    r"|\blower (?:price|cost|fare)|\bemergenc|\brelocat|\bgrant\b|\baward\b|\bsponsor|\bvacation"
    r"|\bfamil(?:y|ies)\b"
    r"|\bspouse|\bcompanion|\btall\b|\bconsecutive\b|\bstraight (?:to|into)|\bcontracted\b|\bgroup\b"
    r"|\bevents?\b"
    r"|\bper (?:calendar )?year|\bsold out|\bunavailable|\bnot available on|\bno (?:@E|other)",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\b(?:if|when|where|whenever|provided(?: that)?|as long as|so long as|only (?=if|when|where|for|on"
    r"|in\b)|unless|except(?:ing)?"
    r"|in case|during|while)"
    r"\b([^.;]*)",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(
    r"\b(?:within|under|below|inside|up to) (?:the |its |that |this |any |applicable |fare |route "
    r"|relevant )*"
    r"(?:cap|ceiling|limit|budget|fare|allowance|maximum)|\bcap|\bceiling|\bavailable\b|\bpossible\b"
    r"|\bpractica"
    r"|\bapprov|\boffer|\boperat|\bsign|\bagree|\bconsent|\bneeded\b|\bnecessary\b|\bappropriate\b"
    r"|\brequired\b|\bauthori[sz]|\bas long as .* (?:cap"
    r"|ceiling|limit)"
    r"|\bbook|\b@[EPBF] (?:only|class)?\W*$|^\W*(?:@[EPBF]|class|cabin|for (?:all|every)\b|in)?\W*$"
    r"|\bwithout asking",
    re.IGNORECASE,
)


_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_SEASON: Final = re.compile(
    rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: (?P<month>{_MONTH}))? ?(?:to|-|through|until|and|till)"
    rf" ?(?:the )?(?P<last>\d{{1,2}})(?:st|nd|rd|th)? (?P<last_month>{_MONTH})\b"
    rf"|\b(?P<month2>{_MONTH}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)? ?(?:to|-|through|until|and)"
    rf" ?(?P<last_month2>{_MONTH}) (?P<last2>\d{{1,2}})"
)
_HOTEL: Final = re.compile(r"\bhotels?\b|\blodging\b|\baccommodation\b|\bper night\b|\broom\b", re.IGNORECASE)
_ONE_WAY_ONLY: Final = re.compile(
    r"\bone[- ]way (?:tickets?|trips?|flights?|journeys?|travel)\b", re.IGNORECASE
)
_RETURN_ONLY: Final = re.compile(
    r"\b(?:return|round[- ]trip) (?:tickets?|trips?|flights?|journeys?)\b", re.IGNORECASE
)
_USUAL_TERM: Final = re.compile(
    r"domestic|journey|trip$|flight$|^list |national|regional|local|haul|continental|foreign|abroad"
    r"|overseas|internal|short hop",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ParsedScope:
    """A scope and what could not be understood of it.

    `is_other` means "all other routes" than its siblings'.
    """

    scope: RuleScope
    problem: str = ""
    is_other: bool = False

    @property
    def is_open(self) -> bool:
        """Return True if the scope contains every trip."""
        return self.scope == RuleScope() and not self.problem and not self.is_other


def parse_scope(text: str, vocabulary: Vocabulary) -> ParsedScope:
    """Return the scope that normalized text states. Cabins are left to the caller."""
    named = find_terms(text, vocabulary)
    routes = find_routes(_drop_terms(text, vocabulary), vocabulary)
    levels, except_levels, level_problem = find_levels(text, vocabulary)
    hours, distance = find_flight_hours(text), find_distance(text)
    if hours.is_open and distance.is_open:
        hours, distance = named.hours, named.distance_km
    is_named = not routes.is_placed and bool(named.routes or named.except_routes)
    scope = RuleScope(
        routes=named.routes if is_named else routes.routes,
        except_routes=named.except_routes if is_named else routes.except_routes,
        hours=hours,
        distance_km=distance,
        levels=levels,
        except_levels=except_levels,
        nights=find_nights(text),
        season=find_season(text),
        weekdays=find_weekdays(text),
        trip=_find_trip(text),
        departs=_find_departure(text),
    )
    problem = "" if is_named else routes.problem
    problem = problem or level_problem or _find_unknown_condition(text, scope, vocabulary)
    return ParsedScope(scope, problem, routes.is_other and not is_named)


def find_terms(text: str, vocabulary: Vocabulary) -> RuleScope:
    """Return the trips of all the document's terms that the text names: those of any of them."""
    found = [scope for name, scope in vocabulary.terms.items() if _names_term(text, name)]
    if not found:
        return RuleScope()
    routes = tuple(dict.fromkeys(route for scope in found for route in scope.routes))
    rests = [scope for scope in found if scope.except_routes and not scope.routes]
    excepted = tuple(dict.fromkeys(route for scope in found for route in scope.except_routes))
    if rests and len(found) > 1:
        # "Area E and all others" leaves out only what neither of them contains.
        routes, excepted = (), tuple(each for each in rests[0].except_routes if each not in routes)
    elif len(found) > 1:
        excepted = tuple(each for each in excepted if each not in routes)
    hours = next((scope.hours for scope in found if not scope.hours.is_open), Range())
    distance = next((scope.distance_km for scope in found if not scope.distance_km.is_open), Range())
    return RuleScope(routes=routes, except_routes=excepted, hours=hours, distance_km=distance)


def _drop_terms(text: str, vocabulary: Vocabulary) -> str:
    """Return the text without the document's terms: "East Africa" may be its own region."""
    for name in vocabulary.terms:
        if _names_term(text, name):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}s?\b", " ", text, flags=re.IGNORECASE)
    return text


def find_season(text: str) -> tuple[str, ...]:
    """Return the first and last day of a part of the year such as "20 December to 4 January", or nothing."""
    found = _SEASON.search(text)
    if found is None or re.search(r"\b20\d\d\b", text):
        return ()
    months = [found["month"] or found["month2"] or "", found["last_month"] or found["last_month2"] or ""]
    months[0] = months[0] or months[1]
    days = [found["day"] or found["day2"], found["last"] or found["last2"]]
    if not all((*months, *days)):
        return ()
    numbers = [_MONTHS.index(each[:3].lower()) + 1 for each in months]
    return tuple(f"{month:02}-{int(day or 1):02}" for month, day in zip(numbers, days, strict=True))


def find_weekdays(text: str) -> tuple[int, ...]:
    """Return the days of the week on which a flight leaves, if the text names days of the weekend."""
    if re.search(r"\bweekends?\b", text, re.IGNORECASE) and re.search(
        r"\bdepart|\bflight|\bfly|\boutbound|\bleav", text, re.I
    ):
        return (5, 6)
    return tuple(
        day
        for day, name in ((5, "Saturday"), (6, "Sunday"))
        if re.search(rf"\bon (?:a |an? \w+ or a )?{name}s?\b|\bor (?:a |on )?{name}s?\b", text)
    )


def find_nights(text: str) -> Range:
    """Return the nights between departure and return that the text names, or an open range."""
    found = find_range(text, r" (?:consecutive )?nights?")
    return found[0] if found and not _HOTEL.search(text) else Range()


def _find_trip(text: str) -> Basis | None:
    """Return the kind of ticket that the text is about, or None; "$90 per one-way ticket" is not one."""
    if re.search(r"[$%]|\d times", text):
        return None
    is_one_way = bool(_ONE_WAY_ONLY.search(text))
    is_return = bool(_RETURN_ONLY.search(text))
    return None if is_one_way == is_return else "one_way" if is_one_way else "round_trip"


def merge_scopes(inner: ParsedScope, outer: ParsedScope) -> ParsedScope:
    """Return the trips within both scopes; where both state the same member, the inner one counts."""
    members: dict[str, object] = {}
    for name in RuleScope.model_fields:
        own, other = getattr(inner.scope, name), getattr(outer.scope, name)
        members[name] = own if _is_stated(own) else other
    if inner.scope.hours.is_open is False or inner.scope.distance_km.is_open is False:
        members["hours"], members["distance_km"] = inner.scope.hours, inner.scope.distance_km
    return ParsedScope(
        RuleScope.model_validate(members), inner.problem or outer.problem, inner.is_other or outer.is_other
    )


def _is_stated(member: object) -> bool:
    return not member.is_open if isinstance(member, Range) else bool(member)


def find_flight_hours(text: str) -> Range:
    """Return the hours of flight that the text names, or an open range."""
    found = find_range(text, HOURS)
    if found is None:
        return Range()
    span, start, end = found
    around = text[max(0, start - 45) : end + 25]
    ends = [each for each in (span.low, span.high) if each is not None]
    if max(ends) > _FLIGHT_HOURS_MAX or _OTHER_HOURS.search(around):
        return Range()
    return span


def find_days(text: str) -> Range:
    """Return the days ahead that the text names, or an open range."""
    found = find_range(text, DAYS)
    return found[0] if found else Range()


def find_distance(text: str) -> Range:
    """Return the distance in kilometres that the text names, or an open range."""
    for unit, factor in zip(_DISTANCE, (KM_PER_MILE, Decimal(1)), strict=True):
        found = find_range(text, unit)
        if found and not re.search(r"per mile|mileage|rate|driv", text, re.IGNORECASE):
            span = found[0]
            return Range(
                low=None if span.low is None else span.low * factor,
                high=None if span.high is None else span.high * factor,
                low_included=span.low_included,
                high_included=span.high_included,
            )
    return Range()


def _names_term(text: str, name: str) -> bool:
    """Return True if the text names the term. A word that is not a usual one for trips needs its capital."""
    pattern = re.escape(name).replace(r"\-", "[- ]?").replace(r"\ ", "[- ]?")
    found = re.search(
        rf"(?<!ultra[- ])(?<![\w-]){pattern}s?\b(?! (?:sos|roaming|partner))", text, re.IGNORECASE
    )
    return found is not None and (bool(_USUAL_TERM.search(name)) or found[0][:1].isupper())


def _find_departure(text: str) -> Range:
    found = _CLOCK.search(text)
    if found and re.search(r"depart|red[- ]?eye|leav|night", text, re.IGNORECASE):
        return Range(low=Decimal(found[1]), high=Decimal(found[2]))
    return Range()


def _find_unknown_condition(text: str, scope: RuleScope, vocabulary: Vocabulary) -> str:
    """Return the words of a condition that no trip states, or an empty text."""
    for start, end in find_level_spans(text, vocabulary):
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    if found := _UNKNOWN_CONDITION.search(text):
        return found[0] if scope.departs.is_open or not _RED_EYE.search(found[0]) else ""
    for condition in _CONDITION.finditer(text):
        words = condition[1]
        if _HARMLESS.search(words) or _states_scope(words, vocabulary):
            continue
        return condition[0].strip()
    return ""


def _states_scope(words: str, vocabulary: Vocabulary) -> bool:
    """Return True if a condition's words contain a part that the scope has."""
    known = (
        find_range(words, HOURS)
        or find_range(words, DAYS)
        or find_cabins(words)
        or not find_nights(words).is_open
    )
    known = known or not find_distance(words).is_open
    return bool(
        known
        or find_terms(words, vocabulary) != RuleScope()
        or find_routes(words, vocabulary).is_stated
        or find_levels(words, vocabulary)[0]
        or re.search(r"\b(?:short|medium|long)[- ]haul|\$\d|\d ?%|\bmiles\b|\bkm\b", words, re.IGNORECASE)
    )


__all__ = [
    "ParsedScope",
    "RouteScope",
    "find_days",
    "find_flight_hours",
    "merge_scopes",
    "parse_scope",
    "replace",
]
