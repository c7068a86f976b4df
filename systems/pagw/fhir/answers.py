"""From a decision to the PAS answer: a Bundle with the ClaimResponse first, and each resource it refers to once.

Resources come from the request as they are there, under the same address. The Claim itself is named by its identifier
and not sent back: with it would go all that it refers to, down to the attachments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from pagw.fhir.decisions import Decision, ItemDecision, ReviewAction
from pagw.fhir.outcomes import Issue
from pagw.fhir.references import Entry, Graph, objects, pointers
from pagw.fhir.update_rules import is_cancelled
from pagw.fhir.urls import (
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

# The same request gets the same ids on every attempt, so an answer that is built again is the same answer.
SPACE: Final = UUID("0b9a4f0e-52a8-4a51-8d0b-0f6d3a0c27d4")
_ECHOED: Final = frozenset({ITEM_TRACE_NUMBER, ADMINISTRATION_NUMBER})
# What of a decided item is in force: an issue date and a period say something of no other.
_GRANTED: Final = frozenset({ReviewAction.CERTIFIED, ReviewAction.PARTIAL, ReviewAction.MODIFIED})
# X12 901: unable to respond at current time.
_UNPROCESSED: Final = "42"


def response_bundle(
    request: Mapping[str, Any], decision: Decision, *, pagw_id: str, created: datetime, inquiry: bool = False
) -> dict[str, Any]:
    """The answer to a request, final or pended; `inquiry` makes it one of the answers of `$inquire`."""
    graph, claim = _asked(request)
    answer = _response(claim, pagw_id, created, inquiry=inquiry)
    answer["outcome"] = _outcome(claim, decision)
    if decision.reason is not None:
        answer["disposition"] = decision.reason
    if decision.authorization_number is not None:
        answer["preAuthRef"] = decision.authorization_number
    if (period := _period(decision)) is not None:
        answer["preAuthPeriod"] = period
    answer["item"] = [_item(each, decision) for each in objects(claim.resource, "item")]
    if added := list(_added(claim, decision)):
        answer["addItem"] = added
    return _bundle(request, graph, claim, answer, pagw_id, created)


def error_bundle(
    request: Mapping[str, Any],
    issues: Sequence[Issue],
    *,
    pagw_id: str,
    created: datetime,
    code: str = _UNPROCESSED,
) -> dict[str, Any]:
    """The answer to a request that was taken and could not be processed: an outcome of error, with what went wrong."""
    graph, claim = _asked(request)
    answer = _response(claim, pagw_id, created, inquiry=False)
    answer["outcome"] = "error"
    answer["error"] = [
        {"code": {"coding": [{"system": X12_ERROR, "code": code}], "text": issue.diagnostics}}
        for issue in issues
    ]
    return _bundle(request, graph, claim, answer, pagw_id, created)


def as_inquired(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that was given before, as one of the answers of `$inquire`: the same under other profiles."""
    first, *others = objects(answer, "entry")
    resource = {**first["resource"], "meta": {"profile": [CLAIM_INQUIRY_RESPONSE]}}
    return {
        **answer,
        "meta": {"profile": [INQUIRY_RESPONSE_BUNDLE]},
        "entry": [{**first, "resource": resource}, *others],
    }


def _asked(request: Mapping[str, Any]) -> tuple[Graph, Entry]:
    graph = Graph.of(request)
    claim = graph.first()
    if claim is None or claim.kind != "Claim":
        raise ValueError("An answer is made of a request whose first entry is a Claim.")
    return graph, claim


def _response(claim: Entry, pagw_id: str, created: datetime, *, inquiry: bool) -> dict[str, Any]:
    asked = claim.resource
    answer: dict[str, Any] = {
        "resourceType": "ClaimResponse",
        "id": str(uuid5(SPACE, f"{pagw_id}/ClaimResponse")),
        "meta": {"profile": [CLAIM_INQUIRY_RESPONSE if inquiry else CLAIM_RESPONSE]},
        "identifier": [{"system": PAGW_ID, "value": pagw_id}],
        "status": "active",
        "type": asked["type"],
        "use": "preauthorization",
        "patient": asked["patient"],
        "created": created.isoformat(),
        "insurer": asked["insurer"],
        "requestor": asked["provider"],
        "request": _request(asked, pagw_id),
    }
    if "subType" in asked:
        answer["subType"] = asked["subType"]
    named = {pointer.target for pointer in pointers(answer, "")}
    if contained := [each for each in objects(asked, "contained") if f"#{each.get('id')}" in named]:
        answer["contained"] = contained
    return answer


def _request(claim: Mapping[str, Any], pagw_id: str) -> dict[str, Any]:
    named = next(iter(objects(claim, "identifier")), {"system": PAGW_ID, "value": pagw_id})
    return {"type": "Claim", "identifier": named}


