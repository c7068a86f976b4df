"""Tests of artefact versions on stores in memory: updates, stale versions, undo and redo, large contents."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
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
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, ObjectDamaged, TransactionCancelled
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


# --- updates ------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-13", "AP-36")
async def test_first_version_has_no_previous_one(stores: Stores) -> None:
    made = await update(stores, PROJECT, RAID, RAID_LOG, 0)
    assert (made.version, made.previous_version, made.content) == (1, None, RAID_LOG)
    assert made.created_at == made.updated_at == datetime(2026, 2, 4, 1, tzinfo=UTC)
    assert await get_item(stores) == made


@pytest.mark.proves("AP-14", "AP-16")
async def test_update_keeps_only_the_previous_version(stores: Stores, clock: ManualClock) -> None:
    first = await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    clock.seconds += 60
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002"), 1)
    third = await update(stores, PROJECT, RAID, make_raid_log("R001", "R002", "R003"), 2)
    assert third.version == 3
    assert third.content == make_raid_log("R001", "R002", "R003")
    assert third.previous_version == make_raid_log("R001", "R002")
    assert (third.id, third.created_at) == (first.id, first.created_at)
    assert third.updated_at == datetime(2026, 2, 4, 1, 1, tzinfo=UTC)
    assert (await stores.all(patterns.artefacts(PROJECT))).items == (third,)


@pytest.mark.proves("AP-13", "AP-35")
async def test_keeps_one_item_per_project_and_type(stores: Stores) -> None:
    for type in (RAID, ArtefactType.decision_log, ArtefactType.backlog_summary):
        await update(stores, PROJECT, type, CONTENTS[type], 0)
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002", "R003"), 1)
    await update(stores, PROJECT, ArtefactType.delivery_state, DELIVERY_STATE, 0)
    found = (await stores.all(patterns.artefacts(PROJECT))).items
    assert sorted(each.type for each in found) == sorted(ArtefactType)
    assert all(each.to_item()["SK"] == f"ARTEFACT#{each.type}" for each in found)


@pytest.mark.proves("AP-14")
@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_rejects_a_stale_version_with_both_versions_and_writes_nothing(
    stores: Stores, expected: int
) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    seen = await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    before = await list_events(stores)
    with pytest.raises(Conflict, match=f"is at version 2, but the request expects version {expected}"):
        await update(stores, PROJECT, RAID, make_raid_log("R003"), expected)
    assert await get_item(stores) == seen
    assert await list_events(stores) == before


@pytest.mark.proves("AP-14")
async def test_one_of_two_concurrent_updates_gets_a_conflict(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    results = await asyncio.gather(
        *(update(stores, PROJECT, RAID, make_raid_log(f"R00{each}"), 1) for each in (2, 3)),
        return_exceptions=True,
    )
    written = [each for each in results if isinstance(each, Artefact)]
    refused = [each for each in results if isinstance(each, Conflict)]
    assert (len(written), len(refused)) == (1, 1)
    assert "is at version 2, but the request expects version 1" in str(refused[0])
    assert await get_item(stores) == written[0]
    assert len(await list_events(stores)) == 2


async def test_stale_writes_cancel_the_callers_transaction(stores: Stores) -> None:
    seen = await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    writes = await build_update(stores, PROJECT, RAID, make_raid_log("R002"), seen=seen)
    await update(stores, PROJECT, RAID, make_raid_log("R003"), 1)
    with pytest.raises(TransactionCancelled):
        await stores.transact(*writes)
    assert len(await list_events(stores)) == 2


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


# --- undo ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-15", "AP-X17")
async def test_undo_writes_the_previous_content_as_the_next_version(
    stores: Stores, clock: ManualClock
) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    clock.seconds += 60
    back = await undo(stores, PROJECT, RAID, 2)
    assert (back.version, back.content, back.previous_version) == (
        3,
        make_raid_log("R001"),
        make_raid_log("R002"),
    )
    assert back.updated_at > back.created_at
    assert await get_item(stores) == back
    last = (await list_events(stores))[-1]
    assert (last.event_type, last.detail and last.detail["why"]) == ("artefact_updated", "undo")


@pytest.mark.proves("AP-15", "AP-X17")
async def test_second_undo_restores_what_was_undone(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    seen = await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    await undo(stores, PROJECT, RAID, 2)
    again = await undo(stores, PROJECT, RAID, 3)
    assert (again.version, again.content) == (4, seen.content)
    assert again.previous_version == make_raid_log("R001")


@pytest.mark.proves("AP-15")
async def test_rejects_an_undo_with_nothing_to_undo(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="nothing to undo.*no version yet"):
        await undo(stores, PROJECT, RAID, 0)
    seen = await update(stores, PROJECT, RAID, RAID_LOG, 0)
    with pytest.raises(InvalidRequest, match="nothing to undo.*only one version"):
        await undo(stores, PROJECT, RAID, 1)
    assert await get_item(stores) == seen


@pytest.mark.proves("AP-14")
async def test_rejects_an_undo_of_an_older_version(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    with pytest.raises(Conflict, match="is at version 2, but the request expects version 1"):
        await undo(stores, PROJECT, RAID, 1)


async def test_undoes_a_delivery_state_after_the_raid_log_changed(stores: Stores) -> None:
    type = ArtefactType.delivery_state
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002", "R003"), 0)
    await update(stores, PROJECT, type, DELIVERY_STATE, 0)
    await update(stores, PROJECT, RAID, make_raid_log("R001", "R002"), 1)
    await update(stores, PROJECT, type, replace_at(DELIVERY_STATE, "key_metrics.active_risks", 2), 1)
    assert (await undo(stores, PROJECT, type, 2)).content == DELIVERY_STATE


# --- events -------------------------------------------------------------------------------------------------


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
async def test_moves_both_contents_to_objects_when_each_is_too_large(stores: Stores) -> None:
    first, second = make_large_raid_log("first", 600), make_large_raid_log("second", 500)
    await update(stores, PROJECT, RAID, first, 0)
    made = await update(stores, PROJECT, RAID, second, 1)
    assert item_size(made.to_item()) < 1024
    read = await get_item(stores)
    assert read is not None
    assert await load_content(stores, read) == second
    assert await load_previous(stores, read) == first


@pytest.mark.proves("AP-X18", "AP-15")
async def test_undoes_and_restores_a_content_in_an_object(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_large_raid_log("first", 600), 0)
    await update(stores, PROJECT, RAID, RAID_LOG, 1)
    back = await undo(stores, PROJECT, RAID, 2)
    assert await load_content(stores, back) == make_large_raid_log("first", 600)
    again = await undo(stores, PROJECT, RAID, 3)
    assert again.content == RAID_LOG
    assert await load_previous(stores, again) == make_large_raid_log("first", 600)


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
