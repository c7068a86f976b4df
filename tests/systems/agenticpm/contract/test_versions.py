"""Contract tests of artefact versions on every table engine: optimistic locking, undo, large contents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefacts import build_update, load_content, load_previous, undo, update
from agenticpm.model.entities import Artefact
from holdfast import Stores
from holdfast.core.errors import Conflict, TransactionCancelled
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
async def test_update_replaces_only_the_version_that_was_read(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    third = await update(stores, PROJECT, RAID, make_raid_log("R003"), 2)
    assert (third.version, third.previous_version) == (3, make_raid_log("R002"))
    with pytest.raises(Conflict, match="is at version 3, but the request expects version 2"):
        await update(stores, PROJECT, RAID, make_raid_log("R004"), 2)
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == third


@pytest.mark.concurrent
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
async def test_undoes_and_redoes_a_version(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_raid_log("R001"), 0)
    await update(stores, PROJECT, RAID, make_raid_log("R002"), 1)
    assert (await undo(stores, PROJECT, RAID, 2)).content == make_raid_log("R001")
    with pytest.raises(Conflict, match="is at version 3"):
        await undo(stores, PROJECT, RAID, 2)
    again = await undo(stores, PROJECT, RAID, 3)
    assert (again.version, again.content) == (4, make_raid_log("R002"))
    assert await stores.run(patterns.artefact(PROJECT, RAID)) == again


@pytest.mark.proves("AP-X18")
async def test_stores_and_reads_a_content_too_large_for_an_item(stores: Stores) -> None:
    await update(stores, PROJECT, RAID, make_large_raid_log("first"), 0)
    await update(stores, PROJECT, RAID, make_large_raid_log("second"), 1)
    read = await stores.run(patterns.artefact(PROJECT, RAID))
    assert read is not None
    assert await load_content(stores, read) == make_large_raid_log("second")
    assert await load_previous(stores, read) == make_large_raid_log("first")
    back = await undo(stores, PROJECT, RAID, 2)
    assert await load_content(stores, back) == make_large_raid_log("first")
