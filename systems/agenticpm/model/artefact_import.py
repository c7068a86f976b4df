"""Artefact import: take over an artefact of another deployment, with its previous version.

The project must not have an artefact of that type. The document writes `previousVersion` in one place and
`previous_version` in another; both are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenticpm.domain.contents import ArtefactType, normalize_import, to_stored, validate_content
from agenticpm.model import patterns, projects
from agenticpm.model.entities import Artefact, EventType
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.transactions import CONFLICTS, commit
from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest
from holdfast.core.rng import make_uuid


async def import_artefact(stores: Stores, project_id: str, item: Mapping[str, Any]) -> Artefact:
    """Store the artefact with its content, previous version and version number. Its id and times are new.

    Raise InvalidRequest if the item is invalid, Conflict if the project already has one of the type.
    """
    project = await projects.get(stores, project_id)
    fields, now = _validate(item), get_now(stores.clock)
    artefact = Artefact(id=str(make_uuid()), project_id=project.id, created_at=now, updated_at=now, **fields)
    detail = {"type": str(artefact.type), "version": artefact.version}
    event = build_event_writes(
        stores, project.id, EventType.artefact_updated, f"The {artefact.type} was imported", detail, at=now
    )
    try:
        await commit(stores, patterns.create_artefact(artefact), *event, what="The artefact")
    except CONFLICTS as error:
        raise Conflict(
            f"The project already has a {artefact.type}. Put its next version instead of importing one."
        ) from error
    return artefact


def _validate(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the artefact from an exported item. Raise InvalidRequest."""
    try:
        given = normalize_import(item)
        type = ArtefactType(given.get("type", ""))
        previous, version = given.get("previousVersion"), given.get("version", 1)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ValueError("version: expected an integer of 1 or more")
        return {
            "type": type,
            "content": to_stored(validate_content(type, _get_mapping(given, "content"))),
            "previous_version": None
            if previous is None
            else to_stored(validate_content(type, _get_mapping(given, "previousVersion"))),
            "version": version,
        }
    except ValueError as error:
        raise InvalidRequest(f"Invalid artefact: {error}") from error


def _get_mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the named JSON object. Raise ValueError if it is anything else."""
    found = given.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"{name}: expected a JSON object")
    return found
