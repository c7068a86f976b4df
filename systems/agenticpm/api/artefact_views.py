"""Artefact operations for the API and the commands: list, show, diff, export, put and undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

from agenticpm.domain import exports
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.diff import compute_differences, format_lines
from agenticpm.model import artefacts, patterns, projects
from agenticpm.model.entities import Artefact
from agenticpm.model.projects import parse_choice, parse_project_id
from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound


class Format(StrEnum):
    md = "md"
    csv = "csv"
    confluence = "confluence"


EXPORTERS: Final[Mapping[Format, Callable[[ArtefactType, Mapping[str, Any]], str]]] = {
    Format.md: exports.to_markdown,
    Format.csv: exports.to_csv,
    Format.confluence: exports.to_confluence,
}


async def list_artefacts(stores: Stores, project_id: str) -> list[dict[str, Any]]:
    """List the artefacts of a project without their contents."""
    project = await projects.get(stores, project_id)
    return [_to_header(each) for each in await stores.all(patterns.artefacts(project.id))]


async def get_artefact(stores: Stores, project_id: str, type: ArtefactType | str) -> Artefact:
    """Return the artefact. Raise NotFound if the project does not exist or has none of this type."""
    wanted = parse_choice(ArtefactType, type, "artefact")
    artefact = await stores.run(patterns.artefact(parse_project_id(project_id), wanted))
    if artefact is None:
        await projects.get(stores, project_id)
        raise NotFound(
            f"Project {project_id} has no {wanted} yet: wait for the agent to write one, or put version 1."
        )
    return artefact


async def load_with_content(stores: Stores, artefact: Artefact) -> dict[str, Any]:
    """Return the artefact's header with its full content, as JSON fields."""
    return {**_to_header(artefact), "content": await artefacts.load_content(stores, artefact)}


async def diff(stores: Stores, project_id: str, type: ArtefactType | str) -> dict[str, Any]:
    """Compare an artefact with its previous version: structured differences, and lines for a person.

    Without a previous version there are no differences, and one line says so.
    """
    artefact = await get_artefact(stores, project_id, type)
    before = await artefacts.load_previous(stores, artefact)
    if before is None:
        return {"version": artefact.version, "differences": [], "lines": ["There is no previous version."]}
    changes = compute_differences(before, await artefacts.load_content(stores, artefact))
    return {
        "version": artefact.version,
        "differences": [asdict(each) for each in changes],
        "lines": format_lines(changes),
    }


async def export(
    stores: Stores, project_id: str, type: ArtefactType | str, format: Format | str = Format.md
) -> str:
    """Return the artefact as text in the format. Raise NotFound if there is none."""
    wanted = parse_choice(Format, format, "format")
    artefact = await get_artefact(stores, project_id, type)
    return EXPORTERS[wanted](artefact.type, await artefacts.load_content(stores, artefact))


async def put(
    stores: Stores, project_id: str, type: ArtefactType | str, content: Mapping[str, Any], seen_version: int
) -> Artefact:
    """Write the next version if the current one is `seen_version` (0: none yet)."""
    wanted = parse_choice(ArtefactType, type, "artefact")
    return await artefacts.update(stores, parse_project_id(project_id), wanted, content, seen_version)


async def undo(stores: Stores, project_id: str, type: ArtefactType | str, seen_version: int) -> Artefact:
    """Restore the previous version as a next version, if the current one is `seen_version`.

    Raise Conflict if there is nothing to undo or it no longer agrees with the others.
    """
    wanted = parse_choice(ArtefactType, type, "artefact")
    checked = parse_project_id(project_id)
    try:
        return await artefacts.undo(stores, checked, wanted, seen_version)
    except InvalidRequest as error:
        raise Conflict(error.message) from error


def _to_header(artefact: Artefact) -> dict[str, Any]:
    """Return the public fields of an artefact without its content."""
    return {
        "id": artefact.id,
        "projectId": artefact.project_id,
        "type": artefact.type,
        "version": artefact.version,
        "canUndo": artefact.previous_version is not None,
        "createdAt": artefact.created_at,
        "updatedAt": artefact.updated_at,
    }
