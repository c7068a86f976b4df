"""What an agent is offered beside the access patterns: why something was done, and where a conversation stands. Both read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.errors import NotFound
from richpanel import explaining, patterns

ACTIONS_SHOWN: Final = 50


async def why(stores: Stores, id: str) -> dict[str, Any]:
    """Why a conversation, or one event of it, was routed and answered as it was; oldest first.

    id is a conversation's id, or an event's (evt:rp:…). Each action has its reasons, the intent with its confidence, and
    whether it was done or, in shadow mode, only would have been. Of a long history the last fifty actions are given;
    actions counts all. Nothing here is a customer's text: none is kept.
    """
    found = await explaining.why(stores, id)
    return {
        "id": id,
        "actions": len(found.lines),
        "lines": list(found.lines[-ACTIONS_SHOWN:]),
        "last": list(found.data[-ACTIONS_SHOWN:]),
    }


async def conversation(stores: Stores, conversation_id: str) -> dict[str, Any]:
    """Where a conversation stands: its team, intent and risks, what the customer was asked for, what was sent by itself.

    A question that is pending ends at its own expires_at; one that is over is left out.
    """
    found = await stores.run(patterns.state(conversation_id))
    if found is None:
        raise NotFound(f"Nothing is known of the conversation {conversation_id}.")
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    return found.told_at(now).model_dump(mode="json", exclude_none=True)


TOOLS = (why, conversation)
