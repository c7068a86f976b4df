"""A Subscription of R4 with the extensions of the R5 backport: read and judged, and given back.

PAS knows one topic, one channel (rest-hook), one filter (the sending organization's identifier) and one content
(full-resource); anything else is refused with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pagw.fhir.outcomes import FhirRefused, Issue, error, errors
from pagw.fhir.references import extension, objects
from pagw.fhir.structure import structure_issues
from pagw.fhir.urls import (
    BACKPORT_SUBSCRIPTION,
    CONTENT_TYPE,
    FILTER_CRITERIA,
    HEARTBEAT_PERIOD,
    PAYLOAD_CONTENT,
    SUBSCRIPTION,
    TIMEOUT,
    TOPIC,
)

FULL_RESOURCE: Final = "full-resource"
# The guide spells the filter in two ways, and its former versions' examples in a third.
FILTERS: Final = ("org-identifier", "orgIdentifier", "identifier")
PAYLOADS: Final = frozenset({CONTENT_TYPE, "application/json"})
STATUSES: Final = frozenset({"requested", "active", "off"})
HEADERS_MAX: Final = 10
# That of the column subscriptions.organization.
ORGANIZATION_CHARS_MAX: Final = 100
_HEADER: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}):[ \t]*(?P<value>[\x20-\x7e]{1,2000})$"
)
# Headers by which a request is framed and signed are the gateway's own.
_OUR_HEADERS: Final = re.compile(
    r"^(host|content-.*|connection|transfer-encoding|te|upgrade|trailer|expect|x-pagw-.*|webhook-.*)$",
    re.IGNORECASE,
)


class Subscribed(BaseModel):
    """A subscription that can be served. `organization` is whose results are told of: the value, and a system if told."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    topic: str
    organization: str
    organization_system: str | None = None
    endpoint: str
    headers: tuple[str, ...] = ()
    payload: str = CONTENT_TYPE
    content: str = FULL_RESOURCE
    heartbeat_s: int | None = None
    timeout_s: int | None = None
    end: datetime | None = None
    reason: str | None = None
    status: str = "requested"


def read_subscription(resource: Mapping[str, Any]) -> Subscribed:
    """The subscription that a resource asks for; raises `FhirRefused` with every reason against it."""
    issues = structure_issues(resource, "Subscription")
    if resource.get("resourceType") != "Subscription":
        issues = [error("invalid", "The resource is not a Subscription.", "Subscription")]
    if not errors(issues):
        issues += _issues(resource)
    if errors(issues):
        raise FhirRefused(issues)
    channel = resource["channel"]
    filtered = _filter(resource)
    system, bar, value = filtered[1].rpartition("|") if filtered is not None else ("", "", "")
    return Subscribed(
        topic=resource["criteria"],
        organization=value,
        organization_system=system if bar else None,
        endpoint=channel["endpoint"],
        headers=tuple(channel.get("header", ())),
        payload=channel.get("payload", CONTENT_TYPE),
        heartbeat_s=_whole(channel, HEARTBEAT_PERIOD),
        timeout_s=_whole(channel, TIMEOUT),
        end=resource.get("end"),
        reason=resource.get("reason"),
        status=resource["status"],
    )


def subscription_resource(
    subscribed: Subscribed, *, id: str, status: str, error: str | None = None
) -> dict[str, Any]:
    """The Subscription as the gateway gives it back. Headers are not told: one may hold a client's token."""
    system = f"{subscribed.organization_system}|" if subscribed.organization_system is not None else ""
    criterion = f"{FILTERS[0]}={system}{subscribed.organization}"
    spans = {HEARTBEAT_PERIOD: subscribed.heartbeat_s, TIMEOUT: subscribed.timeout_s}
    extensions = [{"url": url, "valueUnsignedInt": span} for url, span in spans.items() if span is not None]
    resource: dict[str, Any] = {
        "resourceType": "Subscription",
        "id": id,
        "meta": {"profile": [BACKPORT_SUBSCRIPTION, SUBSCRIPTION]},
        "status": status,
        "reason": subscribed.reason or "Results of prior authorization",
        "criteria": subscribed.topic,
        "_criteria": {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]},
        "channel": {
            "type": "rest-hook",
            "endpoint": subscribed.endpoint,
            "payload": subscribed.payload,
            "_payload": {"extension": [{"url": PAYLOAD_CONTENT, "valueCode": subscribed.content}]},
        },
    }
    if extensions:
        resource["channel"]["extension"] = extensions
    if subscribed.end is not None:
        resource["end"] = subscribed.end.isoformat()
    return resource if error is None else {**resource, "error": error}


