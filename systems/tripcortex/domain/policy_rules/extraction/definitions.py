"""Collects what a document defines: levels, kinds of trips, zones, authorities, and amounts.

A definition is a name with a body: a row of a table, an item "Name: body", or a sentence "Name means body".
What its body is made of says what it defines: places and distances a kind of trip, titles a level, a role an
authority.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import find_roles, is_about_approval
from tripcortex.domain.policy_rules.extraction.carriers import find_carriers
from tripcortex.domain.policy_rules.extraction.currencies import find_money
from tripcortex.domain.policy_rules.extraction.fares import find_basis
from tripcortex.domain.policy_rules.extraction.route_scopes import find_routes
from tripcortex.domain.policy_rules.extraction.scopes import find_distance, find_flight_hours, find_terms
from tripcortex.domain.policy_rules.extraction.statements import Block
from tripcortex.domain.policy_rules.extraction.vocabulary import (
    OUTSIDE_LADDER,
    Vocabulary,
    is_title,
    list_titles,
    normalize_level,
)
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK, normalize
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Basis, RoutePattern, RuleScope

MAX_NAME_WORDS: Final = 5
_NAME: Final = r"[\"'*_]*(?P<name>[A-Za-zÀ-ÿ][\w&/' -]{0,40}?)[\"'*_]*(?: \([^)]{1,40}\))?"
_SENTENCE: Final = re.compile(
    rf"^(?:in (?:this|these) [\w ]+, |for (?:the purposes? of )?this \w+,? )?(?:an? |the |all )?{_NAME}"
    r"(?: (?P<kind>travel|trips?|flights?|routes?|journeys?))?"
    r"(?P<link>\s*[:=]\s*|\s+-\s+|\.\s+|,? (?:means?|is|are|covers?|comprises?|includes?|refers to"
    r"|consists? of|contains?) "
    r"(?:that |those |the (?:destinations?|countries) )?)(?P<body>\S.*)$",
    re.IGNORECASE,
)
# "A trip is domestic if it begins and ends in …"
_IF: Final = re.compile(
    r"^(?:an? |any |all )?(?:trips?|flights?|journeys?|routes?|travel) (?:is|are|counts? as|(?:is|are)"
    r" (?:called|considered"
    r"|treated as|deemed)) [\"'*_]*(?P<name>[A-Za-z][\w -]{2,24}?)[\"'*_]*(?: trips?| flights?)?,?"
    r" (?:if|when|where|whenever) (?P<body>.+)$",
    re.IGNORECASE,
)
# "A short journey is one of up to three hours"
_ONE_OF: Final = re.compile(
    r"^an? (?P<name>(?:[a-z-]+ ){1,2}(?:journey|trip|flight|route|haul))s? (?:is|means) (?:one|a flight"
    r"|a journey|a trip|any(?: flight)?) (?P<body>(?:of|that|where|with|lasting|which|taking).+)$",
    re.IGNORECASE,
)
_REST: Final = re.compile(
    r"^(?:everything else|anything else|all (?:the )?(?:other|others|rest|remaining)|any other|every"
    r" other|the rest|others?)\b"
    r"[^.]*?\b(?:is|are|counts? as) [\"'*_]*(?P<name>[A-Za-z][\w -]{2,24}?)[\"'*_]*\W*$",
    re.IGNORECASE,
)
_COUNTS_AS: Final = re.compile(
    r"^(?P<places>[^.;:]*?)\b(?:counts?|treated|regarded|considered|belongs?|(?:is|are) (?:also"
    r" )?(?:part of|in))\b[^.;]*?"
    r"\b(?:as|to|of|in|with)? ?(?:part of )?(?P<region>[A-Z][\w -]+?)\b(?: for [^.;]*)?[.;]?$"
)
_NEITHER: Final = re.compile(
    r"\bneither (?:in|to|within) (?:the )?(.+?) nor (?:in|to|within)?(?: the)? ?(.+)$", re.IGNORECASE
)
_CABIN_CODE: Final = re.compile(r"\b([A-Z]{1,2})\"? (?:means?|is|=|stands for|for|:) \"?(@[EPBF])(?!\w)")
_HAUL: Final = re.compile(r"\b(ultra[- ]long|short|medium|mid|long)[- ]haul\b", re.IGNORECASE)
_DEFINES: Final = re.compile(
    r"\bmeans?\b|\bdefined\b|\brefers? to\b|\bis any\b|\bare (?:any|all|those)\b|\bis a flight|\bcounts"
    r" as\b|\bcovers\b"
    r"|\bflights? (?:of|that)|[=:(]| - ",
    re.I,
)
_HOME: Final = re.compile(
    r"\b(?:domestic|within|inside|contiguous|continental|internal|based in|headquartered in|in-country"
    r"|lie in|ends? in)\b",
    re.IGNORECASE,
)
# The names that are words: they name a kind of trip in any case.
_KINDS: Final = re.compile(
    r"^(?:domestic|national|inland|international|intercontinental|continental|regional|local|overseas"
    r"|abroad|foreign"
    r"|cross-border|short[- ]hops?|(?:near|far)[- ]?(?:by|shore)?|internal|transcontinental)$",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(r"^[A-Za-zÀ-ÿ][\w -]* (?:[A-H]|\d{1,2}|I{1,3}|IV|VI?)$")
_NOT_NAMES: Final = re.compile(
    r"^(?:para(?:graph)?|clause|section|appendix|annex|annexure|table|part|article|chapter|schedule"
    r"|circular|version|revision|page|issue|rule"
    r"|step|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|figure|note|this"
    r"|that|it|there|they|we|you|these|those|he|she|economy|(?:business|first|premium)(?: class|"
    r" economy)?$|coach|approv\w*|question|answer"
    r"|what|who|which|where|when|how|our \w+)\b",
    re.IGNORECASE,
)
LEVEL_HEADER: Final = re.compile(
    r"\b(?:levels?|grades?|bands?|roles?|titles?|employees?|employee groups?|groups?|positions?|crew"
    r"|colleagues?"
    r"|designations?|seniority|staff|job|tiers?|ranks?|workforce|persons?|people|members?"
    r"|categor(?:y|ies)(?: of (?:employee|staff|travell?er)s?)?|travell?ers?|who)\b",
    re.IGNORECASE,
)
_PEOPLE: Final = re.compile(
    r"\b(?:employees?|staff|personnel|workers?|people|persons?|travell?ers?|everyone|everybody"
    r"|colleagues?|members?"
    r"|team|associates?|those|all others|hands|crew|physicians?|nurses?|engineers?|technicians?"
    r"|assistants?)\b",
    re.IGNORECASE,
)
_STRONG_PEOPLE: Final = re.compile(
    r"(?:an?|any|all|every|the|those)? ?(?:other )?(?:employees?|members?|persons?|staff|everyone"
    r"|workers?|people)\b",
    re.IGNORECASE,
)
_ORDINARY: Final = re.compile(
    r"\b(?:all|any|every(?:body|one)?)\b[^.;]{0,30}?\b(?:other|else|not (?:named|listed|belong"
    r"|mentioned|a|in)|who do(?:es)? not|who (?:is|are) not"
    r"|below|except)|\bnot (?:named|listed|mentioned) (?:below|above|elsewhere)|\bstandard\b|\ball"
    r" (?:other )?(?:employees|staff)\b",
    re.IGNORECASE,
)
_HEADING_LABEL: Final = re.compile(r"^([A-Z]?\d+(?:\.\d+)*|[A-Z])[.): ]")
_LEVEL_CODES: Final = re.compile(r"\b[A-Z]{1,3}\d{1,2}\b")
_NOT_LEVELS: Final = frozenset("above below higher up over other all any include and the not".split())
_CAP_BASIS: Final = re.compile(
    r"\b(?:caps?|ceilings?|limits?|amounts?|fares?|allowances?|maximum|budgets?|prices?|sums?"
    r"|figures?)\b[^.]*|^all of these\b",
    re.IGNORECASE,
)
_ONE_WAY_PART: Final = re.compile(
    r"\bone[- ]way\b[^.]*?(?:(\d+)% of|(half|half of|1 half)|\b(\d+)%)|(?:(\d+)%|(half))[^.]*\bone[- ]way\b",
    re.IGNORECASE,
)
_LIST_NAME: Final = re.compile(
    r"\b(?:list|countries|destinations?|zone|area|jurisdictions|territories|places|group)s?\b", re.I
)
_RULE_WORDS: Final = re.compile(
    r"\$\d|¤\d|@[EPBF]|%|\d days|\b(?:must|shall|may|can|cannot|prohibit\w*|forbidden|permitted|allowed"
    r"|book|booked|"
    r"reimburs\w*|nobody|never|paid)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Definition:
    """A name with the words that define it, in normalized form, and the context in which they stand."""

    name: str
    body: str
    about: str = ""


def build_vocabulary(blocks: Sequence[Block]) -> Vocabulary:
    """Return what the document defines for itself."""
    originals = [block.text for block in blocks]
    money = find_money(originals)
    texts = [normalize(sentence) for block in blocks if block.kind != "table" for sentence in block.sentences]
    cells = [normalize(cell) for block in blocks for row in block.rows for cell in row]
    definitions = [*_find_definitions(blocks)]
    levels, base = _find_levels(definitions, blocks)
    bare = Vocabulary(
        home=_find_home([*texts, *cells]),
        levels=levels,
        base=base,
        money=money,
        extensions=dict(_find_extensions(texts)),
    )
    named = _find_terms(definitions, bare)
    # Some definitions name others that come later.
    terms = {each.name.casefold(): scope for each, scope in named}
    named = _find_terms(definitions, replace(bare, terms=terms))
    terms = {**dict(_find_hauls(texts)), **{each.name.casefold(): scope for each, scope in named}}
    return replace(
        bare,
        terms=terms,
        basis=_find_basis(texts),
        one_way_percent=_find_one_way_part(texts),
        carriers=dict(_find_carrier_terms(blocks)),
        aliases=(aliases := dict(_find_aliases(definitions, terms))),
        cabin_codes={
            found[1]: found[2]
            for text in texts
            for found in _CABIN_CODE.finditer(normalize(text, is_cell=True))
        },
        defined=frozenset(
            [*(each.body for each, _ in named), *_list_other_bodies(definitions, aliases, levels)]
        ),
    )


def _list_other_bodies(
    definitions: Iterable[Definition], aliases: dict[str, str], levels: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    """Yield the bodies of the definitions of levels and authorities: they are not rules."""
    open_groups = {group[0] for group in levels if len(group) > 1}
    for each in definitions:
        level = normalize_level(each.name)
        is_word = each.name in aliases or each.name.casefold() in aliases or level in open_groups
        open_groups.discard(level)
        if is_word and not _RULE_WORDS.search(each.body) and len(each.body) > 3:
            yield each.body


# --- definitions --------------------------------------------------------------------------------------------


def _find_definitions(blocks: Sequence[Block]) -> Iterator[Definition]:
    """Yield the definitions of the document in reading order."""
    for block in blocks:
        about = " : ".join([*block.sections[-1:], block.lead])
        if block.kind == "table":
            yield from _read_table(block, about)
        elif block.kind in ("item", "paragraph"):
            yield from _read_text(block, about)
            yield from _read_list(block, about)


def _read_table(block: Block, about: str) -> Iterator[Definition]:
    """Yield a definition for each row: the first cell is the name, the second the body."""
    header = " : ".join(block.rows[0]) if block.rows else ""
    for row in block.rows[1:]:
        cells = [normalize(cell) for cell in row]
        if len(cells) > 1 and 0 < len(cells[0].split()) <= MAX_NAME_WORDS and cells[1]:
            yield Definition(cells[0].strip(" *_\"'."), cells[1], f"{about} : {header}")


def _read_text(block: Block, about: str) -> Iterator[Definition]:
    """Yield the definitions that the sentences of a block are."""
    whole = normalize(_drop_number(block.text))
    sentences = [normalize(_drop_number(each)) for each in block.sentences]
    named = [whole] if _SENTENCE.match(whole) and _SENTENCE.match(whole)["link"].startswith(".") else []  # type: ignore[index]
    for text in [*named, *sentences]:
        for pattern in (_IF, _ONE_OF, _REST, _SENTENCE):
            found = pattern.match(text)
            if found and not _NOT_NAMES.match(found["name"]) and len(found["name"].split()) <= MAX_NAME_WORDS:
                body = found["body"] if "body" in found.re.groupindex else "all other trips"
                yield Definition(found["name"].strip(" *_\"'"), body, about)
                break


def _read_list(block: Block, about: str) -> Iterator[Definition]:
    """Yield the list of places that a numbered section consists of: "list G2"."""
    label = _HEADING_LABEL.match(block.section or "")
    places = find_places(block.text)
    words = re.sub("|".join(re.escape(place.words) for place in places) or "$", " ", block.text)
    if label and len(places) > 1 and not re.search(r"[a-z]{4,}", words):
        yield Definition(f"List {label[1]}", normalize(block.text), about)


def _drop_number(text: str) -> str:
    return re.sub(r"^\(?(?:\d+(?:\.\d+)+\.?|\d+[.)]|[A-Z][.-]?\d+(?:\.\d+)*\.?|[a-z][.)])\s+(?=\S)", "", text)


# --- kinds of trips -----------------------------------------------------------------------------------------


def _find_terms(definitions: Iterable[Definition], bare: Vocabulary) -> list[tuple[Definition, RuleScope]]:
    """Return the definitions of names for places, routes, hours or distances, with their scopes."""
    terms: dict[str, tuple[Definition, RuleScope]] = {}
    family: list[RuleScope] = []
    about = ""
    for each in definitions:
        if each.about != about:
            about, family = each.about, []
        name = each.name.casefold()
        if name in terms or not _is_trip_name(each) or _RULE_WORDS.search(each.body):
            continue
        scope = _read_trip_body(each, bare, family)
        if scope is not None:
            terms[name] = each, scope
            family.append(scope)
    return list(terms.values())


def _is_trip_name(each: Definition) -> bool:
    """Return True if the name is a kind of trip, a label with a number, or a list of places."""
    name = each.name
    if re.search(r" (?:journey|trip|flight|route|haul)$", name):
        return True
    if find_places(name) and re.search(r"\b(?:flights?|trips?|other|routes?|journeys?)\b", each.body):
        return True
    is_titled = name[:1].isupper() and not is_title(name)
    return bool(_KINDS.match(name) or (is_titled and (_LABEL.match(name) or _LIST_NAME.search(name)))) or (
        is_titled
        and bool(re.search(r"\b(?:zone|area|destination|haul|region|kind of|route)", each.about, re.I))
    )


def _read_trip_body(each: Definition, bare: Vocabulary, family: Sequence[RuleScope]) -> RuleScope | None:
    """Return the scope of a definition's body, or None if it has none."""
    if find_carriers(each.body):
        return None
    neither = _NEITHER.search(each.body)
    if neither:
        inside = [
            find_routes(f"within {part}", bare).routes or find_terms(part, bare).routes
            for part in neither.groups()
        ]
        return (
            RuleScope(except_routes=tuple(route for routes in inside for route in routes))
            if all(inside)
            else None
        )
    body = re.sub(r"\b(?:including|incl\.) (?=[A-Z])", "and ", each.body)
    hours, distance = find_flight_hours(body), find_distance(body)
    if re.search(
        r"\blist\b|\bcountries\b|\bdestinations\b|\bjurisdictions\b", each.name, re.I
    ) and find_places(body):
        tokens = tuple(dict.fromkeys(token for place in find_places(body) for token in place.tokens))
        return RuleScope(routes=(RoutePattern(other=tokens),))
    routes = find_routes(body, bare)
    is_other = routes.is_other or bool(
        re.match(r"(?:any|all|every) (?:the )?other|(?:the )?(?:rest|remainder)\b", body, re.IGNORECASE)
    )
    if is_other and routes.routes and family:
        excepted = tuple(dict.fromkeys(route for scope in family for route in scope.routes))
        return RuleScope(routes=routes.routes, except_routes=excepted)
    if is_other and not routes.routes:
        excepted = tuple(dict.fromkeys(route for scope in family for route in scope.routes))
        return RuleScope(except_routes=excepted) if excepted else None
    own = find_terms(re.sub(re.escape(each.name), " ", body, flags=re.IGNORECASE), bare)
    if own.routes and not routes.is_placed and not is_other:
        return own
    if routes.problem or not (
        routes.routes or routes.except_routes or not hours.is_open or not distance.is_open
    ):
        return None
    return RuleScope(
        routes=routes.routes, except_routes=routes.except_routes, hours=hours, distance_km=distance
    )


