"""Check the objects and values of a resource against the rules of a profile.

A walk over the JSON value, not over the rules: its time depends on the size of the resource. A finding
repeats no value and, unless `quotes_names` is set, no unknown name, because both are the client's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pagw.domain.profiles.codes import check_binding
from pagw.domain.profiles.contained import check_contained
from pagw.domain.profiles.fhirpath import Scope, is_violated
from pagw.domain.profiles.findings import At, Findings
from pagw.domain.profiles.rules import Element, Field, Invariant, Library, ObjectRules, Target
from pagw.domain.profiles.slices import find_slice, matches_value

Json = Mapping[str, Any]

_EMPTY: Final = "an element must not be null or empty"
_ABSTRACT: Final = frozenset({"Resource", "DomainResource"})
_WITH_CODES: Final = frozenset({"code", "Coding", "CodeableConcept", "Quantity"})


class Links(Protocol):
    """What lies outside the resource that is being checked."""

    def check_reference(self, reference: Json, targets: tuple[Target, ...], at: At, path: str) -> None:
        """Check the target of a Reference. `path` has the names of elements only: `Claim.related.claim`."""

    def accept_entry(self, resource: Json, field: Field, at: At) -> bool:
        """Take over a resource that is checked later. Return False for one that is checked in place."""

    def resolve(self, reference: Any) -> Any:
        """Return the resource that a Reference leads to, or None."""


@dataclass
class Checker:
    """Checks one resource. `names` is the path of element names for `Links`."""

    library: Library
    findings: Findings
    links: Links
    quotes_names: bool = False

    def check_resource(self, resource: Json, rules: ObjectRules, at: At) -> None:
        """Check a resource against the rules of its type or of a profile."""
        scope = Scope(resource, self.links.resolve)
        self._check_object(resource, rules, at, scope, rules.type)
        if "contained" in resource:
            for each in rules.invariants_of_contained:
                self._check_invariant(each, resource, at, scope)
            check_contained(resource, at, self.findings)

    def check_inline(self, resource: Any, field: Field, at: At) -> None:
        """Check a resource within another one, of the type that it declares."""
        kind = str(resource.get("resourceType")) if isinstance(resource, dict) else ""
        is_known = kind in self.library.resource_types and kind not in _ABSTRACT
        rules = self.library.find(kind) if is_known else None
        if not isinstance(resource, dict):
            self.findings.add_error("structure", at, "expected a resource")
        elif rules is None:
            self.findings.add_error(
                "structure", (at, "resourceType", -1), "expected a resource type of FHIR R4"
            )
        elif not self.links.accept_entry(resource, field, at):
            self.check_resource(resource, rules, _add_type(at, kind))

    # --- objects --------------------------------------------------------------------------------------------

    def _check_object(self, value: Json, rules: ObjectRules, at: At, scope: Scope, path: str) -> None:
        fields, before = rules.fields, self.findings.errors
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._check_other(key, value, rules, at, scope)
            elif field.is_simple:
                if not field.test(item):  # type: ignore[misc]
                    self._report_value(item, field.code, (at, field.segment, -1))
            else:
                self._check_field(item, field, value, at, scope, path)
        for element, keys in rules.required:
            if value.keys().isdisjoint(keys):
                self._report_missing(element, value, at)
        for element, keys in rules.choices:
            if sum(key in value for key in keys) > 1:
                wrong = "only one type of this element may be present"
                self.findings.add_error("structure", (at, element.name, -1), wrong)
        # Invariants rely on valid elements.
        if self.findings.errors == before:
            for invariant in rules.invariants:
                self._check_invariant(invariant, value, at, scope)

    def _check_other(self, key: str, value: Json, rules: ObjectRules, at: At, scope: Scope) -> None:
        """Check a name that is not a field: `resourceType`, a primitive's companion, or an unknown one."""
        if key == "resourceType" and rules.type and at is not None:
            return
        field = rules.fields.get(key[1:]) if key.startswith("_") else None
        if field is not None and field.test is not None:
            self._check_companion(value[key], field, value.get(field.key), at, scope)
            return
        for element, keys in rules.choices:
            rest = key[len(element.name) :]
            if key.startswith(element.name) and rest[:1].isupper() and key not in keys:
                allowed = ", ".join(each.code for each in rules.fields.values() if each.element is element)
                wrong = f"this type is not allowed here. Expected {allowed}"
                self.findings.add_error("structure", (at, element.name, -1), wrong)
                return
        if key == "resourceType":
            self.findings.add_error("structure", at, "expected an element, found a resource")
        elif self.quotes_names:
            self.findings.add_error("structure", (at, key, -1), "FHIR R4 does not define this element")
        else:
            self.findings.add_error("structure", at, "FHIR R4 does not define one of the elements")

    def _check_companion(self, value: Any, field: Field, primitive: Any, at: At, scope: Scope) -> None:
        """Check the `_name` of a primitive: its id and extensions, for an array one per item or null."""
        rules = self.library.find("Element")
        where: At = (at, field.segment, -1)
        if isinstance(value, list) != field.element.is_array or rules is None:
            self._report_shape(field.element.is_array, where)
            return
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            here = (at, field.segment, index if field.element.is_array else -1)
            if item is None and isinstance(value, list):
                continue
            if not isinstance(item, dict) or not item:
                self.findings.add_error("structure", here, _EMPTY)
            else:
                self._check_object(item, rules, here, scope, "")

    def _report_missing(self, element: Element, value: Json, at: At) -> None:
        """Report a missing element, or what a slice requires of it."""
        if element.max == 0 or any(_is_other_type(key, element) for key in value):
            return
        required = [each for each in element.slices if each.min]
        for each in required:
            self._report_slice(each, (at, element.name, -1))
        if not required:
            self.findings.add_error("required", (at, element.name, -1), "a required element is missing")

    # --- elements -------------------------------------------------------------------------------------------

    def _check_field(self, value: Any, field: Field, owner: Json, at: At, scope: Scope, path: str) -> None:
        element = field.element
        if element.max == 0:
            wrong = "the profile does not allow this element"
            self.findings.add_error("structure", (at, field.segment, -1), wrong)
        elif value is None or value in ("", [], {}):
            self.findings.add_error("structure", (at, field.segment, -1), _EMPTY)
        elif isinstance(value, list) != element.is_array:
            self._report_shape(element.is_array, (at, field.segment, -1))
        elif not element.is_array:
            chosen = next((each for each in element.slices if _has_type(each, field.code)), element)
            if chosen is element and element.is_closed and element.slices:
                wrong = f"this type is not allowed here. Expected {_list_types(element.slices)}"
                self.findings.add_error("structure", (at, element.name, -1), wrong)
            self._check_value(value, chosen, field, (at, field.segment, -1), scope, path)
        elif element.slices:
            self._check_slices(value, field, at, scope, path)
        else:
            self._check_count(len(value), element, (at, field.segment, -1))
            for index, item in enumerate(value):
                if item is None and f"_{field.key}" in owner:
                    continue
                self._check_value(item, element, field, (at, field.segment, index), scope, path)

    def _check_slices(self, value: list[Any], field: Field, at: At, scope: Scope, path: str) -> None:
        """Check each item of a sliced array as its slice, then how often each slice occurs."""
        element, before = field.element, self.findings.errors
        counts: dict[str | None, int] = {}
        for index, item in enumerate(value):
            chosen = find_slice(element, item, scope)
            name = chosen.slice if chosen is not None else None
            counts[name] = counts.get(name, 0) + 1
            where: At = (at, field.segment, index)
            if chosen is None and element.is_closed:
                self.findings.add_error("structure", where, "the profile does not allow this item")
            self._check_value(item, chosen or element, field, where, scope, path)
        # An invalid item may be the one that a slice lacks.
        self._check_counts(counts, element, (at, field.segment, -1), self.findings.errors == before)

    def _check_counts(
        self, counts: Mapping[str | None, int], element: Element, at: At, are_valid: bool
    ) -> None:
        """Check how often each slice occurs. `are_valid` says that all items are valid."""
        is_short = False
        for each in element.slices:
            found = counts.get(each.slice, 0)
            if found < each.min:
                is_short = True
                if are_valid:
                    self._report_slice(each, at)
            elif each.max is not None and found > each.max:
                wrong = f"the profile allows at most {each.max} {_describe_slice(each)}"
                self.findings.add_error("structure", at, wrong)
        if not is_short:
            self._check_count(sum(counts.values()), element, at)

    def _check_count(self, count: int, element: Element, at: At) -> None:
        if count < element.min:
            self.findings.add_error("required", at, f"at least {element.min} are required")
        elif element.max is not None and count > element.max:
            self.findings.add_error("structure", at, f"at most {element.max} are allowed")

    def _check_value(
        self, value: Any, element: Element, field: Field, at: At, scope: Scope, path: str
    ) -> None:
        """Check one value of an element: its format or its fields, and if these are valid, what the element
        adds to its type.
        """
        before = self.findings.errors
        if field.test is not None:
            if not field.test(value):
                self._report_value(value, field.code, at)
        elif not isinstance(value, dict):
            self.findings.add_error("structure", at, "expected an object")
        elif not value:
            self.findings.add_error("structure", at, _EMPTY)
        elif (rules := self._find_rules(value, element, field)) is None:
            self.check_inline(value, field, at)
        else:
            self._check_object(value, rules, at, scope, f"{path}.{element.name}")
        if self.findings.errors == before:
            self._check_additions(value, element, field, at, f"{path}.{element.name}")
        if self.findings.errors == before:
            for invariant in element.invariants:
                self._check_invariant(invariant, value, at, scope)

    def _check_additions(self, value: Any, element: Element, field: Field, at: At, path: str) -> None:
        """Check a valid value against the element's fixed value or pattern, binding and targets."""
        if element.has_value:
            if not matches_value(value, element.rules):
                self.findings.add_error("value", at, "the profile requires another value")
        elif element.binding is not None and field.code in _WITH_CODES:
            check_binding(value, field.code, element.binding, at, self.findings)
        if field.code == "Reference" and isinstance(value.get("reference"), str):
            self.links.check_reference(value, element.targets, at, path)

    def _find_rules(self, value: Json, element: Element, field: Field) -> ObjectRules | None:
        """Return the rules of an object, or None for a resource. A known extension has those of its URL."""
        if field.code == "Extension" and element.slice is None:
            known = self.library.find(url) if isinstance(url := value.get("url"), str) else None
            if known is not None and known.type == "Extension":
                return known
        if field.code in _ABSTRACT or (element.name == "resource" and element.resource_profiles):
            return None
        return element.get_object(field.code)

    # --- reports --------------------------------------------------------------------------------------------

    def _check_invariant(self, invariant: Invariant, value: Any, at: At, scope: Scope) -> None:
        if is_violated(invariant.function, value, scope):
            text = f"{invariant.human.rstrip('.')} ({invariant.key})"
            add = self.findings.add_error if invariant.severity == "error" else self.findings.add_warning
            add("invariant", at, text)

    def _report_slice(self, element: Element, at: At) -> None:
        self.findings.add_error("required", at, f"the profile requires {_describe_slice(element)}")

    def _report_shape(self, is_array: bool, at: At) -> None:
        wrong = "expected a list, because the element repeats in FHIR R4"
        single = "expected a single value, because the element does not repeat in FHIR R4"
        self.findings.add_error("structure", at, wrong if is_array else single)

    def _report_value(self, value: Any, code: str, at: At) -> None:
        if value is None or value in ("", [], {}):
            self.findings.add_error("structure", at, _EMPTY)
        else:
            self.findings.add_error("value", at, f"invalid value: expected the format of a FHIR {code}")


def iterate_types(elements: tuple[Element, ...]) -> Iterator[str]:
    """Yield the types of elements."""
    for each in elements:
        yield from (type[0] for type in each.types)


def _list_types(elements: tuple[Element, ...]) -> str:
    return ", ".join(iterate_types(elements))


def _has_type(element: Element, code: str) -> bool:
    return any(type[0] == code for type in element.types)


def _is_other_type(key: str, element: Element) -> bool:
    """Return whether a name is the choice element with a type that is reported as not allowed."""
    return element.is_choice and key.startswith(element.name) and key[len(element.name) :][:1].isupper()


def _describe_slice(element: Element) -> str:
    """Describe a slice by the URL of its extension, or by its name."""
    url = next((each.expected for each in element.matchers if each.kind == "url"), None)
    return f"the extension {url}" if url is not None else f"`{element.slice}`"


def _add_type(at: At, kind: str) -> At:
    if at is None:
        return (None, kind, -1)
    above, name, index = at
    suffix = f"[{index}]" if index >= 0 else ""
    return (above, f"{name}{suffix}.ofType({kind})", -1)
