"""How the agent is: heartbeat, last cycles, spend against the ceiling, who runs the loop, and whether it is dead."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from agenticpm.agent_state import AgentState, agent_state
from agenticpm.routes.answering import answered
from holdfast import Stores


def agent_routes(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["agent"])

    @router.get("/agent", summary="How the agent is", response_model=AgentState)
    async def state() -> Response:
        return answered(await agent_state(stores))

    return router
