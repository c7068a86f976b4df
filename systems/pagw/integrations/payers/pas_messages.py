"""PAS messages to and from a payer: the forwarded request, the inquiry about it, and the payer's answer.

The provider's Bundle is forwarded as it is, with one addition: each item of the Claim gets a trace number of
the gateway, the pagwId under the system `urn:pagw:request`. PAS has trace numbers for this (X12 278, TRN):
the payer returns them with the item, so that an answer says which request it is about. In an update, only the
items that it adds or changes get one, because all others must equal those of the prior Claim. Nothing here
changes the payer's answer: it is parsed for the decision, and passed on whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pagw.domain.fhir.claim_participants import iterate_identifiers
from pagw.domain.fhir.decisions import Decision, ItemDecision, Outcome, ReviewAction
from pagw.domain.fhir.exact_json import parse_exact
from pagw.domain.fhir.references import Entry, Graph, find_extension, get_first_code, get_objects
from pagw.domain.fhir.rules.response_rules import get_action_codes
from pagw.domain.fhir.rules.update_rules import get_change
from pagw.domain.fhir.urls import (
    CLAIM_INQUIRY,
    INQUIRY_BUNDLE,
    ITEM_TRACE_NUMBER,
    PAGW_ID,
    REVIEW_ACTION,
)

# The elements of the Claim by which a payer finds it, and those that every Claim must have.
INQUIRY_ELEMENTS: Final = (
    "id",
    "identifier",
    "status",
    "type",
    "use",
    "patient",
    "created",
    "insurer",
    "provider",
    "priority",
    "careTeam",
    "insurance",
)
# An answer without a trace number must not be older than the request. Clocks differ by less than this.
CLOCK_SKEW: Final = timedelta(minutes=5)
ERROR: Final = "error"
QUEUED: Final = "queued"
# X12 306 codes that are not results of their own: the payer has to be called, or there is nothing to certify.
CONTACT_PAYER: Final = "CT"
NO_ACTION_REQUIRED: Final = "NA"
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,20}")


class AnswerUnclear(ValueError):
    """An inquiry's result that may or may not be about the request."""


# --- to the payer -------------------------------------------------------------------------------------------


