"""PAS rules for a Claim that updates or cancels another: no entry is lost, and changes are flagged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.domain.fhir.outcomes import Issue, build_error, build_warning
from pagw.domain.fhir.references import Entry, Graph, find_extension, get_first_code, get_objects
from pagw.domain.fhir.urls import CANCEL, CERTIFICATION_TYPE, INFO_CANCELLED, INFO_CHANGED
from pagw.domain.profiles import LATEST, GuideVersion

CHANGES: Final = frozenset({"added", "changed"})
# Extensions that flag a change are not part of the compared content.
_CHANGE_EXTENSIONS: Final = frozenset({INFO_CHANGED, INFO_CANCELLED, CERTIFICATION_TYPE})


def check_update(graph: Graph, claim: Entry, version: GuideVersion = LATEST) -> Iterator[Issue]:
    """Check the rules of `Claim.related`. A Claim without it that cancels nothing has no issues."""
    path = claim.path
    related = get_objects(claim.resource, "related")
    if not related:
        if is_cancellation(claim.resource):
            wrong = "a cancellation must name the claim that it cancels"
            yield build_error("required", f"{path}.related: {wrong}.", f"{path}.related")
    elif len(related) > 1:
        yield build_error(
            "not-supported", f"{path}.related: a claim can update only one other claim.", f"{path}.related"
        )
    else:
        yield from _check_prior(graph, claim, related[0].get("claim"), version)
    for name in ("item", "supportingInfo"):
        for place, each in enumerate(get_objects(claim.resource, name)):
            yield from _check_flags(each, f"{path}.{name}[{place}]", is_item=name == "item")


def find_prior_claim(graph: Graph, claim: Entry) -> Entry | None:
    """Return the Claim in the same Bundle that this one updates, or None."""
    related = get_objects(claim.resource, "related")
    found = graph.resolve(related[0].get("claim"), claim) if related else None
    return (
        found[1] if found is not None and found[1].kind == "Claim" and found[1].index != claim.index else None
    )


def is_cancellation(claim: Mapping[str, Any]) -> bool:
    """Return whether the whole request is cancelled, by its certification type or by all of its items."""
    items = get_objects(claim, "item")
    return get_certification_type(claim) == CANCEL or (bool(items) and all(map(is_cancelled, items)))


def is_cancelled(element: Mapping[str, Any]) -> bool:
    """Return whether an item or supporting information has the infoCancelled flag."""
    flag = find_extension(element, INFO_CANCELLED, modifier=True)
    return flag is not None and flag.get("valueBoolean") is True


def get_certification_type(element: Mapping[str, Any]) -> str | None:
    """Return the X12 1322 certification type code of an element, or None."""
    found = find_extension(element, CERTIFICATION_TYPE)
    return get_first_code(found.get("valueCodeableConcept"))[1] if found is not None else None


def get_change(element: Mapping[str, Any]) -> str | None:
    """Return `added` or `changed` as the element's infoChanged extension says, or None."""
    found = find_extension(element, INFO_CHANGED)
    value = found.get("valueCode") if found is not None else None
    return value if isinstance(value, str) else None


def _check_prior(graph: Graph, claim: Entry, reference: Any, version: GuideVersion) -> Iterator[Issue]:
    """Check the reference to the updated claim, and the kept entries if that claim is in the Bundle.

    A Bundle of PAS 2.0.1 has one Claim only, so that it cannot include the updated one.
    """
    path = f"{claim.path}.related[0].claim"
    prior = find_prior_claim(graph, claim)
    if prior is not None:
        yield from _check_kept_entries(claim, prior)
    elif not isinstance(reference, dict) or not ("reference" in reference or "identifier" in reference):
        yield build_error("required", f"{path}: an update must name the claim that it updates.", path)
    elif "reference" in reference and version != "2.0.1":
        yield build_error("not-found", f"{path}: include the updated claim in the Bundle.", path)
    else:
        yield build_warning(
            "not-found",
            f"{path}: the updated claim is not included, so the gateway does not compare it.",
            path,
        )


def _check_kept_entries(claim: Entry, prior: Entry) -> Iterator[Issue]:
    """Check that each entry of the prior claim is kept with its sequence, and that changed entries are
    flagged.
    """
    for name in ("item", "supportingInfo"):
        before = {each.get("sequence"): each for each in get_objects(prior.resource, name)}
        now = {each.get("sequence"): each for each in get_objects(claim.resource, name)}
        path = f"{claim.path}.{name}"
        if before.keys() - now.keys():
            wrong = "an entry of the prior claim is missing. Keep its sequence and flag it as cancelled"
            yield build_error("invariant", f"{path}: {wrong}.", path)
        for place, each in enumerate(get_objects(claim.resource, name)):
            former = before.get(each.get("sequence"))
            if get_change(each) is None and (former is None or _get_content(former) != _get_content(each)):
                wrong = "an added, changed or cancelled entry needs the infoChanged extension"
                yield build_error("invariant", f"{path}[{place}]: {wrong}.", f"{path}[{place}]")


def _get_content(element: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any], bool]:
    """Return the parts of an entry that must not change without a flag."""
    bare = {
        name: value for name, value in element.items() if name not in {"extension", "modifierExtension", "id"}
    }
    extensions = [
        each for each in get_objects(element, "extension") if each.get("url") not in _CHANGE_EXTENSIONS
    ]
    return bare, extensions, is_cancelled(element)


def _check_flags(element: Mapping[str, Any], path: str, *, is_item: bool) -> Iterator[Issue]:
    """Check that the change flag is known, and that a cancelled item has both marks of a cancellation."""
    change = get_change(element)
    if find_extension(element, INFO_CHANGED) is not None and change not in CHANGES:
        yield build_error("value", f"{path}: expected infoChanged `added` or `changed`.", f"{path}.extension")
    if is_item and is_cancelled(element) != (get_certification_type(element) == CANCEL):
        wrong = "a cancelled item needs both the infoCancelled flag and certificationType 3"
        yield build_error("invariant", f"{path}: {wrong}.", path)
