"""Load the compiled tables: structures, value sets and invariants of FHIR R4 and a version of the guide.

`python -m tools.pas_profiles.compile` writes them. A file has one entry per line (kind, name, JSON), so that
a check parses only the entries that it needs. The short names of a structure's rules:

    t   type of a structure; of an element: its types, each as [code, profiles, targets]
    k   children; `ext` and `mod` say that `extension` and `modifierExtension` are allowed
    n   name of an element; `x` marks a choice (`value[x]`), `a` an element that is a JSON array
    min, max, fixed, pattern   as in the StructureDefinition; no `max` is `*`
    b   the value set of a required binding
    c   invariants, by name
    s   slices: elements with a name (`slice`) and matchers (`m`); `closed` allows no other items
    ref an element of the same structure that has the children
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

GuideVersion = Literal["2.0.1", "2.2.1"]
Json = dict[str, Any]

VERSIONS: Final[tuple[GuideVersion, ...]] = ("2.0.1", "2.2.1")
LATEST: Final[GuideVersion] = "2.2.1"
_BASE: Final = "http://hl7.org/fhir/StructureDefinition/"


@dataclass(frozen=True)
class ValueSet:
    """The codes of a value set by system. Codes of an open system, or of any if `*` is open, are unknown."""

    codes: Mapping[str, frozenset[str]]
    open: frozenset[str]

    def allows(self, code: Any, system: Any) -> bool | None:
        """Return whether the code belongs to the value set; None if that cannot be decided.

        True for a code or system that is not a text, because its format is reported already.
        """
        if not isinstance(code, str | None) or not isinstance(system, str | None):
            return True
        if system is None:
            listed = any(code in codes for codes in self.codes.values())
        else:
            listed = code in self.codes.get(system, ())
        return listed or (None if self.open else False)


@dataclass(frozen=True)
class Tables:
    """The entries of one version, each parsed when it is first used."""

    lines: Mapping[tuple[str, str], str] = field(repr=False)
    parsed: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)

    def find_structure(self, profile: str) -> Json | None:
        """Return the rules of a type or profile by its name or URL, or None if the tables do not have it."""
        found: Json | None = self._get("S", profile.partition("|")[0].removeprefix(_BASE))
        return found

    def get_value_set(self, url: str) -> ValueSet:
        """Return a value set. One that the tables do not have is open."""
        key = ("value set", url)
        if key not in self.parsed:
            found = self._get("V", url) or {"codes": {}, "open": ["*"]}
            codes = {system: frozenset(each) for system, each in found["codes"].items()}
            self.parsed[key] = ValueSet(codes, frozenset(found["open"]))
        value_set: ValueSet = self.parsed[key]
        return value_set

    def get_constraint(self, name: str) -> list[Any]:
        """Return severity, text and syntax tree of an invariant."""
        found: list[Any] = self._get("C", name)
        return found

    def _get(self, kind: str, name: str) -> Any:
        key = (kind, name)
        if key not in self.parsed:
            line = self.lines.get(key)
            self.parsed[key] = None if line is None else json.loads(line)
        return self.parsed[key]


@cache
def load_tables(version: GuideVersion) -> Tables:
    """Return the tables of one version of the guide, on top of those of R4."""
    return Tables({**_load_lines("r4"), **_load_lines(f"pas-{version}")})


@cache
def _load_lines(name: str) -> dict[tuple[str, str], str]:
    text = (files(__package__) / "tables" / f"{name}.jsonl").read_text(encoding="utf-8")
    lines = (line.split("\t", 2) for line in text.splitlines())
    return {(kind, key): value for kind, key, value in lines}
