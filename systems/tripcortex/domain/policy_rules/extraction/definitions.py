"""Collects what a document defines.

Levels, kinds of flight, zones, the home country, and the basis of its amounts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.carriers import find_carriers
from tripcortex.domain.policy_rules.extraction.fares import find_basis
from tripcortex.domain.policy_rules.extraction.route_scopes import find_routes
from tripcortex.domain.policy_rules.extraction.scopes import find_distance, find_flight_hours
from tripcortex.domain.policy_rules.extraction.statements import Block
from tripcortex.domain.policy_rules.extraction.vocabulary import Term, Vocabulary, is_title, normalize_level
from tripcortex.domain.policy_rules.extraction.wording import normalize
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Basis, RoutePattern

_HAUL: Final = re.compile(r"\b(ultra[- ]long|short|medium|mid|long)[- ]haul\b", re.IGNORECASE)
_DEFINES: Final = re.compile(
    r"\bmeans?\b|\bdefined\b|\brefers? to\b|\bis any\b|\bare (?:any|all|those)\b|\bis a flight"
    r"|\bflights? (?:of|that)|[=:(]| - ",
    re.I,
)
_HOME: Final = re.compile(
    r"\b(?:domestic|within|inside|contiguous|continental|internal|based in|headquartered in|in-country)\b",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(r"^\W*([A-Z][a-z]{2,}(?: [a-z]+)?) ([A-H]|\d{1,2}|I{1,3}|IV|VI?)(?![\w.]|,\d)")
_ROUTE_TERM: Final = re.compile(
    r'^\W*(?:in this (?:policy|document|standard),? )?"([A-Za-z][\w -]{2,30})"'
    r"(?: (?:flights?|travel|trips?|routes?|journeys?))?(?: (?:means?|refers? to|is|are)|:| -) ",
    re.IGNORECASE,
)
_NOT_LABELS: Final = frozenset(
    "section appendix annex annexure table part article chapter schedule circular version revision page "
    "issue rule step"
    " level january february march april may june july august september october november december figure"
    " note".split()
)
_LEVEL_NAMES: Final = re.compile(r"\b[A-Z]{1,3}\d{1,2}\b")
LEVEL_HEADER: Final = re.compile(
    r"\b(?:levels?|grades?|bands?|roles?|titles?|employees?|employee groups?|groups?|positions?"
    r"|designations?|seniority|staff|job|tiers?"
    r"|categor(?:y|ies) of (?:employee|staff)|travell?ers?|who)\b",
    re.IGNORECASE,
)
_NOT_LEVELS: Final = frozenset("above below higher up over other all any include".split())
_CAP_BASIS: Final = re.compile(
    r"\b(?:caps?|ceilings?|limits?|amounts?|fares?|allowances?|maximum|budgets?)\b[^.]*", re.IGNORECASE
)
_ONE_WAY_PART: Final = re.compile(
    r"\bone[- ]way\b[^.]*?(?:(\d+)% of|(half|half of|1 half) )|(?:(\d+)%|(half))[^.]*\bone[- ]way\b",
    re.IGNORECASE,
)


def build_vocabulary(blocks: Sequence[Block]) -> Vocabulary:
    """Return what the document defines for itself."""
    texts = [normalize(sentence) for block in blocks if block.kind != "table" for sentence in block.sentences]
    home = _find_home([*texts, *(normalize(cell) for block in blocks for row in block.rows for cell in row)])
    bare = Vocabulary(home=home)
    terms = {
        **dict(_find_hauls(texts)),
        **dict(_find_zones(blocks, texts, bare)),
        **dict(_find_route_terms(texts, bare)),
    }
    return Vocabulary(
        home,
        terms,
        _find_levels(blocks),
        _find_basis(texts),
        _find_one_way_part(texts),
        dict(_find_carrier_terms(blocks)),
    )


def _find_home(texts: Iterable[str]) -> str:
    """Return the country whose inland travel the document speaks of, or the one named most often."""
    inland: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for text in texts:
        for place in find_places(text):
            countries = [
                token.partition("/")[0] for token in place.tokens if len(token) == 2 or "/contiguous" in token
            ]
            named.update(countries[:1])
            around = text[max(0, place.start - 28) : place.end + 14]
            if countries and _HOME.search(around):
                inland[countries[0]] += 1
    best = inland.most_common(1) or [each for each in named.most_common(1) if each[1] > 2]
    return best[0][0] if best else ""


def _find_hauls(texts: Iterable[str]) -> Iterator[tuple[str, Term]]:
    """Yield the document's own meaning of short, medium and long haul."""
    for text in texts:
        for found in _HAUL.finditer(text):
            after = re.split(r"[.;]", text[found.start() : found.start() + 140])[0]
            stop = _HAUL.search(after[found.end() - found.start() :])
            after = after[: stop.start() + found.end() - found.start()] if stop else after
            hours, distance = find_flight_hours(after), find_distance(after)
            if (
                _DEFINES.search(after)
                and not (hours.is_open and distance.is_open)
                and "@" not in after
                and "$" not in after
            ):
                yield f"{found[1].lower().replace(' ', '-')}-haul", Term(hours=hours, distance_km=distance)


