"""Subscription notifications: history Bundles that open with the subscription's status (R5 backport).

An event notification carries the whole PAS response as its focus. The caller chooses the notification's id
and keeps it for every attempt, so that the receiver recognizes repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from pagw.domain.fhir.outcomes import Issue, build_error
from pagw.domain.fhir.references import Graph, get_objects
from pagw.domain.fhir.rules.pas_rules import check_response
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.urls import BACKPORT_NOTIFICATION, BACKPORT_STATUS, TOPIC
from pagw.domain.profiles import LATEST, GuideVersion

_NAMESPACE: Final = UUID("5d8f3f2e-9c0e-4a5b-8f4b-2f6d1d3b7c10")
_REQUIRED_PARAMETERS: Final = ("subscription", "type")
_EVENT_TYPE: Final = "event-notification"
# A response that is spread over a notification has no Bundle of its own.
_ENVELOPE: Final = {
    "resourceType": "Bundle",
    "type": "collection",
    "identifier": {"value": "response"},
    "timestamp": "2026-01-01T00:00:00Z",
}


def build_notification(
    answer: Mapping[str, Any], *, subscription_url: str, event_number: int, at: datetime, id: str
) -> dict[str, Any]:
    """Build an event notification. `answer` is the response Bundle; `event_number` counts the subscription's
    events from 1.
    """
    address = f"urn:uuid:{_get_focus_id(answer, id)}"
    parameters = [
        *_build_status(subscription_url, "active", _EVENT_TYPE, event_number),
        _build_event_parameter(event_number, at, address),
    ]
    focus = {
        "fullUrl": address,
        "resource": answer,
        "request": {"method": "POST", "url": "Bundle"},
        "response": {"status": "201"},
    }
    return _build_bundle(parameters, subscription_url, at, id, [focus])


def _get_focus_id(answer: Mapping[str, Any], id: str) -> str:
    """Return the id of the response Bundle if it is a UUID; a payer's may have another id, or none."""
    try:
        return str(UUID(answer.get("id")))
    except (ValueError, TypeError, AttributeError):
        return str(uuid5(_NAMESPACE, f"{id}/focus"))


@dataclass(frozen=True)
class NotifiedEvent:
    """An event of a subscription, with the response Bundle that it announces."""

    number: int
    at: datetime
    response: Mapping[str, Any]


def build_events_response(
    events: Sequence[NotifiedEvent], *, subscription_url: str, status: str, total: int, at: datetime
) -> dict[str, Any]:
    """Build the response to `Subscription/{id}/$events`. `total` is the number of events since the
    subscription started.
    """
    id = f"events-{subscription_url.rpartition('/')[2]}"
    parameters = _build_status(subscription_url, status, "query-event", total)
    entries: list[dict[str, Any]] = []
    for each in events:
        address = f"urn:uuid:{_get_focus_id({}, f'{id}-{each.number}')}"
        parameters.append(_build_event_parameter(each.number, each.at, address))
        entries.append(
            {
                "fullUrl": address,
                "resource": each.response,
                "request": {"method": "POST", "url": "Bundle"},
                "response": {"status": "201"},
            }
        )
    return _build_bundle(parameters, subscription_url, at, id, entries)


def _build_event_parameter(number: int, at: datetime, address: str) -> dict[str, Any]:
    """Build the parameter of one event, whose focus is at `address` in the Bundle."""
    parts = [
        {"name": "event-number", "valueString": str(number)},
        {"name": "timestamp", "valueInstant": at.isoformat()},
        {"name": "focus", "valueReference": {"reference": address}},
    ]
    return {"name": "notification-event", "part": parts}


def build_handshake(*, subscription_url: str, at: datetime, id: str) -> dict[str, Any]:
    """Build the handshake, sent once to test the endpoint before the subscription becomes active."""
    return _build_bundle(
        _build_status(subscription_url, "requested", "handshake", 0), subscription_url, at, id
    )


def build_heartbeat(*, subscription_url: str, events: int, at: datetime, id: str) -> dict[str, Any]:
    """Build a heartbeat. `events` is the number of events since the subscription started."""
    return _build_bundle(
        _build_status(subscription_url, "active", "heartbeat", events), subscription_url, at, id
    )


