"""A Bundle as a graph: its entries by fullUrl, and the target of each reference.

As FHIR defines it, an absolute reference must equal the `fullUrl` of an entry, a relative one is completed
with the base URL of the entry that contains it, and `#id` leads to a resource contained in the same entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_URL_CHARS: Final = 2048

_UUID_URL: Final = re.compile(r"^urn:uuid:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_HTTP_URL: Final = re.compile(r"^https?://[^\s/?#]+(?:/[^\s?#]*)?$")
_REST_URL: Final = re.compile(
    r"^(?P<base>https?://[^\s?#]+/)(?P<kind>[A-Z][A-Za-z]+)/(?P<id>[A-Za-z0-9\-.]{1,64})$"
)
_RELATIVE_REFERENCE: Final = re.compile(r"^[A-Z][A-Za-z]+/[A-Za-z0-9\-.]{1,64}$")
_HISTORY_SUFFIX: Final = re.compile(r"/_history/[A-Za-z0-9\-.]{1,64}$")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a Bundle that has a resource. `index` is its position in the Bundle."""

    index: int
    full_url: str
    resource: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Return the resource type."""
        return str(self.resource.get("resourceType"))

    @property
    def path(self) -> str:
        """Return the FHIRPath of the resource."""
        return f"Bundle.entry[{self.index}].resource"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a resource: its path and its target. `find_references` skips references that have only
    an identifier.
    """

    path: str
    target: str | None


@dataclass(frozen=True)
class Graph:
    """The entries of one Bundle by fullUrl. Build it once per Bundle."""

    entries: tuple[Entry, ...]
    by_url: Mapping[str, Entry] = field(repr=False)
    _references: dict[int, list[Reference]] = field(default_factory=dict, repr=False)

    @classmethod
    def from_bundle(cls, bundle: Mapping[str, Any]) -> Graph:
        """Build the graph of a Bundle. Entries without a resource are left out."""
        entries = tuple(
            Entry(place, url if isinstance(url := entry.get("fullUrl"), str) else "", entry["resource"])
            for place, entry in enumerate(get_objects(bundle, "entry"))
            if isinstance(entry.get("resource"), dict)
        )
        by_url: dict[str, Entry] = {}
        for entry in entries:
            by_url.setdefault(entry.full_url, entry)
        return cls(entries, by_url)

    def get_references(self, entry: Entry) -> list[Reference]:
        """Return the references in an entry's resource. The resource is read once."""
        found = self._references.get(entry.index)
        if found is None:
            found = self._references[entry.index] = find_references(entry.resource, entry.path)
        return found

    def get_first(self) -> Entry | None:
        """Return the Bundle's first entry, or None if that has no resource."""
        return self.entries[0] if self.entries and self.entries[0].index == 0 else None

    def find(self, target: str, origin: Entry) -> Entry | None:
        """Return the entry that a reference in `origin` leads to, or None. A contained resource counts as
        `origin` itself.
        """
        if target.startswith("#"):
            return origin if _has_contained(origin.resource, target[1:]) else None
        target = _HISTORY_SUFFIX.sub("", target)
        if _RELATIVE_REFERENCE.match(target):
            rest = _REST_URL.match(origin.full_url)
            return self.by_url.get(rest["base"] + target) if rest is not None else None
        return self.by_url.get(target)

    def resolve(self, reference: Any, origin: Entry) -> tuple[Mapping[str, Any], Entry] | None:
        """Return the referenced resource, contained or of another entry, and the entry that contains it. None
        if the target is not in the Bundle.
        """
        target = reference.get("reference") if isinstance(reference, dict) else None
        entry = self.find(target, origin) if isinstance(target, str) else None
        if entry is None or not isinstance(target, str):
            return None
        if len(target) > 1 and target.startswith("#"):
            return next(
                each for each in get_objects(origin.resource, "contained") if each.get("id") == target[1:]
            ), origin
        return entry.resource, entry

    def find_reachable(self, start: Entry, *, excluded_paths: frozenset[str] = frozenset()) -> list[Entry]:
        """Return `start` and every entry reachable by references, each once, in the order of discovery.
        References at `excluded_paths` are not followed.
        """
        found = {start.index: start}
        waiting = [start]
        while waiting:
            entry = waiting.pop(0)
            for pointer in self.get_references(entry):
                if pointer.target is None or pointer.path in excluded_paths:
                    continue
                target = self.find(pointer.target, entry)
                if target is not None and target.index not in found:
                    found[target.index] = target
                    waiting.append(target)
        return list(found.values())


def find_references(value: Any, path: str) -> list[Reference]:
    """Return every reference with a target anywhere in a value. `path` is the FHIRPath of the value."""
    found: list[Reference] = []
    _collect_references(value, path, found)
    return found


def _collect_references(value: Any, path: str, found: list[Reference]) -> None:
    """Append the references in a value to `found`."""
    if isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str):
            found.append(Reference(path, target))
        for name, each in value.items():
            if isinstance(each, (dict, list)):
                _collect_references(each, f"{path}.{name}", found)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            if isinstance(each, (dict, list)):
                _collect_references(each, f"{path}[{place}]", found)


def get_objects(resource: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a repeating element; empty if it is absent or not a list."""
    value = resource.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def find_extension(element: Mapping[str, Any], url: str, *, modifier: bool = False) -> dict[str, Any] | None:
    """Return the element's first extension with this URL, or None. `modifier` looks in modifierExtension."""
    found = get_objects(element, "modifierExtension" if modifier else "extension")
    return next((each for each in found if each.get("url") == url), None)


def get_first_code(concept: Any) -> tuple[str | None, str | None]:
    """Return system and code of the first coding that has a code; (None, None) if there is none."""
    for coding in get_objects(concept, "coding") if isinstance(concept, dict) else []:
        if isinstance(code := coding.get("code"), str):
            system = coding.get("system")
            return (system if isinstance(system, str) else None), code
    return None, None


def is_full_url(text: str) -> bool:
    """Return whether the text is a `urn:uuid:` or an absolute http(s) URL."""
    if len(text) > MAX_URL_CHARS:
        return False
    return _UUID_URL.match(text) is not None or _HTTP_URL.match(text) is not None


def is_resource_url(full_url: str, resource: Mapping[str, Any]) -> bool:
    """Return whether a server's URL ends with the type and id of this resource. True for other URLs."""
    rest = _REST_URL.match(full_url)
    return rest is None or (rest["kind"], rest["id"]) == (resource.get("resourceType"), resource.get("id"))


def _has_contained(resource: Mapping[str, Any], id: str) -> bool:
    """Return whether the resource contains one with this id. The empty id is the resource itself."""
    return id == "" or any(each.get("id") == id for each in get_objects(resource, "contained"))
