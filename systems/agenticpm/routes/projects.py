"""Projects: listed by status, made, changed, paused, archived and brought back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from agenticpm import projects
from agenticpm.model import Autonomy, Project, ProjectStatus, Source
from agenticpm.project_configs import ProjectConfig
from agenticpm.routes.answering import NOT_THERE, OVERTAKEN, answered, page_of
from holdfast import Stores
from holdfast.web import PageAsked, PageOf

# Told to readers as what it is; checked where projects are made, so that each door says the same.
Config = Annotated[
    dict[str, Any], WithJsonSchema({**ProjectConfig.model_json_schema(), "title": "ProjectConfig"})
]


class ProjectWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    source: Source
    source_project_key: Annotated[str, Field(alias="sourceProjectKey")]
    autonomy_level: Annotated[Autonomy, Field(alias="autonomyLevel")] = Autonomy.monitoring
    description: str | None = None
    config: Config = Field(default_factory=dict)


class ProjectChange(BaseModel):
    """What is left out stays; `config` is replaced as a whole."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    description: str | None = None
    autonomy_level: Annotated[Autonomy | None, Field(alias="autonomyLevel")] = None
    config: Config | None = None
    seen_updated_at: Annotated[
        AwareDatetime | None,
        Field(alias="seenUpdatedAt", description="`updatedAt` as it was seen; refused if it is another now."),
    ] = None


class StatusWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: ProjectStatus


def project_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/projects", tags=["projects"])

    @router.get("", summary="The projects in a status", response_model=PageOf[Project])
    async def listed(paging: PageAsked, status: ProjectStatus = ProjectStatus.active) -> Response:
        return page_of(await projects.listed(stores, status, paging.limit, paging.cursor))

    @router.post("", summary="A new project", status_code=201, response_model=Project)
    async def create(wanted: ProjectWanted) -> Response:
        made = await projects.create(stores, **wanted.model_dump())
        return answered(made, 201, {"location": f"/projects/{made.id}"})

    @router.get("/{project_id}", summary="A project", response_model=Project, responses=NOT_THERE)
    async def get(project_id: str) -> Response:
        return answered(await projects.get(stores, project_id))

    @router.patch(
        "/{project_id}",
        summary="Change its name, description, configuration or autonomy",
        response_model=Project,
        responses=NOT_THERE | OVERTAKEN,
    )
    async def change(project_id: str, wanted: ProjectChange) -> Response:
        return answered(await projects.change(stores, project_id, **wanted.model_dump()))

    @router.put(
        "/{project_id}/status",
        summary="Pause it, archive it, or bring it back",
        response_model=Project,
        responses=NOT_THERE | OVERTAKEN,
    )
    async def change_status(project_id: str, wanted: StatusWanted) -> Response:
        return answered(await projects.change_status(stores, project_id, wanted.status))

    return router