def _issues(resource: Mapping[str, Any]) -> Iterator[Issue]:
    if resource.get("status") not in STATUSES:
        yield error("value", "Subscription.status: a client asks with `requested`.", "Subscription.status")
    if resource.get("criteria") != TOPIC:
        yield error(
            "not-supported", f"Subscription.criteria: the only topic is {TOPIC}.", "Subscription.criteria"
        )
    filtered = _filter(resource)
    if filtered is None or filtered[0] not in FILTERS or not filtered[1].rpartition("|")[2].strip():
        wrong = (
            f"the filter is `{FILTERS[0]}=` with the identifier of the sending organization, and there is one"
        )
        yield error(
            "required", f"Subscription.criteria.extension: {wrong}.", "Subscription.criteria.extension"
        )
    elif len(filtered[1].rpartition("|")[2]) > ORGANIZATION_CHARS_MAX:
        wrong = f"an identifier has at most {ORGANIZATION_CHARS_MAX} characters"
        yield error(
            "too-long", f"Subscription.criteria.extension: {wrong}.", "Subscription.criteria.extension"
        )
    if not _is_moment(resource.get("end")):
        yield error("value", "Subscription.end: a moment with a time zone.", "Subscription.end")
    yield from _channel_issues(resource["channel"])


def _channel_issues(channel: Mapping[str, Any]) -> Iterator[Issue]:
    path = "Subscription.channel"
    if channel.get("type") != "rest-hook":
        yield error("not-supported", f"{path}.type: the only channel is rest-hook.", f"{path}.type")
    if not _is_endpoint(channel.get("endpoint")):
        yield error(
            "value", f"{path}.endpoint: an absolute http(s) address, without a password.", f"{path}.endpoint"
        )
    if channel.get("payload", CONTENT_TYPE) not in PAYLOADS:
        yield error("not-supported", f"{path}.payload: notifications are {CONTENT_TYPE}.", f"{path}.payload")
    wished = extension(channel.get("_payload") or {}, PAYLOAD_CONTENT)
    if wished is None or wished.get("valueCode") != FULL_RESOURCE:
        wrong = f"the content is `{FULL_RESOURCE}`: an inquiry could not bring all that the answer says"
        yield error("not-supported", f"{path}.payload.extension: {wrong}.", f"{path}.payload.extension")
    headers = channel.get("header", [])
    if len(headers) > HEADERS_MAX or not all(_is_header(each) for each in headers):
        yield error(
            "value", f"{path}.header: `Name: value`, none that frames or signs the request.", f"{path}.header"
        )


def _filter(resource: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and value of the one filter; None where there is none, or more than one."""
    extensions = objects(resource.get("_criteria") or {}, "extension")
    told = [each.get("valueString") for each in extensions if each.get("url") == FILTER_CRITERIA]
    if len(told) != 1 or not isinstance(told[0], str) or "&" in told[0]:
        return None
    # A filter may begin with the resource it is about: `ClaimResponse?org-identifier=…`.
    name, equals, value = told[0].rpartition("?")[2].partition("=")
    return (name.strip(), value.strip()) if equals else None


def _is_moment(text: Any) -> bool:
    """One that is in the calendar of UTC too, in which it is kept."""
    if text is None:
        return True
    try:
        moment = datetime.fromisoformat(text)
        return moment.tzinfo is not None and moment.astimezone(UTC) is not None
    except (TypeError, ValueError, OverflowError):
        return False


def _is_endpoint(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and not parts.fragment
        )
    except ValueError:
        return False


def _is_header(text: Any) -> bool:
    match = _HEADER.match(text) if isinstance(text, str) else None
    return match is not None and _OUR_HEADERS.match(match["name"]) is None


def _whole(channel: Mapping[str, Any], url: str) -> int | None:
    found = extension(channel, url)
    if found is None:
        return None
    value = found.get("valueUnsignedInt", found.get("valuePositiveInt"))
    return value if isinstance(value, int) else None
