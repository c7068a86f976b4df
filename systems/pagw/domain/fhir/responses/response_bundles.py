"""PAS response Bundles, built from a decision: the ClaimResponse, then each resource it refers to.

Resources are copied from the request unchanged, under the same fullUrl. The response names the Claim by its
identifier and does not include it, because everything that the Claim refers to, attachments included, would
have to follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from pagw.domain.fhir.decisions import Decision, ItemDecision, ReviewAction
from pagw.domain.fhir.outcomes import Issue
from pagw.domain.fhir.references import Entry, Graph, find_references, get_objects
from pagw.domain.fhir.rules.update_rules import is_cancelled
from pagw.domain.fhir.urls import (
    ADJUDICATION,
    ADMINISTRATION_NUMBER,
    CLAIM_INQUIRY_RESPONSE,
    CLAIM_RESPONSE,
    INQUIRY_RESPONSE_BUNDLE,
    ITEM_ISSUE_DATE,
    ITEM_PERIOD,
    ITEM_TRACE_NUMBER,
    PAGW_ID,
    RESPONSE_BUNDLE,
    REVIEW_ACTION,
    REVIEW_ACTION_CODE,
    X12_ACTION,
    X12_ERROR,
    X12_REASON,
)

# The same request gets the same ids on every attempt, so that rebuilding a response changes nothing.
NAMESPACE: Final = UUID("0b9a4f0e-52a8-4a51-8d0b-0f6d3a0c27d4")
_ECHOED_EXTENSIONS: Final = frozenset({ITEM_TRACE_NUMBER, ADMINISTRATION_NUMBER})
# Actions that grant something: only these items get an issue date and a period.
_GRANTING_ACTIONS: Final = frozenset({ReviewAction.CERTIFIED, ReviewAction.PARTIAL, ReviewAction.MODIFIED})
# X12 901: unable to respond at current time.
_UNPROCESSED_CODE: Final = "42"


def build_response_bundle(
    request: Mapping[str, Any], decision: Decision, *, pagw_id: str, created: datetime, inquiry: bool = False
) -> dict[str, Any]:
    """Build the final or pended response to a request. `inquiry` builds it as a response of `$inquire`."""
    graph, claim = _get_claim(request)
    answer = _build_claim_response(claim, pagw_id, created, inquiry=inquiry)
    answer["outcome"] = _get_outcome(claim, decision)
    if decision.reason is not None:
        answer["disposition"] = decision.reason
    if decision.authorization_number is not None:
        answer["preAuthRef"] = decision.authorization_number
    if (period := _build_period(decision)) is not None:
        answer["preAuthPeriod"] = period
    answer["item"] = [_build_item(each, decision) for each in get_objects(claim.resource, "item")]
    if added := list(_build_added_items(claim, decision)):
        answer["addItem"] = added
    return _build_bundle(request, graph, claim, answer, pagw_id, created)


def build_error_bundle(
    request: Mapping[str, Any],
    issues: Sequence[Issue],
    *,
    pagw_id: str,
    created: datetime,
    code: str = _UNPROCESSED_CODE,
) -> dict[str, Any]:
    """Build the response to a request that was accepted and could not be processed: outcome `error`, with the
    issues.
    """
    graph, claim = _get_claim(request)
    answer = _build_claim_response(claim, pagw_id, created, inquiry=False)
    answer["outcome"] = "error"
    answer["error"] = [
        {"code": {"coding": [{"system": X12_ERROR, "code": code}], "text": issue.diagnostics}}
        for issue in issues
    ]
    return _build_bundle(request, graph, claim, answer, pagw_id, created)


def to_inquiry_response(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an earlier response as a response of `$inquire`: the same content under the inquiry profiles."""
    first, *others = get_objects(answer, "entry")
    resource = {
        **first["resource"],
        "meta": _replace_profile(first["resource"], CLAIM_RESPONSE, CLAIM_INQUIRY_RESPONSE),
    }
    return {
        **answer,
        "meta": _replace_profile(answer, RESPONSE_BUNDLE, INQUIRY_RESPONSE_BUNDLE),
        "entry": [{**first, "resource": resource}, *others],
    }


