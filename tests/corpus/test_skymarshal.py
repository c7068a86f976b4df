"""SkyMarshal on data of earlier versions: pages, decisions and a roster migration continue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import Stores
from holdfast.guarantees.table_migration import Phase, get_status, migrate
from skymarshal.domain.statuses import CrewPosition
from skymarshal.model import patterns, roster
from skymarshal.model.entities import TABLES, CrewDuty
from skymarshal.system import SYSTEM
from tests.corpus import write_skymarshal as airline
from tests.corpus.archive import SUFFIX, list_release_folders, list_releases_with, load_notes, unpack
from tests.corpus.contents import find_unknown_attributes, find_unused_attributes
from tests.corpus.library.clock import ManualClock
from tests.systems.skymarshal.acceptance import small_airline
from tests.systems.skymarshal.acceptance.small_airline import at

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class OpenedArchive:
    """Opened archive with a client of its API."""

    stores: Stores
    clock: ManualClock
    client: httpx.AsyncClient
    notes: Any
    is_latest: bool

    async def get(self, path: str, **parameters: Any) -> Any:
        return (await self.client.get(path, params=parameters)).raise_for_status().json()

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        return (await self.client.post(path, json=body)).raise_for_status().json()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=list_releases_with(airline.NAME), ids=lambda release: str(release.name))
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenedArchive]:
    """Unpack an archive and open it with the current code, with a client of its API."""
    release: Path = request.param
    unpack(release / f"{airline.NAME}{SUFFIX}", tmp_path)
    notes = load_notes(release, airline.NAME)
    clock = ManualClock(notes["written_at"])
    stores = airline.open_airline(tmp_path, clock)
    async with airline.open_client(stores) as client:
        yield OpenedArchive(stores, clock, client, notes, release == list_release_folders()[-1])
    await stores.close()


# --- pages --------------------------------------------------------------------------------------------------


async def test_every_pattern_continues_after_its_cursor(opened: OpenedArchive) -> None:
    asked, noted = airline.build_queries(), opened.notes["pages"]

    found = {
        name: [airline.get_key(each) for each in await opened.stores.all(asked[name].after(kept["cursor"]))]
        for name, kept in noted.items()
    }

    assert found == {name: kept["rest"] for name, kept in noted.items()}


async def test_every_pattern_gives_the_same_cursor(opened: OpenedArchive) -> None:
    if not opened.is_latest:
        pytest.skip("only for the latest archive: an older version may have encoded cursors differently")
    noted = opened.notes["pages"]

    found = {name: await opened.stores.run(query) for name, query in airline.build_queries().items()}

    assert {name: page.cursor for name, page in found.items()} == {
        name: kept["cursor"] for name, kept in noted.items()
    }


def test_every_paged_pattern_is_covered() -> None:
    paged = {each.id for each in SYSTEM.patterns if hasattr(each.build_example(), "page")}

    assert airline.build_queries().keys() == paged


@pytest.mark.parametrize("name", list(airline.API_PAGES))
async def test_client_continues_with_the_cursor_of_its_page(opened: OpenedArchive, name: str) -> None:
    path, noted = airline.API_PAGES[name], opened.notes["api"][name]

    rest = await opened.get(path, cursor=noted["cursor"])

    assert [*noted["first"], *rest["items"]] == noted["all"]
    assert rest["cursor"] is None
    again = await opened.get(path, limit=1)
    assert again["items"] == noted["first"]
    assert not opened.is_latest or again["cursor"] == noted["cursor"]


async def test_problems_have_the_types_that_clients_know(opened: OpenedArchive) -> None:
    answers = {
        "changed": await opened.client.post("/disruptions", json=airline.OUTDATED),
        "missing": await opened.client.get("/flights/404"),
    }

    assert {name: each.json()["type"] for name, each in answers.items()} == opened.notes["api"]["problems"]


async def test_every_attribute_of_every_item_is_known(opened: OpenedArchive) -> None:
    assert await find_unknown_attributes(opened.stores, SYSTEM.tables) == []


async def test_the_archive_has_every_attribute_at_least_once(opened: OpenedArchive) -> None:
    if not opened.is_latest:
        pytest.skip("only for the latest archive: an older one lacks attributes that were added later")

    assert await find_unused_attributes(opened.stores, TABLES) == []


# --- decisions ----------------------------------------------------------------------------------------------


async def test_repeat_settles_an_interrupted_decision(opened: OpenedArchive) -> None:
    before = [row.disruption_id for row in await opened.stores.all(_hits(airline.TRAVELLER))]
    answer = await opened.post("/disruptions", {**airline.LATE, "confirm": airline.CUT_SHORT})

    decision = answer["decision"]
    assert (decision["repeated"], decision["passengers_noted"]) == (True, len(airline.PASSENGERS))
    assert (await airline.read_disruption(opened.stores, "D-cut-short")).settled
    assert "D-cut-short" not in before
    for passenger in airline.PASSENGERS:
        rows = await opened.get(f"/passengers/{passenger}/disruptions")
        assert "D-cut-short" in [row["disruption_id"] for row in rows["items"]]
    assert (await opened.get("/flights/1"))["version"] == 2


async def test_repeat_of_a_settled_decision_is_recognized(opened: OpenedArchive) -> None:
    asked = {**airline.LATE, "flight_id": "2"}

    again = await opened.post("/disruptions", {**asked, "confirm": airline.SETTLED})
    other = {**airline.SETTLED, "decided_by": "another manager"}
    refused = await opened.client.post("/disruptions", json={**asked, "confirm": other})

    assert again["decision"]["repeated"]
    assert refused.status_code == 409
    assert (
        airline.render_row(await airline.read_disruption(opened.stores, "D-settled"))
        == opened.notes["decisions"]["D-settled"]
    )


def _hits(passenger: str) -> Any:
    """Return the query for a passenger's disruptions."""
    return patterns.disruptions_of_passenger(passenger)  # type: ignore[arg-type]


# --- the roster ---------------------------------------------------------------------------------------------


async def test_roster_in_migration_is_changed_in_the_old_table_until_the_switch(
    opened: OpenedArchive,
) -> None:
    stores = opened.stores
    assert not await roster.is_roster_switched(stores)
    await roster.assign(stores, small_airline.crew("R-late", "C-9", CrewPosition.CABIN_CREW, at(1), at(10)))
    opened.clock.advance(airline.PACE.lease_s)

    await migrate(roster.CREW_ROSTER_V2, stores, pace=airline.PACE)

    assert (await get_status(roster.CREW_ROSTER_V2, stores)).phase is Phase.SWITCHED
    assert await roster.is_roster_switched(stores)
    moved = [each.roster_id for each in await stores.all(CrewDuty.scan(reason="all of it"))]
    assert sorted(moved) == sorted([f"R-{n:02}" for n in range(airline.CREW)] + ["R-late", "R-new"])
    crew = await opened.get("/flights/1/crew")
    assert len(crew["crew"]) == airline.CREW + 2