def _outcome(claim: Entry, decision: Decision) -> str:
    """Queued while all of it waits, partial while some of it does, else complete."""
    actions = {_decided(each, decision).action for each in objects(claim.resource, "item")} or {
        decision.action
    }
    if actions == {ReviewAction.PENDED}:
        return "queued"
    return "partial" if ReviewAction.PENDED in actions else "complete"


def _decided(item: Mapping[str, Any], decision: Decision) -> ItemDecision:
    """What was decided of one item: its own word, or the request's."""
    sequence = int(item["sequence"])
    own = next((each for each in decision.items if each.sequence == sequence), None)
    if own is not None:
        return own
    action = ReviewAction.CANCELLED if is_cancelled(item) else decision.action
    return ItemDecision(
        sequence=sequence, action=action, reason_code=decision.reason_code, reason=decision.reason
    )


def _item(item: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    decided = _decided(item, decision)
    number = decided.number or decision.authorization_number
    extensions = [each for each in objects(item, "extension") if each.get("url") in _ECHOED]
    if decided.action in _GRANTED:
        extensions += _grant(decision)
    answer: dict[str, Any] = {"itemSequence": decided.sequence, "adjudication": [_review(decided, number)]}
    return {"extension": extensions, **answer} if extensions else answer


def _grant(decision: Decision) -> Iterator[dict[str, Any]]:
    if decision.decided_at is not None:
        yield {"url": ITEM_ISSUE_DATE, "valueDate": decision.decided_at.date().isoformat()}
    if (period := _period(decision)) is not None:
        yield {"url": ITEM_PERIOD, "valuePeriod": period}


def _period(decision: Decision) -> dict[str, str] | None:
    ends = {"start": decision.valid_from, "end": decision.valid_to}
    told = {name: day.isoformat() for name, day in ends.items() if day is not None}
    return told or None


def _review(decided: ItemDecision, number: str | None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if number is not None and decided.action in _GRANTED:
        parts.append({"url": "number", "valueString": number})
    if decided.reason_code is not None or decided.reason is not None:
        parts.append({"url": "reasonCode", "valueCodeableConcept": _reason(decided)})
    coding = {"system": X12_ACTION, "code": decided.action.value, "display": decided.action.display}
    parts.append({"url": REVIEW_ACTION_CODE, "valueCodeableConcept": {"coding": [coding]}})
    return {
        "extension": [{"url": REVIEW_ACTION, "extension": parts}],
        "category": {"coding": [{"system": ADJUDICATION, "code": "submitted"}]},
    }


def _reason(decided: ItemDecision) -> dict[str, Any]:
    concept: dict[str, Any] = {}
    if decided.reason_code is not None:
        concept["coding"] = [{"system": X12_REASON, "code": decided.reason_code}]
    if decided.reason is not None:
        concept["text"] = decided.reason
    return concept


def _added(claim: Entry, decision: Decision) -> Iterator[dict[str, Any]]:
    """Of each modified item, what was authorized in its place: the same service where the payer names no other."""
    for item in objects(claim.resource, "item"):
        decided = _decided(item, decision)
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
        added["adjudication"] = [_review(certified, decided.number or decision.authorization_number)]
        yield added


def _bundle(
    request: Mapping[str, Any],
    graph: Graph,
    claim: Entry,
    answer: dict[str, Any],
    pagw_id: str,
    created: datetime,
) -> dict[str, Any]:
    first = Entry(claim.place, _address(claim, answer), answer)
    # References of the answer are the request's own, so they are followed from where they stood.
    reached = graph.reached(Entry(-1, claim.full_url, answer))[1:]
    is_inquiry = CLAIM_INQUIRY_RESPONSE in answer["meta"]["profile"]
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "id": str(uuid5(SPACE, f"{pagw_id}/Bundle/{answer['outcome']}")),
        "meta": {"profile": [INQUIRY_RESPONSE_BUNDLE if is_inquiry else RESPONSE_BUNDLE]},
        "type": "collection",
        "timestamp": created.isoformat(),
        "entry": [{"fullUrl": each.full_url, "resource": each.resource} for each in [first, *reached]],
    }
    if isinstance(request.get("identifier"), dict):
        bundle["identifier"] = request["identifier"]
    return bundle


def _address(claim: Entry, answer: Mapping[str, Any]) -> str:
    """Beside the claim where that has a server's address, so that relative references still lead where they led."""
    kind_and_id = f"Claim/{claim.resource.get('id')}"
    if claim.full_url.endswith(f"/{kind_and_id}"):
        return f"{claim.full_url.removesuffix(kind_and_id)}ClaimResponse/{answer['id']}"
    return f"urn:uuid:{answer['id']}"
