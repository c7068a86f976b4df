"""The rules of objects and their elements, built from the tables when a check first needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pagw.domain.profiles.fhirpath import Function, compile_tree
from pagw.domain.profiles.primitives import TESTS, Test
from pagw.domain.profiles.tables import GuideVersion, Json, Tables, ValueSet, load_tables

# Only resources with contained ones can violate these.
_OF_CONTAINED: Final = frozenset({"dom-2", "dom-4", "dom-5"})
# Checked by code that names the exact element: `contained` (dom-3), `bundles` (ref-1), and
# `pagw.domain.fhir.rules.bundle_rules` (unique fullUrls, the first entry).
_REPLACED: Final = frozenset({"dom-3", "ref-1", "bdl-7", "ClaimFirst", "ClaimResponseFirst"})
_EXTENSION: Final[Json] = {"n": "extension", "a": 1, "t": [["Extension"]]}
_MODIFIER: Final[Json] = {"n": "modifierExtension", "a": 1, "t": [["Extension"]]}
_ID: Final[Json] = {"n": "id", "max": 1, "t": [["string"]]}


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule in FHIRPath."""

    key: str
    severity: str
    human: str
    function: Function


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference may lead to: a type ("" is any), and the profile of the target, if known."""

    type: str
    profile: str | None


@dataclass(frozen=True, slots=True)
class Matcher:
    """How an item is recognised as one of a slice."""

    kind: str
    path: Function | None
    expected: Any


@dataclass(frozen=True, slots=True)
class Field:
    """One name in a JSON object: the element it belongs to, and its type."""

    key: str
    segment: str
    element: Element
    code: str
    test: Test | None
    is_simple: bool


class Element:
    """The rules of one element, or of one slice of it."""

    def __init__(self, library: Library, rules: Json, owner: Json, base: Json | None = None) -> None:
        self._library, self._rules, self._owner = library, rules, owner
        # A slice without children of its own has those of the element that it slices.
        self._children = rules if "k" in rules else base or rules
        self.name: str = rules["n"]
        self.is_choice, self.is_array = "x" in rules, "a" in rules
        self.min: int = rules.get("min", 0)
        self.max: int | None = rules.get("max")
        self.slice: str | None = rules.get("slice")
        self.is_closed = "closed" in rules
        self.has_value = "fixed" in rules or "pattern" in rules
        self.types: list[list[Any]] = rules.get("t", [])
        self._objects: dict[str, ObjectRules | None] = {}

    @property
    def rules(self) -> Json:
        """Return the compiled rules."""
        return self._rules

    @cached_property
    def invariants(self) -> tuple[Invariant, ...]:
        """Return the invariants of the element that its type does not have as well."""
        of_types: set[str] = set()
        for code, *_ in self.types:
            of_types.update((self._library.tables.find_structure(code) or {}).get("c", ()))
        return self._library.get_invariants(
            [each for each in self._rules.get("c", ()) if each not in of_types]
        )

    @cached_property
    def slices(self) -> tuple[Element, ...]:
        """Return the slices of the element."""
        return tuple(
            Element(self._library, each, self._owner, self._rules) for each in self._rules.get("s", ())
        )

    @cached_property
    def slices_by_url(self) -> Mapping[str, Element]:
        """Return the slices of extensions by their URL."""
        return {each.matchers[0].expected: each for each in self.slices if each.matchers[0].kind == "url"}

    @cached_property
    def matchers(self) -> tuple[Matcher, ...]:
        """Return the matchers of a slice; an item belongs to it if all of them match."""
        found = []
        for kind, *arguments in self._rules["m"]:
            path = compile_tree(arguments[0]) if len(arguments) == 2 else None
            found.append(Matcher(kind, path, arguments[-1] if arguments else None))
        return tuple(found)

    @cached_property
    def binding(self) -> tuple[str, ValueSet] | None:
        """Return URL and codes of the value set that a code must belong to."""
        if "b" not in self._rules:
            return None
        url: str = self._rules["b"]
        return url, self._library.tables.get_value_set(url)

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """Return what a reference may lead to; empty if anything."""
        found = [Target(*each) for type in self.types if len(type) == 3 for each in type[2]]
        return () if any(each.type == "" for each in found) else tuple(found)

    @cached_property
    def resource_profiles(self) -> Mapping[str, Sequence[str]]:
        """Return the profiles of an inline resource by its type."""
        return {type[0]: type[1] for type in self.types if len(type) > 1}

    def get_object(self, code: str) -> ObjectRules | None:
        """Return the rules of the element's value if that is an object of type `code`, or None if unknown."""
        if code not in self._objects:
            self._objects[code] = self._build_object(code)
        return self._objects[code]

    def _build_object(self, code: str) -> ObjectRules | None:
        library = self._library
        if "ref" in self._rules:
            return library.build_referenced(self._owner, self._rules["ref"])
        if "k" in self._children:
            invariants = (library.tables.find_structure(code) or {}).get("c", ())
            return ObjectRules(library, {**self._children, "c": invariants}, self._owner)
        for type in self.types:
            for profile in type[1] if type[0] == code and len(type) > 1 else ():
                if (found := library.find(profile)) is not None:
                    return found
        return library.find(code)


