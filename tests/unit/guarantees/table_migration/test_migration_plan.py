"""`plan_migration` in memory: reports every obstacle at once, and nothing is written."""

from __future__ import annotations

import pytest

from holdfast import Stores
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.guarantees.table_migration import MIGRATIONS, get_status, migrate, plan_migration
from holdfast.runtime import create_tables, describe_table
from tests.unit.guarantees.table_migration.harbour import (
    MOORINGS,
    PACE,
    Berth,
    Mooring,
    berths,
    build_mooring,
    make_berths,
    moor,
    moorings,
    open_harbour,
)


@pytest.mark.proves("SM-X19")
async def test_reports_and_refuses_rows_with_the_same_new_key(stores: Stores) -> None:
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


async def test_reports_rows_that_a_simpler_key_would_lose(stores: Stores) -> None:
    for day in ("tue", "wed"):
        await stores.run(Berth.put(Berth(berth=f"b-{day}", ship="s1", day=day)))
    found = await plan_migration(MOORINGS, stores)

    assert (found.plain_key, found.plain_key_lost, found.is_possible) == ("ship", 2, True)


async def test_reports_rows_that_the_transformation_rejects_with_the_reason(stores: Stores) -> None:
    await stores.run(Berth.put(Berth(berth="b-ghost", ship="ghost", day="mon")))
    found = await plan_migration(MOORINGS, stores)

    assert found.unmovable_count == 1
    assert "berth = b-ghost of Berth cannot be moved: ValueError: no such ship" in found.unmovable[0]
    assert "fix them" in found.format_obstacles()


async def test_does_not_silently_delete_target_rows_without_a_source_row(stores: Stores) -> None:
    await create_tables(stores, [moorings])
    await stores.run(Mooring.put(build_mooring(make_berths(1)[0])))
    assert (await plan_migration(MOORINGS, stores)).is_possible
    await stores.run(Mooring.put(Mooring(ship="foreign", day="mon", berth="?")))

    found = await plan_migration(MOORINGS, stores)
    assert (found.target_rows, found.strangers) == (2, ["ship = foreign, day = mon"])
    with pytest.raises(DeclarationError, match="rows that no source row produces"):
        await migrate(MOORINGS, stores, pace=PACE)


async def test_reports_a_missing_source_table(stores: Stores) -> None:
    from holdfast.operations.tables import DeleteTable

    await stores.tables.run(DeleteTable("Berths"))
    with pytest.raises(NotFound, match="no table Berths to migrate from"):
        await plan_migration(MOORINGS, stores)


async def test_refuses_a_write_to_the_source_without_the_fence() -> None:
    async with open_harbour(rows=0) as stores:
        [berth] = make_berths(1)
        with pytest.raises(DeclarationError, match="needs the fence of moorings"):
            await MOORINGS.write(stores, Berth.put(berth), Mooring.put(build_mooring(berth)))
        await moor(stores, berth)


def test_source_has_one_entity_and_migrations_are_stored_by_name() -> None:
    assert berths.entities == [Berth]
    assert MIGRATIONS.partition == "migration"
