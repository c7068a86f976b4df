"""Projects as people make and change them: what is refused, what is one write, and what stays."""

from __future__ import annotations

import asyncio
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


class HandClock:
    """Stands until it is moved."""

    def __init__(self, now: float = 1_770_166_800.0) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment


def played(play: Callable[[Stores], Awaitable[R]], clock: HandClock | None = None) -> R:
    async def run() -> R:
        async with open_memory_stores(SYSTEM, clock=clock or HandClock()) as stores:
            await provision(stores, SYSTEM)
            return await play(stores)

    return asyncio.run(run())


async def made(stores: Stores, **changes: Any) -> Project:
    given: dict[str, Any] = {
        "name": "Member profile",
        "source": "jira",
        "source_project_key": "MCU",
    } | changes
    return await projects.create(stores, **given)


async def changes_told(stores: Stores, project: Project) -> list[Event]:
    return list(await stores.all(patterns.project_events(project.id)))


async def stored(stores: Stores, project: Project) -> dict[str, Any]:
    """The item itself, as the engine has it."""
    key: dict[str, Any] = {"PK": f"PROJECT#{project.id}", "SK": "METADATA"}
    found = await stores.tables.run(requests.GetItem("AgenticPM", key, consistent=True))
    assert found.item is not None
    return dict(found.item)


def overtaken(stores: Stores, rival: Callable[[], Awaitable[Any]]) -> None:
    """Lets a rival write first, between what the next caller has read and what it writes."""
    written = stores.transact

    async def transact(*writes: Write[Any], token: str | None = None) -> None:
        stores.transact = written  # type: ignore[method-assign]
        await rival()
        await written(*writes, token=token)

    stores.transact = transact  # type: ignore[method-assign,assignment]


@pytest.mark.proves("AP-11")
@pytest.mark.proves("AP-28")
@pytest.mark.proves("AP-34")
def test_a_new_project_has_an_id_of_its_own_and_the_documents_defaults() -> None:
    async def play(stores: Stores) -> tuple[Project, Project, dict[str, Any]]:
        new = await made(stores)
        return new, await projects.get(stores, new.id), await stored(stores, new)

    new, read, item = played(play)
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
    ("wrong", "told"),
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
def test_refuses_what_a_project_cannot_be_and_says_what_it_can(wrong: dict[str, Any], told: str) -> None:
    async def play(stores: Stores) -> int:
        with pytest.raises(InvalidRequest, match=told.replace("(", r"\(")):
            await made(stores, **wrong)
        return len(await stores.all(patterns.recent_events()))

    assert played(play) == 0


@pytest.mark.parametrize(
    "config", [{"a": "x" * 500_000}, {"a": float("nan")}, {"a": "\ud800"}, {"a": 10**40 + 1}]
)
def test_refuses_a_configuration_that_no_item_can_hold(config: dict[str, Any]) -> None:
    async def play(stores: Stores) -> int:
        with pytest.raises(InvalidRequest):
            await made(stores, config=config)
        project = await made(stores)
        with pytest.raises(InvalidRequest):
            await projects.change(stores, project.id, config=config)
        return len(await stores.all(patterns.recent_events()))

    assert played(play) == 1


@pytest.mark.proves("AP-12")
@pytest.mark.proves("AP-29")
@pytest.mark.proves("AP-33")
def test_a_change_of_status_moves_the_index_in_the_same_write() -> None:
    clock = HandClock()

    async def play(stores: Stores) -> tuple[dict[str, Any], list[list[ProjectId]], list[Event]]:
        project = await made(stores)
        clock.moment += 60
        await projects.change_status(stores, project.id, "paused")
        where = [
            [each.id for each in await projects.list_by_status(stores, status)] for status in ProjectStatus
        ]
        return await stored(stores, project), where, await changes_told(stores, project)

    item, where, events = played(play, clock)
    assert (item["status"], item["GSI1PK"]) == ("paused", "STATUS#paused")
    assert item["updatedAt"] == "2026-02-04T01:01:00.000Z"
    assert [len(each) for each in where] == [0, 1, 0]
    assert events[0].event_type == "project_changed"
    assert events[0].detail == {"change": "status", "before": "active", "after": "paused"}


@pytest.mark.proves("AP-12")
def test_of_two_changes_of_status_at_the_same_time_one_is_told_to_look_again() -> None:
    async def play(stores: Stores) -> tuple[Project, list[Event]]:
        project = await made(stores)
        overtaken(stores, lambda: projects.change_status(stores, project.id, "archived"))
        with pytest.raises(ConditionFailed, match="read it again and retry"):
            await projects.change_status(stores, project.id, "paused")
        return await projects.get(stores, project.id), await changes_told(stores, project)

    project, events = played(play)
    assert project.status is ProjectStatus.archived
    assert len(events) == 2  # made, and changed once: the one that was refused has told nothing


