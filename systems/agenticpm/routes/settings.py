"""The agent's settings and the integrations. What an integration is shown as has nothing of its credentials."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm import configs, integrations
from agenticpm.integrations import Checked, IntegrationState
from agenticpm.model import AgentConfig, Integration
from agenticpm.routes.answering import NOT_THERE, OVERTAKEN, answered
from holdfast import Stores, open_cipher


class ConfigWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: Any
    by: Annotated[str, Field(min_length=1, max_length=100)] = "user"


Credentials = Annotated[dict[str, Any], Body(description="What the party must be told. It is kept sealed.")]


def config_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/config", tags=["config"])

    @router.get("", summary="All settings", response_model=list[AgentConfig])
    async def listed() -> Response:
        return answered(await configs.listed(stores))

    @router.get("/{key}", summary="One setting", response_model=AgentConfig, responses=NOT_THERE)
    async def get(key: str) -> Response:
        return answered(await configs.get(stores, key))

    @router.put("/{key}", summary="Set it", response_model=AgentConfig)
    async def put(key: str, wanted: ConfigWanted) -> Response:
        return answered(await configs.put(stores, key, wanted.value, by=wanted.by))

    return router


def integration_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/integrations", tags=["integrations"])
    path = "/{integration}"
    changed: dict[str, Any] = {"response_model": IntegrationState, "responses": NOT_THERE | OVERTAKEN}

    @router.get("", summary="How they stand", response_model=list[IntegrationState])
    async def listed() -> Response:
        return answered(await integrations.listed(stores))

    @router.get(path, summary="How it stands", response_model=IntegrationState)
    async def get(integration: Integration) -> Response:
        return answered(await integrations.state_of(stores, integration))

    @router.put(path + "/credentials", summary="Put its credentials, and switch it on", **changed)
    async def put(integration: Integration, credentials: Credentials) -> Response:
        return answered(await integrations.put_credentials(stores, open_cipher(), integration, credentials))

    @router.post(
        path + "/rotate", summary="New credentials; without any, the same under the current key", **changed
    )
    async def rotate(
        integration: Integration, credentials: Annotated[dict[str, Any] | None, Body()] = None
    ) -> Response:
        return answered(await integrations.rotate(stores, open_cipher(), integration, credentials))

    @router.post(path + "/deactivate", summary="Switch it off", **changed)
    async def deactivate(integration: Integration) -> Response:
        return answered(await integrations.deactivate(stores, integration))

    @router.post(
        path + "/check", summary="Ask it how it is", response_model=Checked, responses=NOT_THERE | OVERTAKEN
    )
    async def check(integration: Integration) -> Response:
        return answered(await integrations.check(stores, open_cipher(), integration))

    return router