def _find_route_terms(texts: Iterable[str], bare: Vocabulary) -> Iterator[tuple[str, Term]]:
    """Yield the routes that a sentence defines by a term: "Regional" means flights within Scandinavia."""
    earlier: tuple[RoutePattern, ...] = ()
    for text in texts:
        found = _ROUTE_TERM.match(text)
        if not found or "$" in text or "@" in text:
            continue
        routes = find_routes(text[found.end() :], bare)
        if routes.problem or not (routes.routes or routes.is_other):
            continue
        excepted = (*routes.except_routes, *(earlier if routes.is_other else ()))
        yield found[1].strip().casefold(), Term(routes=routes.routes, except_routes=excepted)
        earlier = (*earlier, *routes.routes)


def _find_zones(
    blocks: Sequence[Block], texts: Iterable[str], bare: Vocabulary
) -> Iterator[tuple[str, Term]]:
    """Yield the zones that a table or a sentence defines by their places, such as "Zone 2"."""
    lines = [" : ".join(normalize(cell) for cell in row) for block in blocks for row in block.rows[1:]]
    for line in [*texts, *lines]:
        found = _LABEL.match(line)
        if not found or found[1].casefold() in _NOT_LABELS or "$" in line or "@" in line:
            continue
        routes = find_routes(line[found.end() :], bare)
        if routes.routes and not routes.problem:
            yield f"{found[1]} {found[2]}".casefold(), Term(routes=routes.routes)


# --- levels -------------------------------------------------------------------------------------------------


def _find_levels(blocks: Sequence[Block]) -> tuple[tuple[str, ...], ...]:
    """Return the levels of the longest table or list of levels, the lowest first."""
    tables = [_read_level_table(block) for block in blocks if block.kind == "table"]
    return max([_read_level_list(blocks), *tables], key=len, default=())


def _read_level_list(blocks: Sequence[Block]) -> tuple[tuple[str, ...], ...]:
    """Return the levels that sentences define by their codes: "Tier I is JL1, JL2 and JL3"."""
    groups: list[tuple[str, ...]] = []
    for block in blocks:
        for sentence in block.sentences if block.kind in ("item", "paragraph") else ():
            label = _LABEL.match(sentence)
            codes = _LEVEL_NAMES.findall(sentence[label.end() :]) if label else []
            if label and len(codes) > 1 and label[1].casefold() not in _NOT_LABELS:
                name = normalize_level(f"{label[1]} {label[2]}")
                groups.append((name, *(normalize_level(code) for code in codes)))
    return tuple(groups)


def _read_level_table(block: Block) -> tuple[tuple[str, ...], ...]:
    if len(block.rows) < 3 or not LEVEL_HEADER.search(block.rows[0][0]):
        return ()
    has_titles = len(block.rows[0]) > 1 and bool(
        re.search(
            r"title|designation|description|role|who|includes|example|position",
            block.rows[0][1],
            re.IGNORECASE,
        )
    )
    groups = [
        _list_names(row[0]) + (_list_names(row[1]) if has_titles and len(row) > 1 else ())
        for row in block.rows[1:]
    ]
    if has_titles or all(len(group) == 1 for group in groups):
        return _order([group for group in groups if group])
    return _order([(name,) for group in groups for name in group])


def _list_names(cell: str) -> tuple[str, ...]:
    parts = re.split(r"\s*(?:,|/|;|\band\b|\bor\b|&|\()\s*", cell.replace(")", ""))
    return tuple(
        dict.fromkeys(
            name
            for part in parts
            if (name := normalize_level(part)) and len(name) < 40 and name not in _NOT_LEVELS
        )
    )


def _order(groups: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return the groups with the lowest level first: by number, or by the known ranks of titles."""
    ranks = [_rank(group) for group in groups]
    known = [rank for rank in ranks if rank is not None]
    is_falling = len(known) > 1 and known[0] > known[-1]
    return tuple(reversed(groups)) if is_falling else tuple(groups)


def _rank(group: tuple[str, ...]) -> int | None:
    """Return the rank of a level's titles, or its number."""
    ladder = Vocabulary()
    for name in group:
        if is_title(name) and not re.search(r"\d|\b[a-h]$", name):
            below = ladder.list_levels_from(name, is_upward=False)
            return 100 + len(below or ())
    numbers = [int(found[0]) for name in group if (found := re.search(r"\d+", name))]
    return numbers[0] if numbers else None


def _find_carrier_terms(blocks: Sequence[Block]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the kinds of airlines that a definition lists: "Flag carrier. … Examples: Delta, United"."""
    for block in blocks:
        found = re.match(r"^\W*([\w. ]{0,30}?\b(?:carriers?|airlines?))\b[.:]?", block.text, re.IGNORECASE)
        carriers = find_carriers(block.text) if found and block.kind != "table" else ()
        if found and len(carriers) > 1:
            yield found[1].casefold().removesuffix("s"), carriers


# --- amounts ------------------------------------------------------------------------------------------------


def _find_basis(texts: Iterable[str]) -> Basis | None:
    """Return the basis that sentences about all caps name, if it is always the same."""
    found = {
        basis
        for text in texts
        if _CAP_BASIS.search(text)
        and not re.search(r"\$\d|%|hotel|night", text)
        and (basis := find_basis(text))
    }
    return next(iter(found)) if len(found) == 1 else None


def _find_one_way_part(texts: Iterable[str]) -> Decimal | None:
    """Return the percentage of a round trip's cap that a one-way ticket may cost."""
    for text in texts:
        found = _ONE_WAY_PART.search(text)
        if found and _CAP_BASIS.search(text):
            percent = found[1] or found[3]
            return Decimal(percent) if percent else Decimal(50)
    return None
