"""Projects: made, changed, paused, archived and brought back by people. Each change and its event are one transaction.

A project is never deleted: who no longer wants it looked after archives it, and all that it has stays (`archive`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

from agenticpm import patterns
from agenticpm.events import moment, recorded
from agenticpm.model import Autonomy, EventType, Project, ProjectId, ProjectStatus, Source
from agenticpm.project_configs import checked_config
from holdfast import Page, Stores, Write
from holdfast.errors import ConditionFailed, Conflict, InvalidRequest, NotFound, TransactionCancelled

NAME_CHARS_MAX: Final = 200
DESCRIPTION_CHARS_MAX: Final = 10_000
TICK: Final = timedelta(milliseconds=1)
# How a store says that an item of a transaction is too large, or too deep.
INVALID: Final = "ValidationError"

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
    """A new one, unless another that is not archived has the same project of the tracker."""
    now = moment(stores.clock)
    new = Project(
        id=ProjectId(str(uuid4())),
        name=_text(name, "name", NAME_CHARS_MAX),
        description=None if description is None else _text(description, "description", DESCRIPTION_CHARS_MAX),
        status=one_of(ProjectStatus, status, "status"),
        source=one_of(Source, source, "source"),
        source_project_key=_text(source_project_key, "source_project_key", NAME_CHARS_MAX),
        autonomy_level=one_of(Autonomy, autonomy_level, "autonomy level"),
        config=checked_config(config),
        created_at=now,
        updated_at=now,
    )
    if new.status is not ProjectStatus.archived:
        await _refuse_twin(stores, new)
    told = {"change": "created", "source": new.source, "key": new.source_project_key}
    event = recorded(
        stores, new.id, EventType.project_changed, f"Project {new.name} was created", told, at=now
    )
    await _written(stores, new.id, patterns.create_project(new), *event)
    return new


async def get(stores: Stores, project_id: str) -> Project:
    found = await stores.run(patterns.project(checked_id(project_id)))
    if found is None:
        raise NotFound(f"There is no project {project_id}: `projects list` shows those there are.")
    return found


async def listed(
    stores: Stores,
    status: ProjectStatus | str = ProjectStatus.active,
    limit: int = patterns.PAGE,
    cursor: str | None = None,
) -> Page[Project]:
    return await stores.run(patterns.projects_in(one_of(ProjectStatus, status, "status"), limit, cursor))


async def change_status(stores: Stores, project_id: str, status: ProjectStatus | str) -> Project:
    """Into another status, its place in the index with it. One that it has already is no change, and no event."""
    wanted = one_of(ProjectStatus, status, "status")
    seen = await get(stores, project_id)
    if seen.status is wanted:
        return seen
    if seen.status is ProjectStatus.archived:
        await _refuse_twin(stores, seen)
    at = _after(stores, seen)
    told = {"change": "status", "before": seen.status, "after": wanted}
    event = recorded(
        stores, seen.id, EventType.project_changed, f"Project {seen.name} is {wanted} now", told, at=at
    )
    await _written(stores, seen.id, patterns.change_status(seen, wanted, at), *event)
    return seen.model_copy(update={"status": wanted, "updated_at": at})


async def archive(stores: Stores, project_id: str) -> Project:
    """No longer looked after. Artefacts, escalations and the project itself stay; status active brings it back."""
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
    """What is given is changed, `config` as a whole. With `seen_updated_at`, only if nobody has changed it since."""
    seen = await get(stores, project_id)
    if seen_updated_at is not None and seen_updated_at != seen.updated_at:
        raise _changed_meanwhile(seen.id)
    wanted: dict[str, Any] = {}
    if name is not None:
        wanted["name"] = _text(name, "name", NAME_CHARS_MAX)
    if description is not None:
        wanted["description"] = _text(description, "description", DESCRIPTION_CHARS_MAX)
    if autonomy_level is not None:
        wanted["autonomy_level"] = one_of(Autonomy, autonomy_level, "autonomy level")
    if config is not None:
        wanted["config"] = checked_config(config)
    changed = sorted(field for field, value in wanted.items() if getattr(seen, field) != value)
    if not changed:
        return seen
    at = _after(stores, seen)
    after = Project(**{**dict(seen), **wanted, "updated_at": at})
    summary = f"Project {after.name}: {', '.join(changed)} changed"
    event = recorded(stores, seen.id, EventType.project_changed, summary, _told(seen, after, changed), at=at)
    await _written(stores, seen.id, patterns.change_project(seen, after), *event)
    return after


async def _refuse_twin(stores: Stores, wanted: Project) -> None:
    """Two that look after the same tickets would tell, ask and do everything twice."""
    for status in (ProjectStatus.active, ProjectStatus.paused):
        async for each in stores.each(patterns.projects_in(status)):
            is_same = (each.source, each.source_project_key) == (wanted.source, wanted.source_project_key)
            if is_same and each.id != wanted.id:
                raise Conflict(
                    f"{wanted.source_project_key} of {wanted.source} is looked after already, by the project {each.name} "
                    f"({each.id}), which is {status}: use that one, or archive it first."
                )


def checked_id(project_id: str) -> ProjectId:
    try:
        return ProjectId(str(UUID(project_id)))
    except ValueError:
        raise InvalidRequest(f"{project_id!r} is no id of a project: it is a UUID.") from None


def one_of(choices: type[Choice], value: str, what: str) -> Choice:
    try:
        return choices(value)
    except ValueError:
        raise InvalidRequest(f"{value!r} is no {what}: choose {', '.join(map(str, choices))}.") from None


def _text(value: str, what: str, chars_max: int) -> str:
    text = value.strip()
    if not text or len(text) > chars_max:
        raise InvalidRequest(
            f"The {what} of a project has 1 to {chars_max} characters, this has {len(text)}."
        )
    return text


def _after(stores: Stores, seen: Project) -> datetime:
    """Now, and later than what was seen: `updatedAt` says which state somebody has decided on."""
    return max(moment(stores.clock), seen.updated_at + TICK)


def _told(seen: Project, after: Project, changed: list[str]) -> dict[str, Any]:
    """What changed, before and after; of the configuration and the description, only that they did."""
    short = [field for field in changed if field in ("name", "autonomy_level")]
    return {
        "change": ", ".join(changed),
        "before": {field: getattr(seen, field) for field in short},
        "after": {field: getattr(after, field) for field in short},
    }


async def _written(stores: Stores, project_id: ProjectId, *writes: Write[Any]) -> None:
    try:
        await stores.transact(*writes)
    except TransactionCancelled as error:
        for reason in error.reasons:
            if reason.code == INVALID:
                raise InvalidRequest(f"The project cannot be kept so: {reason.message}") from error
        raise _changed_meanwhile(project_id) from error


def _changed_meanwhile(project_id: ProjectId) -> ConditionFailed:
    return ConditionFailed(
        f"The project {project_id} was changed by somebody else meanwhile: read it again, and decide again."
    )
