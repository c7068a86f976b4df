"""PAS rules for every Bundle, request or response: envelope, fullUrls, references, no duplicate resources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pagw.domain.fhir.outcomes import MAX_ISSUES, Issue, build_error, build_warning
from pagw.domain.fhir.references import (
    Entry,
    Graph,
    get_objects,
    is_full_url,
    is_resource_url,
)
from pagw.domain.fhir.rules.structure import check_structure

# Two resources of one of these types with the same identifier describe the same person or organization.
_IDENTIFIED_TYPES: Final = frozenset({"Patient", "Organization", "Practitioner", "Coverage", "Location"})


def check_shape(bundle: Mapping[str, Any]) -> list[Issue]:
    """Return the deviations of the Bundle and its resources from the structure that R4 defines. Stop after
    the entry that exceeds `MAX_ISSUES`.
    """
    entries = bundle.get("entry")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        bare = {**bundle, "entry": None} if entries is None else bundle
        return check_structure({k: v for k, v in bare.items() if v is not None}, "Bundle")
    envelope = [{name: value for name, value in entry.items() if name != "resource"} for entry in entries]
    # An entry with nothing but a resource would become an empty object, which R4 does not allow.
    # `_check_entry` reports a resource in place of an entry.
    bare_entries = [each for each in envelope if each and "resourceType" not in each]
    issues = check_structure(
        {**bundle, "entry": bare_entries} if bare_entries or not entries else _remove_entries(bundle),
        "Bundle",
    )
    for place, entry in enumerate(entries):
        issues += _check_entry(entry, f"Bundle.entry[{place}]")
        # The outcome does not show more issues, and finding each takes time.
        if len(issues) > MAX_ISSUES:
            break
    return issues


def _remove_entries(bundle: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in bundle.items() if name != "entry"}


def _check_entry(entry: Mapping[str, Any], path: str) -> list[Issue]:
    """Return the structure issues of one entry's resource, or that it has none."""
    if "resourceType" in entry:
        wrong = "expected an entry, found a resource. An entry is an object with `fullUrl` and `resource`"
        return [build_error("structure", f"{path}: {wrong}.", path)]
    if isinstance(resource := entry.get("resource"), dict):
        return check_structure(resource, f"{path}.resource")
    return [
        build_error(
            "required", f"{path}.resource: each entry of a PAS Bundle needs a resource.", f"{path}.resource"
        )
    ]


def check_envelope(bundle: Mapping[str, Any], graph: Graph, *, first: str, profile: str) -> Iterator[Issue]:
    """Check the Bundle's type and profile, its first entry and its timestamp. `first` is the expected
    resource type of the first entry.
    """
    if bundle.get("type") != "collection":
        yield build_error("invalid", "Bundle.type: expected `collection`.", "Bundle.type")
    yield from check_profile(bundle, "Bundle", profile)
    entry = graph.get_first()
    if entry is None or entry.kind != first:
        yield build_error(
            "invariant", f"Bundle.entry[0]: expected a {first} as the first entry.", "Bundle.entry[0]"
        )
    if not bundle.get("timestamp"):
        yield build_warning(
            "required", "Bundle.timestamp: a PAS Bundle needs the time of its creation.", "Bundle.timestamp"
        )


def check_profile(resource: Mapping[str, Any], path: str, *profiles: str) -> Iterator[Issue]:
    """Warn if the resource names none of `profiles`. Not an error, because the gateway checks every rule
    anyway.
    """
    meta = resource.get("meta")
    named = meta.get("profile") if isinstance(meta, dict) else None
    bare = {str(each).partition("|")[0] for each in named} if isinstance(named, list) else set()
    if bare.isdisjoint(profiles):
        yield build_warning(
            "invalid", f"{path}.meta.profile: the profile {profiles[0]} is missing.", f"{path}.meta.profile"
        )


def check_full_urls(graph: Graph) -> Iterator[Issue]:
    """Check that each entry has a unique fullUrl that fits its resource."""
    seen: set[str] = set()
    for entry in graph.entries:
        path = f"Bundle.entry[{entry.index}].fullUrl"
        if not entry.full_url:
            yield build_error("required", f"{path}: each entry needs a fullUrl.", path)
        elif not is_full_url(entry.full_url):
            yield build_error(
                "value", f"{path}: expected `urn:uuid:` with a UUID, or an absolute http(s) URL.", path
            )
        elif entry.full_url in seen:
            yield build_error("duplicate", f"{path}: another entry has the same fullUrl.", path)
        elif not is_resource_url(entry.full_url, entry.resource):
            yield build_error(
                "invariant", f"{path}: the fullUrl must end with the type and id of its resource.", path
            )
        seen.add(entry.full_url)


def check_duplicates(graph: Graph) -> Iterator[Issue]:
    """Report resources that occur twice, and warn about two resources with the same identifier."""
    copies = Counter((entry.kind, str(entry.resource.get("id"))) for entry in graph.entries)
    bodies: set[str] = set()
    named: set[tuple[str, str, str]] = set()
    for entry in graph.entries:
        body = (
            json.dumps(entry.resource, sort_keys=True)
            if copies[entry.kind, str(entry.resource.get("id"))] > 1
            else None
        )
        if body is not None and body in bodies:
            yield build_error(
                "duplicate", f"{entry.path}: the same resource is already in the Bundle.", entry.path
            )
            continue
        bodies |= {body} if body is not None else set()
        names = _get_identifiers(entry)
        if not named.isdisjoint(names):
            wrong = "another resource of the Bundle has the same identifier. Include the resource once"
            yield build_warning("duplicate", f"{entry.path}: {wrong}.", entry.path)
        named |= names


def check_references(graph: Graph, *, excluded_paths: Collection[str] = ()) -> Iterator[Issue]:
    """Check that every reference leads to a resource of the Bundle, except at `excluded_paths`."""
    for entry in graph.entries:
        for pointer in graph.get_references(entry):
            if (
                pointer.target is None
                or pointer.path in excluded_paths
                or graph.find(pointer.target, entry) is not None
            ):
                continue
            wrong = (
                "the target is not in this Bundle. Include the resource, or fix the reference or the fullUrl"
            )
            yield build_error("not-found", f"{pointer.path}: {wrong}.", pointer.path)


def check_reachability(graph: Graph) -> Iterator[Issue]:
    """Warn about resources that the first entry does not lead to: the gateway ignores them."""
    first = graph.get_first()
    if first is None:
        return
    reached = {entry.index for entry in graph.find_reachable(first)}
    for entry in graph.entries:
        if entry.index not in reached:
            wrong = "no reference from the first entry leads here. The gateway ignores this resource"
            yield build_warning("informational", f"{entry.path}: {wrong}.", entry.path)


def _get_identifiers(entry: Entry) -> set[tuple[str, str, str]]:
    """Return type, system and value of each identifier; empty for types that no identifier makes unique."""
    if entry.kind not in _IDENTIFIED_TYPES:
        return set()
    found = ((each.get("system"), each.get("value")) for each in get_objects(entry.resource, "identifier"))
    return {
        (entry.kind, system, value)
        for system, value in found
        if isinstance(system, str) and isinstance(value, str)
    }
