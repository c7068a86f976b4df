"""The HTTP of the middleware: the door for webhooks, and what people and their tools ask."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast import Stores
from holdfast.errors import NotFound
from richpanel import explaining, patterns, switchboard
from richpanel.ingress import Ingress
from richpanel.model import ConversationState, Switches
from richpanel.senders import SENDERS

SENDER: Final = {
    "name": "sender",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "enum": sorted(SENDERS)},
}
ConversationId = Annotated[str, Path(max_length=128)]


class Accepted(BaseModel):
    """The event is in the queue. Copies have the same id."""

    event_id: str


class Why(BaseModel):
    """Why a conversation stands where it does, in words and as data."""

    lines: list[str]
    actions: list[dict[str, Any]]


class SwitchesWanted(BaseModel):
    """How the switches shall stand. What is left out is off; safe mode is on."""

    model_config = ConfigDict(extra="forbid")

    safe_mode: bool = True
    automation_enabled: bool = False
    channels: list[str] = Field(default_factory=list, max_length=50)
    shadow: bool = False
    by: Annotated[str, Field(min_length=1, max_length=100)]


def ingress_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["webhooks"])
    ingress = Ingress(stores)

    # The busiest route by far: the framework neither solves parameters for it nor checks what it answers.
    @router.post(
        "/webhooks/{sender}",
        summary="Take an event in",
        response_model=Accepted,
        openapi_extra={"parameters": [SENDER]},
    )
    async def take(request: Request) -> Response:
        sender = request.path_params["sender"]
        message = await ingress.take(sender, await request.body(), request.headers)
        return JSONResponse({"event_id": message.event_id})

    return router


def api_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["middleware"])

    @router.get("/conversations/{conversation_id:path}/why", summary="Why it was routed where it was")
    async def why(conversation_id: ConversationId) -> Why:
        found = await explaining.why(stores, conversation_id)
        return Why(lines=list(found.lines), actions=list(found.data))

    @router.get("/conversations/{conversation_id:path}", summary="Where a conversation stands")
    async def conversation(conversation_id: ConversationId) -> dict[str, Any]:
        found = await stores.run(patterns.state(conversation_id))
        if found is None:
            raise NotFound(f"Nothing is known of the conversation {conversation_id}.")
        return _shown(found.told_at(datetime.fromtimestamp(stores.clock.now(), UTC)))

    @router.get("/switches", summary="How the switches stand")
    async def switches() -> dict[str, Any]:
        found = await stores.run(patterns.read_switches())
        if found is None:
            raise NotFound("No switches are set, so safe mode is on: put them to change that.")
        return _shown(found)

    @router.put("/switches", summary="Turn the switches")
    async def turn(wanted: SwitchesWanted) -> dict[str, Any]:
        turned = await switchboard.turn(
            stores,
            safe_mode=wanted.safe_mode,
            automation_enabled=wanted.automation_enabled,
            channels=frozenset(wanted.channels),
            shadow=wanted.shadow,
            by=wanted.by,
        )
        return _shown(turned)

    return router


def _shown(item: ConversationState | Switches) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)
