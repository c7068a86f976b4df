"""General words for the places and airlines that a question names.

Policies have rules for regions, not for each city. "Stuttgart" becomes Germany, Europe and an international
trip, "Lufthansa" an airline, and two places in one country a domestic trip. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tripcortex.domain.planner.gazetteer import (
    find_cities,
    find_regions,
    get_country_name,
    narrow_places,
    read_table,
)

AIRLINE: Final = "airline carrier"
WITHIN: Final = "domestic within country"
ACROSS: Final = "international foreign abroad overseas"
MAX_NAME_WORDS: Final = 4
# Shorter names are codes and everyday words, apart from these.
_MIN_LETTERS: Final = 4
_ABBREVIATIONS: Final = frozenset({"US", "USA", "UK", "UAE"})
_WORD: Final = re.compile(r"[^\W\d_]+")
# Cities that are everyday words where they are not capitalized.
_EVERYDAY: Final = frozenset(
    {"nice", "mobile", "bath", "reading", "orange", "split", "cork", "male", "victoria"}
)
_REGIONS: Final = {
    "Europe": (
        "AD AL AT BA BE BG BY CH CY CZ DE DK EE ES FI FR GB GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT "
        "NL NO PL PT RO RS RU SE SI SK SM TR UA VA XK"
    ),
    "Asia": (
        "AE AF AM AZ BD BH BN BT CN GE HK ID IL IN IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY "
        "NP OM PH PK QA SA SG SY TH TJ TL TM TR TW UZ VN YE"
    ),
    "Asia Pacific": "AU BD BN CN FJ HK ID IN JP KH KR LA LK MM MN MO MY NP NZ PG PH SB SG TH TO TW VN VU WS",
    "Australia and the Pacific": "AU FJ NZ PG SB TO VU WS",
    "Middle East": "AE BH EG IL IQ IR JO KW LB OM QA SA SY TR YE",
    "Africa": (
        "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU "
        "MW MZ NA NE NG RW SC SD SL SN SO SS ST SZ TD TG TN TZ UG ZA ZM ZW"
    ),
    "North America": "CA MX US",
    "Central America and the Caribbean": "AG BB BS BZ CR CU DM DO GD GT HN HT JM KN LC NI PA SV TT VC",
    "Latin America": "AR BO BR CL CO CR CU DO EC GT GY HN MX NI PA PE PY SR SV UY VE",
    "South America": "AR BO BR CL CO EC GY PE PY SR UY VE",
}


def find_general_terms(question: str) -> str:
    """Return the countries and continents of the named places, the kind of trip, and "airline" for one."""
    words = _WORD.findall(question)
    places = list(_find_places(words))
    countries = tuple(dict.fromkeys(places))
    found = [_describe_country(code) for code in countries]
    if len(places) > len(countries) == 1:
        found.append(WITHIN)
    elif countries:
        found.append(ACROSS)
    if _names_airline(words):
        found.append(AIRLINE)
    return " ".join(found)


def _find_places(words: list[str]) -> Iterator[str]:
    """Yield the country code of each place, from left to right; the longest name counts."""
    at = 0
    while at < len(words):
        size, country = _find_longest(words, at)
        if country is not None:
            yield country
        at += size


def _find_longest(words: list[str], at: int) -> tuple[int, str | None]:
    """Return the number of words of the longest place name at this position and its country; 1 and None."""
    for size in range(min(MAX_NAME_WORDS, len(words) - at), 0, -1):
        country = _find_country(" ".join(words[at : at + size]))
        if country is not None:
            return size, country
    return 1, None


def _find_country(name: str) -> str | None:
    """Return the country of a city, a state or a country with this name, or None."""
    key = name.lower()
    if len(name) < _MIN_LETTERS and name not in _ABBREVIATIONS:
        return None
    if regions := find_regions(key):
        return regions[0].country
    if key in _EVERYDAY and name == key:
        return None
    cities = narrow_places(find_cities(key))
    return cities[0].country if cities else None


@cache
def _describe_country(code: str) -> str:
    """Return the name of a country and those of the regions that contain it."""
    around = (name for name, codes in _REGIONS.items() if code in codes.split())
    return " ".join([get_country_name(code), *around])


def _names_airline(words: list[str]) -> bool:
    """Return whether the question has the full name of an airline."""
    text = f" {' '.join(words).lower()} "
    return any(f" {name} " in text for name in _load_airlines())


@cache
def _load_airlines() -> frozenset[str]:
    """Return the names of airlines in lower case, without short ones, which are other words too."""
    rows = read_table("carriers.csv")
    names = (each.lower() for row in rows for each in (row["name"], *row["aliases"].split("|")))
    return frozenset(each for each in names if len(each) > _MIN_LETTERS)
