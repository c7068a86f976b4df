"""Lookup of places: cities with their airports, airports by code and name, states and countries.

Cities with much traffic come from `metropolitan.csv`, with their airports in order; those with one smaller
airport from `regional_airports.csv`, which names codes of `airportsdata`. The package knows all 7,800 IATA
codes, but most are small airfields, and no data set says which airport is a city's main one: the planner
asks before it uses a city that only the package knows.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

import airportsdata
from rapidfuzz.distance import OSA

from tripcortex.domain.planner.text_normalization import normalize_text

CODE_LETTERS: Final = 3
# A typo is a wrong, missing or additional letter, or two swapped letters. Short names allow none, long names
# two.
_ONE_TYPO_MIN_LETTERS: Final = 5
_TWO_TYPOS_MIN_LETTERS: Final = 7
MAX_NAME_WORDS: Final = 4
MAX_CHOICES: Final = 6
# Words and names of people that are one typo away from the name of a city, and are none.
NO_TYPOS: Final = frozenset(
    "based campaign medal create parish urban naval median parts noise leads monster jerry susan parks "
    "helen terry cargo victorian justin siege perry aaron radar breast settle sultan pairs clerk bases "
    "seeds ranch faint clarke ports elena palms rhode clara alexandra berry fatal crest clare genera "
    "bacon plague bedford brett dalton megan merry brent peaking conception tunes basil lilly jasper "
    "neville gerry proto sedan basal deeds merlin clint sonia killings berger siberia berth wander recipe "
    "rancho damian splits split tanya helene ville muster apron auguste weeds banning knocks poking "
    "ellington perch marcia hilly tunic layton salts salty maris tricky helens austen chilly dustin "
    "canning glint logos billing columbian salsa crate pristine fling flirt turing payton jerseys "
    "kristina august mason manning irving camping party paper price pairing parting parent prior prior's "
    "period lease later latter dollar dollars banker bonds bands lines liner miles males mails males "
    "rooms roomy".split()
)
# Countries where people name the state rather than the country.
_COUNTRIES_WITH_REGIONS: Final = ("AU", "CA", "GB", "US")


@dataclass(frozen=True)
class GazetteerPlace:
    """A city with its airports, the main one first; or a single airport if that was named."""

    name: str
    country: str
    region: str
    airports: tuple[str, ...]
    # The bare name means this place, although other places share the name.
    is_prominent: bool = False
    # The same, but only for employees who live in none of the other countries with such a city.
    is_prominent_abroad: bool = False

    @property
    def label(self) -> str:
        """Return the name with its region or country and its main airport, as shown to the employee."""
        is_of_region = self.region and self.country in _COUNTRIES_WITH_REGIONS
        where = self.region if is_of_region else get_country_name(self.country)
        return f"{self.name}, {where} ({self.airports[0]})"


@dataclass(frozen=True)
class Region:
    """A country, or a state of a country if `region` is not empty."""

    country: str
    region: str
    name: str

    def contains(self, place: GazetteerPlace) -> bool:
        """Return True if the place is in this region."""
        return place.country == self.country and self.region in ("", place.region)


def find_cities(name: str) -> tuple[GazetteerPlace, ...]:
    """Return the cities of `metropolitan.csv` with this normalized name or alias; several may share it."""
    return _load_cities().get(name, ())


def find_regional_cities(name: str) -> tuple[GazetteerPlace, ...]:
    """Return the cities of `regional_airports.csv` with this normalized name."""
    return _load_regional_cities().get(name, ())


def find_airport_by_name(name: str) -> GazetteerPlace | None:
    """Return the airport with this normalized name (such as heathrow), or None."""
    code = _load_airport_names().get(name)
    return get_airport(code) if code else None


def get_airport(code: str) -> GazetteerPlace | None:
    """Return the airport with this IATA code, in any case, of `airportsdata`; None if it does not exist."""
    row = _load_airports().get(code.upper())
    if row is None:
        return None
    return GazetteerPlace(row["city"] or row["name"], row["country"], row["subd"], (code.upper(),))


def get_time_zone(code: str) -> str | None:
    """Return the IANA name of an airport's time zone, or None if the airport is unknown."""
    row = _load_airports().get(code)
    return row["tz"] if row else None


def is_served(code: str) -> bool:
    """Return True if `metropolitan.csv` lists the airport."""
    return code.upper() in _load_served_codes()


def find_regions(name: str) -> tuple[Region, ...]:
    """Return the states and countries with this lower-case name or abbreviation."""
    return _load_regions().get(name, ())


def list_cities(region: Region) -> tuple[GazetteerPlace, ...]:
    """Return the cities of the region, each once."""
    found = {each.airports[0]: each for each in _load_places() if region.contains(each)}
    return tuple(found.values())


def find_airfields(name: str) -> tuple[GazetteerPlace, ...]:
    """Return the airports of `airportsdata` in a city of this normalized name, with or without flights."""
    found = (get_airport(code) for code in _load_airfields().get(name, ()))
    return tuple(each for each in found if each)


