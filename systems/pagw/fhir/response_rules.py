"""What PAS asks of an answer: a ClaimResponse that says what came of each item, and echoes what it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.fhir.bundle_rules import profile_issues
from pagw.fhir.decisions import ReviewAction
from pagw.fhir.items import sequence_issues
from pagw.fhir.outcomes import Issue, error, warning
from pagw.fhir.references import Entry, Graph, extension, first_code, objects
from pagw.fhir.urls import CLAIM_INQUIRY_RESPONSE, CLAIM_RESPONSE, REVIEW_ACTION, REVIEW_ACTION_CODE

OUTCOMES: Final = frozenset({"queued", "complete", "error", "partial"})


def answer_issues(bundle: Mapping[str, Any], request: Mapping[str, Any]) -> list[Issue]:
    """The rules of an answer that was made here: of its ClaimResponse, and of what it echoes."""
    graph = Graph.of(bundle)
    answer = graph.first()
    if answer is None or answer.kind != "ClaimResponse":
        return [error("invalid", "The answer has no ClaimResponse.", "Bundle.entry[0]")]
    return [*response_issues(answer), *echo_issues(graph, answer, Graph.of(request))]


def response_issues(answer: Entry) -> Iterator[Issue]:
    """The rules of one ClaimResponse."""
    path, resource = answer.path, answer.resource
    yield from profile_issues(resource, path, CLAIM_RESPONSE, CLAIM_INQUIRY_RESPONSE)
    if resource.get("use") != "preauthorization":
        yield error("invalid", f"{path}.use: a PAS ClaimResponse is for preauthorization.", f"{path}.use")
    if resource.get("status") != "active":
        yield error("invalid", f"{path}.status: a PAS ClaimResponse is active.", f"{path}.status")
    if resource.get("outcome") not in OUTCOMES:
        yield error("value", f"{path}.outcome: it is queued, complete, partial or error.", f"{path}.outcome")
    if resource.get("outcome") == "error" and not objects(resource, "error"):
        yield error("required", f"{path}.error: an outcome of error says which.", f"{path}.error")
    yield from _item_issues(answer)


def echo_issues(graph: Graph, answer: Entry, request: Graph) -> Iterator[Issue]:
    """What comes from the request is as it was there: items by their sequence, resources by address and identifiers."""
    claim = request.first()
    asked = {each.get("sequence") for each in objects(claim.resource, "item")} if claim is not None else set()
    for place, item in enumerate(objects(answer.resource, "item")):
        if item.get("itemSequence") not in asked:
            path = f"{answer.path}.item[{place}].itemSequence"
            yield error("not-found", f"{path}: the request has no item with this sequence.", path)
    by_id = {(each.kind, each.resource.get("id")): each for each in request.entries}
    for entry in graph.entries:
        former = request.by_url.get(entry.full_url) or by_id.get((entry.kind, entry.resource.get("id")))
        if former is not None and not _is_echo(entry, former):
            wrong = "it is a resource of the request under another fullUrl, or with other identifiers"
            yield error("invariant", f"Bundle.entry[{entry.place}]: {wrong}.", f"Bundle.entry[{entry.place}]")


def action_codes(element: Mapping[str, Any]) -> list[str | None]:
    """The review action codes of an item's adjudications; None for a review action without one."""
    codes: list[str | None] = []
    for adjudication in objects(element, "adjudication"):
        action = extension(adjudication, REVIEW_ACTION)
        if action is not None:
            code = extension(action, REVIEW_ACTION_CODE)
            codes.append(first_code(code.get("valueCodeableConcept"))[1] if code is not None else None)
    return codes


def _item_issues(answer: Entry) -> Iterator[Issue]:
    added = {
        number for each in objects(answer.resource, "addItem") for number in each.get("itemSequence") or []
    }
    yield from sequence_issues(objects(answer.resource, "item"), f"{answer.path}.item", "itemSequence")
    for place, item in enumerate(objects(answer.resource, "item")):
        path, sequence = f"{answer.path}.item[{place}]", item.get("itemSequence")
        codes = action_codes(item)
        if not codes:
            yield warning("required", f"{path}: no review action says what came of it.", path)
        if not set(codes) <= {*ReviewAction}:
            yield warning("value", f"{path}: a review action code that the gateway does not know.", path)
        if ReviewAction.MODIFIED in codes and sequence not in added:
            yield error("required", f"{path}: of a modified item, addItem says what was authorized.", path)


def _is_echo(entry: Entry, former: Entry) -> bool:
    same_address = entry.full_url == former.full_url and entry.kind == former.kind
    return same_address and entry.resource.get("identifier") == former.resource.get("identifier")
