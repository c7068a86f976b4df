"""Versions of artefacts: next, refused when stale, one step back and again; and those that are too large for an item."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.artefacts import (
    CONTENTS_BYTES_MAX,
    EVENT_BYTES_MAX,
    build_update,
    load_content,
    load_previous,
    undo,
    update,
)
from agenticpm.model.entities import Artefact, Event, ProjectId
from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, ObjectDamaged, TransactionCancelled
from holdfast.core.limits import ITEM_BYTES_MAX
from holdfast.operations.values import item_size
from tests.unit.agenticpm.sample_contents import (
    BACKLOG_SUMMARY,
    CONTENTS,
    DECISION_LOG,
    DELIVERY_STATE,
    PROJECT,
    RAID_LOG,
    HandClock,
    changed,
    raid_log,
    tell,
)

RAID = ArtefactType.raid_log
NOBODY = ProjectId("00000000-0000-4000-8000-000000000000")


async def stored(stores: Stores, type: ArtefactType = RAID) -> Artefact | None:
    return await stores.run(patterns.artefact(PROJECT, type))


async def events(stores: Stores) -> list[Event]:
    """Those of the project, oldest first."""
    return list((await stores.all(patterns.project_events(PROJECT))).items)[::-1]


def large(first: str, kib: int = 200) -> dict[str, Any]:
    """A RAID log of so many KiB."""
    return raid_log(*(f"R{each:03}" for each in range(1, kib + 1)), title=first, description="x" * 600)


# --- next ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-13")
@pytest.mark.proves("AP-36")
def test_the_first_version_has_none_before_it() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        made = await update(stores, PROJECT, RAID, RAID_LOG, 0)
        assert (made.version, made.previous_version, made.content) == (1, None, RAID_LOG)
        assert made.created_at == made.updated_at == datetime(2026, 2, 4, 1, tzinfo=UTC)
        assert await stored(stores) == made

    tell(story)


@pytest.mark.proves("AP-14")
@pytest.mark.proves("AP-16")
def test_an_update_keeps_the_version_before_and_nothing_older() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first = await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        clock.seconds += 60
        await update(stores, PROJECT, RAID, raid_log("R001", "R002"), 1)
        third = await update(stores, PROJECT, RAID, raid_log("R001", "R002", "R003"), 2)
        assert third.version == 3
        assert third.content == raid_log("R001", "R002", "R003")
        assert third.previous_version == raid_log("R001", "R002")
        assert (third.id, third.created_at) == (first.id, first.created_at)
        assert third.updated_at == datetime(2026, 2, 4, 1, 1, tzinfo=UTC)
        assert (await stores.all(patterns.artefacts(PROJECT))).items == (third,)

    tell(story)


@pytest.mark.proves("AP-13")
@pytest.mark.proves("AP-35")
def test_there_is_one_item_for_each_project_and_type() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        for type in (RAID, ArtefactType.decision_log, ArtefactType.backlog_summary):
            await update(stores, PROJECT, type, CONTENTS[type], 0)
        await update(stores, PROJECT, RAID, raid_log("R001", "R002", "R003"), 1)
        await update(stores, PROJECT, ArtefactType.delivery_state, DELIVERY_STATE, 0)
        found = (await stores.all(patterns.artefacts(PROJECT))).items
        assert sorted(each.type for each in found) == sorted(ArtefactType)
        assert all(each.to_item()["SK"] == f"ARTEFACT#{each.type}" for each in found)

    tell(story)


@pytest.mark.proves("AP-14")
@pytest.mark.parametrize("expected", [0, 1, 3])
def test_a_stale_version_is_refused_with_both_versions_and_nothing_is_written(expected: int) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        seen = await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        before = await events(stores)
        with pytest.raises(Conflict, match=f"is at version 2, but the request expects version {expected}"):
            await update(stores, PROJECT, RAID, raid_log("R003"), expected)
        assert await stored(stores) == seen
        assert await events(stores) == before

    tell(story)


@pytest.mark.proves("AP-14")
def test_of_two_at_once_one_is_written_and_the_other_is_told() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        told = await asyncio.gather(
            *(update(stores, PROJECT, RAID, raid_log(f"R00{each}"), 1) for each in (2, 3)),
            return_exceptions=True,
        )
        written = [each for each in told if isinstance(each, Artefact)]
        refused = [each for each in told if isinstance(each, Conflict)]
        assert (len(written), len(refused)) == (1, 1)
        assert "is at version 2, but the request expects version 1" in str(refused[0])
        assert await stored(stores) == written[0]
        assert len(await events(stores)) == 2

    tell(story)


def test_writes_that_another_has_overtaken_cancel_the_callers_transaction() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        seen = await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        writes = await build_update(stores, PROJECT, RAID, raid_log("R002"), seen=seen)
        await update(stores, PROJECT, RAID, raid_log("R003"), 1)
        with pytest.raises(TransactionCancelled):
            await stores.transact(*writes)
        assert len(await events(stores)) == 2

    tell(story)


def test_what_does_not_differ_is_not_written() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        type = ArtefactType.backlog_summary
        seen = await update(stores, PROJECT, type, BACKLOG_SUMMARY, 0)
        same = changed(BACKLOG_SUMMARY, "last_synced", "2026-02-04T10:30:00.000Z")
        assert await build_update(stores, PROJECT, type, same, seen=seen) == []
        assert await update(stores, PROJECT, type, same, 1) == seen
        assert len(await events(stores)) == 1

    tell(story)


def test_an_artefact_of_no_project_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        with pytest.raises(NotFound, match="Project .* not found"):
            await update(stores, NOBODY, RAID, RAID_LOG, 0)

    tell(story)


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"items": [{"id": "R001"}]}, r"items\[0\].type: is missing"),
        ({"$object": "a" * 64, "bytes": 3}, "Send the full content"),
        ({"items": [], "$object": "a" * 64}, "Send the full content"),
    ],
)
def test_what_breaks_its_schema_is_refused_and_nothing_is_written(content: dict[str, Any], why: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        with pytest.raises(InvalidRequest, match=why):
            await update(stores, PROJECT, RAID, content, 0)
        assert await stored(stores) is None
        assert await events(stores) == []

    tell(story)


@pytest.mark.proves("AP-54")
def test_what_does_not_agree_with_the_raid_log_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R002"), 0)
        with pytest.raises(InvalidRequest, match="active_risks is 3, but the RAID log has 1"):
            await update(stores, PROJECT, ArtefactType.delivery_state, DELIVERY_STATE, 0)
        with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
            await update(stores, PROJECT, ArtefactType.decision_log, DECISION_LOG, 0)

    tell(story)


@pytest.mark.proves("AP-54")
def test_an_item_that_a_decision_names_stays_in_the_raid_log() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R002"), 0)
        await update(stores, PROJECT, RAID, raid_log("R001", "R002"), 1)
        await update(stores, PROJECT, ArtefactType.decision_log, DECISION_LOG, 0)
        with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
            await update(stores, PROJECT, RAID, raid_log("R002"), 2)
        with pytest.raises(InvalidRequest, match="The decision D001 names R001"):
            await undo(stores, PROJECT, RAID, 2)

    tell(story)


# --- back ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-15")
@pytest.mark.proves("AP-X17")
def test_undo_is_a_next_version_that_says_what_the_one_before_said() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        clock.seconds += 60
        back = await undo(stores, PROJECT, RAID, 2)
        assert (back.version, back.content, back.previous_version) == (3, raid_log("R001"), raid_log("R002"))
        assert back.updated_at > back.created_at
        assert await stored(stores) == back
        last = (await events(stores))[-1]
        assert (last.event_type, last.detail and last.detail["why"]) == ("artefact_updated", "undo")

    tell(story)


@pytest.mark.proves("AP-15")
@pytest.mark.proves("AP-X17")
def test_a_second_undo_brings_back_what_was_undone() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        seen = await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        await undo(stores, PROJECT, RAID, 2)
        again = await undo(stores, PROJECT, RAID, 3)
        assert (again.version, again.content) == (4, seen.content)
        assert again.previous_version == raid_log("R001")

    tell(story)


@pytest.mark.proves("AP-15")
def test_an_undo_with_nothing_to_undo_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        with pytest.raises(InvalidRequest, match="nothing to undo.*no version yet"):
            await undo(stores, PROJECT, RAID, 0)
        seen = await update(stores, PROJECT, RAID, RAID_LOG, 0)
        with pytest.raises(InvalidRequest, match="nothing to undo.*only one version"):
            await undo(stores, PROJECT, RAID, 1)
        assert await stored(stores) == seen

    tell(story)


@pytest.mark.proves("AP-14")
def test_an_undo_of_a_version_that_is_not_the_last_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        with pytest.raises(Conflict, match="is at version 2, but the request expects version 1"):
            await undo(stores, PROJECT, RAID, 1)

    tell(story)


def test_a_delivery_state_can_be_undone_after_the_raid_log_went_on() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        type = ArtefactType.delivery_state
        await update(stores, PROJECT, RAID, raid_log("R001", "R002", "R003"), 0)
        await update(stores, PROJECT, type, DELIVERY_STATE, 0)
        await update(stores, PROJECT, RAID, raid_log("R001", "R002"), 1)
        await update(stores, PROJECT, type, changed(DELIVERY_STATE, "key_metrics.active_risks", 2), 1)
        assert (await undo(stores, PROJECT, type, 2)).content == DELIVERY_STATE

    tell(story)


# --- told ---------------------------------------------------------------------------------------------------


def test_the_event_tells_the_version_and_the_first_differences() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        seen = await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        clock.seconds += 1
        wanted = raid_log("R001", "R002", status="mitigating")
        await stores.transact(*await build_update(stores, PROJECT, RAID, wanted, seen=seen, reason="review"))
        last = (await events(stores))[-1]
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

    tell(story)


def test_the_event_stays_small_however_much_differs() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        seen = await update(stores, PROJECT, RAID, large("🦔" * 500), 0)
        clock.seconds += 1
        wanted = large("🐿" * 500)
        await stores.transact(
            *await build_update(stores, PROJECT, RAID, wanted, seen=seen, reason="🦔" * 5000)
        )
        last = (await events(stores))[-1]
        assert last.detail is not None
        assert last.detail["differences"] == 200
        assert 1 <= len(last.detail["first"]) <= 5
        assert item_size(last.detail) <= EVENT_BYTES_MAX

    tell(story)


# --- too large for an item ----------------------------------------------------------------------------------


@pytest.mark.proves("AP-X18")
def test_the_larger_content_goes_to_an_object_where_both_do_not_fit() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, large("first"), 0)
        second = await update(stores, PROJECT, RAID, large("second", 240), 1)
        assert set(second.content) == {"$object", "bytes"}
        assert second.previous_version == large("first")
        assert item_size(second.to_item()) < ITEM_BYTES_MAX
        assert await load_content(stores, second) == large("second", 240)
        assert await load_previous(stores, second) == large("first")

    tell(story)


@pytest.mark.proves("AP-X18")
def test_both_go_to_objects_where_each_is_too_large_and_stay_readable() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first, second = large("first", 600), large("second", 500)
        await update(stores, PROJECT, RAID, first, 0)
        made = await update(stores, PROJECT, RAID, second, 1)
        assert item_size(made.to_item()) < 1024
        read = await stored(stores)
        assert read is not None
        assert await load_content(stores, read) == second
        assert await load_previous(stores, read) == first

    tell(story)


@pytest.mark.proves("AP-X18")
@pytest.mark.proves("AP-15")
def test_a_content_in_an_object_can_be_undone_and_brought_back() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, large("first", 600), 0)
        await update(stores, PROJECT, RAID, RAID_LOG, 1)
        back = await undo(stores, PROJECT, RAID, 2)
        assert await load_content(stores, back) == large("first", 600)
        again = await undo(stores, PROJECT, RAID, 3)
        assert again.content == RAID_LOG
        assert await load_previous(stores, again) == large("first", 600)

    tell(story)


@pytest.mark.proves("AP-X18")
def test_amounts_come_back_from_an_object_as_they_were() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        state = DELIVERY_STATE | {"status_summary": "x" * CONTENTS_BYTES_MAX}
        made = await update(stores, PROJECT, ArtefactType.delivery_state, state, 0)
        read = await load_content(stores, made)
        assert "$object" in made.content
        assert read == state
        assert isinstance(read["key_metrics"]["avg_cycle_time_days"], Decimal)

    tell(story)


@pytest.mark.proves("AP-X18")
def test_an_object_that_is_not_what_it_is_named_by_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await stores.run(patterns.keep_content(b'{"items":[]}', PROJECT, RAID, "a" * 64))
        made = await update(stores, PROJECT, RAID, RAID_LOG, 0)
        wrong = made.model_copy(update={"content": {"$object": "a" * 64, "bytes": 12}})
        with pytest.raises(ObjectDamaged, match="do not match its hash"):
            await load_content(stores, wrong)
        missing = made.model_copy(update={"content": {"$object": "b" * 64, "bytes": 12}})
        with pytest.raises(NotFound):
            await load_content(stores, missing)

    tell(story)


@pytest.mark.proves("AP-X18")
def test_an_object_without_an_item_harms_nothing() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        abandoned = await build_update(stores, PROJECT, RAID, large("first", 600), seen=None)
        assert await stored(stores) is None
        made = await update(stores, PROJECT, RAID, large("first", 600), 0)
        put: Any = abandoned[0]
        assert made.content == put.entity.content

    tell(story)


@pytest.mark.parametrize("type", ArtefactType)
def test_counting_as_json_is_never_far_below_what_an_item_costs(type: ArtefactType) -> None:
    content = CONTENTS[type]
    assert item_size(content) <= len(artefacts._ENCODER.encode(content))
    assert CONTENTS_BYTES_MAX < ITEM_BYTES_MAX