def _find_hauls(texts: Iterable[str]) -> Iterator[tuple[str, RuleScope]]:
    """Yield the document's own meaning of short, medium and long haul."""
    for text in texts:
        for found in _HAUL.finditer(text):
            after = re.split(r"[.;]", text[found.start() : found.start() + 140])[0]
            stop = _HAUL.search(after[found.end() - found.start() :])
            after = after[: stop.start() + found.end() - found.start()] if stop else after
            hours, distance = find_flight_hours(after), find_distance(after)
            is_stated = not (hours.is_open and distance.is_open)
            if _DEFINES.search(after) and is_stated and "@" not in after and "$" not in after:
                yield (
                    f"{found[1].lower().replace(' ', '-')}-haul",
                    RuleScope(hours=hours, distance_km=distance),
                )


def _find_extensions(texts: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the regions to which the document counts further countries: "Turkey counts as Europe"."""
    for text in texts:
        found = _COUNTS_AS.match(text)
        places = find_places(found["places"]) if found else []
        regions = find_places(found["region"]) if found else []
        if places and len(regions) == 1 and regions[0].tokens[0].islower():
            yield regions[0].tokens[0], tuple(token for place in places for token in place.tokens)


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


# --- levels -------------------------------------------------------------------------------------------------


def _find_levels(
    definitions: Sequence[Definition], blocks: Sequence[Block]
) -> tuple[tuple[tuple[str, ...], ...], frozenset[str]]:
    """Return the levels of the longest list or table of levels, the lowest first, and the ordinary one."""
    families: dict[str, list[Definition]] = {}
    for each in definitions:
        families.setdefault(each.about, []).append(each)
    ladders = [_read_ladder(family) for family in families.values()]
    ladders += [_read_matrix(block) for block in blocks if block.kind == "table"]
    groups = max(ladders, key=len, default=[])
    if not groups:
        return (), frozenset()
    ordered = _order([names for names, _ in groups])
    plain = [names for names, is_ordinary in groups if is_ordinary]
    regular = [names for names in ordered if not set(names) <= OUTSIDE_LADDER] or [*ordered]
    return ordered, frozenset(plain[0] if plain else regular[0])


def _read_ladder(family: Sequence[Definition]) -> list[tuple[tuple[str, ...], bool]]:
    """Return the names of each level that a list or table defines, and whether it is the ordinary one."""
    about = family[0].about
    groups: list[tuple[tuple[str, ...], bool]] = []
    is_people = 0
    for each in family:
        is_people += bool(
            _PEOPLE.search(each.body) or _list_titles(each.body) or _LEVEL_CODES.search(each.body)
        )
        is_plain = (
            not _RULE_WORDS.search(each.body) and not find_places(each.body) and not find_places(each.name)
        )
        if is_plain and each.name[:1].isupper() and len(each.name.split()) <= 3:
            names = (normalize_level(each.name), *_list_names(each.body))
            groups.append((tuple(dict.fromkeys(names)), bool(_ORDINARY.search(each.body))))
    strong: list[tuple[tuple[str, ...], bool]] = [
        ((normalize_level(each.name),), bool(_ORDINARY.search(each.body)))
        for each in family
        if _STRONG_PEOPLE.match(each.body) and each.name[:1].isupper() and not _RULE_WORDS.search(each.body)
    ]
    if len(strong) > 1 and any(is_ordinary for _, is_ordinary in strong):
        return strong
    is_list = len(groups) > 1 and len(groups) >= len(family) / 2 and is_people * 2 >= len(groups)
    titled = sum(is_title(names[0]) for names, _ in groups)
    is_about = LEVEL_HEADER.search(about) or all(_LABEL.match(each.name) for each in family) or titled > 1
    return groups if is_list and is_about else []


def _read_matrix(block: Block) -> list[tuple[tuple[str, ...], bool]]:
    """Return the levels of a table that has one in each row, without a definition."""
    if len(block.rows) < 3 or not LEVEL_HEADER.search(block.rows[0][0]):
        return []
    names = [name for row in block.rows[1:] for name in _list_names(row[0])]
    is_placed = any(find_places(row[0]) or _RULE_WORDS.search(normalize(row[0])) for row in block.rows[1:])
    known = [name for name in names if is_title(name) or re.search(r"\d|\b[a-h]$", name)]
    return [((name,), False) for name in dict.fromkeys(names)] if known and not is_placed else []


def _list_titles(text: str) -> list[str]:
    folded = text.casefold()
    return [
        title for title in list_titles() if len(title) > 3 and re.search(rf"\b{re.escape(title)}s?\b", folded)
    ]


def _list_names(cell: str) -> tuple[str, ...]:
    """Return the names of levels in a cell: titles and codes, without sentences about people."""
    parts = re.split(r"\s*(?:,|/|;|:|\band\b|\bor\b|&|\(|\.)\s*", cell.replace(")", ""))
    found = []
    for part in parts:
        name = normalize_level(
            re.sub(r"^(?:the|all|including|includes?|our|members? of the) ", "", part.strip(), flags=re.I)
        )
        is_name = 0 < len(name) < 40 and len(name.split()) <= 4 and name not in _NOT_LEVELS
        if is_name and not re.search(
            r"\b(?:not|who|do|does|is|are|on|our|be?long|group|everybody|everyone)\b", name
        ):
            found.append(name)
    return tuple(dict.fromkeys(found))


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
        if is_title(name) and not re.search(r"\d|\b[a-h]$|^(?:executive|associate|staff|principal)$", name):
            below = ladder.list_levels_from(name, is_upward=False)
            return 100 + len(below or ())
    numbers = [int(found[0]) for name in group if (found := re.search(r"\d+", name))]
    return numbers[0] if numbers else None


# --- airlines and authorities -------------------------------------------------------------------------------


def _find_carrier_terms(blocks: Sequence[Block]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the kinds of airlines that a definition lists: "Flag carrier. … Examples: Delta, United"."""
    for block in blocks:
        found = re.match(r"^\W*([\w. ]{0,30}?\b(?:carriers?|airlines?))\b[.:]?", block.text, re.IGNORECASE)
        carriers = find_carriers(block.text) if found and block.kind != "table" else ()
        if found and len(carriers) > 1:
            yield found[1].casefold().removesuffix("s"), carriers


def _find_aliases(
    definitions: Iterable[Definition], terms: dict[str, RuleScope]
) -> Iterator[tuple[str, str]]:
    """Yield the document's own words with what they stand for: authorities, and one direction of a trip."""
    for each in definitions:
        is_named = bool(_LABEL.match(each.name)) and each.name.casefold() not in terms
        roles = find_roles(each.body)
        if is_named and roles and is_about_approval(each.about) and not _RULE_WORDS.search(each.body):
            yield each.name, f"approval of the {' and '.join(roles)}"
        is_amount = _CAP_BASIS.match(each.name)
        if (
            not is_amount
            and re.search(r"\b(?:in 1|in one|one|single) (?:direction|way)\b", each.body)
            and len(each.name.split()) == 1
        ):
            yield each.name.casefold(), "one way"


# --- amounts ------------------------------------------------------------------------------------------------


def _find_basis(texts: Iterable[str]) -> Basis | None:
    """Return the basis that sentences about all caps name, if it is always the same."""
    found = {
        basis
        for text in texts
        if _CAP_BASIS.search(text)
        and not re.search(r"\$\d|%|hotel|night|\bbag", text)
        and not CABIN_MARK.search(text)
        and (basis := find_basis(text))
    }
    return next(iter(found)) if len(found) == 1 else None


def _find_one_way_part(texts: Iterable[str]) -> Decimal | None:
    """Return the percentage of a round trip's cap that a one-way ticket may cost."""
    for text in texts:
        found = _ONE_WAY_PART.search(text)
        if found and _CAP_BASIS.search(text) and "over" not in text:
            percent = found[1] or found[3] or found[4]
            return Decimal(percent) if percent else Decimal(50)
    return None
