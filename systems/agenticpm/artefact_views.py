"""Artefacts as people ask for them: in full, against the version before, exported, changed and undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

from agenticpm import artefacts, exporting, patterns, projects
from agenticpm.contents import ArtefactType
from agenticpm.diffing import differences, lines
from agenticpm.model import Artefact
from agenticpm.projects import checked_id, one_of
from holdfast import Stores
from holdfast.errors import Conflict, InvalidRequest, NotFound


class Format(StrEnum):
    md = "md"
    csv = "csv"
    confluence = "confluence"


EXPORTS: Final[Mapping[Format, Callable[[ArtefactType, Mapping[str, Any]], str]]] = {
    Format.md: exporting.to_markdown,
    Format.csv: exporting.to_csv,
    Format.confluence: exporting.to_confluence,
}


async def listed(stores: Stores, project_id: str) -> list[dict[str, Any]]:
    """What there is of a project, without the contents."""
    project = await projects.get(stores, project_id)
    return [_headed(each) for each in await stores.all(patterns.artefacts(project.id))]


async def found(stores: Stores, project_id: str, type: ArtefactType | str) -> Artefact:
    wanted = one_of(ArtefactType, type, "artefact")
    artefact = await stores.run(patterns.artefact(checked_id(project_id), wanted))
    if artefact is None:
        await projects.get(stores, project_id)
        raise NotFound(
            f"The project {project_id} has no {wanted} yet: the agent writes one, or you put the first."
        )
    return artefact


async def in_full(stores: Stores, artefact: Artefact) -> dict[str, Any]:
    return {**_headed(artefact), "content": await artefacts.content_of(stores, artefact)}


async def diff(stores: Stores, project_id: str, type: ArtefactType | str) -> dict[str, Any]:
    """What differs from the version before: place by place, and in lines for a person."""
    artefact = await found(stores, project_id, type)
    before = await artefacts.previous_of(stores, artefact)
    if before is None:
        return {"version": artefact.version, "differences": [], "lines": ["There is no version before it."]}
    told = differences(before, await artefacts.content_of(stores, artefact))
    return {
        "version": artefact.version,
        "differences": [asdict(each) for each in told],
        "lines": lines(told),
    }


async def export(
    stores: Stores, project_id: str, type: ArtefactType | str, format: Format | str = Format.md
) -> str:
    wanted = one_of(Format, format, "format")
    artefact = await found(stores, project_id, type)
    return EXPORTS[wanted](artefact.type, await artefacts.content_of(stores, artefact))


async def put(
    stores: Stores, project_id: str, type: ArtefactType | str, content: Mapping[str, Any], seen_version: int
) -> Artefact:
    wanted = one_of(ArtefactType, type, "artefact")
    return await artefacts.update(stores, checked_id(project_id), wanted, content, seen_version)


async def undo(stores: Stores, project_id: str, type: ArtefactType | str, seen_version: int) -> Artefact:
    """One step back. That there is nothing to undo, or that it fits no more, is how things stand: a conflict."""
    wanted = one_of(ArtefactType, type, "artefact")
    checked = checked_id(project_id)
    try:
        return await artefacts.undo(stores, checked, wanted, seen_version)
    except InvalidRequest as error:
        raise Conflict(error.message) from error


def _headed(artefact: Artefact) -> dict[str, Any]:
    return {
        "id": artefact.id,
        "projectId": artefact.project_id,
        "type": artefact.type,
        "version": artefact.version,
        "canUndo": artefact.previous_version is not None,
        "createdAt": artefact.created_at,
        "updatedAt": artefact.updated_at,
    }
