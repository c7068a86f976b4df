"""Why was this routed here? Answered from the audit, for a conversation or one event of it."""

from __future__ import annotations

from typing import Any

from holdfast import Explanation, Stores
from holdfast.errors import NotFound
from richpanel import patterns
from richpanel.keys import EVENT, SEPARATOR, parsed
from richpanel.model import ActionAudit, ActionType


async def why(stores: Stores, id: str) -> Explanation:
    """`id` is a conversation's, or the key of an event (`evt:rp:…`)."""
    conversation, message = _asked(id)
    entries = (await stores.all(patterns.AUDIT.history(conversation))).items
    if message is not None:
        entries = tuple(each for each in entries if _message_of(each) == message)
    if not entries:
        raise NotFound(
            f"The audit knows nothing of {id}: it was never routed from here, its entries have ended, or this environment "
            "keeps no audit."
        )
    return Explanation([_line(each) for each in entries], [_data(each) for each in entries])


def _asked(id: str) -> tuple[str, str | None]:
    """The conversation, and the message where one event is asked about."""
    if not id.startswith(EVENT + SEPARATOR):
        return id, None
    conversation, message = parsed(id).components
    return conversation, message


def _message_of(entry: ActionAudit) -> str:
    return parsed(entry.idempotency_key).components[-1]


def _line(entry: ActionAudit) -> str:
    told = entry.told
    failed = "" if entry.result is None or entry.result.ok else f" It was not done: {entry.result.reason}."
    return (
        f"{entry.at:%Y-%m-%d %H:%M:%S} {_deed(entry)}, because {told.get('reasons')}.{failed} "
        f"[{entry.idempotency_key}]"
    )


def _deed(entry: ActionAudit) -> str:
    if entry.action_type is ActionType.ignore:
        return "did nothing"
    verb = "would have done" if entry.shadow else "did"
    verb = verb if entry.result is None or entry.result.ok else "was to do"
    return f"{verb} {entry.action_type} → {entry.told.get('target')}"


def _data(entry: ActionAudit) -> dict[str, Any]:
    return {
        "at": entry.at.isoformat(),
        "action": entry.action_type,
        "shadow": entry.shadow,
        "key": entry.idempotency_key,
        "correlation": entry.correlation,
        "result": None if entry.result is None else entry.result.model_dump(),
        **entry.told,
    }