def _replace_profile(resource: Mapping[str, Any], profile: str, by: str) -> dict[str, Any]:
    """Return the resource's meta with one profile replaced, versions included. All else stays."""
    meta: dict[str, Any] = resource["meta"] if isinstance(resource.get("meta"), dict) else {}
    named: list[Any] = meta["profile"] if isinstance(meta.get("profile"), list) else []
    kept = [each for each in named if str(each).partition("|")[0] not in (profile, by)]
    return {**meta, "profile": [by, *kept]}


def _get_claim(request: Mapping[str, Any]) -> tuple[Graph, Entry]:
    """Return the request's graph and its Claim. Raise `ValueError` if the first entry is not a Claim."""
    graph = Graph.from_bundle(request)
    claim = graph.get_first()
    if claim is None or claim.kind != "Claim":
        raise ValueError("Invalid request Bundle: expected a Claim as its first entry.")
    return graph, claim


def _build_claim_response(claim: Entry, pagw_id: str, created: datetime, *, inquiry: bool) -> dict[str, Any]:
    """Build the ClaimResponse with what it copies from the Claim, and without a result."""
    source = claim.resource
    answer: dict[str, Any] = {
        "resourceType": "ClaimResponse",
        "id": str(uuid5(NAMESPACE, f"{pagw_id}/ClaimResponse")),
        "meta": {"profile": [CLAIM_INQUIRY_RESPONSE if inquiry else CLAIM_RESPONSE]},
        "identifier": [{"system": PAGW_ID, "value": pagw_id}],
        "status": "active",
        "type": source["type"],
        "use": "preauthorization",
        "patient": source["patient"],
        "created": created.isoformat(),
        "insurer": source["insurer"],
        "requestor": source["provider"],
        "request": _build_request_reference(source, pagw_id),
    }
    if "subType" in source:
        answer["subType"] = source["subType"]
    named = {pointer.target for pointer in find_references(answer, "")}
    if contained := [each for each in get_objects(source, "contained") if f"#{each.get('id')}" in named]:
        answer["contained"] = contained
    return answer


def _build_request_reference(claim: Mapping[str, Any], pagw_id: str) -> dict[str, Any]:
    """Build the reference to the Claim, by its identifier or else by the request's id."""
    named = next(iter(get_objects(claim, "identifier")), {"system": PAGW_ID, "value": pagw_id})
    return {"type": "Claim", "identifier": named}


def _get_outcome(claim: Entry, decision: Decision) -> str:
    """Return `queued` if all items are pended, `partial` if some are, otherwise `complete`."""
    actions = {_get_item_decision(each, decision).action for each in get_objects(claim.resource, "item")} or {
        decision.action
    }
    if actions == {ReviewAction.PENDED}:
        return "queued"
    return "partial" if ReviewAction.PENDED in actions else "complete"


def _get_item_decision(item: Mapping[str, Any], decision: Decision) -> ItemDecision:
    """Return the decision about one item: the item's own, or the request's if the payer did not name the
    item.
    """
    sequence = int(item["sequence"])
    own = next((each for each in decision.items if each.sequence == sequence), None)
    if own is not None:
        return own
    action = ReviewAction.CANCELLED if is_cancelled(item) else decision.action
    return ItemDecision(
        sequence=sequence, action=action, reason_code=decision.reason_code, reason=decision.reason
    )


