"""Expand value sets into the codes of each system.

A value set whose codes cannot all be listed (licensed like X12's, or a filter over a system that the sources
do not have) is compiled with the systems that remain open. The checker never refuses a code of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
Codes = dict[str, set[str]]


class Expander:
    """Expands value sets from the CodeSystems and ValueSets of all sources."""

    def __init__(self, value_sets: Mapping[str, Json], code_systems: Mapping[str, Json]) -> None:
        self._value_sets, self._code_systems = value_sets, code_systems

    def expand(self, url: str) -> dict[str, Any]:
        """Return `{"codes": {system: [code, …]}, "open": [system, …]}`. An unknown value set is open: `*`."""
        codes, opened = self._expand(url, frozenset())
        return {
            "codes": {system: sorted(codes[system]) for system in sorted(codes)},
            "open": sorted(opened),
        }

    def _expand(self, url: str, seen: frozenset[str]) -> tuple[Codes, set[str]]:
        found = self._value_sets.get(url)
        if found is None or url in seen or "compose" not in found:
            return {}, {"*"}
        codes: Codes = {}
        opened: set[str] = set()
        for part in found["compose"].get("include", []):
            some, more = self._expand_part(part, seen | {url})
            for system, values in some.items():
                codes.setdefault(system, set()).update(values)
            opened |= more
        for part in found["compose"].get("exclude", []):
            some, more = self._expand_part(part, seen | {url})
            for system, values in some.items():
                codes.get(system, set()).difference_update(values)
            # An exclusion that cannot be listed leaves too many codes, never too few.
        return codes, opened

    def _expand_part(self, part: Json, seen: frozenset[str]) -> tuple[Codes, set[str]]:
        """Expand one include or exclude: a system with concepts or filters, and imported value sets."""
        imported = [self._expand(each.partition("|")[0], seen) for each in part.get("valueSet", [])]
        if "system" not in part:
            codes, opened = imported[0] if imported else ({}, {"*"})
            for some, more in imported[1:]:
                codes = {system: codes[system] & some[system] for system in codes.keys() & some.keys()}
                opened &= more
            return codes, opened
        system = part["system"]
        if "concept" in part:
            return {system: {each["code"] for each in part["concept"]}}, set()
        known = self._code_systems.get(system)
        if known is None or known.get("content") != "complete":
            return {}, {system}
        listed = self._filter(known, part.get("filter", []))
        return ({}, {system}) if listed is None else ({system: listed}, set())

    def _filter(self, system: Json, filters: list[Json]) -> set[str] | None:
        """Return the codes that pass all filters, or None for a filter that is not supported."""
        parents = dict(_iterate_concepts(system.get("concept", []), ()))
        listed = set(parents)
        for each in filters:
            operator, value = each.get("op"), each.get("value")
            if each.get("property") not in {"concept", "code"} or operator not in {
                "is-a",
                "descendent-of",
                "is-not-a",
                "=",
                "in",
            }:
                return None
            below = {code for code, above in parents.items() if value in above}
            if operator == "descendent-of":
                listed &= below
            elif operator == "is-a":
                listed &= below | {str(value)}
            elif operator == "is-not-a":
                listed -= below | {str(value)}
            else:
                listed &= set(str(value).split(","))
        return listed


def _iterate_concepts(concepts: list[Json], above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each code with all its ancestors, nested or named by `subsumedBy`."""
    named: dict[str, list[str]] = {}
    nested: dict[str, tuple[str, ...]] = {}
    _collect(concepts, above, nested, named)
    for code, ancestors in nested.items():
        found, waiting = set(ancestors), [*ancestors, code]
        while waiting:
            for parent in named.get(waiting.pop(), []):
                if parent not in found:
                    found.add(parent)
                    waiting += [parent, *nested.get(parent, ())]
                    found.update(nested.get(parent, ()))
        yield code, tuple(sorted(found))


def _collect(
    concepts: list[Json],
    above: tuple[str, ...],
    nested: dict[str, tuple[str, ...]],
    named: dict[str, list[str]],
) -> None:
    for concept in concepts:
        code = concept["code"]
        nested[code] = above
        for each in concept.get("property", []):
            if each.get("code") == "subsumedBy":
                named.setdefault(code, []).append(each.get("valueCode", ""))
        _collect(concept.get("concept", []), (*above, code), nested, named)
