"""HTTP route of the agent's state: liveness, heartbeat, last cycles, spend, holder of the loop's lease."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from agenticpm.api.agent_state import AgentState, load_agent_state
from agenticpm.api.routes.responses import build_response
from holdfast import Stores


def build_agent_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["agent"])

    @router.get("/agent", summary="Get the agent's state", response_model=AgentState)
    async def state() -> Response:
        return build_response(await load_agent_state(stores))

    return router
