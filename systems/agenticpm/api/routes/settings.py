"""HTTP routes of the agent's settings and of the integrations. Responses never contain credentials."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from agenticpm.api.routes.responses import CONFLICT, NOT_FOUND, build_response
from agenticpm.model import agent_settings, integration_settings
from agenticpm.model.entities import AgentConfig, Integration
from agenticpm.model.integration_settings import Checked, IntegrationState
from holdfast import Stores
from holdfast.runtime import open_cipher


class ConfigWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: Any
    by: Annotated[str, Field(min_length=1, max_length=100)] = "user"


Credentials = Annotated[
    dict[str, Any], Body(description="The credentials for the external service. They are stored encrypted.")
]


def build_config_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/config", tags=["config"])

    @router.get("", summary="List all settings of the agent", response_model=list[AgentConfig])
    async def listed() -> Response:
        return build_response(await agent_settings.list_settings(stores))

    @router.get(
        "/{key}", summary="Get a setting of the agent", response_model=AgentConfig, responses=NOT_FOUND
    )
    async def get(key: str) -> Response:
        return build_response(await agent_settings.get(stores, key))

    @router.put("/{key}", summary="Change a setting of the agent", response_model=AgentConfig)
    async def put(key: str, wanted: ConfigWanted) -> Response:
        return build_response(await agent_settings.put(stores, key, wanted.value, by=wanted.by))

    return router


def build_integration_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/integrations", tags=["integrations"])
    path = "/{integration}"
    changed: dict[str, Any] = {"response_model": IntegrationState, "responses": NOT_FOUND | CONFLICT}

    @router.get("", summary="List the integrations and their state", response_model=list[IntegrationState])
    async def listed() -> Response:
        return build_response(await integration_settings.list_states(stores))

    @router.get(path, summary="Get the state of an integration", response_model=IntegrationState)
    async def get(integration: Integration) -> Response:
        return build_response(await integration_settings.get_state(stores, integration))

    @router.put(
        path + "/credentials", summary="Store an integration's credentials and activate it", **changed
    )
    async def put(integration: Integration, credentials: Credentials) -> Response:
        return build_response(
            await integration_settings.put_credentials(stores, open_cipher(), integration, credentials)
        )

    @router.post(
        path + "/rotate",
        summary="Replace an integration's credentials; without a body, re-encrypt the stored ones",
        **changed,
    )
    async def rotate(
        integration: Integration, credentials: Annotated[dict[str, Any] | None, Body()] = None
    ) -> Response:
        return build_response(
            await integration_settings.rotate(stores, open_cipher(), integration, credentials)
        )

    @router.post(path + "/deactivate", summary="Deactivate an integration", **changed)
    async def deactivate(integration: Integration) -> Response:
        return build_response(await integration_settings.deactivate(stores, integration))

    @router.post(
        path + "/check",
        summary="Check the health of an integration",
        response_model=Checked,
        responses=NOT_FOUND | CONFLICT,
    )
    async def check(integration: Integration) -> Response:
        return build_response(await integration_settings.check(stores, open_cipher(), integration))

    return router
