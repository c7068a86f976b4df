"""MCP tools that explain a conversation's routing and return its state. Both only read."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.model.agents import ToolFunction
from richpanel.api import explain
from richpanel.model import patterns

MAX_ACTIONS_SHOWN: Final = 50


class Routing(BaseModel):
    """The actions on a conversation or event, with their reasons."""

    id: str
    actions: int
    lines: list[str]
    last: list[Any]


async def why(stores: Stores, id: str) -> Routing:
    """Explain why a conversation, or one event of it, was routed and answered as it was; oldest first.

    Each action has its reasons, the intent with its confidence, and whether it was done or, in shadow mode,
    only recorded. A long history is cut to the last fifty actions; `actions` counts all. The answer contains
    no customer text: none is stored.
    """
    found = await explain.explain_routing(stores, id)
    return Routing(
        id=id,
        actions=len(found.lines),
        lines=list(found.lines[-MAX_ACTIONS_SHOWN:]),
        last=list(found.data[-MAX_ACTIONS_SHOWN:]),
    )


async def conversation(stores: Stores, conversation_id: str) -> dict[str, Any]:
    """Return the state of a conversation: its team, intent and risks, the pending question to the customer,
    and the automated replies.

    A pending question ends at its own `expires_at`; an expired one is left out.
    """
    found = await stores.run(patterns.state(conversation_id))
    if found is None:
        raise NotFound(f"Unknown conversation {conversation_id}.")
    now = stores.now()
    return found.without_expired_flow(now).model_dump(mode="json", exclude_none=True)


ARGUMENTS: Final = {
    "id": "The id of a conversation, or of an event (evt:rp:…)",
    "conversation_id": "The id of a conversation: the ticket at the help desk",
    "subject": "The id of a conversation: the ticket at the help desk",
    "since": "The first moment, with a time zone",
    "until": "The last moment, with a time zone",
}

TOOLS: Final = (
    ToolFunction(why, example={"id": "c-1"}, errors={NotFound: "nothing was done for this id"}),
    ToolFunction(
        conversation, example={"conversation_id": "c-1"}, errors={NotFound: "the conversation is unknown"}
    ),
)
