"""Projects: create, list, change, pause, archive and reactivate them.

Each change and its event are one transaction. A project is never deleted: archive it to stop the agent, and
all its items stay (`archive`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID

from agenticpm.domain.project_config import validate_config
from agenticpm.model import patterns
from agenticpm.model.entities import Autonomy, EventType, Project, ProjectId, ProjectStatus, Source
from agenticpm.model.events import build_event_writes, get_now
from holdfast import Page, Stores, Write
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest, NotFound, TransactionCancelled
from holdfast.core.rng import make_uuid

MAX_NAME_CHARS: Final = 200
MAX_DESCRIPTION_CHARS: Final = 10_000
MIN_STEP: Final = timedelta(milliseconds=1)
# Cancellation code of an item that is too large or too deeply nested.
VALIDATION_ERROR: Final = "ValidationError"

Choice = TypeVar("Choice", bound=StrEnum)


async def create(
    stores: Stores,
    *,
    name: str,
    source: Source | str,
    source_project_key: str,
    autonomy_level: Autonomy | str = Autonomy.monitoring,
    description: str | None = None,
    config: Mapping[str, Any] | None = None,
    status: ProjectStatus | str = ProjectStatus.active,
) -> Project:
    """Create a project with its event, and return it. `config` is validated by `validate_config`.

    Raise InvalidRequest for an invalid value, Conflict if a project that is not archived has the same tracker
    project.
    """
    now = get_now(stores.clock)
    new = Project(
        id=ProjectId(str(make_uuid())),
        name=_check_text(name, "name", MAX_NAME_CHARS),
        description=None
        if description is None
        else _check_text(description, "description", MAX_DESCRIPTION_CHARS),
        status=parse_choice(ProjectStatus, status, "status"),
        source=parse_choice(Source, source, "source"),
        source_project_key=_check_text(source_project_key, "source_project_key", MAX_NAME_CHARS),
        autonomy_level=parse_choice(Autonomy, autonomy_level, "autonomy level"),
        config=validate_config(config),
        created_at=now,
        updated_at=now,
    )
    if new.status is not ProjectStatus.archived:
        await _refuse_duplicate(stores, new)
    detail = {"change": "created", "source": new.source, "key": new.source_project_key}
    event = build_event_writes(
        stores, new.id, EventType.project_changed, f"Project {new.name} was created", detail, at=now
    )
    await _commit(stores, new.id, patterns.create_project(new), *event)
    return new


async def get(stores: Stores, project_id: str) -> Project:
    """Return the project.

    Raise InvalidRequest if the id is not a UUID, NotFound if there is no such project.
    """
    found = await stores.run(patterns.project(parse_project_id(project_id)))
    if found is None:
        raise NotFound(f"Project {project_id} not found: `projects list` shows all.")
    return found


async def list_by_status(
    stores: Stores,
    status: ProjectStatus | str = ProjectStatus.active,
    limit: int = patterns.PAGE,
    cursor: str | None = None,
) -> Page[Project]:
    """Return one page of the projects in a status."""
    return await stores.run(
        patterns.projects_in(parse_choice(ProjectStatus, status, "status"), limit, cursor)
    )


async def change_status(stores: Stores, project_id: str, status: ProjectStatus | str) -> Project:
    """Change the status and record an event; do nothing if the project already has the status.

    Raise Conflict if an archived project is reactivated while another watches the same tracker project.
    """
    wanted = parse_choice(ProjectStatus, status, "status")
    seen = await get(stores, project_id)
    if seen.status is wanted:
        return seen
    if seen.status is ProjectStatus.archived:
        await _refuse_duplicate(stores, seen)
    at = _get_update_time(stores, seen)
    detail = {"change": "status", "before": seen.status, "after": wanted}
    event = build_event_writes(
        stores, seen.id, EventType.project_changed, f"Project {seen.name} is now {wanted}", detail, at=at
    )
    await _commit(stores, seen.id, patterns.change_status(seen, wanted, at), *event)
    return seen.model_copy(update={"status": wanted, "updated_at": at})


async def archive(stores: Stores, project_id: str) -> Project:
    """Archive a project: the agent stops, and all its items stay. The status active reactivates it."""
    return await change_status(stores, project_id, ProjectStatus.archived)


async def change(
    stores: Stores,
    project_id: str,
    *,
    seen_updated_at: datetime | None = None,
    name: str | None = None,
    description: str | None = None,
    autonomy_level: Autonomy | str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Project:
    """Change the given fields and record an event; `config` is replaced as a whole.

    With `seen_updated_at`, only if unchanged since then. Raise ConditionFailed if another writer was first.
    """
    seen = await get(stores, project_id)
    if seen_updated_at is not None and seen_updated_at != seen.updated_at:
        raise _build_conflict(seen.id)
    wanted: dict[str, Any] = {}
    if name is not None:
        wanted["name"] = _check_text(name, "name", MAX_NAME_CHARS)
    if description is not None:
        wanted["description"] = _check_text(description, "description", MAX_DESCRIPTION_CHARS)
    if autonomy_level is not None:
        wanted["autonomy_level"] = parse_choice(Autonomy, autonomy_level, "autonomy level")
    if config is not None:
        wanted["config"] = validate_config(config)
    changed = sorted(field for field, value in wanted.items() if getattr(seen, field) != value)
    if not changed:
        return seen
    at = _get_update_time(stores, seen)
    after = Project(**{**dict(seen), **wanted, "updated_at": at})
    summary = f"Project {after.name}: {', '.join(changed)} changed"
    event = build_event_writes(
        stores, seen.id, EventType.project_changed, summary, _build_change_detail(seen, after, changed), at=at
    )
    await _commit(stores, seen.id, patterns.change_project(seen, after), *event)
    return after


async def _refuse_duplicate(stores: Stores, wanted: Project) -> None:
    """Raise Conflict if another active or paused project watches the same tracker project.

    Otherwise everything would be reported and done twice.
    """
    for status in (ProjectStatus.active, ProjectStatus.paused):
        async for each in stores.each(patterns.projects_in(status)):
            is_same = (each.source, each.source_project_key) == (wanted.source, wanted.source_project_key)
            if is_same and each.id != wanted.id:
                raise Conflict(
                    f"Project {each.name} ({each.id}, {status}) already watches {wanted.source_project_key} "
                    f"of {wanted.source}. Use that project, or archive it first."
                )


def parse_project_id(project_id: str) -> ProjectId:
    """Return the id as a canonical UUID. Raise InvalidRequest if it is not one."""
    try:
        return ProjectId(str(UUID(project_id)))
    except ValueError:
        raise InvalidRequest(f"Invalid project id {project_id!r}: expected a UUID.") from None


def parse_choice(choices: type[Choice], value: str, what: str) -> Choice:
    """Return the member of the enum. Raise InvalidRequest, where `what` names the value, if there is none."""
    try:
        return choices(value)
    except ValueError:
        raise InvalidRequest(
            f"Invalid {what} {value!r}: expected one of {', '.join(map(str, choices))}."
        ) from None


def _check_text(value: str, what: str, max_chars: int) -> str:
    """Return the text without surrounding blanks. Raise InvalidRequest if it is empty or too long."""
    text = value.strip()
    if not text or len(text) > max_chars:
        raise InvalidRequest(
            f"Invalid {what} of the project: expected 1 to {max_chars} characters, got {len(text)}."
        )
    return text


def _get_update_time(stores: Stores, seen: Project) -> datetime:
    """Return the current time, but always later than the seen `updatedAt`.

    `updatedAt` identifies the state that a change is based on.
    """
    return max(get_now(stores.clock), seen.updated_at + MIN_STEP)


def _build_change_detail(seen: Project, after: Project, changed: list[str]) -> dict[str, Any]:
    """Build the event's detail: the names of changed fields, and the name and level before and after."""
    short = [field for field in changed if field in ("name", "autonomy_level")]
    return {
        "change": ", ".join(changed),
        "before": {field: getattr(seen, field) for field in short},
        "after": {field: getattr(after, field) for field in short},
    }


async def _commit(stores: Stores, project_id: ProjectId, *writes: Write[Any]) -> None:
    """Commit the writes. Raise InvalidRequest if one can never be stored, ConditionFailed on a conflict."""
    try:
        await stores.transact(*writes)
    except TransactionCancelled as error:
        for reason in error.reasons:
            if reason.code == VALIDATION_ERROR:
                raise InvalidRequest(f"The project cannot be stored: {reason.message}") from error
        raise _build_conflict(project_id) from error


def _build_conflict(project_id: ProjectId) -> ConditionFailed:
    return ConditionFailed(f"Another writer changed project {project_id}: read it again and retry.")