def build_pas_request(bundle: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """Return the provider's Bundle with the gateway's trace number on the items of its Claim: on all of them,
    or on those that an update changes.
    """
    first, *others = bundle["entry"]
    claim = first["resource"]
    given = get_objects(claim, "item")
    changed = [each for each in given if get_change(each) is not None] or given
    items = [_add_trace_number(each, reference) if each in changed else each for each in given]
    return {**bundle, "entry": [{**first, "resource": {**claim, "item": items}}, *others]}


def build_pas_inquiry(sent: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """Return the inquiry about a request that was sent: by the identifier of its Claim, with its member,
    provider and payer. `reference` becomes the inquiry's own identifier.
    """
    graph = Graph.from_bundle(sent)
    claim = graph.entries[0]
    asked = {name: claim.resource[name] for name in INQUIRY_ELEMENTS if name in claim.resource}
    example: dict[str, Any] = {"resourceType": "Claim", "meta": {"profile": [CLAIM_INQUIRY]}, **asked}
    found = graph.find_reachable(Entry(claim.index, claim.full_url, example))
    return {
        "resourceType": "Bundle",
        "meta": {"profile": [INQUIRY_BUNDLE]},
        "identifier": {"system": PAGW_ID, "value": reference},
        "type": "collection",
        "timestamp": sent.get("timestamp"),
        "entry": [{"fullUrl": each.full_url, "resource": each.resource} for each in found],
    }


def _add_trace_number(item: dict[str, Any], reference: str) -> dict[str, Any]:
    """Return the item with the gateway's trace number in place of an earlier one."""
    kept = [each for each in get_objects(item, "extension") if _get_trace_reference(each) is None]
    trace = {"url": ITEM_TRACE_NUMBER, "valueIdentifier": {"system": PAGW_ID, "value": reference}}
    return {**item, "extension": [*kept, trace]}


# --- from the payer -----------------------------------------------------------------------------------------


def list_response_bundles(body: Any) -> Iterator[dict[str, Any]]:
    """Yield one response Bundle per ClaimResponse of an inquiry's result: Parameters with Bundles (2.2.1), or
    one Bundle with any number of ClaimResponses (2.0.1). Raise `ValueError` for another resource.
    """
    match body.get("resourceType") if isinstance(body, dict) else None:
        case "Bundle":
            yield from split_responses(body)
        case "Parameters":
            for each in get_objects(body, "parameter"):
                if isinstance(found := each.get("resource"), dict) and found.get("resourceType") == "Bundle":
                    yield from split_responses(found)
        case _:
            raise ValueError("expected Parameters or a Bundle")


def split_responses(bundle: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one Bundle per ClaimResponse; the Bundle itself if it has only one."""
    graph = Graph.from_bundle(bundle)
    answers = [each for each in graph.entries if each.kind == "ClaimResponse"]
    if len(answers) == 1 and answers[0].index == 0:
        yield dict(bundle)
        return
    for answer in answers:
        indexes = sorted({each.index for each in graph.find_reachable(answer)} - {answer.index})
        entries = get_objects(bundle, "entry")
        yield {**bundle, "entry": [entries[answer.index], *(entries[each] for each in indexes)]}


def choose_response(
    found: Sequence[dict[str, Any]],
    *,
    reference: str,
    claim_identifiers: set[tuple[str | None, str]],
    created_at: datetime,
) -> dict[str, Any] | None:
    """Return the response that is about the request `reference`, or None if none is.

    The gateway's trace number decides. A payer that returns no trace numbers is taken at its word if it names
    the Claim and answered after `created_at`. Raise `AnswerUnclear` if neither is so.
    """
    unnamed: list[dict[str, Any]] = []
    for each in found:
        traces = list_trace_references(each)
        if reference in traces:
            return each
        if not traces:
            unnamed.append(each)
    named = [each for each in unnamed if _is_about(each, claim_identifiers)]
    if not named:
        return None
    if len(named) == 1 and _is_after(get_claim_response(named[0]), created_at - CLOCK_SKEW):
        return named[0]
    raise AnswerUnclear("the payer returned no trace numbers, and its answer may be about another request")


def list_trace_references(bundle: Mapping[str, Any]) -> list[str]:
    """Return the pagwIds in the trace numbers of a response's items."""
    answer = get_claim_response(bundle)
    found = dict[str, None]()
    for item in [*get_objects(answer, "item"), *get_objects(answer, "addItem")]:
        for each in get_objects(item, "extension"):
            if (reference := _get_trace_reference(each)) is not None:
                found[reference] = None
    return list(found)


def list_claim_identifiers(bundle: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the identifiers of the Claim that a response names, by system and value."""
    answer = get_claim_response(bundle)
    request = answer.get("request")
    if not isinstance(request, dict):
        return []
    identifier = request.get("identifier")
    found = list(iterate_identifiers({"identifier": [identifier]})) if isinstance(identifier, dict) else []
    graph = Graph.from_bundle(bundle)
    target = graph.resolve(request, graph.entries[0])
    return [*found, *(iterate_identifiers(target[0]) if target is not None else ())]


def get_claim_response(bundle: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first entry, a ClaimResponse. Raise `ValueError` if it is another resource."""
    first = Graph.from_bundle(bundle).get_first() if bundle.get("resourceType") == "Bundle" else None
    if first is None or first.kind != "ClaimResponse":
        raise ValueError("expected a Bundle whose first entry is a ClaimResponse")
    return first.resource


def list_error_codes(answer: Mapping[str, Any]) -> list[str]:
    """Return the codes of the errors of a ClaimResponse whose outcome is `error`; never their texts."""
    codes = [get_first_code(each.get("code"))[1] for each in get_objects(answer, ERROR)]
    return [each for each in codes if each is not None and _CODE.fullmatch(each)]


def parse_pas_decision(answer: Mapping[str, Any]) -> Decision:
    """Parse the decision of a ClaimResponse without an error. Raise `ValueError` if it has none."""
    items: dict[int, ItemDecision] = {}
    actions: list[ReviewAction] = []
    for item in get_objects(answer, "item"):
        action = _get_action(item)
        if action is None:
            continue
        actions.append(action)
        sequence = item.get("itemSequence")
        if isinstance(sequence, int) and sequence not in items:
            items[sequence] = ItemDecision(sequence=sequence, action=action, number=_get_number(item))
    number = answer.get("preAuthRef")
    return Decision(
        outcome=_combine(answer, actions),
        items=tuple(items.values()),
        authorization_number=number if isinstance(number, str) and number.strip() else None,
        review_action=_get_whole_action(_combine(answer, actions), actions),
        decided_at=_parse_time(answer.get("created")),
    )


def _combine(answer: Mapping[str, Any], actions: Sequence[ReviewAction]) -> Outcome:
    """Return the outcome of the request. A pended item pends it; cancelled items do not count."""
    if answer.get("outcome") == QUEUED or ReviewAction.PENDED in actions:
        return Outcome.PENDED
    live = set(actions) - {ReviewAction.CANCELLED}
    if not live:
        if actions:
            return Outcome.CANCELLED
        if isinstance(answer.get("preAuthRef"), str):
            return Outcome.APPROVED
        raise ValueError("no item has a review action that the gateway knows")
    if live == {ReviewAction.NOT_CERTIFIED}:
        return Outcome.DENIED
    return Outcome.APPROVED if live == {ReviewAction.CERTIFIED} else Outcome.MODIFIED


def _get_whole_action(outcome: Outcome, actions: Sequence[ReviewAction]) -> ReviewAction | None:
    """Return the review action of a request of which only a part is certified; None for any other."""
    is_partial = outcome is Outcome.MODIFIED and ReviewAction.NOT_CERTIFIED in actions
    return ReviewAction.PARTIAL if is_partial else None


def _get_action(item: Mapping[str, Any]) -> ReviewAction | None:
    """Return the review action of an item, or None if it has none that the gateway knows.

    "Contact payer" counts as pended, "no action required" as certified.
    """
    substitutes = {CONTACT_PAYER: ReviewAction.PENDED, NO_ACTION_REQUIRED: ReviewAction.CERTIFIED}
    for code in get_action_codes(item):
        if code in {*ReviewAction}:
            return ReviewAction(str(code))
        if code in substitutes:
            return substitutes[str(code)]
    return None


def _get_number(item: Mapping[str, Any]) -> str | None:
    """Return the authorization number of an item, or None."""
    for adjudication in get_objects(item, "adjudication"):
        action = find_extension(adjudication, REVIEW_ACTION)
        number = find_extension(action, "number") if action is not None else None
        if number is not None and isinstance(text := number.get("valueString"), str) and text.strip():
            return text
    return None


def _get_trace_reference(extension: Mapping[str, Any]) -> str | None:
    """Return the pagwId of a trace number of the gateway, or None for any other extension."""
    value = extension.get("valueIdentifier") if extension.get("url") == ITEM_TRACE_NUMBER else None
    if not isinstance(value, dict) or value.get("system") != PAGW_ID:
        return None
    return value["value"] if isinstance(value.get("value"), str) else None


def _is_about(bundle: Mapping[str, Any], claim_identifiers: set[tuple[str | None, str]]) -> bool:
    """Return whether a response names one of these claims. One that names no claim may be about any."""
    named = set(list_claim_identifiers(bundle))
    return not named or not named.isdisjoint(claim_identifiers)


def _is_after(answer: Mapping[str, Any], since: datetime) -> bool:
    """Return whether the response says that it was created after a time."""
    created = _parse_time(answer.get("created"))
    return created is not None and created >= since


def _parse_time(text: Any) -> datetime | None:
    """Parse a FHIR dateTime; None if it is missing, has no time, or no time zone."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def is_response_bundle(body: bytes) -> bool:
    """Return whether the bytes are a Bundle whose first entry is a ClaimResponse."""
    try:
        get_claim_response(parse_exact(body))
    except (ValueError, AttributeError):
        return False
    return True
