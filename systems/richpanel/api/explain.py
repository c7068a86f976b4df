"""Explain from the audit why a conversation, or one of its events, was routed as it was."""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.model.system import Explanation
from richpanel.domain.idempotency_keys import EVENT_NAMESPACE, SEPARATOR, parse_key
from richpanel.model import patterns
from richpanel.model.entities import ActionAudit, ActionType


async def explain_routing(stores: Stores, id: str) -> Explanation:
    """Explain the actions of a conversation (`id` is its id) or of one event (`id` is its key, `evt:rp:…`).
    Raise `NotFound` if the audit has no entry.
    """
    conversation, message = _parse_id(id)
    entries = (await stores.all(patterns.AUDIT.pattern_set.history(conversation))).items
    if message is not None:
        entries = tuple(each for each in entries if _get_message_key(each) == message)
    if not entries:
        raise NotFound(
            f"The audit has no entry for {id}: it was never processed here, its entries have expired, or "
            "this environment keeps no audit."
        )
    return Explanation([_format_line(each) for each in entries], [_to_json(each) for each in entries])


def _parse_id(id: str) -> tuple[str, str | None]:
    """Return the conversation of an id, and the message's key if it is an event's, else None."""
    if not id.startswith(EVENT_NAMESPACE + SEPARATOR):
        return id, None
    conversation, message = parse_key(id).components
    return conversation, message


def _get_message_key(entry: ActionAudit) -> str:
    """Return the last component of the entry's key: the message's id, or the hash in its place."""
    return parse_key(entry.idempotency_key).components[-1]


def _format_line(entry: ActionAudit) -> str:
    """Format an audit entry as one line: time, action, reasons, failure if any, and key."""
    payload = entry.parsed_payload
    failed = "" if entry.result is None or entry.result.ok else f" It was not done: {entry.result.reason}."
    return (
        f"{entry.at:%Y-%m-%d %H:%M:%S} {_format_action(entry)}, because {payload.get('reasons')}.{failed} "
        f"[{entry.idempotency_key}]"
    )


def _format_action(entry: ActionAudit) -> str:
    """Say what was done: "did", in shadow mode "would have done", after a failure "was to do"."""
    if entry.action_type is ActionType.ignore:
        return "did nothing"
    verb = "would have done" if entry.shadow else "did"
    verb = verb if entry.result is None or entry.result.ok else "was to do"
    return f"{verb} {entry.action_type} → {entry.parsed_payload.get('target')}"


def _to_json(entry: ActionAudit) -> dict[str, Any]:
    return {
        "at": entry.at.isoformat(),
        "action": entry.action_type,
        "shadow": entry.shadow,
        "key": entry.idempotency_key,
        "correlation": entry.correlation,
        "result": None if entry.result is None else entry.result.model_dump(),
        **entry.parsed_payload,
    }
