"""Places of policy texts as tokens, and the airports that belong to them.

A token is a country (`US`), a state (`US/Hawaii`), an airport (`JFK`), or a region of `regions.csv`
(`europe`).
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from tripcortex.domain.planner.gazetteer import get_airport, is_served, read_table
from tripcortex.domain.policy_rules.rules import RoutePattern

# Abbreviations in capitals that are also airports.
_NOT_AIRPORTS: Final = frozenset(
    "ACH ADD ALL AND ANY API APP CEO CFO CIO COO CTO CSR CSV DAY DOC DOM END EST EUR FAQ FAR FAX FEE FOR "
    "GBP GDS GSA"
    " HAS HRS ICT IDS INR INT IRS ITA JPY LED LLC LTD MAX MIN MON MUST NET NEW NON NOT OFF ONE OUR PDF PER "
    "POS PRE"
    " PST REF RFP ROI SAP SEE SLA SUN TAX TBD THE THU TMC TSA TUE USD USE VAT VIP VIS VPN WED YES YOU".split()
)
_CASED_ALIASES: Final = {
    "US": "US",
    "U.S.": "US",
    "USA": "US",
    "U.S.A.": "US",
    "UK": "GB",
    "U.K.": "GB",
    "UAE": "AE",
    "U.A.E.": "AE",
    "DRC": "CD",
    "PRC": "CN",
    "KSA": "SA",
    "DPRK": "KP",
    "ROK": "KR",
}
_STATE_PARTS: Final = {
    "50 states": "US",
    "fifty states": "US",
    "conus": "US/contiguous",
    "48 contiguous states": "US/contiguous",
    "contiguous states": "US/contiguous",
    "contiguous united states": "US/contiguous",
    "contiguous us": "US/contiguous",
    "lower 48": "US/contiguous",
    "lower 48 states": "US/contiguous",
    "continental us": "US/contiguous",
    "continental united states": "US/contiguous",
}
_DEMONYMS: Final = {
    "american": "US",
    "canadian": "CA",
    "mexican": "MX",
    "british": "GB",
    "irish": "IE",
    "french": "FR",
    "german": "DE",
    "spanish": "ES",
    "portuguese": "PT",
    "italian": "IT",
    "dutch": "NL",
    "belgian": "BE",
    "swiss": "CH",
    "austrian": "AT",
    "danish": "DK",
    "swedish": "SE",
    "norwegian": "NO",
    "finnish": "FI",
    "polish": "PL",
    "czech": "CZ",
    "hungarian": "HU",
    "romanian": "RO",
    "greek": "GR",
    "turkish": "TR",
    "russian": "RU",
    "ukrainian": "UA",
    "israeli": "IL",
    "egyptian": "EG",
    "moroccan": "MA",
    "south african": "ZA",
    "kenyan": "KE",
    "nigerian": "NG",
    "indian": "IN",
    "pakistani": "PK",
    "chinese": "CN",
    "japanese": "JP",
    "korean": "KR",
    "taiwanese": "TW",
    "singaporean": "SG",
    "malaysian": "MY",
    "thai": "TH",
    "vietnamese": "VN",
    "indonesian": "ID",
    "filipino": "PH",
    "philippine": "PH",
    "australian": "AU",
    "brazilian": "BR",
    "argentine": "AR",
    "argentinian": "AR",
    "chilean": "CL",
    "colombian": "CO",
    "peruvian": "PE",
    "saudi": "SA",
    "emirati": "AE",
    "qatari": "QA",
    "mainland china": "CN",
    "people's republic of china": "CN",
    "hong kong sar": "HK",
    "macao": "MO",
    "republic of ireland": "IE",
    "crimea": "UA/Crimea",
    "the gulf": "gulf",
    "palestine": "PS",
    "türkiye": "TR",
    "democratic republic of congo": "CD",
    "dr congo": "CD",
    "republic of the congo": "CG",
    "british virgin islands": "VG",
    "us virgin islands": "VI",
    "british columbia": "CA/British Columbia",
    "north korea": "KP",
    "russian federation": "RU",
    "democratic people's republic of korea": "KP",
}
# Names that are rarely meant as places in a policy.
_NOT_PLACES: Final = frozenset(
    "mobile reading split orange bath nice cork man male most bar bari of same victoria georgetown lead "
    "aurora"
    " independence hope normal enterprise flint lima".split()
)
# Other names of three letters are codes or words.
_SHORT_NAMES: Final = frozenset({"goa", "rio"})
_IN_PARENTHESES: Final = re.compile(r"[a-z] \((?:[A-Z]{3}(?:, | or | and |/))*$")
_COMPASS: Final = re.compile(
    r"\b(?:(?:north|south|east|west)[- ]?(?:east|west)?(?:ern)?|central|upper|lower|far|mid)[- ]$",
    re.IGNORECASE,
)
_LIST_OF: Final = re.compile(
    r"\b(?:list|law|rules|authorities|government|ministry|regulations) of (?:the )?$", re.IGNORECASE
)
# "US sanctions" and "EU carriers" are not about a place of travel.
_NOT_A_PLACE_AFTER: Final = re.compile(
    r"^(?:'s)? (?:sanction|state department|department of state|government|embargo|nationals?|citizens?"
    r"|dollars?|flag|based"
    r"|law|treasury|office of|federal|carriers?|airlines?|list of)",
    re.IGNORECASE,
)
_OCEANS: Final = {
    "transatlantic": (("north_america", "europe"), ("latin_america", "europe"), ("north_america", "africa")),
    "transpacific": (("americas", "asia_pacific"),),
}


@dataclass(frozen=True)
class PlaceMention:
    """A place named in a text: its tokens and its position. A city has the tokens of its airports."""

    tokens: tuple[str, ...]
    start: int
    end: int
    words: str


def contains_airport(token: str, airport: str) -> bool:
    """Return True if the airport is in the place that the token names."""
    place = get_airport(airport)
    if place is None:
        return False
    if token.islower():
        return place.country in _load_members().get(token, frozenset())
    country, _, state = token.partition("/")
    if state == "contiguous":
        return place.country == "US" and place.region not in ("Alaska", "Hawaii")
    if state:
        return place.country == country and place.region.casefold() == state.casefold()
    return token in (airport, place.country)


def is_within(token: str, other: str) -> bool:
    """Return True if the first place lies within the second."""
    return token == other or (get_countries(token) <= get_countries(other) and len(other) != 3)


def get_countries(token: str) -> frozenset[str]:
    """Return the countries that the place has a part in."""
    if token.islower():
        return _load_members().get(token, frozenset())
    if len(token) == 3:
        place = get_airport(token)
        return frozenset({place.country} if place else ())
    return frozenset({token.partition("/")[0]})


def find_places(text: str) -> list[PlaceMention]:
    """Return the places that the text names, in order, with or without accents. A city needs a capital."""
    if text.isascii():
        return list(_iter_places(text))
    plain = "".join(map(_strip_accent, text))
    return [replace(place, words=text[place.start : place.end]) for place in _iter_places(plain)]


def _strip_accent(letter: str) -> str:
    """Return the letter without its accent, always one character."""
    return unicodedata.normalize("NFD", letter)[:1] or letter


def find_ocean_routes(word: str) -> tuple[RoutePattern, ...]:
    """Return the routes across the ocean: `transatlantic` or `transpacific`."""
    return tuple(RoutePattern(one=(one,), other=(other,)) for one, other in _OCEANS[word])


def _iter_places(text: str) -> Iterator[PlaceMention]:
    """Yield the places; the longest name counts."""
    for found in _compile_names().finditer(text):
        words = found[0]
        tokens = _find_tokens(words)
        if not tokens and _IN_PARENTHESES.search(text[: found.start()]) and re.fullmatch("[A-Z]{3}", words):
            # "Mandera (NDE)" is an airport even if no airline of note serves it.
            tokens = (words,) if get_airport(words) else ()
        is_adjective = _NOT_A_PLACE_AFTER.match(text[found.end() :])
        if tokens and not is_adjective and not _is_part_of(text[: found.start()], tokens):
            yield PlaceMention(tokens, found.start(), found.end(), words)


def _is_part_of(before: str, tokens: tuple[str, ...]) -> bool:
    """Return True if a compass word makes the region a part that is not known: "North-Western Europe".

    A list "of the European Union" is not about travel there either.
    """
    return (tokens[0].islower() and bool(_COMPASS.search(before))) or bool(_LIST_OF.search(before))


def _find_tokens(words: str) -> tuple[str, ...]:
    """Return the tokens of a name as it is written, empty if it is not one."""
    if words in _CASED_ALIASES:
        return (_CASED_ALIASES[words],)
    if len(words) == 3 and words.isupper() and words.isalpha():
        is_code = words not in _NOT_AIRPORTS and is_served(words)
        if is_code:
            return (words,)
    name = words.casefold()
    token = _load_names().get(name)
    if token is not None:
        return (token,) if token.islower() or not words.islower() or words[0].isdigit() else ()
    return _load_city_airports().get(name, ()) if words[0].isupper() else ()


@cache
def _compile_names() -> re.Pattern[str]:
    """Compile the pattern of all names, the longest first, and of airport codes."""
    names = {*_load_names(), *_load_city_airports()}
    known = "|".join(re.escape(each) for each in sorted(names, key=len, reverse=True))
    cased = "|".join(re.escape(each) for each in sorted(_CASED_ALIASES, key=len, reverse=True))
    return re.compile(rf"(?<![\w])(?:{cased}|(?i:{known})|[A-Z]{{3}})(?![\w])")


@cache
def _load_names() -> dict[str, str]:
    """Return the tokens of regions, countries and states by lower-case name.

    Two-letter codes are left out.
    """
    found: dict[str, str] = {}
    for row in read_table("regions.csv"):
        token = f"{row['country']}/{row['region']}" if row["region"] else row["country"]
        for name in row["names"].split("|"):
            if len(name) > 3 and name not in ("america", "emirates", "mass"):
                found.setdefault(name, token)
    found |= _DEMONYMS | _STATE_PARTS
    found |= {
        "".join(map(_strip_accent, name)): token
        for name, token in found.items()
        if not name.isascii() and len(token) == 2
    }
    found |= {name: row["name"] for row in _read_regions() for name in row["words"].split("|")}
    return found


@cache
def _load_city_airports() -> dict[str, tuple[str, ...]]:
    """Return the airports of each city by lower-case name; of cities with one name, the prominent one."""
    found: dict[str, tuple[str, ...]] = {}
    for row in read_table("metropolitan.csv"):
        for name in (row["name"], *filter(None, row["aliases"].split("|"))):
            key = "".join(map(_strip_accent, name.casefold()))
            is_new = key not in found or bool(row["prominent"])
            is_name = len(key) > 3 or key in _SHORT_NAMES
            if is_new and is_name and key not in _NOT_PLACES:
                found[key] = tuple(row["airports"].split())
    return found


@cache
def _load_members() -> dict[str, frozenset[str]]:
    return {row["name"]: frozenset(row["countries"].split()) for row in _read_regions()}


def _read_regions() -> list[dict[str, str]]:
    text = files("tripcortex.domain.policy_rules").joinpath("regions.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
