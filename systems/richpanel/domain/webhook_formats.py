"""Webhook formats of the help desks: convert each sender's body into the fields of one `InboundEvent`.

Richpanel's HTTP Target sends what its rule says: at least `ticket_id`, `ticket_url` and `trigger`, and with
the fuller template the message too. Other senders nest the message, use numbers as ids, and have their own
words for authors. These functions only find and rename fields. Missing fields are left out; `InboundEvent`
refuses invalid ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

EventFields = dict[str, Any]

# Words for authors. In a webhook, any other author is the customer.
_AGENTS: Final = {"agent", "user", "operator", "admin", "team_member", "outgoing", "1"}
_AUTOMATIONS: Final = {"automation", "bot", "agent_bot", "system", "middleware", "app", "rule"}
_CUSTOMERS: Final = {"customer", "end_user", "end-user", "contact", "requester", "visitor", "incoming"}


def parse_richpanel(body: Mapping[str, Any]) -> EventFields:
    """Parse Richpanel's minimal payload, or the fuller one with the message."""
    return _build_fields(
        conversation_id=_get_first(body, "conversation_id", "ticket_id"),
        message_id=_get_first(body, "message_id"),
        trigger=body.get("trigger"),
        channel=_get_path(body, "channel"),
        author=_parse_webhook_author(body.get("author", body.get("sender_type"))),
        text=_get_first(body, "text", "message"),
        created_at=body.get("created_at"),
        ticket_url=body.get("ticket_url"),
        customer_email=_get_path(body, "customer", "email") or body.get("customer_email"),
        tags=body.get("tags"),
    )


def parse_zendesk(body: Mapping[str, Any]) -> EventFields:
    """Parse an event of Zendesk's webhooks: `detail` is the ticket, `event.comment` the new comment."""
    comment = _get_path(body, "event", "comment")
    return _build_fields(
        conversation_id=_get_path(body, "detail", "id"),
        message_id=_get_path(comment, "id"),
        trigger=body.get("type"),
        channel=_get_path(body, "detail", "via", "channel"),
        author=_parse_webhook_author(
            "agent" if _get_path(comment, "author", "is_staff") is True else "customer"
        ),
        text=_get_path(comment, "body"),
        created_at=_get_first(body, "time"),
        tags=_get_path(body, "detail", "tags"),
    )


def parse_gorgias(body: Mapping[str, Any]) -> EventFields:
    """Parse the ticket with its message, in the common template of Gorgias' HTTP integrations."""
    message = body.get("message")
    return _build_fields(
        conversation_id=_get_path(body, "ticket", "id"),
        message_id=_get_path(message, "id"),
        trigger=body.get("event") or body.get("trigger"),
        channel=_get_path(message, "channel") or _get_path(body, "ticket", "channel"),
        author=_parse_webhook_author("agent" if _get_path(message, "from_agent") is True else "customer"),
        text=_get_path(message, "body_text") or _get_path(message, "stripped_text"),
        created_at=_get_path(message, "created_datetime"),
        customer_email=_get_path(body, "ticket", "customer", "email"),
        tags=_get_names(_get_path(body, "ticket", "tags")),
    )


def parse_freshdesk(body: Mapping[str, Any]) -> EventFields:
    """Parse the flat object that Freshdesk's automations send under `freshdesk_webhook`.

    Its only time is that of the ticket, not of the comment: the worker fetches the comment's.
    """
    hook = body.get("freshdesk_webhook", body)
    tags = _get_path(hook, "ticket_tags")
    return _build_fields(
        conversation_id=_get_path(hook, "ticket_id"),
        message_id=_get_path(hook, "ticket_latest_comment_id"),
        trigger=_get_path(hook, "triggered_event"),
        channel=_get_path(hook, "ticket_source"),
        text=_get_path(hook, "ticket_latest_public_comment") or _get_path(hook, "ticket_description"),
        ticket_url=_get_path(hook, "ticket_url"),
        customer_email=_get_path(hook, "ticket_contact_email"),
        tags=[each.strip() for each in tags.split(",") if each.strip()] if isinstance(tags, str) else tags,
    )


def parse_chatwoot(body: Mapping[str, Any]) -> EventFields:
    """Parse Chatwoot's `message_created`: the object is the message and contains the conversation and the
    sender.
    """
    kind = _get_path(body, "sender", "type")
    return _build_fields(
        conversation_id=_get_path(body, "conversation", "display_id")
        or _get_path(body, "conversation", "id"),
        message_id=body.get("id"),
        trigger=body.get("event"),
        channel=_get_path(body, "conversation", "channel"),
        author=_parse_webhook_author(kind if kind in ("agent_bot", "user") else body.get("message_type")),
        text=body.get("content"),
        created_at=_format_epoch(body.get("created_at")),
        customer_email=_get_path(body, "sender", "email") if kind not in ("agent_bot", "user") else None,
        tags=_get_path(body, "conversation", "labels"),
    )


SENDERS: Final[Mapping[str, Callable[[Mapping[str, Any]], EventFields]]] = {
    "richpanel": parse_richpanel,
    "zendesk": parse_zendesk,
    "gorgias": parse_gorgias,
    "freshdesk": parse_freshdesk,
    "chatwoot": parse_chatwoot,
}


def _build_fields(**found: Any) -> EventFields:
    """Return the fields that are not empty, with numeric ids as text."""
    for name in ("conversation_id", "message_id"):
        if isinstance(found.get(name), int) and not isinstance(found[name], bool):
            found[name] = str(found[name])
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _get_first(body: Mapping[str, Any], *names: str) -> Any:
    """Return the first of the named fields that is not empty, or None."""
    return next((body[name] for name in names if body.get(name) not in (None, "")), None)


def _get_path(body: Any, *path: str) -> Any:
    """Return the value at a path of nested objects, or None."""
    for step in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(step)
    return body


def _get_names(tags: Any) -> Any:
    """Return a list of tags as names: an object becomes its `name`. Any other value is unchanged."""
    if not isinstance(tags, list):
        return tags
    return [each["name"] if isinstance(each, Mapping) and "name" in each else each for each in tags]


def parse_author(kind: Any) -> Literal["customer", "agent", "automation"] | None:
    """Return the author of a message at the help desk, or None if the response names none.

    `kind` is a word, or an object with `type` or `role`. An unknown word counts as automation, because a
    program must not answer itself.
    """
    if isinstance(kind, Mapping):
        kind = kind.get("type", kind.get("role"))
    if not isinstance(kind, str) or not kind:
        return None
    word = kind.lower()
    if word in _CUSTOMERS:
        return "customer"
    return "agent" if word in _AGENTS else "automation"


def _parse_webhook_author(kind: Any) -> str:
    """Return the author of a webhook. A missing or unknown word means the customer."""
    word = str(kind).lower() if kind is not None else ""
    if word in _AUTOMATIONS:
        return "automation"
    return "agent" if word in _AGENTS else "customer"


def _format_epoch(value: Any) -> Any:
    """Convert seconds since 1970 to an ISO time. Return any other value unchanged."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return str(value)
