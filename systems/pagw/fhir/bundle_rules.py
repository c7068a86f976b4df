"""What PAS asks of every Bundle, request or answer: its envelope, its addresses, its references, each resource once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pagw.fhir.outcomes import ISSUES_MAX, Issue, error, warning
from pagw.fhir.references import Entry, Graph, is_full_url, names_resource, objects, pointers
from pagw.fhir.structure import structure_issues

# Resources of which a second one with the same identifier is the same one again.
_NAMED: Final = frozenset({"Patient", "Organization", "Practitioner", "Coverage", "Location"})


def shape_issues(bundle: Mapping[str, Any]) -> list[Issue]:
    """The shape of the Bundle and of each resource in it, as R4 has it."""
    entries = bundle.get("entry")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        bare = {**bundle, "entry": None} if entries is None else bundle
        return structure_issues({k: v for k, v in bare.items() if v is not None}, "Bundle")
    envelope = [{name: value for name, value in entry.items() if name != "resource"} for entry in entries]
    # An entry of nothing but a resource would be an empty object, which R4 does not know; what stands in place of an entry
    # is told below.
    told = [each for each in envelope if each and "resourceType" not in each]
    issues = structure_issues(
        {**bundle, "entry": told} if told or not entries else _without_entries(bundle), "Bundle"
    )
    for place, entry in enumerate(entries):
        issues += _entry_issues(entry, f"Bundle.entry[{place}]")
        # More are not told, and each costs time to find.
        if len(issues) > ISSUES_MAX:
            break
    return issues


def _without_entries(bundle: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in bundle.items() if name != "entry"}


def _entry_issues(entry: Mapping[str, Any], path: str) -> list[Issue]:
    if "resourceType" in entry:
        wrong = "a resource stands in the place of an entry. An entry is an object with the members fullUrl and resource"
        return [error("structure", f"{path}: {wrong}.", path)]
    if isinstance(resource := entry.get("resource"), dict):
        return structure_issues(resource, f"{path}.resource")
    return [
        error("required", f"{path}.resource: an entry of a PAS Bundle holds a resource.", f"{path}.resource")
    ]


def envelope_issues(bundle: Mapping[str, Any], graph: Graph, *, first: str, profile: str) -> Iterator[Issue]:
    """Type, profile, and what stands first."""
    if bundle.get("type") != "collection":
        yield error("invalid", "Bundle.type: a PAS Bundle is a collection.", "Bundle.type")
    yield from profile_issues(bundle, "Bundle", profile)
    entry = graph.first()
    if entry is None or entry.kind != first:
        yield error(
            "invariant", f"Bundle.entry[0]: the first entry of this Bundle is a {first}.", "Bundle.entry[0]"
        )
    if not bundle.get("timestamp"):
        yield warning("required", "Bundle.timestamp: a PAS Bundle says when it was made.", "Bundle.timestamp")


def profile_issues(resource: Mapping[str, Any], path: str, *profiles: str) -> Iterator[Issue]:
    """A profile that is not named is a warning: the rules are looked at one by one in any case."""
    meta = resource.get("meta")
    named = meta.get("profile") if isinstance(meta, dict) else None
    bare = {str(each).partition("|")[0] for each in named} if isinstance(named, list) else set()
    if bare.isdisjoint(profiles):
        yield warning(
            "invalid", f"{path}.meta.profile: it does not name {profiles[0]}.", f"{path}.meta.profile"
        )


def address_issues(graph: Graph) -> Iterator[Issue]:
    """Each entry has an address of its own that fits its resource."""
    seen: set[str] = set()
    for entry in graph.entries:
        path = f"Bundle.entry[{entry.place}].fullUrl"
        if not entry.full_url:
            yield error("required", f"{path}: each entry has a fullUrl.", path)
        elif not is_full_url(entry.full_url):
            yield error(
                "value", f"{path}: a fullUrl is urn:uuid: with a UUID, or an absolute http(s) address.", path
            )
        elif entry.full_url in seen:
            yield error("duplicate", f"{path}: another entry has the same fullUrl.", path)
        elif not names_resource(entry.full_url, entry.resource):
            yield error("invariant", f"{path}: it does not end with the type and id of its resource.", path)
        seen.add(entry.full_url)


def once_issues(graph: Graph) -> Iterator[Issue]:
    """Each resource stands once; two that name one person or organization are a warning."""
    like = Counter((entry.kind, str(entry.resource.get("id"))) for entry in graph.entries)
    bodies: set[str] = set()
    named: set[tuple[str, str, str]] = set()
    for entry in graph.entries:
        body = (
            json.dumps(entry.resource, sort_keys=True)
            if like[entry.kind, str(entry.resource.get("id"))] > 1
            else None
        )
        if body is not None and body in bodies:
            yield error(
                "duplicate", f"{entry.path}: the same resource stands in the Bundle before.", entry.path
            )
            continue
        bodies |= {body} if body is not None else set()
        names = _names(entry)
        if not named.isdisjoint(names):
            wrong = "another resource of the Bundle has the same identifier; one would do for both"
            yield warning("duplicate", f"{entry.path}: {wrong}.", entry.path)
        named |= names


def reference_issues(graph: Graph, *, outside: Collection[str] = ()) -> Iterator[Issue]:
    """Every reference leads to a resource of the Bundle, but for those at the paths `outside`."""
    for entry in graph.entries:
        for pointer in pointers(entry.resource, entry.path):
            if (
                pointer.target is None
                or pointer.path in outside
                or graph.find(pointer.target, entry) is not None
            ):
                continue
            wrong = "it leads to nothing in this Bundle. Include the resource, or mend the reference or the fullUrl"
            yield error("not-found", f"{pointer.path}: {wrong}.", pointer.path)


def unreached_issues(graph: Graph) -> Iterator[Issue]:
    """A resource that nothing leads to from the first entry will not be looked at."""
    first = graph.first()
    if first is None:
        return
    reached = {entry.place for entry in graph.reached(first)}
    for entry in graph.entries:
        if entry.place not in reached:
            wrong = "no reference from the first entry leads here, so it is not looked at"
            yield warning("informational", f"{entry.path}: {wrong}.", entry.path)


def _names(entry: Entry) -> set[tuple[str, str, str]]:
    if entry.kind not in _NAMED:
        return set()
    found = ((each.get("system"), each.get("value")) for each in objects(entry.resource, "identifier"))
    return {
        (entry.kind, system, value)
        for system, value in found
        if isinstance(system, str) and isinstance(value, str)
    }