def build_status_response(
    *, subscription_url: str, status: str, events: int, at: datetime, id: str
) -> dict[str, Any]:
    """Build the response to `Subscription/{id}/$status`."""
    parameters = _build_status(subscription_url, status, "query-status", events)
    entry = {"fullUrl": f"urn:uuid:{_build_status_id(id)}", "resource": _build_parameters(parameters, id)}
    entry["search"] = {"mode": "match"}
    return {
        "resourceType": "Bundle",
        "id": id,
        "type": "searchset",
        "timestamp": at.isoformat(),
        "total": 1,
        "entry": [entry],
    }


def check_notification(bundle: Mapping[str, Any], version: GuideVersion = LATEST) -> list[Issue]:
    """Return what makes a Bundle an invalid full-resource notification; empty if it is valid.

    The response may be inside as one Bundle or entry by entry.
    """
    issues = check_structure(bundle, "Bundle")
    if issues:
        return issues
    if bundle.get("type") != "history" or not bundle.get("timestamp"):
        issues.append(build_error("invalid", "Bundle: expected type `history` and a timestamp.", "Bundle"))
    graph = Graph.from_bundle(bundle)
    first = graph.get_first()
    if first is None or first.kind != "Parameters":
        return [
            *issues,
            build_error(
                "invariant",
                "Bundle.entry[0]: expected the subscription status (Parameters).",
                "Bundle.entry[0]",
            ),
        ]
    parameters = {each.get("name"): each for each in get_objects(first.resource, "parameter")}
    missing = [name for name in _REQUIRED_PARAMETERS if name not in parameters]
    if missing:
        issues.append(
            build_error("required", f"{first.path}.parameter: {', '.join(missing)} is missing.", first.path)
        )
    if parameters.get("type", {}).get("valueCode") == _EVENT_TYPE:
        issues += _check_event(graph, parameters.get("notification-event", {}), version)
    return issues


def _build_status(subscription_url: str, status: str, kind: str, events: int) -> list[dict[str, Any]]:
    """Build the parameters of the subscription's status. `kind` is the type of notification."""
    return [
        {"name": "subscription", "valueReference": {"reference": subscription_url}},
        {"name": "topic", "valueCanonical": TOPIC},
        {"name": "status", "valueCode": status},
        {"name": "type", "valueCode": kind},
        {"name": "events-since-subscription-start", "valueString": str(events)},
    ]


def _build_parameters(parameters: Sequence[Mapping[str, Any]], id: str) -> dict[str, Any]:
    """Build the Parameters resource of a subscription's status."""
    meta = {"profile": [BACKPORT_STATUS]}
    return {
        "resourceType": "Parameters",
        "id": _build_status_id(id),
        "meta": meta,
        "parameter": list(parameters),
    }


def _build_status_id(id: str) -> str:
    """Return the id of the status entry, always the same for a notification's id."""
    return str(uuid5(_NAMESPACE, id))


def _build_bundle(
    parameters: Sequence[Mapping[str, Any]],
    subscription_url: str,
    at: datetime,
    id: str,
    further: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Build the history Bundle: the subscription's status first, then the entries in `further`."""
    status = {
        "fullUrl": f"urn:uuid:{_build_status_id(id)}",
        "resource": _build_parameters(parameters, id),
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


def _check_event(graph: Graph, event: Mapping[str, Any], version: GuideVersion) -> list[Issue]:
    """Return what is wrong with a notification's event and the response that it announces."""
    parts = {each.get("name"): each for each in get_objects(event, "part")}
    path = "Bundle.entry[0].resource.parameter"
    focus = graph.resolve(parts.get("focus", {}).get("valueReference"), graph.entries[0])
    if not {"event-number", "timestamp", "focus"} <= parts.keys():
        return [build_error("required", f"{path}: an event needs a number, a timestamp and a focus.", path)]
    if focus is None:
        return [build_error("not-found", f"{path}: the focus of the event is not in the Bundle.", path)]
    if focus[1].kind == "Bundle":
        return check_response(focus[0], version=version)
    if focus[1].kind != "ClaimResponse":
        return [build_error("invalid", f"{path}: expected a PAS response as the focus.", path)]
    entries = [
        {"fullUrl": each.full_url, "resource": each.resource} for each in graph.find_reachable(focus[1])
    ]
    return check_response({**_ENVELOPE, "entry": entries}, version=version)
