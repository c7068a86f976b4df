"""Places: cities with the airports that airlines serve, airports by their codes and names, states and countries.

Cities come from a table of ours (`metropolitan.csv`): of 7,800 codes most are airfields, and a city's main airport is a
matter of knowledge. Any IATA code is known by `airportsdata`; a city that only it knows is never taken without asking.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import airportsdata
from rapidfuzz.distance import OSA

from tripcortex.planning.wording import worded

CODE_LETTERS: Final = 3
# A typo is a letter wrong, missing, too many, or two that changed places: none in short names, two in long ones.
_ONE_TYPO_FROM: Final = 5
_TWO_TYPOS_FROM: Final = 7
NAME_WORDS_MAX: Final = 4
CHOICES_MAX: Final = 6
# Where people name the state rather than the country.
_COUNTRIES_OF_REGIONS: Final = ("AU", "CA", "GB", "US")


@dataclass(frozen=True)
class Place:
    """A city with its airports, the main one first; or one airport, where that was named."""

    name: str
    country: str
    region: str
    airports: tuple[str, ...]
    # The one that is meant by the bare name, though others have it too.
    is_prominent: bool = False

    @property
    def label(self) -> str:
        is_of_region = self.region and self.country in _COUNTRIES_OF_REGIONS
        where = self.region if is_of_region else country_name(self.country)
        return f"{self.name}, {where} ({self.airports[0]})"


@dataclass(frozen=True)
class Region:
    country: str
    region: str
    name: str

    def holds(self, place: Place) -> bool:
        return place.country == self.country and self.region in ("", place.region)


def cities(name: str) -> tuple[Place, ...]:
    """Cities of ours that have this name."""
    return _cities().get(name, ())


def airport_named(name: str) -> Place | None:
    """An airport by a name of its own, like Heathrow."""
    code = _airport_names().get(name)
    return airport(code) if code else None


def airport(code: str) -> Place | None:
    """An airport by its IATA code, in any case."""
    row = _airports().get(code.upper())
    if row is None:
        return None
    return Place(row["city"] or row["name"], row["country"], row["subd"], (code.upper(),))


def is_served(code: str) -> bool:
    """Whether it is one of the airports in our table."""
    return code.upper() in _served()


def regions(name: str) -> tuple[Region, ...]:
    """States and countries of this name or abbreviation."""
    return _regions().get(name, ())


def cities_in(region: Region) -> tuple[Place, ...]:
    found = {each.airports[0]: each for each in _rows() if region.holds(each)}
    return tuple(found.values())


def airfields(name: str) -> tuple[Place, ...]:
    """What only the large table knows: airports of a city of this name, with airlines or without."""
    found = (airport(code) for code in _airfields().get(name, ()))
    return tuple(each for each in found if each)


def near(name: str) -> tuple[tuple[Place, ...], bool]:
    """Cities whose name this may be with a typo: those that are nearest, several where they are equally near.

    Whether that is plain enough to be read so: one slip is, or the same letters in another order; two slips are not.
    """
    allowed, joined = _typos_allowed(name), name.replace(" ", "")
    found: dict[int, dict[str, tuple[Place, ...]]] = {}
    for known, bare, places in _long_names() if allowed else ():
        # Letters that are missing or too many are slips too.
        if abs(len(bare) - len(joined)) <= allowed:
            distance = OSA.distance(joined, bare, score_cutoff=allowed)
            found.setdefault(distance, {})[known] = places
    best = min(found, default=allowed + 1)
    if best > allowed:
        return (), False
    is_plain = best <= 1 or all(sorted(known.replace(" ", "")) == sorted(joined) for known in found[best])
    return _meant([place for places in found[best].values() for place in places]), is_plain


def meant(places: tuple[Place, ...], region: tuple[Region, ...] = ()) -> tuple[Place, ...]:
    """Those that a name can mean: in the region that was named, or else the prominent one, or all."""
    if region:
        return tuple(each for each in places if any(one.holds(each) for one in region))
    return _meant(places)


def country_name(code: str) -> str:
    return _country_names().get(code, code)


def _meant(places: tuple[Place, ...] | list[Place]) -> tuple[Place, ...]:
    prominent = tuple(each for each in places if each.is_prominent)
    if prominent:
        return prominent
    return tuple({each.airports[0]: each for each in places}.values())


def _typos_allowed(name: str) -> int:
    letters = len(name.replace(" ", ""))
    return (letters >= _ONE_TYPO_FROM) + (letters >= _TWO_TYPOS_FROM)


# --- the tables --------------------------------------------------------------------------------------------------


def table_rows(name: str) -> Iterator[Mapping[str, str]]:
    """Rows of a table that ships beside this module."""
    text = files("tripcortex.planning").joinpath(name).read_text("utf-8")
    return csv.DictReader(text.splitlines())


@cache
def _rows() -> tuple[Place, ...]:
    return tuple(
        Place(
            row["name"], row["country"], row["region"], tuple(row["airports"].split()), bool(row["prominent"])
        )
        for row in table_rows("metropolitan.csv")
    )


@cache
def _cities() -> dict[str, tuple[Place, ...]]:
    found: dict[str, tuple[Place, ...]] = {}
    for place, row in zip(_rows(), table_rows("metropolitan.csv"), strict=True):
        for name in (row["name"], *filter(None, row["aliases"].split("|"))):
            key = worded(name).replace("-", " ")
            found[key] = (*found.get(key, ()), place)
    return found


@cache
def _long_names() -> tuple[tuple[str, str, tuple[Place, ...]], ...]:
    """Names that are long enough to be known in spite of a typo, also without their spaces."""
    bare = ((name, name.replace(" ", ""), places) for name, places in _cities().items())
    return tuple(each for each in bare if len(each[1]) >= _ONE_TYPO_FROM)


@cache
def _served() -> frozenset[str]:
    return frozenset(code for each in _rows() for code in each.airports)


@cache
def _airport_names() -> dict[str, str]:
    return {
        worded(name): row["code"]
        for row in table_rows("airport_names.csv")
        for name in row["names"].split("|")
    }


@cache
def _airports() -> Mapping[str, Mapping[str, str]]:
    loaded: Mapping[str, Mapping[str, str]] = airportsdata.load("IATA")  # type: ignore[assignment]
    return loaded


@cache
def _airfields() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for code, row in _airports().items():
        key = worded(row["city"]).replace("-", " ")
        found[key] = (*found.get(key, ()), code)
    return found


@cache
def _regions() -> dict[str, tuple[Region, ...]]:
    found: dict[str, tuple[Region, ...]] = {}
    for row in table_rows("regions.csv"):
        names = row["names"].split("|")
        for name in names:
            region = Region(row["country"], row["region"], names[0].title())
            found[name] = (*found.get(name, ()), region)
    return found


@cache
def _country_names() -> dict[str, str]:
    rows = (row for row in table_rows("regions.csv") if not row["region"])
    return {row["country"]: _titled(row["names"].split("|")[0]) for row in rows}


def _titled(name: str) -> str:
    return name.upper() if len(name) <= CODE_LETTERS else name.title()
