"""Tests of projects on stores in memory: creation, changes, validation, and the items and events written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from agenticpm.model import patterns, projects
from agenticpm.model.entities import Autonomy, Event, Project, ProjectId, ProjectStatus, Source
from agenticpm.system import SYSTEM
from holdfast import Stores, Write, open_memory_stores, provision
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest, NotFound
from holdfast.operations import tables as requests

R = TypeVar("R")


class ManualClock:
    """Clock that only the test moves."""

    def __init__(self, now: float = 1_770_166_800.0) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment


async def run_story(story: Callable[[Stores], Awaitable[R]], clock: ManualClock | None = None) -> R:
    """Run the story with stores in memory and return its result."""

    async with open_memory_stores(SYSTEM, clock=clock or ManualClock()) as stores:
        await provision(stores, SYSTEM)
        return await story(stores)


async def create_project(stores: Stores, **changes: Any) -> Project:
    given: dict[str, Any] = {
        "name": "Member profile",
        "source": "jira",
        "source_project_key": "MCU",
    } | changes
    return await projects.create(stores, **given)


async def list_events(stores: Stores, project: Project) -> list[Event]:
    return list(await stores.all(patterns.project_events(project.id)))


async def get_item(stores: Stores, project: Project) -> dict[str, Any]:
    """Return the item as the engine stores it."""
    key: dict[str, Any] = {"PK": f"PROJECT#{project.id}", "SK": "METADATA"}
    found = await stores.tables.run(requests.GetItem("AgenticPM", key, consistent=True))
    assert found.item is not None
    return dict(found.item)


def run_before_next_write(stores: Stores, rival: Callable[[], Awaitable[Any]]) -> None:
    """Run a rival's write after the next caller's reads and before its transaction."""
    written = stores.transact

    async def transact(*writes: Write[Any], token: str | None = None) -> None:
        stores.transact = written  # type: ignore[method-assign]
        await rival()
        await written(*writes, token=token)

    stores.transact = transact  # type: ignore[method-assign,assignment]


@pytest.mark.proves("AP-11")
@pytest.mark.proves("AP-28")
@pytest.mark.proves("AP-34")
async def test_new_project_has_its_own_id_and_the_documents_defaults() -> None:
    async def story(stores: Stores) -> tuple[Project, Project, dict[str, Any]]:
        new = await create_project(stores)
        return new, await projects.get(stores, new.id), await get_item(stores, new)

    new, read, item = await run_story(story)
    assert new == read
    assert (read.status, read.autonomy_level, read.config, read.description) == (
        ProjectStatus.active,
        Autonomy.monitoring,
        {},
        None,
    )
    assert item["sourceProjectKey"] == "MCU"
    assert item["GSI1PK"] == "STATUS#active"
    assert item["GSI1SK"] == f"PROJECT#{new.id}"
    assert item["createdAt"] == item["updatedAt"] == "2026-02-04T01:00:00.000Z"
    assert "TTL" not in item


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"status": "done"}, "Invalid status 'done': expected one of active, paused, archived."),
        ({"source": "trello"}, "Invalid source 'trello': expected one of jira, asana."),
        (
            {"autonomy_level": "full"},
            "Invalid autonomy level 'full': expected one of monitoring, artefact, tactical.",
        ),
        ({"name": "  "}, "Invalid name of the project: expected 1 to 200 characters, got 0."),
        ({"name": "x" * 201}, "Invalid name of the project: expected 1 to 200 characters, got 201."),
        (
            {"source_project_key": ""},
            "Invalid source_project_key of the project: expected 1 to 200 characters",
        ),
    ],
)
async def test_rejects_invalid_values_and_lists_the_valid_ones(wrong: dict[str, Any], message: str) -> None:
    async def story(stores: Stores) -> int:
        with pytest.raises(InvalidRequest, match=message.replace("(", r"\(")):
            await create_project(stores, **wrong)
        return len(await stores.all(patterns.recent_events()))

    assert await run_story(story) == 0


@pytest.mark.parametrize(
    "config", [{"a": "x" * 500_000}, {"a": float("nan")}, {"a": "\ud800"}, {"a": 10**40 + 1}]
)
async def test_rejects_an_unknown_configuration_field_with_any_value(config: dict[str, Any]) -> None:
    """The values could not be stored either."""

    async def story(stores: Stores) -> int:
        with pytest.raises(InvalidRequest):
            await create_project(stores, config=config)
        project = await create_project(stores)
        with pytest.raises(InvalidRequest):
            await projects.change(stores, project.id, config=config)
        return len(await stores.all(patterns.recent_events()))

    assert await run_story(story) == 1


@pytest.mark.proves("AP-12")
@pytest.mark.proves("AP-29")
@pytest.mark.proves("AP-33")
async def test_status_change_moves_the_index_in_the_same_write() -> None:
    clock = ManualClock()

    async def story(stores: Stores) -> tuple[dict[str, Any], list[list[ProjectId]], list[Event]]:
        project = await create_project(stores)
        clock.moment += 60
        await projects.change_status(stores, project.id, "paused")
        where = [
            [each.id for each in await projects.list_by_status(stores, status)] for status in ProjectStatus
        ]
        return await get_item(stores, project), where, await list_events(stores, project)

    item, where, events = await run_story(story, clock)
    assert (item["status"], item["GSI1PK"]) == ("paused", "STATUS#paused")
    assert item["updatedAt"] == "2026-02-04T01:01:00.000Z"
    assert [len(each) for each in where] == [0, 1, 0]
    assert events[0].event_type == "project_changed"
    assert events[0].detail == {"change": "status", "before": "active", "after": "paused"}


@pytest.mark.proves("AP-12")
async def test_one_of_two_concurrent_status_changes_gets_a_conflict() -> None:
    async def story(stores: Stores) -> tuple[Project, list[Event]]:
        project = await create_project(stores)
        run_before_next_write(stores, lambda: projects.change_status(stores, project.id, "archived"))
        with pytest.raises(ConditionFailed, match="read it again and retry"):
            await projects.change_status(stores, project.id, "paused")
        return await projects.get(stores, project.id), await list_events(stores, project)

    project, events = await run_story(story)
    assert project.status is ProjectStatus.archived
    assert len(events) == 2  # created, and changed once: the rejected change recorded nothing


@pytest.mark.proves("AP-28")
async def test_rejects_an_unknown_status_and_changes_nothing() -> None:
    async def story(stores: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        project = await create_project(stores)
        before = await get_item(stores, project)
        with pytest.raises(InvalidRequest, match="expected one of active, paused, archived"):
            await projects.change_status(stores, project.id, "deleted")
        return before, await get_item(stores, project)

    before, after = await run_story(story)
    assert before == after


async def test_same_status_writes_no_change_and_no_event() -> None:
    async def story(stores: Stores) -> tuple[bool, int]:
        project = await create_project(stores)
        same = await projects.change_status(stores, project.id, ProjectStatus.active)
        return same == project, len(await list_events(stores, project))

    assert await run_story(story) == (True, 1)


async def test_changes_only_the_given_fields() -> None:
    async def story(stores: Stores) -> tuple[Project, Project, list[Event]]:
        project = await create_project(
            stores, config={"allowed_actions": ["comment"]}, description="The new page"
        )
        changed = await projects.change(
            stores,
            project.id,
            name="Member page",
            autonomy_level="tactical",
            seen_updated_at=project.updated_at,
        )
        assert changed == await projects.get(stores, project.id)
        return project, changed, await list_events(stores, project)

    project, changed, events = await run_story(story)
    assert (changed.name, changed.autonomy_level) == ("Member page", Autonomy.tactical)
    assert (changed.config, changed.description, changed.source) == (
        project.config,
        project.description,
        Source.jira,
    )
    assert changed.updated_at > project.updated_at  # the clock does not move
    assert events[0].detail == {
        "change": "autonomy_level, name",
        "before": {"name": "Member profile", "autonomy_level": "monitoring"},
        "after": {"name": "Member page", "autonomy_level": "tactical"},
    }


async def test_rejects_a_change_based_on_stale_data() -> None:
    async def story(stores: Stores) -> str:
        project = await create_project(stores)
        await projects.change(stores, project.id, name="First", seen_updated_at=project.updated_at)
        with pytest.raises(ConditionFailed, match="Another writer changed project"):
            await projects.change(stores, project.id, name="Second", seen_updated_at=project.updated_at)
        return (await projects.get(stores, project.id)).name

    assert await run_story(story) == "First"


async def test_no_concurrent_change_is_silently_lost() -> None:
    async def story(stores: Stores) -> Project:
        project = await create_project(stores)
        run_before_next_write(stores, lambda: projects.change(stores, project.id, config={"mail": True}))
        with pytest.raises(ConditionFailed):
            await projects.change(stores, project.id, name="First")
        return await projects.get(stores, project.id)

    project = await run_story(story)
    assert (project.name, project.config) == ("Member profile", {"mail": True})


@pytest.mark.proves("AP-48")
async def test_archived_project_keeps_everything_and_can_be_restored() -> None:
    """Its events expire as usual."""
    clock = ManualClock()

    async def story(stores: Stores) -> tuple[list[int], ProjectStatus, list[str]]:
        project = await create_project(stores)
        artefact = patterns._example_artefact().model_copy(update={"project_id": project.id})
        escalation = patterns._example_escalation().model_copy(update={"project_id": project.id})
        await stores.transact(patterns.create_artefact(artefact), patterns.create_escalation(escalation))
        await projects.archive(stores, project.id)
        # Long after its last event expired.
        clock.moment += timedelta(days=400).total_seconds()
        kept = [
            len(await projects.list_by_status(stores, ProjectStatus.archived)),
            len(await stores.all(patterns.artefacts(project.id))),
            len(await stores.all(patterns.project_escalations(project.id))),
            len(await stores.all(patterns.project_events(project.id))),
        ]
        back = await projects.change_status(stores, project.id, ProjectStatus.active)
        return kept, back.status, [each.id for each in await projects.list_by_status(stores)]

    kept, status, active = await run_story(story, clock)
    assert kept == [1, 1, 1, 0]
    assert status is ProjectStatus.active and len(active) == 1


async def test_list_of_projects_continues_from_its_cursor() -> None:
    async def story(stores: Stores) -> tuple[set[str], set[str]]:
        ids = {
            (await create_project(stores, name=f"Project {each}", source_project_key=f"P{each}")).id
            for each in range(5)
        }
        found: set[str] = set()
        cursor = None
        while True:
            page = await projects.list_by_status(stores, limit=2, cursor=cursor)
            assert len(page) <= 2
            found |= {each.id for each in page}
            cursor = page.cursor
            if cursor is None:
                return set(map(str, ids)), found

    made_, found = await run_story(story)
    assert made_ == found


async def test_reports_a_missing_project() -> None:
    async def story(stores: Stores) -> None:
        with pytest.raises(NotFound, match="Project .* not found"):
            await projects.get(stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
        with pytest.raises(InvalidRequest, match="Invalid project id"):
            await projects.get(stores, "MCU")
        with pytest.raises(NotFound):
            await projects.change_status(stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11", "paused")

    await run_story(story)


# --- one project per tracker project ------------------------------------------------------------------------


async def test_tracker_project_is_managed_only_once() -> None:
    """An archived project does not count, and cannot return while another watches its tickets."""

    async def story(stores: Stores) -> None:
        first = await create_project(stores)
        with pytest.raises(Conflict, match=f"Member profile .{first.id}, active. already watches"):
            await create_project(stores, name="Again")
        await projects.change_status(stores, first.id, "paused")
        with pytest.raises(Conflict, match="paused. already watches"):
            await create_project(stores, name="Again")
        await create_project(stores, name="Of Asana", source="asana")
        await projects.archive(stores, first.id)
        await create_project(stores, name="Again")
        with pytest.raises(Conflict, match="Project Again"):
            await projects.change_status(stores, first.id, "active")
        assert (await projects.get(stores, first.id)).status is ProjectStatus.archived

    await run_story(story)


# --- configuration ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"nonsense": 1},
            "unknown field config.nonsense. Fields of config: stakeholders, allowed_actions, mail, "
            "thresholds",
        ),
        ({"allowed_actions": ["delete"]}, "config.allowed_actions.0"),
        ({"allowed_actions": ["coment"]}, "invalid action 'coment': expected one of comment, mail"),
        ({"allowed_actions": "comment"}, "config.allowed_actions"),
        ({"stakeholders": ["notanaddress"]}, "invalid address 'notanaddress'"),
        ({"stakeholders": "a@example.com"}, "config.stakeholders"),
        ({"mail": "yes"}, "config.mail"),
        ({"thresholds": {"stale_day": 3}}, "unknown field config.thresholds.stale_day"),
        ({"thresholds": {"stale_working_days": "soon"}}, "config.thresholds.stale_working_days"),
    ],
)
async def test_rejects_an_invalid_configuration_and_keeps_the_old_one(
    config: dict[str, Any], message: str
) -> None:
    async def story(stores: Stores) -> dict[str, Any]:
        with pytest.raises(InvalidRequest, match=re.escape(message)):
            await create_project(stores, config=config)
        project = await create_project(stores, config={"mail": True})
        with pytest.raises(InvalidRequest, match=re.escape(message)):
            await projects.change(stores, project.id, config=config)
        return (await projects.get(stores, project.id)).config

    assert await run_story(story) == {"mail": True}


async def test_keeps_a_complete_configuration_as_given() -> None:
    config = {
        "stakeholders": ["sponsor@example.com"],
        "allowed_actions": ["comment"],
        "mail": True,
        "thresholds": {"stale_working_days": 3, "scope_share": Decimal("0.3")},
    }

    async def story(stores: Stores) -> Project:
        return await projects.get(stores, (await create_project(stores, config=config)).id)

    assert (await run_story(story)).config == config