class ObjectRules:
    """The rules of an object: its fields by JSON name, and its own invariants."""

    def __init__(self, library: Library, rules: Json, owner: Json | None = None) -> None:
        self._library, self._rules, self._owner = library, rules, rules if owner is None else owner
        self.type: str = rules["t"] if isinstance(rules.get("t"), str) else ""

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """Return the elements of the object."""
        children: list[Json] = self._rules.get("k", [])
        names = {each["n"] for each in children}
        usual = [_ID]
        usual += [_EXTENSION] if "ext" in self._rules else []
        usual += [_MODIFIER] if "mod" in self._rules else []
        kept = [*(each for each in usual if each["n"] not in names), *children]
        return tuple(Element(self._library, each, self._owner) for each in kept)

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """Return the fields by their JSON name: a choice has one per type."""
        found: dict[str, Field] = {}
        for element in self.elements:
            for code, *_ in element.types or [["BackboneElement"]]:
                each = self._build_field(element, code)
                found[each.key] = each
        return found

    @cached_property
    def required(self) -> tuple[tuple[Element, tuple[str, ...]], ...]:
        """Return the elements that must occur, with the JSON names under which they may."""
        found = []
        for element in self.elements:
            slices = element.slices
            if element.min > 0 or (not element.is_choice and any(each.min for each in slices)):
                keys = [each.key for each in self.fields.values() if each.element is element]
                found.append((element, tuple(name for key in keys for name in (key, f"_{key}"))))
        return tuple(found)

    @cached_property
    def choices(self) -> tuple[tuple[Element, tuple[str, ...]], ...]:
        """Return the choice elements with the JSON names of their types."""
        return tuple(
            (element, tuple(each.key for each in self.fields.values() if each.element is element))
            for element in self.elements
            if element.is_choice
        )

    @cached_property
    def invariants(self) -> tuple[Invariant, ...]:
        """Return the invariants of the object itself, except those about contained resources."""
        return self._library.get_invariants(
            [each for each in self._rules.get("c", ()) if each not in _OF_CONTAINED]
        )

    @cached_property
    def invariants_of_contained(self) -> tuple[Invariant, ...]:
        """Return the invariants that only a resource with contained ones can violate."""
        return self._library.get_invariants(
            [each for each in self._rules.get("c", ()) if each in _OF_CONTAINED]
        )

    def count_mismatches(self, value: Mapping[str, Any]) -> int:
        """Return how many required elements are missing and how many forbidden ones are present."""
        missing = sum(value.keys().isdisjoint(keys) for _, keys in self.required)
        return missing + sum(
            each.element.max == 0 for key in value if (each := self.fields.get(key)) is not None
        )

    def _build_field(self, element: Element, code: str) -> Field:
        key = segment = element.name
        if element.is_choice:
            key = f"{element.name}{code[0].upper()}{code[1:]}"
            segment = f"{element.name}.ofType({code})"
        test = TESTS.get(code)
        rules = element.rules
        is_simple = test is not None and rules.keys().isdisjoint({"a", "fixed", "pattern", "b", "c", "s"})
        return Field(key, segment, element, code, test, is_simple and element.max != 0)


@dataclass(frozen=True)
class Library:
    """The rules of every type and profile of one version of the guide."""

    tables: Tables
    _objects: dict[str, ObjectRules | None] = field(default_factory=dict, repr=False)
    _invariants: dict[str, Invariant] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, version: GuideVersion) -> Library:
        """Return the library of a version, the same one on each call."""
        if version not in _LIBRARIES:
            _LIBRARIES[version] = cls(load_tables(version))
        return _LIBRARIES[version]

    @cached_property
    def resource_types(self) -> frozenset[str]:
        """Return the names of the resource types of R4."""
        value_set = self.tables.get_value_set("http://hl7.org/fhir/ValueSet/resource-types")
        return frozenset(code for codes in value_set.codes.values() for code in codes)

    def find(self, profile: str) -> ObjectRules | None:
        """Return the rules of a type or profile, or None if the tables do not have it."""
        if profile not in self._objects:
            rules = self.tables.find_structure(profile)
            self._objects[profile] = None if rules is None else ObjectRules(self, rules)
        return self._objects[profile]

    def get_invariants(self, names: Sequence[str]) -> tuple[Invariant, ...]:
        """Return invariants by their names in the tables."""
        return tuple(self._get_invariant(each) for each in names if each.partition("~")[0] not in _REPLACED)

    def build_referenced(self, owner: Json, path: str) -> ObjectRules | None:
        """Return the rules of another element of the same structure: `Claim.item.detail`."""
        rules = owner
        for name in path.split(".")[1:]:
            rules = next((each for each in rules.get("k", ()) if each["n"] == name.removesuffix("[x]")), {})
        return ObjectRules(self, rules, owner) if rules else None

    def _get_invariant(self, name: str) -> Invariant:
        if name not in self._invariants:
            severity, human, tree = self.tables.get_constraint(name)
            self._invariants[name] = Invariant(name.partition("~")[0], severity, human, compile_tree(tree))
        return self._invariants[name]


_LIBRARIES: Final[dict[GuideVersion, Library]] = {}