@pytest.mark.proves("AP-28")
def test_refuses_a_status_that_there_is_not_and_changes_nothing() -> None:
    async def play(stores: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        project = await made(stores)
        before = await stored(stores, project)
        with pytest.raises(InvalidRequest, match="expected one of active, paused, archived"):
            await projects.change_status(stores, project.id, "deleted")
        return before, await stored(stores, project)

    before, after = played(play)
    assert before == after


def test_a_status_that_it_has_already_is_no_change_and_no_event() -> None:
    async def play(stores: Stores) -> tuple[bool, int]:
        project = await made(stores)
        same = await projects.change_status(stores, project.id, ProjectStatus.active)
        return same == project, len(await changes_told(stores, project))

    assert played(play) == (True, 1)


def test_what_is_given_is_changed_and_the_rest_stays() -> None:
    async def play(stores: Stores) -> tuple[Project, Project, list[Event]]:
        project = await made(stores, config={"allowed_actions": ["comment"]}, description="The new page")
        changed = await projects.change(
            stores,
            project.id,
            name="Member page",
            autonomy_level="tactical",
            seen_updated_at=project.updated_at,
        )
        assert changed == await projects.get(stores, project.id)
        return project, changed, await changes_told(stores, project)

    project, changed, events = played(play)
    assert (changed.name, changed.autonomy_level) == ("Member page", Autonomy.tactical)
    assert (changed.config, changed.description, changed.source) == (
        project.config,
        project.description,
        Source.jira,
    )
    assert changed.updated_at > project.updated_at  # on a clock that stands
    assert events[0].detail == {
        "change": "autonomy_level, name",
        "before": {"name": "Member profile", "autonomy_level": "monitoring"},
        "after": {"name": "Member page", "autonomy_level": "tactical"},
    }


def test_refuses_a_change_decided_on_what_is_no_longer_so() -> None:
    async def play(stores: Stores) -> str:
        project = await made(stores)
        await projects.change(stores, project.id, name="First", seen_updated_at=project.updated_at)
        with pytest.raises(ConditionFailed, match="Another writer changed project"):
            await projects.change(stores, project.id, name="Second", seen_updated_at=project.updated_at)
        return (await projects.get(stores, project.id)).name

    assert played(play) == "First"


def test_of_two_changes_at_the_same_time_none_is_lost_unseen() -> None:
    async def play(stores: Stores) -> Project:
        project = await made(stores)
        overtaken(stores, lambda: projects.change(stores, project.id, config={"mail": True}))
        with pytest.raises(ConditionFailed):
            await projects.change(stores, project.id, name="First")
        return await projects.get(stores, project.id)

    project = played(play)
    assert (project.name, project.config) == ("Member profile", {"mail": True})


@pytest.mark.proves("AP-48")
def test_an_archived_project_keeps_everything_and_can_be_brought_back() -> None:
    clock = HandClock()

    async def play(stores: Stores) -> tuple[list[int], ProjectStatus, list[str]]:
        project = await made(stores)
        artefact = patterns._example_artefact().model_copy(update={"project_id": project.id})
        escalation = patterns._example_escalation().model_copy(update={"project_id": project.id})
        await stores.transact(patterns.create_artefact(artefact), patterns.create_escalation(escalation))
        await projects.archive(stores, project.id)
        # Long after the last event of it has ended.
        clock.moment += timedelta(days=400).total_seconds()
        kept = [
            len(await projects.list_by_status(stores, ProjectStatus.archived)),
            len(await stores.all(patterns.artefacts(project.id))),
            len(await stores.all(patterns.project_escalations(project.id))),
            len(await stores.all(patterns.project_events(project.id))),
        ]
        back = await projects.change_status(stores, project.id, ProjectStatus.active)
        return kept, back.status, [each.id for each in await projects.list_by_status(stores)]

    kept, status, active = played(play, clock)
    assert kept == [1, 1, 1, 0]
    assert status is ProjectStatus.active and len(active) == 1


def test_a_list_of_projects_goes_on_from_its_cursor() -> None:
    async def play(stores: Stores) -> tuple[set[str], set[str]]:
        ids = {
            (await made(stores, name=f"Project {each}", source_project_key=f"P{each}")).id
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

    made_, found = played(play)
    assert made_ == found


def test_what_is_not_there_is_said_so() -> None:
    async def play(stores: Stores) -> None:
        with pytest.raises(NotFound, match="Project .* not found"):
            await projects.get(stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
        with pytest.raises(InvalidRequest, match="Invalid project id"):
            await projects.get(stores, "MCU")
        with pytest.raises(NotFound):
            await projects.change_status(stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11", "paused")

    played(play)


# --- one for each project of a tracker ----------------------------------------------------------------------


def test_a_project_of_a_tracker_is_looked_after_once() -> None:
    async def play(stores: Stores) -> None:
        first = await made(stores)
        with pytest.raises(Conflict, match=f"Member profile .{first.id}, active. already watches"):
            await made(stores, name="Again")
        await projects.change_status(stores, first.id, "paused")
        with pytest.raises(Conflict, match="paused. already watches"):
            await made(stores, name="Again")
        await made(stores, name="Of Asana", source="asana")
        await projects.archive(stores, first.id)
        await made(stores, name="Again")
        with pytest.raises(Conflict, match="Project Again"):
            await projects.change_status(stores, first.id, "active")
        assert (await projects.get(stores, first.id)).status is ProjectStatus.archived

    played(play)


# --- its configuration --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"nonsense": 1},
            "unknown field config.nonsense. Fields of config: stakeholders, allowed_actions, mail, thresholds",
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
def test_a_configuration_that_would_take_effect_nowhere_is_refused(config: dict[str, Any], said: str) -> None:
    async def play(stores: Stores) -> dict[str, Any]:
        with pytest.raises(InvalidRequest, match=re.escape(said)):
            await made(stores, config=config)
        project = await made(stores, config={"mail": True})
        with pytest.raises(InvalidRequest, match=re.escape(said)):
            await projects.change(stores, project.id, config=config)
        return (await projects.get(stores, project.id)).config

    assert played(play) == {"mail": True}


def test_a_whole_configuration_is_kept_as_it_was_given() -> None:
    config = {
        "stakeholders": ["sponsor@example.com"],
        "allowed_actions": ["comment"],
        "mail": True,
        "thresholds": {"stale_working_days": 3, "scope_share": Decimal("0.3")},
    }

    async def play(stores: Stores) -> Project:
        return await projects.get(stores, (await made(stores, config=config)).id)

    assert played(play).config == config
