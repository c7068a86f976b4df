"""A Bundle as a graph: its entries by their addresses, and what each reference of a resource leads to.

FHIR's way: a full address must be the `fullUrl` of an entry, a relative one is completed with the base of the entry it
stands in, and `#id` leads to a resource contained in the same entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ADDRESS_CHARACTERS_MAX: Final = 2048

_UUID: Final = re.compile(r"^urn:uuid:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_ADDRESS: Final = re.compile(r"^https?://[^\s/?#]+(?:/[^\s?#]*)?$")
_REST: Final = re.compile(
    r"^(?P<base>https?://[^\s?#]+/)(?P<kind>[A-Z][A-Za-z]+)/(?P<id>[A-Za-z0-9\-.]{1,64})$"
)
_RELATIVE: Final = re.compile(r"^[A-Z][A-Za-z]+/[A-Za-z0-9\-.]{1,64}$")
_HISTORY: Final = re.compile(r"/_history/[A-Za-z0-9\-.]{1,64}$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a Bundle that holds a resource."""

    place: int
    full_url: str
    resource: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.resource.get("resourceType"))

    @property
    def path(self) -> str:
        return f"Bundle.entry[{self.place}].resource"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A reference as it stands: where, and what it says. `target` is None for one that only has an identifier."""

    path: str
    target: str | None


@dataclass(frozen=True)
class Graph:
    """The entries of one Bundle, found by address. Made once for each Bundle."""

    entries: tuple[Entry, ...]
    by_url: Mapping[str, Entry] = field(repr=False)

    @classmethod
    def of(cls, bundle: Mapping[str, Any]) -> Graph:
        entries = tuple(
            Entry(place, url if isinstance(url := entry.get("fullUrl"), str) else "", entry["resource"])
            for place, entry in enumerate(objects(bundle, "entry"))
            if isinstance(entry.get("resource"), dict)
        )
        by_url: dict[str, Entry] = {}
        for entry in entries:
            by_url.setdefault(entry.full_url, entry)
        return cls(entries, by_url)

    def first(self) -> Entry | None:
        return self.entries[0] if self.entries and self.entries[0].place == 0 else None

    def find(self, target: str, origin: Entry) -> Entry | None:
        """The entry a reference standing in `origin` leads to; a contained resource counts as `origin` itself."""
        if target.startswith("#"):
            return origin if _contains(origin.resource, target[1:]) else None
        target = _HISTORY.sub("", target)
        if _RELATIVE.match(target):
            rest = _REST.match(origin.full_url)
            return self.by_url.get(rest["base"] + target) if rest is not None else None
        return self.by_url.get(target)

    def resource(self, reference: Any, origin: Entry) -> tuple[Mapping[str, Any], Entry] | None:
        """The resource itself, contained or of another entry, and the entry that holds it."""
        target = reference.get("reference") if isinstance(reference, dict) else None
        entry = self.find(target, origin) if isinstance(target, str) else None
        if entry is None or not isinstance(target, str):
            return None
        if len(target) > 1 and target.startswith("#"):
            return next(
                each for each in objects(origin.resource, "contained") if each.get("id") == target[1:]
            ), origin
        return entry.resource, entry

    def reached(self, start: Entry, *, without: frozenset[str] = frozenset()) -> list[Entry]:
        """`start` and all that its references lead to, each once, in the order they are met."""
        found = {start.place: start}
        waiting = [start]
        while waiting:
            entry = waiting.pop(0)
            for pointer in pointers(entry.resource, entry.path):
                if pointer.target is None or pointer.path in without:
                    continue
                target = self.find(pointer.target, entry)
                if target is not None and target.place not in found:
                    found[target.place] = target
                    waiting.append(target)
        return list(found.values())


def pointers(value: Any, path: str) -> list[Pointer]:
    """Every Reference within a resource."""
    found: list[Pointer] = []
    _gather(value, path, found)
    return found


def _gather(value: Any, path: str, found: list[Pointer]) -> None:
    if isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str):
            found.append(Pointer(path, target))
        for name, each in value.items():
            if isinstance(each, (dict, list)):
                _gather(each, f"{path}.{name}", found)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            if isinstance(each, (dict, list)):
                _gather(each, f"{path}[{place}]", found)


def objects(resource: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a repeating element; empty where it is absent or is no list."""
    value = resource.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def extension(element: Mapping[str, Any], url: str, *, modifier: bool = False) -> dict[str, Any] | None:
    """The first extension of an element with this url."""
    found = objects(element, "modifierExtension" if modifier else "extension")
    return next((each for each in found if each.get("url") == url), None)


def first_code(concept: Any) -> tuple[str | None, str | None]:
    """System and code of the first coding that has a code."""
    for coding in objects(concept, "coding") if isinstance(concept, dict) else []:
        if isinstance(code := coding.get("code"), str):
            system = coding.get("system")
            return (system if isinstance(system, str) else None), code
    return None, None


def is_full_url(text: str) -> bool:
    if len(text) > ADDRESS_CHARACTERS_MAX:
        return False
    return _UUID.match(text) is not None or _ADDRESS.match(text) is not None


def names_resource(full_url: str, resource: Mapping[str, Any]) -> bool:
    """Whether an address of a server's kind ends with the type and id of the resource it stands with."""
    rest = _REST.match(full_url)
    return rest is None or (rest["kind"], rest["id"]) == (resource.get("resourceType"), resource.get("id"))


def _contains(resource: Mapping[str, Any], id: str) -> bool:
    return id == "" or any(each.get("id") == id for each in objects(resource, "contained"))
