"""Contract tests of artefact versions on every table engine: optimistic locking, undo, large contents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefacts import build_update, load_content, load_previous, undo, update
from agenticpm.model.entities import Artefact
from agenticpm.model.events import get_now
from holdfast import Stores
from holdfast.core.errors import Conflict, TransactionCancelled
from holdfast.operations.values import item_size
from tests.systems.agenticpm.unit.samples import ManualClock
from tests.systems.agenticpm.unit.writers.sample_contents import CONTENTS, PROJECT, make_raid_log

RAID = ArtefactType.raid_log


def make_large_raid_log(title: str) -> dict[str, Any]:
    """Make a RAID log of 500 items, too large for a DynamoDB item."""
    return make_raid_log(*(f"R{each:03}" for each in range(1, 501)), title=title, description="x" * 600)


@pytest.mark.proves("AP-13", "AP-35", "AP-36")
async def test_every_artefact_round_trips(stores: Stores) -> None:
    wanted = CONTENTS | {RAID: make_raid_log("R001", "R002", "R003")}
    made = {type: await update(stores, PROJECT, type, wanted[type], 0) for type in sorted(wanted)}
    for type, artefact in made.items():
        assert await stores.run(patterns.artefact(PROJECT, type)) == artefact
        assert artefact.content == wanted[type]
    assert (await stores.all(patterns.artefacts(PROJECT))).items == tuple(made.values())


@pytest.mark.proves("AP-14", "AP-16")
async def test_update_replaces_only_the_version_that_was_read(stores: Stores, clock: ManualClock) -> None:
    first = await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    assert (first.version, first.previous_version) == (1, None)
    clock.advance(60)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    third = await update(stores, PROJECT, RAID, make_raid_log("R003"), 2)
    assert (third.version, third.content) == (3, make_raid_log("R003"))
    assert (third.id, third.previous_version) == (first.id, make_raid_log("R002"))
    assert first.updated_at == first.created_at == third.created_at
    assert third.updated_at == get_now(clock)
    assert (await stores.all(patterns.artefacts(PROJECT))).items == (third,)
    with pytest.raises(Conflict, match="is at version 3, but the request expects version 2"):
        await update(stores, PROJECT, RAID, make_raid_log("R004"), 2)
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == third


@pytest.mark.proves("AP-14")
async def test_one_of_many_concurrent_updates_wins(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    results = await asyncio.gather(
        *(update(stores, PROJECT, RAID, make_raid_log(f"R00{each}"), 1) for each in range(2, 7)),
        return_exceptions=True,
    )
    written = [each for each in results if isinstance(each, Artefact)]
    assert len(written) == 1
    assert all(isinstance(each, Conflict) for each in results if each is not written[0])
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == written[0]
    # One event per version, and none for rejected ones.
    assert len((await stores.all(patterns.project_events(PROJECT))).items) == 2


@pytest.mark.proves("AP-14")
async def test_transaction_with_stale_writes_changes_nothing(stores: Stores) -> None:
    seen = await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    writes = await build_update(stores, PROJECT, RAID, make_raid_log("R002"), seen=seen)
    first = await update(stores, PROJECT, RAID, make_raid_log("R003"), 1)
    with pytest.raises(TransactionCancelled):
        await stores.transact(*writes)
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == first
    assert len((await stores.all(patterns.project_events(PROJECT))).items) == 2


@pytest.mark.proves("AP-15", "AP-X17")
async def test_undoes_and_redoes_a_version(stores: Stores, clock: ManualClock) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    clock.advance(60)
    back = await undo(stores, PROJECT, RAID, 2)
    assert (back.version, back.content, back.updated_at) == (3, make_raid_log("R001"), get_now(clock))
    assert back.previous_version == make_raid_log("R002")
    (event,) = await stores.run(patterns.project_events(PROJECT, 1))
    assert (event.event_type, (event.detail or {})["why"]) == ("artefact_updated", "undo")
    with pytest.raises(Conflict, match="is at version 3"):
        await undo(stores, PROJECT, RAID, 2)
    again = await undo(stores, PROJECT, RAID, 3)
    assert (again.version, again.content) == (4, make_raid_log("R002"))
    assert again.previous_version == make_raid_log("R001")
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == again


@pytest.mark.proves("AP-X18")
async def test_stores_and_reads_a_content_too_large_for_an_item(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_large_raid_log("first"), 0)
    await update(stores, PROJECT, RAID, make_large_raid_log("second"), 1)
    read = await stores.run(patterns.artefact(PROJECT, RAID))
    assert read is not None and item_size(read.to_item()) < 1024
    assert await load_content(stores, read) == make_large_raid_log("second")
    assert await load_previous(stores, read) == make_large_raid_log("first")
    back = await undo(stores, PROJECT, RAID, 2)
    assert await load_content(stores, back) == make_large_raid_log("first")
