"""Reads the routes that a statement is about.

Domestic, international, pairs of places, a region and its exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary
from tripcortex.domain.policy_rules.regions import (
    PlaceMention,
    find_ocean_routes,
    find_places,
    get_countries,
)
from tripcortex.domain.policy_rules.rules import RoutePattern

_EXAMPLES: Final = re.compile(
    r"\((?:e\.?g\.?|for example|such as|for instance|i\.e\.)[^)]*\)|,? (?:e\.g\.|for example|such as"
    r"|for instance|think of)[^.;]*|\b(?:for orientation|in practice)\b[^.]*",
    re.IGNORECASE,
)
_DOMESTIC: Final = re.compile(r"\bdomestic(?:ally)?\b|\bin-country\b|\bnational flights?\b", re.IGNORECASE)
_INTERNATIONAL: Final = re.compile(
    r"\binternational(?:ly)?\b|\bintl\b\.?|\bcross-border\b|\boverseas\b|\babroad\b|\bleav(?:es|ing)"
    r" the (?:country|united states|us|uk|home country)\b|\bforeign (?:travel"
    r"|trips?|flights?|destinations?|journeys?)\b|\bnon-domestic\b",
    re.IGNORECASE,
)
_NOT_ROUTES: Final = re.compile(
    r"\binternational (?:sos|airport|roaming|driving|transaction|date line|business machines"
    r"|travel insurance)"
    r"|\bdomestic partner",
    re.IGNORECASE,
)
_CODES: Final = re.compile(
    r"([A-Z]\w+(?: (?:de |do |da )?[A-Z]\w+){0,2}) \((?:[A-Z][\w ]+, )?([A-Z]{3}(?:(?:, | or | and "
    r"|/)[A-Z]{3})*)\)"
)
_OCEAN: Final = re.compile(r"\btrans[- ]?(atlantic|pacific)\b", re.IGNORECASE)
_INTERCONTINENTAL: Final = re.compile(
    r"\binter-?continental\b|\b(?:different|other|another) continents?\b", re.I
)
OTHER_ROUTES: Final = re.compile(
    r"\b(?:all|any|every)?(?: ?other)(?: \w+){0,2} (?:routes?|pairs?|destinations?|flights?|countr(?:y|ies)"
    r"|trips?"
    r"|regions?"
    r"|travel|international|places?)\b|\b(?:anywhere|everywhere|elsewhere)\b(?: else)?"
    r"|\brest of (?:the )?world\b|\ball others?\b|\beverything else\b|\ball else\b"
    r"|\bother international\b|^\W*others?\W*$|\bworldwide\b|\bglobal\b|\brow\b|\brest of\b|\bremaining\b",
    re.IGNORECASE,
)
_ANYWHERE: Final = re.compile(
    r"(?:wherever|anywhere|everywhere)[^,.;]*(?:destination|go\b)|,? anywhere\W*(?::|$)", re.I
)
_EXCLUSION: Final = re.compile(
    r"\b(?:excluding|excl\.?|except(?:ing)?(?: for| to)?|other than|apart from|but not|not including"
    r"|without)\b"
    r"([^.;:)]*)",
    re.IGNORECASE,
)
_OUTSIDE: Final = re.compile(
    r"\b(?:outside|beyond|leav(?:e|es|ing)|out of)(?: of)? (?:the )?$", re.IGNORECASE
)
_WITHIN: Final = re.compile(
    r"\b(?:within|inside|intra|internal to|across|in|(?:both|(?:start|begin)(?:s|ning|ing)? and end(?:s"
    r"|ing)?) in)(?: -|-"
    r"|\s)(?:the )?"
    r"(?:contiguous |continental |same )?$",
    re.IGNORECASE,
)
_WITHIN_AFTER: Final = re.compile(r"^ (?:domestic|internal|only|regional|intra|intercity)\b", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\bbetween (?:the )?$", re.IGNORECASE)
_PAIR_LINK: Final = re.compile(
    r"^ ?(?:-|to|↔|<->|->|→|to/from|to and from|and vice versa) ?(?:the )?$", re.IGNORECASE
)
_LIST_LINK: Final = re.compile(
    r"^(?:\(|\))?(?:,|/|&|\+|\(|\))? ?\(?(?:and|or|as well as|plus|including|incl\.?|rest of|&|the|countries"
    r"|region)*,? ?(?:the )?$",
    re.IGNORECASE,
)
_ZONE_WORDS: Final = (
    "zone",
    "tier",
    "category",
    "destination group",
    "region",
    "route class",
    "route band",
    "route group",
    "cluster",
    "corridor",
)
# Trips that neither start nor end at home.
_ELSEWHERE: Final = re.compile(
    r"\bbetween (?:2|two|any) (?:points?|places?|countries|cities|destinations) (?:abroad|overseas|outside"
    r"|other than|elsewhere)"
    r"|\bneither (?:start|begin|depart|originat)|\b(?:wholly|entirely) outside|\bthird[- ]countr",
    re.IGNORECASE,
)
# "UK - rest of the world"
_REST: Final = re.compile(
    r" ?(?:-|to) ?(?:the )?(?:rest of|(?:all |any )?other|anywhere|elsewhere|everywhere)\b", re.IGNORECASE
)
_ONE_COUNTRY: Final = re.compile(
    r"\b(?:within|inside|in) (?:any other|a single|1|one|the same|another|any) (?:foreign )?country\b",
    re.IGNORECASE,
)
_CONTINENTS: Final = ("north_america", "latin_america", "europe", "africa", "asia", "oceania", "middle_east")
_RISKY: Final = re.compile(
    r"\bhigh[- ]?risk|\brestricted (?:countr|destination)|\bsanction|\bhigh[- ]cost (?:cit|dest)", re.I
)


@dataclass(frozen=True)
class RouteScope:
    """The routes of a statement. `problem` names what was not understood."""

    routes: tuple[RoutePattern, ...] = ()
    except_routes: tuple[RoutePattern, ...] = ()
    is_other: bool = False
    problem: str = ""
    # Places, and not only words such as "international", say which routes are meant.
    is_placed: bool = False

    @property
    def is_stated(self) -> bool:
        return bool(self.routes or self.except_routes or self.is_other or self.problem)


def strip_examples(text: str) -> str:
    """Return the text without examples: "(e.g. …)", "such as …"."""
    return _EXAMPLES.sub(" ", text)


def find_routes(text: str, vocabulary: Vocabulary) -> RouteScope:
    """Return the routes that normalized text names; examples in it are left out."""
    text = _CODES.sub(_drop_codes, _NOT_ROUTES.sub(" ", _EXAMPLES.sub(" ", text)))
    if _ELSEWHERE.search(text) and vocabulary.home:
        is_abroad = bool(re.search(r"countries", text, re.IGNORECASE))
        kind = (RoutePattern(is_domestic=False),) if is_abroad else ()
        return RouteScope(kind, (RoutePattern(other=(vocabulary.home,)),))
    excluded: list[RoutePattern] = []
    for clause in _EXCLUSION.finditer(text):
        excluded += [_touch(_flatten(group), vocabulary) for group in _group_places(clause[1])]
    text = _EXCLUSION.sub(" ", text)
    is_other = bool(OTHER_ROUTES.search(text)) and not _ANYWHERE.search(text)
    patterns, outside = _find_patterns(text, vocabulary)
    rest = _REST.search(text)
    groups = _group_places(text[: rest.start()]) if rest else []
    if groups:
        patterns = [RoutePattern(one=_flatten(groups[-1]), is_domestic=False)]
    coded = _find_coded(text, vocabulary)
    routes = _extend((*patterns, *coded.routes), vocabulary)
    excepted = _extend((*excluded, *outside), vocabulary)
    is_placed = any(
        route.one or route.other for route in (*patterns, *excepted)
    ) and not _INTERCONTINENTAL.search(text)
    return RouteScope(routes, excepted, is_other, coded.problem, is_placed)


def _extend(routes: tuple[RoutePattern, ...], vocabulary: Vocabulary) -> tuple[RoutePattern, ...]:
    """Return the routes with the countries that the document counts to their regions."""
    if not vocabulary.extensions:
        return routes

    def add(tokens: tuple[str, ...]) -> tuple[str, ...]:
        return (*tokens, *(more for token in tokens for more in vocabulary.extensions.get(token, ())))

    return tuple(
        route.model_copy(update={"one": add(route.one), "other": add(route.other)}) for route in routes
    )


def _drop_codes(found: re.Match[str]) -> str:
    """Return "Nairobi (NBO or WIL)" as its airports, or as it is if they are not known ones."""
    return found[2] if len(find_places(found[2])) == len(re.findall("[A-Z]{3}", found[2])) else found[0]


def _find_patterns(text: str, vocabulary: Vocabulary) -> tuple[list[RoutePattern], list[RoutePattern]]:
    """Return the routes that the text includes, and those that it leaves out with "outside"."""
    is_domestic = bool(_DOMESTIC.search(text))
    is_abroad = bool(_INTERNATIONAL.search(text))
    kind = None if is_domestic == is_abroad else is_domestic
    found: list[RoutePattern] = []
    outside: list[RoutePattern] = []
    for group in _group_places(text):
        tokens, before = _flatten(group), text[: group[0].start]
        if _OUTSIDE.search(before):
            outside.append(RoutePattern(one=tokens, other=tokens))
        elif kind is True:
            countries = tuple(token for token in tokens if len(token) == 2 or "contiguous" in token)
            found.append(RoutePattern(one=countries, other=countries or tokens, is_domestic=True))
        else:
            found.append(_read_group(text, group, vocabulary, kind))
    for ocean in _OCEAN.finditer(text):
        found += find_ocean_routes(f"trans{ocean[1].lower()}")
    if _INTERCONTINENTAL.search(text):
        found += [RoutePattern(one=(a,), other=(b,)) for a in _CONTINENTS for b in _CONTINENTS if a < b]
    if not found and _ONE_COUNTRY.search(text):
        found.append(RoutePattern(is_domestic=True))
    elif not found and kind is not None:
        found.append(RoutePattern(is_domestic=kind))
    elif not found and is_domestic and is_abroad:
        return [], outside
    return found, outside


def _read_group(
    text: str, group: list[PlaceMention], vocabulary: Vocabulary, kind: bool | None
) -> RoutePattern:
    """Return the route of places that belong together: a pair, within them, or to and from them."""
    before, after = text[: group[0].start], text[group[-1].end :]
    pair = _split_pair(text, group)
    if pair:
        ends = _flatten(pair[0]), _flatten(pair[1])
        is_abroad = kind is None and all(len(token) == 2 or token.islower() for end in ends for token in end)
        return RoutePattern(one=ends[0], other=ends[1], is_domestic=False if is_abroad else kind)
    tokens = _flatten(group)
    if _WITHIN.search(before) or _WITHIN_AFTER.match(after):
        return RoutePattern(one=tokens, other=tokens, is_domestic=kind)
    return _touch(tokens, vocabulary, kind)


def _touch(tokens: tuple[str, ...], vocabulary: Vocabulary, kind: bool | None = None) -> RoutePattern:
    """Return the route from anywhere to the places.

    Places that include the home country mean travel within them.
    """
    whole = [each for each in tokens if "/" not in each or "contiguous" in each]
    is_home = bool(vocabulary.home) and any(vocabulary.home in get_countries(each) for each in whole)
    is_part = all(len(each) == 3 or ("/" in each and "contiguous" not in each) for each in tokens)
    if is_home and not is_part and kind is not False:
        return RoutePattern(one=tokens, other=tokens)
    return RoutePattern(other=tokens, is_domestic=kind)


def _split_pair(text: str, group: list[PlaceMention]) -> tuple[list[PlaceMention], list[PlaceMention]] | None:
    """Return the two sides of a pair ("US - India", "between A and B"), or None."""
    for at in range(1, len(group)):
        link = text[group[at - 1].end : group[at].start]
        if _PAIR_LINK.match(link):
            return group[:at], group[at:]
    if len(group) > 1 and re.search(
        r"\b(?:any 2 of|any of|among) (?:the )?$", text[: group[0].start], re.IGNORECASE
    ):
        return group, group
    if len(group) > 1 and _BETWEEN.search(text[: group[0].start]):
        first = text[group[0].end : group[1].start]
        return (group[:1], group[1:]) if re.fullmatch(r" and (?:the )?", first) else (group[:-1], group[-1:])
    return None


def _group_places(text: str) -> list[list[PlaceMention]]:
    """Return the places of the text in groups that a comma, "and" or a dash joins."""
    groups: list[list[PlaceMention]] = []
    for place in find_places(text):
        link = text[groups[-1][-1].end : place.start] if groups else ""
        if groups and (_LIST_LINK.match(link) or _PAIR_LINK.match(link)):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _flatten(group: list[PlaceMention]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(token for place in group for token in place.tokens))


def _find_coded(text: str, vocabulary: Vocabulary) -> RouteScope:
    """Return the routes of a zone that the document defines; an unknown zone is a problem."""
    if risky := _RISKY.search(text):
        return RouteScope(problem=risky[0])
    routes: list[RoutePattern] = []
    for found in _compile_labels(tuple(vocabulary.terms)).finditer(text):
        term = vocabulary.terms.get(found[0].casefold())
        is_level = any(found[0].casefold() in group for group in vocabulary.levels)
        if is_level:
            continue
        if term is None:
            return RouteScope(problem=found[0])
        routes += term.routes
    return RouteScope(tuple(routes))


@cache
def _compile_labels(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Compile the pattern of labels such as "Zone 2": the usual words, and those of the document."""
    words = {*_ZONE_WORDS, *(term.rpartition(" ")[0] for term in terms if " " in term)}
    known = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True) if word)
    return re.compile(rf"\b(?:{known}) (?:[A-H]\b|\d{{1,2}}\b|I{{1,3}}\b|IV\b|VI?\b)", re.IGNORECASE)
