"""R4 Subscriptions (R5 backport): parse and check a client's resource, and build the returned one.

PAS defines one topic, one channel (rest-hook), one filter (the sending organization's identifier) and one
content (full-resource). Anything else is refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pagw.domain.fhir.outcomes import FhirRefused, Issue, build_error, select_errors
from pagw.domain.fhir.references import find_extension, get_objects
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.urls import (
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
# The guide spells the filter in two ways, and examples of its earlier versions in a third.
FILTERS: Final = ("org-identifier", "orgIdentifier", "identifier")
PAYLOADS: Final = frozenset({CONTENT_TYPE, "application/json"})
STATUSES: Final = frozenset({"requested", "active", "off"})
MAX_HEADERS: Final = 10
# The length of the column subscriptions.organization.
MAX_ORGANIZATION_CHARS: Final = 100
_HEADER: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}):[ \t]*(?P<value>[\x20-\x7e]{1,2000})$"
)
# Only the gateway sets the headers that frame and sign a request.
_RESERVED_HEADERS: Final = re.compile(
    r"^(host|content-.*|connection|transfer-encoding|te|upgrade|trailer|expect|x-pagw-.*|webhook-.*)$",
    re.IGNORECASE,
)


class SubscriptionRequest(BaseModel):
    """A subscription that the gateway can serve. It announces results of `organization`, an identifier."""

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


def parse_subscription(resource: Mapping[str, Any]) -> SubscriptionRequest:
    """Parse a Subscription. Raise `FhirRefused` with every reason to refuse it."""
    issues = check_structure(resource, "Subscription")
    if resource.get("resourceType") != "Subscription":
        issues = [build_error("invalid", "The resource is not a Subscription.", "Subscription")]
    if not select_errors(issues):
        issues += _check_subscription(resource)
    if select_errors(issues):
        raise FhirRefused(issues)
    channel = resource["channel"]
    filtered = _parse_filter(resource)
    system, bar, value = filtered[1].rpartition("|") if filtered is not None else ("", "", "")
    return SubscriptionRequest(
        topic=resource["criteria"],
        organization=value,
        organization_system=system if bar else None,
        endpoint=channel["endpoint"],
        headers=tuple(channel.get("header", ())),
        payload=channel.get("payload", CONTENT_TYPE),
        heartbeat_s=_get_integer(channel, HEARTBEAT_PERIOD),
        timeout_s=_get_integer(channel, TIMEOUT),
        end=resource.get("end"),
        reason=resource.get("reason"),
        status=resource["status"],
    )


def parse_event_range(parameters: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the first and the last event number that the Parameters of `$events` ask for. Raise
    `FhirRefused` for an invalid one.
    """
    given = {
        each.get("name"): next((value for name, value in each.items() if name.startswith("value")), None)
        for each in get_objects(parameters, "parameter")
    }
    if given.get("content", FULL_RESOURCE) != FULL_RESOURCE:
        wrong = f"Parameters.parameter[content]: expected `{FULL_RESOURCE}`."
        raise FhirRefused([build_error("not-supported", wrong, "Parameters.parameter")])
    first = _parse_event_number(given.get("eventsSinceNumber", 1), "eventsSinceNumber")
    last = given.get("eventsUntilNumber")
    return first, None if last is None else _parse_event_number(last, "eventsUntilNumber")


