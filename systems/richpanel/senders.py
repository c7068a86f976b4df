"""The webhooks of help desks, each in its own shape, as the members of one `InboundEvent`.

Richpanel's HTTP Target sends what its rule says: at the least `ticket_id`, `ticket_url` and `trigger`, and with the
fuller template the message too. Others nest the message, count ids as numbers, and name authors in their own words.
These functions only find and rename. What they leave out is absent; what is wrong is refused afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

Members = dict[str, Any]

# Beside these, whoever writes is the customer.
_AGENTS: Final = {"agent", "user", "operator", "admin", "team_member", "outgoing", "1"}
_AUTOMATIONS: Final = {"automation", "bot", "agent_bot", "system", "middleware", "app", "rule"}
_CUSTOMERS: Final = {"customer", "end_user", "end-user", "contact", "requester", "visitor", "incoming"}


def richpanel(body: Mapping[str, Any]) -> Members:
    """The minimal payload, and the fuller one with the message in it."""
    return _members(
        conversation_id=_first(body, "conversation_id", "ticket_id"),
        message_id=_first(body, "message_id"),
        trigger=body.get("trigger"),
        channel=_at(body, "channel"),
        author=_author(body.get("author", body.get("sender_type"))),
        text=_first(body, "text", "message"),
        created_at=body.get("created_at"),
        ticket_url=body.get("ticket_url"),
        customer_email=_at(body, "customer", "email") or body.get("customer_email"),
        tags=body.get("tags"),
    )


def zendesk(body: Mapping[str, Any]) -> Members:
    """An event of Zendesk's webhooks: `detail` is the ticket, `event.comment` what was added to it."""
    comment = _at(body, "event", "comment")
    return _members(
        conversation_id=_at(body, "detail", "id"),
        message_id=_at(comment, "id"),
        trigger=body.get("type"),
        channel=_at(body, "detail", "via", "channel"),
        author=_author("agent" if _at(comment, "author", "is_staff") is True else "customer"),
        text=_at(comment, "body"),
        created_at=_first(body, "time"),
        tags=_at(body, "detail", "tags"),
    )


def gorgias(body: Mapping[str, Any]) -> Members:
    """The ticket with its message, as Gorgias' HTTP integrations are commonly templated."""
    message = body.get("message")
    return _members(
        conversation_id=_at(body, "ticket", "id"),
        message_id=_at(message, "id"),
        trigger=body.get("event") or body.get("trigger"),
        channel=_at(message, "channel") or _at(body, "ticket", "channel"),
        author=_author("agent" if _at(message, "from_agent") is True else "customer"),
        text=_at(message, "body_text") or _at(message, "stripped_text"),
        created_at=_at(message, "created_datetime"),
        customer_email=_at(body, "ticket", "customer", "email"),
        tags=_names(_at(body, "ticket", "tags")),
    )


def freshdesk(body: Mapping[str, Any]) -> Members:
    """What Freshdesk's automations send: one flat object, under `freshdesk_webhook`.

    Its only time is that of the ticket, which is not the comment's: the worker asks for that.
    """
    hook = body.get("freshdesk_webhook", body)
    tags = _at(hook, "ticket_tags")
    return _members(
        conversation_id=_at(hook, "ticket_id"),
        message_id=_at(hook, "ticket_latest_comment_id"),
        trigger=_at(hook, "triggered_event"),
        channel=_at(hook, "ticket_source"),
        text=_at(hook, "ticket_latest_public_comment") or _at(hook, "ticket_description"),
        ticket_url=_at(hook, "ticket_url"),
        customer_email=_at(hook, "ticket_contact_email"),
        tags=[each.strip() for each in tags.split(",") if each.strip()] if isinstance(tags, str) else tags,
    )


def chatwoot(body: Mapping[str, Any]) -> Members:
    """`message_created` of Chatwoot: the message is the object, the conversation and the sender are in it."""
    kind = _at(body, "sender", "type")
    return _members(
        conversation_id=_at(body, "conversation", "display_id") or _at(body, "conversation", "id"),
        message_id=body.get("id"),
        trigger=body.get("event"),
        channel=_at(body, "conversation", "channel"),
        author=_author(kind if kind in ("agent_bot", "user") else body.get("message_type")),
        text=body.get("content"),
        created_at=_moment(body.get("created_at")),
        customer_email=_at(body, "sender", "email") if kind not in ("agent_bot", "user") else None,
        tags=_at(body, "conversation", "labels"),
    )


SENDERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Members]]] = {
    "richpanel": richpanel,
    "zendesk": zendesk,
    "gorgias": gorgias,
    "freshdesk": freshdesk,
    "chatwoot": chatwoot,
}


def _members(**found: Any) -> Members:
    """What was found; numbers that are ids as text."""
    for name in ("conversation_id", "message_id"):
        if isinstance(found.get(name), int) and not isinstance(found[name], bool):
            found[name] = str(found[name])
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _first(body: Mapping[str, Any], *names: str) -> Any:
    return next((body[name] for name in names if body.get(name) not in (None, "")), None)


def _at(body: Any, *path: str) -> Any:
    for step in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(step)
    return body


def _names(tags: Any) -> Any:
    """Tags that are objects with a name, as their names."""
    if not isinstance(tags, list):
        return tags
    return [each["name"] if isinstance(each, Mapping) and "name" in each else each for each in tags]


def author_of(kind: Any) -> Literal["customer", "agent", "automation"] | None:
    """As a help desk says who wrote a message: None if it does not say. Whom it calls by a name that we do not know is
    taken for a program, because a program must not answer itself."""
    if isinstance(kind, Mapping):
        kind = kind.get("type", kind.get("role"))
    if not isinstance(kind, str) or not kind:
        return None
    word = kind.lower()
    if word in _CUSTOMERS:
        return "customer"
    return "agent" if word in _AGENTS else "automation"


def _author(kind: Any) -> str:
    """As a webhook says it, which leaves it out of what a customer wrote."""
    word = str(kind).lower() if kind is not None else ""
    if word in _AUTOMATIONS:
        return "automation"
    return "agent" if word in _AGENTS else "customer"


def _moment(value: Any) -> Any:
    """Seconds since 1970, where a sender counts them, as a time in writing."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return str(value)
