"""An artefact from another deployment, with its version and the one before: taken in once, where there is none.

The document writes `previousVersion` in one place and `previous_version` in another; both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from agenticpm import patterns, projects
from agenticpm.committing import OVERTAKEN, commit
from agenticpm.contents import ArtefactType, checked_content, imported, plain
from agenticpm.events import moment, recorded
from agenticpm.model import Artefact, EventType
from holdfast import Stores
from holdfast.errors import Conflict, InvalidRequest


async def import_artefact(stores: Stores, project_id: str, item: Mapping[str, Any]) -> Artefact:
    """Keeps it as it was: its content, the version before and the number of both. Its id and times are new here."""
    project = await projects.get(stores, project_id)
    taken, now = _checked(item), moment(stores.clock)
    artefact = Artefact(id=str(uuid4()), project_id=project.id, created_at=now, updated_at=now, **taken)
    told = {"type": str(artefact.type), "version": artefact.version}
    event = recorded(
        stores, project.id, EventType.artefact_updated, f"The {artefact.type} was imported", told, at=now
    )
    try:
        await commit(stores, patterns.create_artefact(artefact), *event, what="The artefact")
    except OVERTAKEN as error:
        raise Conflict(
            f"The project has a {artefact.type} already: put the next version of it instead of importing one."
        ) from error
    return artefact


def _checked(item: Mapping[str, Any]) -> dict[str, Any]:
    try:
        given = imported(item)
        type = ArtefactType(given.get("type", ""))
        previous, version = given.get("previousVersion"), given.get("version", 1)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ValueError("version is a whole number from 1 up")
        return {
            "type": type,
            "content": plain(checked_content(type, _mapping(given, "content"))),
            "previous_version": None
            if previous is None
            else plain(checked_content(type, _mapping(given, "previousVersion"))),
            "version": version,
        }
    except ValueError as error:
        raise InvalidRequest(f"This artefact cannot be imported: {error}") from error


def _mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"{name} is a JSON object")
    return found
