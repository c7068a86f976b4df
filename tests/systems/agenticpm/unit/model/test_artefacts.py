"""Tests of artefact versions on stores in memory: updates, stale versions, undo and redo, large contents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.artefacts import (
    MAX_CONTENTS_BYTES,
    MAX_EVENT_BYTES,
    build_update,
    load_content,
    load_previous,
    undo,
    update,
)
from agenticpm.model.entities import Artefact, Event, ProjectId
from holdfast import Stores
from holdfast.core.errors import InvalidRequest, NotFound, ObjectDamaged
from holdfast.core.limits import MAX_ITEM_BYTES
from holdfast.operations.values import item_size
from tests.systems.agenticpm.unit.samples import ManualClock
from tests.systems.agenticpm.unit.writers.sample_contents import (
    BACKLOG_SUMMARY,
    CONTENTS,
    DECISION_LOG,
    DELIVERY_STATE,
    PROJECT,
    RAID_LOG,
    make_raid_log,
    replace_at,
    sample_project,
)

RAID = ArtefactType.raid_log
MISSING_PROJECT = ProjectId("00000000-0000-4000-8000-000000000000")


@pytest.fixture
async def stores(stores: Stores) -> Stores:
    await stores.run(patterns.create_project(sample_project()))
    return stores


async def get_item(stores: Stores, type: ArtefactType = RAID) -> Artefact | None:
    """Return the stored artefact, or None."""
    return await stores.run(patterns.artefact(PROJECT, type))


async def list_events(stores: Stores) -> list[Event]:
    """Return the project's events, oldest first."""
    return list((await stores.all(patterns.project_events(PROJECT))).items)[::-1]


def make_large_raid_log(first: str, kib: int = 200) -> dict[str, Any]:
    """Make a RAID log of about this many KiB; `first` is the title of its items."""
    return make_raid_log(*(f"R{each:03}" for each in range(1, kib + 1)), title=first, description="x" * 600)


# --- updates, undo, events ----------------------------------------------------------------------------------


async def test_does_not_write_an_unchanged_content(stores: Stores) -> None:
    type = ArtefactType.backlog_summary
    seen = await update(stores, PROJECT, type, BACKLOG_SUMMARY, 0)
    same = replace_at(BACKLOG_SUMMARY, "last_synced", "2026-02-04T10:30:00.000Z")
    assert await build_update(stores, PROJECT, type, same, seen=seen) == []
    assert await update(stores, PROJECT, type, same, 1) == seen
    assert len(await list_events(stores)) == 1


