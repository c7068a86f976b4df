"""What PAS asks of a Claim that updates or cancels a former one: both are there, nothing is lost, changes are flagged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.fhir.outcomes import Issue, error, warning
from pagw.fhir.references import Entry, Graph, extension, first_code, objects
from pagw.fhir.urls import CANCEL, CERTIFICATION_TYPE, INFO_CANCELLED, INFO_CHANGED

CHANGES: Final = frozenset({"added", "changed"})
# What says how an entry changed is not part of what it says.
_FLAGS: Final = frozenset({INFO_CHANGED, INFO_CANCELLED, CERTIFICATION_TYPE})


def update_issues(graph: Graph, claim: Entry) -> Iterator[Issue]:
    """The rules of `Claim.related`; nothing for a Claim that stands alone and cancels nothing."""
    path = claim.path
    related = objects(claim.resource, "related")
    if not related:
        if is_cancel(claim.resource):
            wrong = "a claim that cancels names the one it cancels"
            yield error("required", f"{path}.related: {wrong}.", f"{path}.related")
    elif len(related) > 1:
        yield error("not-supported", f"{path}.related: a claim updates one other claim.", f"{path}.related")
    else:
        yield from _prior_issues(graph, claim, related[0].get("claim"))
    for name in ("item", "supportingInfo"):
        for place, each in enumerate(objects(claim.resource, name)):
            yield from _flag_issues(each, f"{path}.{name}[{place}]", is_item=name == "item")


def prior_claim(graph: Graph, claim: Entry) -> Entry | None:
    """The Claim in the same Bundle that this one updates."""
    related = objects(claim.resource, "related")
    found = graph.resource(related[0].get("claim"), claim) if related else None
    return (
        found[1] if found is not None and found[1].kind == "Claim" and found[1].place != claim.place else None
    )


def is_cancel(claim: Mapping[str, Any]) -> bool:
    """Whether the whole request is cancelled: by its own certification type, or as all of its items are."""
    items = objects(claim, "item")
    return certification_type(claim) == CANCEL or (bool(items) and all(map(is_cancelled, items)))


def is_cancelled(element: Mapping[str, Any]) -> bool:
    flag = extension(element, INFO_CANCELLED, modifier=True)
    return flag is not None and flag.get("valueBoolean") is True


def certification_type(element: Mapping[str, Any]) -> str | None:
    found = extension(element, CERTIFICATION_TYPE)
    return first_code(found.get("valueCodeableConcept"))[1] if found is not None else None


def change_of(element: Mapping[str, Any]) -> str | None:
    """`added` or `changed`, as the element says of itself."""
    found = extension(element, INFO_CHANGED)
    value = found.get("valueCode") if found is not None else None
    return value if isinstance(value, str) else None


def _prior_issues(graph: Graph, claim: Entry, reference: Any) -> Iterator[Issue]:
    path = f"{claim.path}.related[0].claim"
    prior = prior_claim(graph, claim)
    if prior is not None:
        yield from _kept_issues(claim, prior)
    elif not isinstance(reference, dict) or not ("reference" in reference or "identifier" in reference):
        yield error("required", f"{path}: an update names the claim it updates.", path)
    elif "reference" in reference:
        yield error("not-found", f"{path}: the claim that is updated is included in the Bundle.", path)
    else:
        yield warning(
            "not-found", f"{path}: the claim that is updated is not included, so it is not compared.", path
        )


def _kept_issues(claim: Entry, prior: Entry) -> Iterator[Issue]:
    """Each former entry is there still, with its sequence, and one that differs says so."""
    for name in ("item", "supportingInfo"):
        before = {each.get("sequence"): each for each in objects(prior.resource, name)}
        now = {each.get("sequence"): each for each in objects(claim.resource, name)}
        path = f"{claim.path}.{name}"
        if before.keys() - now.keys():
            wrong = "an entry of the former claim is missing. Keep its sequence, and flag it as cancelled"
            yield error("invariant", f"{path}: {wrong}.", path)
        for place, each in enumerate(objects(claim.resource, name)):
            former = before.get(each.get("sequence"))
            if change_of(each) is None and (former is None or _content(former) != _content(each)):
                wrong = "it was added, changed or cancelled, and has no infoChanged extension to say so"
                yield error("invariant", f"{path}[{place}]: {wrong}.", f"{path}[{place}]")


def _content(element: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any], bool]:
    bare = {
        name: value for name, value in element.items() if name not in {"extension", "modifierExtension", "id"}
    }
    kept = [each for each in objects(element, "extension") if each.get("url") not in _FLAGS]
    return bare, kept, is_cancelled(element)


def _flag_issues(element: Mapping[str, Any], path: str, *, is_item: bool) -> Iterator[Issue]:
    change = change_of(element)
    if extension(element, INFO_CHANGED) is not None and change not in CHANGES:
        yield error("value", f"{path}: infoChanged says `added` or `changed`.", f"{path}.extension")
    if is_item and is_cancelled(element) != (certification_type(element) == CANCEL):
        wrong = "a cancelled item has both the infoCancelled flag and certificationType 3"
        yield error("invariant", f"{path}: {wrong}.", path)
