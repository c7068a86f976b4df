"""Tests of projects on stores in memory: creation, changes, validation, and the items and events written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.model import patterns, projects
from agenticpm.model.entities import Autonomy, Event, Project, ProjectStatus, Source
from holdfast import Stores, Write
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest
from holdfast.operations import tables as requests
from tests.systems.agenticpm.unit.samples import ManualClock, create_project


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


@pytest.mark.proves("AP-11", "AP-28", "AP-34")
async def test_new_project_has_its_own_id_and_the_documents_defaults(stores: Stores) -> None:
    new = await create_project(stores)
    read, item = await projects.get(stores, new.id), await get_item(stores, new)
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
async def test_rejects_invalid_values_and_lists_the_valid_ones(
    stores: Stores, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message.replace("(", r"\(")):
        await create_project(stores, **wrong)
    assert len(await stores.all(patterns.recent_events())) == 0


@pytest.mark.proves("AP-12", "AP-29", "AP-33")
async def test_status_change_moves_the_index_in_the_same_write(stores: Stores, clock: ManualClock) -> None:
    project = await create_project(stores)
    clock.seconds += 60
    await projects.change_status(stores, project.id, "paused")
    where = [[each.id for each in await projects.list_by_status(stores, status)] for status in ProjectStatus]
    item, events = await get_item(stores, project), await list_events(stores, project)
    assert (item["status"], item["GSI1PK"]) == ("paused", "STATUS#paused")
    assert item["updatedAt"] == "2026-02-04T01:01:00.000Z"
    assert [len(each) for each in where] == [0, 1, 0]
    assert events[0].event_type == "project_changed"
    assert events[0].detail == {"change": "status", "before": "active", "after": "paused"}


@pytest.mark.proves("AP-12")
async def test_one_of_two_concurrent_status_changes_gets_a_conflict(stores: Stores) -> None:
    project = await create_project(stores)
    run_before_next_write(stores, lambda: projects.change_status(stores, project.id, "archived"))
    with pytest.raises(ConditionFailed, match="read it again and retry"):
        await projects.change_status(stores, project.id, "paused")
    project, events = await projects.get(stores, project.id), await list_events(stores, project)
    assert project.status is ProjectStatus.archived
    assert len(events) == 2  # created, and changed once: the rejected change recorded nothing


@pytest.mark.proves("AP-28")
async def test_rejects_an_unknown_status_and_changes_nothing(stores: Stores) -> None:
    project = await create_project(stores)
    before = await get_item(stores, project)
    with pytest.raises(InvalidRequest, match="expected one of active, paused, archived"):
        await projects.change_status(stores, project.id, "deleted")
    after = await get_item(stores, project)
    assert before == after


async def test_same_status_writes_no_change_and_no_event(stores: Stores) -> None:
    project = await create_project(stores)
    same = await projects.change_status(stores, project.id, ProjectStatus.active)
    assert (same == project, len(await list_events(stores, project))) == (True, 1)


async def test_changes_only_the_given_fields(stores: Stores) -> None:
    project = await create_project(
        stores, config={"allowed_actions": ["comment"]}, description="The new page"
    )
    changed = await projects.change(
        stores, project.id, name="Member page", autonomy_level="tactical", seen_updated_at=project.updated_at
    )
    assert changed == await projects.get(stores, project.id)
    events = await list_events(stores, project)
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


async def test_no_concurrent_change_is_silently_lost(stores: Stores) -> None:
    project = await create_project(stores)
    run_before_next_write(stores, lambda: projects.change(stores, project.id, config={"mail": True}))
    with pytest.raises(ConditionFailed):
        await projects.change(stores, project.id, name="First")
    project = await projects.get(stores, project.id)
    assert (project.name, project.config) == ("Member profile", {"mail": True})


@pytest.mark.proves("AP-48")
async def test_archived_project_keeps_everything_and_can_be_restored(
    stores: Stores, clock: ManualClock
) -> None:
    """Its events expire as usual."""
    project = await create_project(stores)
    artefact = patterns._example_artefact().model_copy(update={"project_id": project.id})
    escalation = patterns._example_escalation().model_copy(update={"project_id": project.id})
    await stores.transact(patterns.create_artefact(artefact), patterns.create_escalation(escalation))
    await projects.archive(stores, project.id)
    # Long after its last event expired.
    clock.seconds += timedelta(days=400).total_seconds()
    kept = [
        len(await projects.list_by_status(stores, ProjectStatus.archived)),
        len(await stores.all(patterns.artefacts(project.id))),
        len(await stores.all(patterns.project_escalations(project.id))),
        len(await stores.all(patterns.project_events(project.id))),
    ]
    back = await projects.change_status(stores, project.id, ProjectStatus.active)
    status, active = back.status, [each.id for each in await projects.list_by_status(stores)]
    assert kept == [1, 1, 1, 0]
    assert status is ProjectStatus.active and len(active) == 1


async def test_tracker_project_is_managed_only_once(stores: Stores) -> None:
    """An archived project does not count, and cannot return while another watches its tickets."""
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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"nonsense": 1},
            "unknown field config.nonsense. Fields of config: stakeholders, allowed_actions, mail, "
            "dismissed_signals, thresholds",
        ),
        ({"allowed_actions": ["delete"]}, "config.allowed_actions.0"),
        ({"allowed_actions": ["coment"]}, "invalid action 'coment': expected one of comment, mail"),
        ({"allowed_actions": "comment"}, "config.allowed_actions"),
        ({"stakeholders": ["notanaddress"]}, "invalid address 'notanaddress'"),
        ({"stakeholders": "a@example.com"}, "config.stakeholders"),
        ({"mail": "yes"}, "config.mail"),
        # These values could not be stored either.
        ({"a": "x" * 500_000}, "unknown field config.a"),
        ({"a": float("nan")}, "unknown field config.a"),
        ({"a": "\ud800"}, "unknown field config.a"),
        ({"a": 10**40 + 1}, "unknown field config.a"),
        ({"thresholds": {"stale_day": 3}}, "unknown field config.thresholds.stale_day"),
        ({"thresholds": {"stale_working_days": "soon"}}, "config.thresholds.stale_working_days"),
    ],
)
async def test_rejects_an_invalid_configuration_and_keeps_the_old_one(
    stores: Stores, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        await create_project(stores, config=config)
    project = await create_project(stores, config={"mail": True})
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        await projects.change(stores, project.id, config=config)
    assert (await projects.get(stores, project.id)).config == {"mail": True}


async def test_keeps_a_complete_configuration_as_given(stores: Stores) -> None:
    config = {
        "stakeholders": ["sponsor@example.com"],
        "allowed_actions": ["comment"],
        "mail": True,
        "thresholds": {"stale_working_days": 3, "scope_share": Decimal("0.3")},
    }

    assert (await projects.get(stores, (await create_project(stores, config=config)).id)).config == config
