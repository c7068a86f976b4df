"""HTTP routes of projects: list by status, create, get, change, pause, archive and reactivate."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from agenticpm.api.routes.responses import CONFLICT, NOT_FOUND, build_page_response, build_response
from agenticpm.domain.project_config import ProjectConfig
from agenticpm.model import projects
from agenticpm.model.entities import Autonomy, Project, ProjectStatus, Source
from holdfast import Stores
from holdfast.web import PageOf, RequestedPage

# The schema is documentation only. The domain validates it, so that the API and the CLI report the same
# errors.
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
    """A change to a project. Omitted fields stay as they are; `config` is replaced as a whole."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    description: str | None = None
    autonomy_level: Annotated[Autonomy | None, Field(alias="autonomyLevel")] = None
    config: Config | None = None
    seen_updated_at: Annotated[
        AwareDatetime | None,
        Field(
            alias="seenUpdatedAt",
            description="The `updatedAt` that you read: the change is refused if the project has another.",
        ),
    ] = None


class StatusWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: ProjectStatus


def build_project_routes(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/projects", tags=["projects"])

    @router.get("", summary="List projects by status", response_model=PageOf[Project])
    async def listed(paging: RequestedPage, status: ProjectStatus = ProjectStatus.active) -> Response:
        return build_page_response(await projects.list_by_status(stores, status, paging.limit, paging.cursor))

    @router.post("", summary="Create a project", status_code=201, response_model=Project)
    async def create(wanted: ProjectWanted) -> Response:
        project = await projects.create(stores, **wanted.model_dump())
        return build_response(project, 201, {"location": f"/projects/{project.id}"})

    @router.get("/{project_id}", summary="Get a project", response_model=Project, responses=NOT_FOUND)
    async def get(project_id: str) -> Response:
        return build_response(await projects.get(stores, project_id))

    @router.patch(
        "/{project_id}",
        summary="Change a project's name, description, configuration or autonomy",
        response_model=Project,
        responses=NOT_FOUND | CONFLICT,
    )
    async def change(project_id: str, wanted: ProjectChange) -> Response:
        return build_response(await projects.change(stores, project_id, **wanted.model_dump()))

    @router.put(
        "/{project_id}/status",
        summary="Pause, archive or reactivate a project",
        response_model=Project,
        responses=NOT_FOUND | CONFLICT,
    )
    async def change_status(project_id: str, wanted: StatusWanted) -> Response:
        return build_response(await projects.change_status(stores, project_id, wanted.status))

    return router