async def test_rejects_an_artefact_of_an_unknown_project(stores: Stores) -> None:
    with pytest.raises(NotFound, match="Project .* not found"):
        await update(stores, MISSING_PROJECT, RAID, RAID_LOG, 0)


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"items": [{"id": "R001"}]}, r"items\[0\].type: is missing"),
        ({"$object": "a" * 64, "bytes": 3}, "Send the full content"),
        ({"items": [], "$object": "a" * 64}, "Send the full content"),
    ],
)
async def test_rejects_an_invalid_content_and_writes_nothing(
    stores: Stores, content: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        await update(stores, PROJECT, RAID, content, 0)
    assert await get_item(stores) is None
    assert await list_events(stores) == []


@pytest.mark.proves("AP-54")
async def test_rejects_a_content_that_contradicts_the_raid_log(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 0)
    with pytest.raises(InvalidRequest, match="active_risks is 3, but the RAID log has 1"):
        await update(stores, PROJECT, ArtefactType.delivery_state, DELIVERY_STATE, 0)
    with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
        await update(stores, PROJECT, ArtefactType.decision_log, DECISION_LOG, 0)


@pytest.mark.proves("AP-54")
async def test_raid_log_keeps_an_item_that_a_decision_names(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002"), 1)
    await update(stores, PROJECT, ArtefactType.decision_log, DECISION_LOG, 0)
    with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
        await update(stores, PROJECT, RAID, make_raid_log("R002"), 2)
    with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
        await undo(stores, PROJECT, RAID, 2)


@pytest.mark.proves("AP-15")
async def test_rejects_an_undo_with_nothing_to_undo(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="nothing to undo.*no version yet"):
        await undo(stores, PROJECT, RAID, 0)
    seen = await update(stores, PROJECT, RAID, RAID_LOG, 0)
    with pytest.raises(InvalidRequest, match="nothing to undo.*only one version"):
        await undo(stores, PROJECT, RAID, 1)
    assert await get_item(stores) == seen


async def test_undoes_a_delivery_state_after_the_raid_log_changed(stores: Stores) -> None:
    type = ArtefactType.delivery_state
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002", "R003"), 0)
    await update(stores, PROJECT, type, DELIVERY_STATE, 0)
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002"), 1)
    await update(stores, PROJECT, type, replace_at(DELIVERY_STATE, "key_metrics.active_risks", 2), 1)
    assert (await undo(stores, PROJECT, type, 2)).content == DELIVERY_STATE


async def test_event_has_the_version_and_the_first_differences(stores: Stores, clock: ManualClock) -> None:
    seen = await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    clock.seconds += 1
    wanted = make_raid_log("R001", "R002", status="mitigating")
    await stores.transact(*await build_update(stores, PROJECT, RAID, wanted, seen=seen, reason="review"))
    last = (await list_events(stores))[-1]
    assert last.event_type == "artefact_updated"
    assert last.detail == {
        "type": "raid_log",
        "version": 2,
        "differences": 2,
        "why": "review",
        "first": [
            {"path": "items[R001].status", "before": "open", "after": "mitigating"},
            {"path": "items[R002]", "before": "nothing", "after": "API vendor announces EOL"},
        ],
    }


async def test_event_stays_small_for_many_differences(stores: Stores, clock: ManualClock) -> None:
    seen = await update(stores, PROJECT, RAID, make_large_raid_log("🦔" * 500), 0)
    clock.seconds += 1
    wanted = make_large_raid_log("🐿" * 500)
    await stores.transact(*await build_update(stores, PROJECT, RAID, wanted, seen=seen, reason="🦔" * 5000))
    last = (await list_events(stores))[-1]
    assert last.detail is not None
    assert last.detail["differences"] == 200
    assert 1 <= len(last.detail["first"]) <= 5
    assert item_size(last.detail) <= MAX_EVENT_BYTES


# --- too large for an item ----------------------------------------------------------------------------------


@pytest.mark.proves("AP-X18")
async def test_moves_the_larger_content_to_an_object_when_both_do_not_fit(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_large_raid_log("first"), 0)
    second = await update(stores, PROJECT, RAID, make_large_raid_log("second", 240), 1)
    assert set(second.content) == {"$object", "bytes"}
    assert second.previous_version == make_large_raid_log("first")
    assert item_size(second.to_item()) < MAX_ITEM_BYTES
    assert await load_content(stores, second) == make_large_raid_log("second", 240)
    assert await load_previous(stores, second) == make_large_raid_log("first")


@pytest.mark.proves("AP-X18")
async def test_amounts_round_trip_through_an_object(stores: Stores) -> None:
    state = DELIVERY_STATE | {"status_summary": "x" * MAX_CONTENTS_BYTES}
    made = await update(stores, PROJECT, ArtefactType.delivery_state, state, 0)
    read = await load_content(stores, made)
    assert "$object" in made.content
    assert read == state
    assert isinstance(read["key_metrics"]["avg_cycle_time_days"], Decimal)


@pytest.mark.proves("AP-X18")
async def test_rejects_an_object_that_does_not_match_its_hash(stores: Stores) -> None:
    await stores.run(patterns.keep_content(b'{"items":[]}', PROJECT, RAID, "a" * 64))
    made = await update(stores, PROJECT, RAID, RAID_LOG, 0)
    wrong = made.model_copy(update={"content": {"$object": "a" * 64, "bytes": 12}})
    with pytest.raises(ObjectDamaged, match="do not match its hash"):
        await load_content(stores, wrong)
    missing = made.model_copy(update={"content": {"$object": "b" * 64, "bytes": 12}})
    with pytest.raises(NotFound):
        await load_content(stores, missing)


@pytest.mark.proves("AP-X18")
async def test_ignores_an_object_without_an_item(stores: Stores) -> None:
    """An abandoned update leaves an object; the next update of the same content uses it."""

    abandoned = await build_update(stores, PROJECT, RAID, make_large_raid_log("first", 600), seen=None)
    assert await get_item(stores) is None
    made = await update(stores, PROJECT, RAID, make_large_raid_log("first", 600), 0)
    put: Any = abandoned[0]
    assert made.content == put.entity.content


@pytest.mark.parametrize("type", ArtefactType)
def test_item_size_of_a_content_is_at_most_its_json_size(type: ArtefactType) -> None:
    content = CONTENTS[type]
    assert item_size(content) <= len(artefacts._ENCODER.encode(content))
    assert MAX_CONTENTS_BYTES < MAX_ITEM_BYTES
