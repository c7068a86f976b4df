"""PAS rules for responses: a ClaimResponse has a result for each item and repeats the request faithfully."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.domain.fhir.decisions import ReviewAction
from pagw.domain.fhir.outcomes import Issue, build_error, build_warning
from pagw.domain.fhir.references import Entry, Graph, find_extension, get_first_code, get_objects
from pagw.domain.fhir.rules.bundle_rules import check_profile
from pagw.domain.fhir.rules.item_rules import check_sequences
from pagw.domain.fhir.urls import CLAIM_INQUIRY_RESPONSE, CLAIM_RESPONSE, REVIEW_ACTION, REVIEW_ACTION_CODE

OUTCOMES: Final = frozenset({"queued", "complete", "error", "partial"})


def check_built_response(bundle: Mapping[str, Any], request: Mapping[str, Any]) -> list[Issue]:
    """Check a response that the gateway built: its ClaimResponse, and what it repeats of the request."""
    graph = Graph.from_bundle(bundle)
    answer = graph.get_first()
    if answer is None or answer.kind != "ClaimResponse":
        return [build_error("invalid", "Bundle.entry[0]: expected a ClaimResponse.", "Bundle.entry[0]")]
    return [*check_claim_response(answer), *check_echo(graph, answer, Graph.from_bundle(request))]


def check_claim_response(entry: Entry) -> Iterator[Issue]:
    """Check profile, use, status, outcome and items of one ClaimResponse."""
    path, resource = entry.path, entry.resource
    yield from check_profile(resource, path, CLAIM_RESPONSE, CLAIM_INQUIRY_RESPONSE)
    if resource.get("use") != "preauthorization":
        yield build_error("invalid", f"{path}.use: expected `preauthorization`.", f"{path}.use")
    if resource.get("status") != "active":
        yield build_error("invalid", f"{path}.status: expected `active`.", f"{path}.status")
    if resource.get("outcome") not in OUTCOMES:
        yield build_error(
            "value", f"{path}.outcome: expected queued, complete, partial or error.", f"{path}.outcome"
        )
    if resource.get("outcome") == "error" and not get_objects(resource, "error"):
        yield build_error(
            "required", f"{path}.error: the outcome `error` needs at least one error.", f"{path}.error"
        )
    yield from _check_items(entry)


def check_echo(graph: Graph, answer: Entry, request: Graph) -> Iterator[Issue]:
    """Check that items match the request's sequences, and copied resources its fullUrls and identifiers."""
    claim = request.get_first()
    sequences = (
        {each.get("sequence") for each in get_objects(claim.resource, "item")} if claim is not None else set()
    )
    for place, item in enumerate(get_objects(answer.resource, "item")):
        if item.get("itemSequence") not in sequences:
            path = f"{answer.path}.item[{place}].itemSequence"
            yield build_error("not-found", f"{path}: the request has no item with this sequence.", path)
    by_id = {(each.kind, each.resource.get("id")): each for each in request.entries}
    for entry in graph.entries:
        former = request.by_url.get(entry.full_url) or by_id.get((entry.kind, entry.resource.get("id")))
        if former is not None and not _is_echo(entry, former):
            wrong = "a resource of the request must keep its fullUrl and identifiers"
            yield build_error(
                "invariant", f"Bundle.entry[{entry.index}]: {wrong}.", f"Bundle.entry[{entry.index}]"
            )


def get_action_codes(element: Mapping[str, Any]) -> list[str | None]:
    """Return the review action codes of an item's adjudications; None for a review action without a code."""
    codes: list[str | None] = []
    for adjudication in get_objects(element, "adjudication"):
        action = find_extension(adjudication, REVIEW_ACTION)
        if action is not None:
            code = find_extension(action, REVIEW_ACTION_CODE)
            codes.append(get_first_code(code.get("valueCodeableConcept"))[1] if code is not None else None)
    return codes


def _check_items(answer: Entry) -> Iterator[Issue]:
    """Check the items' sequences and review actions, and that a modified item has an addItem."""
    added = {
        number
        for each in get_objects(answer.resource, "addItem")
        for number in each.get("itemSequence") or []
    }
    yield from check_sequences(get_objects(answer.resource, "item"), f"{answer.path}.item", "itemSequence")
    for place, item in enumerate(get_objects(answer.resource, "item")):
        path, sequence = f"{answer.path}.item[{place}]", item.get("itemSequence")
        codes = get_action_codes(item)
        if not codes:
            yield build_warning("required", f"{path}: a review action with the result is missing.", path)
        if not set(codes) <= {*ReviewAction}:
            yield build_warning("value", f"{path}: the gateway does not know this review action code.", path)
        if ReviewAction.MODIFIED in codes and sequence not in added:
            yield build_error(
                "required", f"{path}: a modified item needs an addItem with the authorized service.", path
            )


def _is_echo(entry: Entry, former: Entry) -> bool:
    """Return whether a resource kept the request's fullUrl, type and identifiers."""
    same_address = entry.full_url == former.full_url and entry.kind == former.kind
    return same_address and entry.resource.get("identifier") == former.resource.get("identifier")
