"""HTTP routes: the webhook endpoint, conversation state and explanations, and the automation switches."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.web import DirectRoute
from richpanel.api import explain
from richpanel.api.ingress import Ingress
from richpanel.api.quality import IntentQuality, list_intent_quality, to_intent_quality
from richpanel.domain.webhook_formats import SENDERS
from richpanel.model import patterns
from richpanel.model.entities import ConversationState, Switches
from richpanel.workers import feature_flags, reply_quality

SENDER_PARAMETER: Final = {
    "name": "sender",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "enum": sorted(SENDERS)},
}
ConversationId = Annotated[str, Path(max_length=128)]


class Accepted(BaseModel):
    """The event was accepted and queued. A repeated delivery returns the same id."""

    event_id: str


class Why(BaseModel):
    """The reasons for the state of a conversation, in words and as data."""

    lines: list[str]
    actions: list[dict[str, Any]]


class SwitchesWanted(BaseModel):
    """The switches of the automation. Omitted ones are off, except `safe_mode`: it is on."""

    model_config = ConfigDict(extra="forbid")

    safe_mode: bool = True
    automation_enabled: bool = False
    channels: list[str] = Field(default_factory=list, max_length=50)
    shadow: bool = False
    by: Annotated[str, Field(min_length=1, max_length=100)]


class Resumption(BaseModel):
    """The operator who resumes replies."""

    model_config = ConfigDict(extra="forbid")

    by: Annotated[str, Field(min_length=1, max_length=100)]


def build_ingress_routes(stores: Stores) -> APIRouter:
    """Build the webhook route, POST /webhooks/{sender}."""
    router = APIRouter(tags=["webhooks"], route_class=DirectRoute)
    ingress = Ingress(stores)

    @router.post(
        "/webhooks/{sender}",
        summary="Receive a webhook",
        response_model=Accepted,
        openapi_extra={"parameters": [SENDER_PARAMETER]},
    )
    async def take(request: Request) -> Response:
        sender = request.path_params["sender"]
        message = await ingress.accept(sender, await request.body(), request.headers)
        return JSONResponse({"event_id": message.event_id})

    return router


def build_api_routes(stores: Stores) -> APIRouter:
    """Build the routes that return and explain conversations, and read and set the switches."""
    router = APIRouter(tags=["middleware"])

    @router.get("/conversations/{conversation_id:path}/why", summary="Explain the routing of a conversation")
    async def why(conversation_id: ConversationId) -> Why:
        found = await explain.explain_routing(stores, conversation_id)
        return Why(lines=list(found.lines), actions=list(found.data))

    @router.get("/conversations/{conversation_id:path}", summary="Get the state of a conversation")
    async def conversation(conversation_id: ConversationId) -> dict[str, Any]:
        found = await stores.run(patterns.state(conversation_id))
        if found is None:
            raise NotFound(f"Unknown conversation {conversation_id}.")
        return _to_json(found.without_expired_flow(stores.now()))

    @router.get("/switches", summary="Get the switches of the automation")
    async def switches() -> dict[str, Any]:
        found = await stores.run(patterns.read_switches())
        if found is None:
            raise NotFound("No switches are set, so safe mode is on. Set them with PUT /switches.")
        return _to_json(found)

    @router.put("/switches", summary="Set the switches of the automation")
    async def turn(wanted: SwitchesWanted) -> dict[str, Any]:
        turned = await feature_flags.set_switches(
            stores,
            safe_mode=wanted.safe_mode,
            automation_enabled=wanted.automation_enabled,
            channels=frozenset(wanted.channels),
            shadow=wanted.shadow,
            by=wanted.by,
        )
        return _to_json(turned)

    _add_quality_routes(router, stores)
    return router


def _add_quality_routes(router: APIRouter, stores: Stores) -> None:
    """Add the routes that list the quality of replies, and resume those that have stopped."""

    @router.get("/quality", summary="List the quality of automated replies per intent")
    async def quality() -> list[IntentQuality]:
        return await list_intent_quality(stores)

    @router.post("/quality/{intent}/resume", summary="Resume the automated replies to an intent")
    async def resume(intent: Annotated[str, Path(max_length=64)], wanted: Resumption) -> IntentQuality:
        return to_intent_quality(await reply_quality.resume_replies(stores, intent, wanted.by))


def _to_json(item: ConversationState | Switches) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)
