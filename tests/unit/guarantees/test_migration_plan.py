"""What stands in the way of a migration is reported first, all at once, and nothing is written."""

from __future__ import annotations

import pytest

from holdfast import Stores, create_tables, describe_table
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.guarantees.table_migration import MIGRATIONS, get_status, migrate, plan_migration
from tests.unit.guarantees.harbour import (
    MOORINGS,
    PACE,
    Berth,
    Mooring,
    berths,
    in_harbour,
    moor,
    mooring_of,
    moorings,
    some_berths,
)


@pytest.mark.proves("SM-X19")
def test_rows_that_would_have_one_new_key_are_reported_and_refused() -> None:
    async def story(stores: Stores) -> None:
        await stores.run(Berth.put(Berth(berth="twin", ship="s1", day="mon")))
        found = await plan_migration(MOORINGS, stores)

        assert (found.rows, found.collision_count, found.is_possible) == (11, 1, False)
        [collision] = found.collisions
        assert collision.startswith("ship = s1, day = mon: ")
        assert "berth = b1" in collision
        assert "berth = twin" in collision
        with pytest.raises(DeclarationError, match="1 new keys belong to several rows"):
            await migrate(MOORINGS, stores, pace=PACE)
        assert await describe_table(stores, moorings) is None
        assert (await get_status(MOORINGS, stores)).phase is None

    in_harbour(story)


def test_what_a_simpler_key_would_lose_is_told() -> None:
    async def story(stores: Stores) -> None:
        for day in ("tue", "wed"):
            await stores.run(Berth.put(Berth(berth=f"b-{day}", ship="s1", day=day)))
        found = await plan_migration(MOORINGS, stores)

        assert (found.plain_key, found.plain_key_lost, found.is_possible) == ("ship", 2, True)

    in_harbour(story)


def test_rows_that_the_transformation_refuses_are_reported_with_the_reason() -> None:
    async def story(stores: Stores) -> None:
        await stores.run(Berth.put(Berth(berth="b-ghost", ship="ghost", day="mon")))
        found = await plan_migration(MOORINGS, stores)

        assert found.unmovable_count == 1
        assert "berth = b-ghost of Berth cannot be moved: ValueError: no such ship" in found.unmovable[0]
        assert "fix them" in found.format_obstacles()

    in_harbour(story)


def test_rows_of_the_target_that_are_not_of_the_source_are_not_silently_deleted() -> None:
    async def story(stores: Stores) -> None:
        await create_tables(stores, [moorings])
        await stores.run(Mooring.put(mooring_of(some_berths(1)[0])))
        assert (await plan_migration(MOORINGS, stores)).is_possible
        await stores.run(Mooring.put(Mooring(ship="foreign", day="mon", berth="?")))

        found = await plan_migration(MOORINGS, stores)
        assert (found.target_rows, found.strangers) == (2, ["ship = foreign, day = mon"])
        with pytest.raises(DeclarationError, match="rows that no source row produces"):
            await migrate(MOORINGS, stores, pace=PACE)

    in_harbour(story)


def test_a_source_that_is_not_there_is_told() -> None:
    async def story(stores: Stores) -> None:
        from holdfast.operations.tables import DeleteTable

        await stores.tables.run(DeleteTable("Berths"))
        with pytest.raises(NotFound, match="no table Berths to migrate from"):
            await plan_migration(MOORINGS, stores)

    in_harbour(story)


def test_a_write_to_the_source_without_the_fence_is_refused() -> None:
    async def story(stores: Stores) -> None:
        [berth] = some_berths(1)
        with pytest.raises(DeclarationError, match="needs the fence of moorings"):
            await MOORINGS.write(stores, Berth.put(berth), Mooring.put(mooring_of(berth)))
        await moor(stores, berth)

    in_harbour(story, rows=0)


def test_the_tables_of_the_story_are_what_the_migration_names() -> None:
    assert berths.entities == [Berth]
    assert MIGRATIONS.partition == "migration"
