"""Versions of artefacts on every engine: over the one that was seen, one step back, and out of the item if too large."""

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
from tests.contract.agenticpm.conftest import Played
from tests.unit.agenticpm.sample_contents import CONTENTS, PROJECT, HandClock, raid_log

RAID = ArtefactType.raid_log


def large(title: str) -> dict[str, Any]:
    return raid_log(*(f"R{each:03}" for each in range(1, 501)), title=title, description="x" * 600)


@pytest.mark.proves("AP-13")
@pytest.mark.proves("AP-35")
@pytest.mark.proves("AP-36")
def test_every_artefact_comes_back_as_it_was_stored(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        wanted = CONTENTS | {RAID: raid_log("R001", "R002", "R003")}
        made = {type: await update(stores, PROJECT, type, wanted[type], 0) for type in sorted(wanted)}
        for type, artefact in made.items():
            assert await stores.run(patterns.artefact(PROJECT, type)) == artefact
            assert artefact.content == wanted[type]
        assert (await stores.all(patterns.artefacts(PROJECT))).items == tuple(made.values())

    played(story)


@pytest.mark.proves("AP-14")
@pytest.mark.proves("AP-16")
def test_an_update_is_over_the_version_that_was_seen(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        third = await update(stores, PROJECT, RAID, raid_log("R003"), 2)
        assert (third.version, third.previous_version) == (3, raid_log("R002"))
        with pytest.raises(Conflict, match="is at version 3, but the request expects version 2"):
            await update(stores, PROJECT, RAID, raid_log("R004"), 2)
        assert await stores.run(patterns.artefact(PROJECT, RAID)) == third

    played(story)


@pytest.mark.proves("AP-14")
def test_of_many_at_once_one_is_written(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        told = await asyncio.gather(
            *(update(stores, PROJECT, RAID, raid_log(f"R00{each}"), 1) for each in range(2, 7)),
            return_exceptions=True,
        )
        written = [each for each in told if isinstance(each, Artefact)]
        assert len(written) == 1
        assert all(isinstance(each, Conflict) for each in told if each is not written[0])
        assert await stores.run(patterns.artefact(PROJECT, RAID)) == written[0]
        # An event of each version, and none of those that were refused.
        assert len((await stores.all(patterns.project_events(PROJECT))).items) == 2

    played(story)


@pytest.mark.proves("AP-14")
def test_writes_that_were_overtaken_leave_nothing(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        seen = await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        writes = await build_update(stores, PROJECT, RAID, raid_log("R002"), seen=seen)
        first = await update(stores, PROJECT, RAID, raid_log("R003"), 1)
        with pytest.raises(TransactionCancelled):
            await stores.transact(*writes)
        assert await stores.run(patterns.artefact(PROJECT, RAID)) == first
        assert len((await stores.all(patterns.project_events(PROJECT))).items) == 2

    played(story)


@pytest.mark.proves("AP-15")
@pytest.mark.proves("AP-X17")
def test_one_step_back_and_there_again(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, raid_log("R001"), 0)
        await update(stores, PROJECT, RAID, raid_log("R002"), 1)
        assert (await undo(stores, PROJECT, RAID, 2)).content == raid_log("R001")
        with pytest.raises(Conflict, match="is at version 3"):
            await undo(stores, PROJECT, RAID, 2)
        again = await undo(stores, PROJECT, RAID, 3)
        assert (again.version, again.content) == (4, raid_log("R002"))
        assert await stores.run(patterns.artefact(PROJECT, RAID)) == again

    played(story)


@pytest.mark.proves("AP-X18")
def test_what_no_item_could_hold_is_kept_and_read(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await update(stores, PROJECT, RAID, large("first"), 0)
        await update(stores, PROJECT, RAID, large("second"), 1)
        read = await stores.run(patterns.artefact(PROJECT, RAID))
        assert read is not None
        assert await load_content(stores, read) == large("second")
        assert await load_previous(stores, read) == large("first")
        back = await undo(stores, PROJECT, RAID, 2)
        assert await load_content(stores, back) == large("first")

    played(story)