def _build_item(item: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """Build the response's item: the echoed extensions, the grant and the adjudication."""
    decided = _get_item_decision(item, decision)
    number = decided.number or decision.authorization_number
    extensions = [each for each in get_objects(item, "extension") if each.get("url") in _ECHOED_EXTENSIONS]
    if decided.action in _GRANTING_ACTIONS:
        extensions += _build_grant_extensions(decision)
    answer: dict[str, Any] = {
        "itemSequence": decided.sequence,
        "adjudication": [_build_adjudication(decided, number)],
    }
    return {"extension": extensions, **answer} if extensions else answer


def _build_grant_extensions(decision: Decision) -> Iterator[dict[str, Any]]:
    """Yield the extensions of a granted item: issue date and period, as far as they are known."""
    if decision.decided_at is not None:
        yield {"url": ITEM_ISSUE_DATE, "valueDate": decision.decided_at.date().isoformat()}
    if (period := _build_period(decision)) is not None:
        yield {"url": ITEM_PERIOD, "valuePeriod": period}


def _build_period(decision: Decision) -> dict[str, str] | None:
    """Build the period of validity, or None if the decision has none."""
    ends = {"start": decision.valid_from, "end": decision.valid_to}
    period = {name: day.isoformat() for name, day in ends.items() if day is not None}
    return period or None


def _build_adjudication(decided: ItemDecision, number: str | None) -> dict[str, Any]:
    """Build the adjudication of an item: action, reason and, if granted, the authorization number."""
    parts: list[dict[str, Any]] = []
    if number is not None and decided.action in _GRANTING_ACTIONS:
        parts.append({"url": "number", "valueString": number})
    if decided.reason_code is not None or decided.reason is not None:
        parts.append({"url": "reasonCode", "valueCodeableConcept": _build_reason(decided)})
    coding = {"system": X12_ACTION, "code": decided.action.value, "display": decided.action.display}
    parts.append({"url": REVIEW_ACTION_CODE, "valueCodeableConcept": {"coding": [coding]}})
    return {
        "extension": [{"url": REVIEW_ACTION, "extension": parts}],
        "category": {"coding": [{"system": ADJUDICATION, "code": "submitted"}]},
    }


def _build_reason(decided: ItemDecision) -> dict[str, Any]:
    """Build the concept of a decision's reason: its code, its text, or both."""
    concept: dict[str, Any] = {}
    if decided.reason_code is not None:
        concept["coding"] = [{"system": X12_REASON, "code": decided.reason_code}]
    if decided.reason is not None:
        concept["text"] = decided.reason
    return concept


def _build_added_items(claim: Entry, decision: Decision) -> Iterator[dict[str, Any]]:
    """Yield the service authorized instead of each modified item: the same if the payer names no other."""
    for item in get_objects(claim.resource, "item"):
        decided = _get_item_decision(item, decision)
        if decided.action is not ReviewAction.MODIFIED:
            continue
        added: dict[str, Any] = {
            "itemSequence": [decided.sequence],
            "productOrService": item["productOrService"],
        }
        if (service := decided.authorized) is not None:
            coding = {"system": service.system, "code": service.code}
            added["productOrService"] = {"coding": [{name: text for name, text in coding.items() if text}]}
            if service.quantity is not None:
                added["quantity"] = {"value": service.quantity, "unit": service.unit or "unit"}
        certified = decided.model_copy(update={"action": ReviewAction.CERTIFIED})
        added["adjudication"] = [
            _build_adjudication(certified, decided.number or decision.authorization_number)
        ]
        yield added


def _build_bundle(
    request: Mapping[str, Any],
    graph: Graph,
    claim: Entry,
    answer: dict[str, Any],
    pagw_id: str,
    created: datetime,
) -> dict[str, Any]:
    """Build the Bundle of the response and of every resource that it refers to."""
    first = Entry(claim.index, _build_full_url(claim, answer), answer)
    # The response copies its references from the Claim, so they resolve from the Claim's fullUrl.
    reached = graph.find_reachable(Entry(-1, claim.full_url, answer))[1:]
    is_inquiry = CLAIM_INQUIRY_RESPONSE in answer["meta"]["profile"]
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "id": str(uuid5(NAMESPACE, f"{pagw_id}/Bundle/{answer['outcome']}")),
        "meta": {"profile": [INQUIRY_RESPONSE_BUNDLE if is_inquiry else RESPONSE_BUNDLE]},
        "type": "collection",
        "timestamp": created.isoformat(),
        "entry": [{"fullUrl": each.full_url, "resource": each.resource} for each in [first, *reached]],
    }
    if isinstance(request.get("identifier"), dict):
        bundle["identifier"] = request["identifier"]
    return bundle


def _build_full_url(claim: Entry, answer: Mapping[str, Any]) -> str:
    """Return a fullUrl next to the claim's if that is a server's URL, so that relative references still
    resolve.
    """
    kind_and_id = f"Claim/{claim.resource.get('id')}"
    if claim.full_url.endswith(f"/{kind_and_id}"):
        return f"{claim.full_url.removesuffix(kind_and_id)}ClaimResponse/{answer['id']}"
    return f"urn:uuid:{answer['id']}"