def find_similar_cities(name: str) -> tuple[tuple[GazetteerPlace, ...], bool]:
    """Return the cities whose name is closest to this one, and whether the match is certain.

    Several cities are returned if they are equally close. The match is certain for one typo, or for the same
    letters in another order; it is not for two typos.
    """
    if name in NO_TYPOS:
        return (), False
    allowed, joined = _count_allowed_typos(name), name.replace(" ", "")
    found: dict[int, dict[str, tuple[GazetteerPlace, ...]]] = {}
    for known, bare, places in _load_long_names() if allowed else ():
        # Missing and additional letters are typos too.
        if abs(len(bare) - len(joined)) <= allowed:
            distance = OSA.distance(joined, bare, score_cutoff=allowed)
            found.setdefault(distance, {})[known] = places
    best = min(found, default=allowed + 1)
    if best > allowed:
        return (), False
    is_plain = best <= 1 or all(sorted(known.replace(" ", "")) == sorted(joined) for known in found[best])
    return _prefer_prominent([place for places in found[best].values() for place in places]), is_plain


def narrow_places(
    places: tuple[GazetteerPlace, ...], region: tuple[Region, ...] = ()
) -> tuple[GazetteerPlace, ...]:
    """Return the places in the named regions; without regions, the prominent ones, or else all."""
    if region:
        return tuple(each for each in places if any(one.contains(each) for one in region))
    return _prefer_prominent(places)


def get_country_name(code: str) -> str:
    """Return the English name of a country, or its code if unknown."""
    return _load_country_names().get(code, code)


def _prefer_prominent(
    places: tuple[GazetteerPlace, ...] | list[GazetteerPlace],
) -> tuple[GazetteerPlace, ...]:
    """Return the prominent places if there are any, else all, each main airport once."""
    prominent = tuple(each for each in places if each.is_prominent)
    if prominent:
        return prominent
    return tuple({each.airports[0]: each for each in places}.values())


def _count_allowed_typos(name: str) -> int:
    """Return 0 for a name under 5 letters, 1 under 7, else 2."""
    letters = len(name.replace(" ", ""))
    return (letters >= _ONE_TYPO_MIN_LETTERS) + (letters >= _TWO_TYPOS_MIN_LETTERS)


# --- the tables ---------------------------------------------------------------------------------------------


def read_table(name: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a CSV file in this package."""
    text = files("tripcortex.domain.planner").joinpath(name).read_text("utf-8")
    return csv.DictReader(text.splitlines())


@cache
def _load_places() -> tuple[GazetteerPlace, ...]:
    """Return the cities of `metropolitan.csv` in file order."""
    return tuple(
        GazetteerPlace(
            row["name"],
            row["country"],
            row["region"],
            tuple(row["airports"].split()),
            row["prominent"] == "y",
            row["prominent"] == "abroad",
        )
        for row in read_table("metropolitan.csv")
    )


@cache
def _load_cities() -> dict[str, tuple[GazetteerPlace, ...]]:
    """Return the cities by normalized name and alias."""
    found: dict[str, tuple[GazetteerPlace, ...]] = {}
    for place, row in zip(_load_places(), read_table("metropolitan.csv"), strict=True):
        for name in (row["name"], *filter(None, row["aliases"].split("|"))):
            key = normalize_text(name).replace("-", " ")
            found[key] = (*found.get(key, ()), place)
    return found


@cache
def _load_regional_cities() -> dict[str, tuple[GazetteerPlace, ...]]:
    """Return the cities with a smaller airport by normalized name."""
    found: dict[str, tuple[GazetteerPlace, ...]] = {}
    for row in read_table("regional_airports.csv"):
        one = get_airport(row["code"])
        if one is None:
            continue
        names = row["names"].split("|")
        for name in names:
            key = normalize_text(name).replace("-", " ")
            found[key] = (*found.get(key, ()), replace(one, name=names[0]))
    return found


@cache
def _load_long_names() -> tuple[tuple[str, str, tuple[GazetteerPlace, ...]], ...]:
    """Return the names that are long enough to allow a typo, each also without its spaces."""
    bare = ((name, name.replace(" ", ""), places) for name, places in _load_cities().items())
    return tuple(each for each in bare if len(each[1]) >= _ONE_TYPO_MIN_LETTERS)


@cache
def _load_served_codes() -> frozenset[str]:
    """Return the codes of all airports of `metropolitan.csv`."""
    return frozenset(code for each in _load_places() for code in each.airports)


@cache
def _load_airport_names() -> dict[str, str]:
    """Return airport codes by normalized name."""
    return {
        normalize_text(name): row["code"]
        for row in read_table("airport_names.csv")
        for name in row["names"].split("|")
    }


@cache
def _load_airports() -> Mapping[str, Mapping[str, str]]:
    loaded: Mapping[str, Mapping[str, str]] = airportsdata.load("IATA")  # type: ignore[assignment]
    return loaded


@cache
def _load_airfields() -> dict[str, tuple[str, ...]]:
    """Return the codes of `airportsdata` by normalized city."""
    found: dict[str, tuple[str, ...]] = {}
    for code, row in _load_airports().items():
        key = normalize_text(row["city"]).replace("-", " ")
        found[key] = (*found.get(key, ()), code)
    return found


@cache
def _load_regions() -> dict[str, tuple[Region, ...]]:
    """Return states and countries by each of their names."""
    found: dict[str, tuple[Region, ...]] = {}
    for row in read_table("regions.csv"):
        names = row["names"].split("|")
        for name in names:
            region = Region(row["country"], row["region"], names[0].title())
            found[name] = (*found.get(name, ()), region)
    return found


@cache
def _load_country_names() -> dict[str, str]:
    rows = (row for row in read_table("regions.csv") if not row["region"])
    return {row["country"]: _format_title(row["names"].split("|")[0]) for row in rows}


def _format_title(name: str) -> str:
    """Return a short name in capitals (USA), a longer one in title case."""
    return name.upper() if len(name) <= CODE_LETTERS else name.title()