def _parse_event_number(value: Any, name: str) -> int:
    """Return an event number, which R4 sends as text or as a number."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
        wrong = f"Parameters.parameter[{name}]: expected the number of an event, from 1."
        raise FhirRefused([build_error("value", wrong, "Parameters.parameter")])
    return int(text)


def build_subscription_resource(
    subscription: SubscriptionRequest, *, id: str, status: str, error: str | None = None
) -> dict[str, Any]:
    """Build the Subscription that the gateway returns. Headers are left out, because one may contain a
    client's token.
    """
    system = f"{subscription.organization_system}|" if subscription.organization_system is not None else ""
    criterion = f"{FILTERS[0]}={system}{subscription.organization}"
    spans = {HEARTBEAT_PERIOD: subscription.heartbeat_s, TIMEOUT: subscription.timeout_s}
    extensions = [{"url": url, "valueUnsignedInt": span} for url, span in spans.items() if span is not None]
    resource: dict[str, Any] = {
        "resourceType": "Subscription",
        "id": id,
        "meta": {"profile": [BACKPORT_SUBSCRIPTION, SUBSCRIPTION]},
        "status": status,
        "reason": subscription.reason or "Results of prior authorization",
        "criteria": subscription.topic,
        "_criteria": {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]},
        "channel": {
            "type": "rest-hook",
            "endpoint": subscription.endpoint,
            "payload": subscription.payload,
            "_payload": {"extension": [{"url": PAYLOAD_CONTENT, "valueCode": subscription.content}]},
        },
    }
    if extensions:
        resource["channel"]["extension"] = extensions
    if subscription.end is not None:
        resource["end"] = subscription.end.isoformat()
    return resource if error is None else {**resource, "error": error}


def _check_subscription(resource: Mapping[str, Any]) -> Iterator[Issue]:
    """Check status, topic, filter and end, and the channel."""
    if resource.get("status") not in STATUSES:
        yield build_error("value", "Subscription.status: expected `requested`.", "Subscription.status")
    if resource.get("criteria") != TOPIC:
        yield build_error(
            "not-supported",
            f"Subscription.criteria: the only supported topic is {TOPIC}.",
            "Subscription.criteria",
        )
    filtered = _parse_filter(resource)
    if filtered is None or filtered[0] not in FILTERS or not filtered[1].rpartition("|")[2].strip():
        wrong = (
            f"expected exactly one filter, `{FILTERS[0]}=` with the identifier of the sending organization"
        )
        yield build_error(
            "required", f"Subscription.criteria.extension: {wrong}.", "Subscription.criteria.extension"
        )
    elif len(filtered[1].rpartition("|")[2]) > MAX_ORGANIZATION_CHARS:
        wrong = f"the identifier is longer than {MAX_ORGANIZATION_CHARS} characters"
        yield build_error(
            "too-long", f"Subscription.criteria.extension: {wrong}.", "Subscription.criteria.extension"
        )
    if not _is_instant(resource.get("end")):
        yield build_error(
            "value", "Subscription.end: expected a date and time with a time zone.", "Subscription.end"
        )
    yield from _check_channel(resource["channel"])


def _check_channel(channel: Mapping[str, Any]) -> Iterator[Issue]:
    """Check type, endpoint, payload, content and headers of the channel."""
    path = "Subscription.channel"
    if channel.get("type") != "rest-hook":
        yield build_error(
            "not-supported", f"{path}.type: the only supported channel is rest-hook.", f"{path}.type"
        )
    if not _is_endpoint(channel.get("endpoint")):
        yield build_error(
            "value",
            f"{path}.endpoint: expected an absolute http(s) URL without credentials.",
            f"{path}.endpoint",
        )
    if channel.get("payload", CONTENT_TYPE) not in PAYLOADS:
        yield build_error("not-supported", f"{path}.payload: expected {CONTENT_TYPE}.", f"{path}.payload")
    wished = find_extension(channel.get("_payload") or {}, PAYLOAD_CONTENT)
    if wished is None or wished.get("valueCode") != FULL_RESOURCE:
        wrong = f"expected `{FULL_RESOURCE}`: an inquiry would not return everything in the response"
        yield build_error("not-supported", f"{path}.payload.extension: {wrong}.", f"{path}.payload.extension")
    headers = channel.get("header", [])
    if len(headers) > MAX_HEADERS or not all(_is_header(each) for each in headers):
        yield build_error(
            "value",
            f"{path}.header: expected at most {MAX_HEADERS} times `Name: value`, without reserved headers.",
            f"{path}.header",
        )


def _parse_filter(resource: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return name and value of the only filter; None if there is none or more than one."""
    extensions = get_objects(resource.get("_criteria") or {}, "extension")
    filters = [each.get("valueString") for each in extensions if each.get("url") == FILTER_CRITERIA]
    if len(filters) != 1 or not isinstance(filters[0], str) or "&" in filters[0]:
        return None
    # A filter may begin with its resource type: `ClaimResponse?org-identifier=…`.
    name, equals, value = filters[0].rpartition("?")[2].partition("=")
    return (name.strip(), value.strip()) if equals else None


def _is_instant(text: Any) -> bool:
    """Return whether the text is absent or an instant with a time zone that UTC can represent."""
    if text is None:
        return True
    try:
        moment = datetime.fromisoformat(text)
        return moment.tzinfo is not None and moment.astimezone(UTC) is not None
    except (TypeError, ValueError, OverflowError):
        return False


def _is_endpoint(text: Any) -> bool:
    """Return whether the text is an absolute http(s) URL without credentials and fragment."""
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
    """Return whether the text is `Name: value` and not a header that only the gateway sets."""
    match = _HEADER.match(text) if isinstance(text, str) else None
    return match is not None and _RESERVED_HEADERS.match(match["name"]) is None


def _get_integer(channel: Mapping[str, Any], url: str) -> int | None:
    """Return the integer of the channel's extension with this URL, or None."""
    found = find_extension(channel, url)
    if found is None:
        return None
    value = found.get("valueUnsignedInt", found.get("valuePositiveInt"))
    return value if isinstance(value, int) else None
