"""What a subscriber is sent: a history Bundle that opens with the status of the subscription, by the R5 backport.

A notification of an event carries the whole PAS answer as its focus. The id of a notification is given by the caller,
who keeps it for every further attempt: by it a receiver knows what it has had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from pagw.fhir.outcomes import Issue, error
from pagw.fhir.pas_rules import check_response
from pagw.fhir.references import Graph, objects
from pagw.fhir.structure import structure_issues
from pagw.fhir.urls import BACKPORT_NOTIFICATION, BACKPORT_STATUS, TOPIC

_SPACE: Final = UUID("5d8f3f2e-9c0e-4a5b-8f4b-2f6d1d3b7c10")
_REQUIRED: Final = ("subscription", "type")
_EVENT: Final = "event-notification"


def notification(
    answer: Mapping[str, Any], *, subscription_url: str, event_number: int, at: datetime, id: str
) -> dict[str, Any]:
    """An event: `answer` is the response Bundle, `event_number` counts those of this subscription from 1."""
    address = f"urn:uuid:{answer['id']}"
    event = [
        {"name": "event-number", "valueString": str(event_number)},
        {"name": "timestamp", "valueInstant": at.isoformat()},
        {"name": "focus", "valueReference": {"reference": address}},
    ]
    parameters = [
        *_status(subscription_url, "active", _EVENT, event_number),
        {"name": "notification-event", "part": event},
    ]
    focus = {
        "fullUrl": address,
        "resource": answer,
        "request": {"method": "POST", "url": "Bundle"},
        "response": {"status": "201"},
    }
    return _bundle(parameters, subscription_url, at, id, [focus])


def handshake(*, subscription_url: str, at: datetime, id: str) -> dict[str, Any]:
    """Asked once, before the subscription becomes active: does the endpoint answer?"""
    return _bundle(_status(subscription_url, "requested", "handshake", 0), subscription_url, at, id)


def heartbeat(*, subscription_url: str, events: int, at: datetime, id: str) -> dict[str, Any]:
    """Nothing happened; `events` says how many did since the subscription began."""
    return _bundle(_status(subscription_url, "active", "heartbeat", events), subscription_url, at, id)


def status_answer(
    *, subscription_url: str, status: str, events: int, at: datetime, id: str
) -> dict[str, Any]:
    """The answer to `Subscription/{id}/$status`."""
    parameters = _status(subscription_url, status, "query-status", events)
    entry = {"fullUrl": f"urn:uuid:{_status_id(id)}", "resource": _parameters(parameters, id)}
    entry["search"] = {"mode": "match"}
    return {
        "resourceType": "Bundle",
        "id": id,
        "type": "searchset",
        "timestamp": at.isoformat(),
        "total": 1,
        "entry": [entry],
    }


def check_notification(bundle: Mapping[str, Any]) -> list[Issue]:
    """Whether a Bundle is a full-resource notification: the answer inside, as one Bundle or entry by entry."""
    issues = structure_issues(bundle, "Bundle")
    if issues:
        return issues
    if bundle.get("type") != "history" or not bundle.get("timestamp"):
        issues.append(error("invalid", "Bundle: a notification is a history with a timestamp.", "Bundle"))
    graph = Graph.of(bundle)
    first = graph.first()
    if first is None or first.kind != "Parameters":
        return [*issues, error("invariant", "Bundle.entry[0]: the status comes first.", "Bundle.entry[0]")]
    told = {each.get("name"): each for each in objects(first.resource, "parameter")}
    missing = [name for name in _REQUIRED if name not in told]
    if missing:
        issues.append(
            error("required", f"{first.path}.parameter: {', '.join(missing)} is missing.", first.path)
        )
    if told.get("type", {}).get("valueCode") == _EVENT:
        issues += _event_issues(graph, told.get("notification-event", {}))
    return issues


def _status(subscription_url: str, status: str, kind: str, events: int) -> list[dict[str, Any]]:
    return [
        {"name": "subscription", "valueReference": {"reference": subscription_url}},
        {"name": "topic", "valueCanonical": TOPIC},
        {"name": "status", "valueCode": status},
        {"name": "type", "valueCode": kind},
        {"name": "events-since-subscription-start", "valueString": str(events)},
    ]


def _parameters(parameters: Sequence[Mapping[str, Any]], id: str) -> dict[str, Any]:
    meta = {"profile": [BACKPORT_STATUS]}
    return {"resourceType": "Parameters", "id": _status_id(id), "meta": meta, "parameter": list(parameters)}


def _status_id(id: str) -> str:
    return str(uuid5(_SPACE, id))


def _bundle(
    parameters: Sequence[Mapping[str, Any]],
    subscription_url: str,
    at: datetime,
    id: str,
    further: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    status = {
        "fullUrl": f"urn:uuid:{_status_id(id)}",
        "resource": _parameters(parameters, id),
        "request": {"method": "GET", "url": f"{subscription_url}/$status"},
        "response": {"status": "200"},
    }
    return {
        "resourceType": "Bundle",
        "id": id,
        "meta": {"profile": [BACKPORT_NOTIFICATION]},
        "type": "history",
        "timestamp": at.isoformat(),
        "entry": [status, *further],
    }


def _event_issues(graph: Graph, event: Mapping[str, Any]) -> list[Issue]:
    parts = {each.get("name"): each for each in objects(event, "part")}
    path = "Bundle.entry[0].resource.parameter"
    focus = graph.resource(parts.get("focus", {}).get("valueReference"), graph.entries[0])
    if not {"event-number", "timestamp", "focus"} <= parts.keys():
        return [error("required", f"{path}: an event has a number, a timestamp and a focus.", path)]
    if focus is None:
        return [error("not-found", f"{path}: the focus of the event is not in the Bundle.", path)]
    if focus[1].kind == "Bundle":
        return check_response(focus[0])
    if focus[1].kind != "ClaimResponse":
        return [error("invalid", f"{path}: the focus is an answer of PAS.", path)]
    entries = [{"fullUrl": each.full_url, "resource": each.resource} for each in graph.reached(focus[1])]
    return check_response({"resourceType": "Bundle", "type": "collection", "entry": entries})
