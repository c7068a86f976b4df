"""Example for the migration tests: a table of berths by number becomes one of moorings by ship and day.

Two berths may claim one mooring.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from holdfast import (
    Attr,
    Entity,
    Get,
    Key,
    Put,
    Rate,
    Stores,
    Table,
    attr,
    keep_names,
    open_memory_stores,
    pattern,
    transact,
)
from holdfast.guarantees import (
    MIGRATIONS,
    Migration,
    MigrationState,
    Phase,
    fence,
    get_migration_state,
    lift_hold,
)
from holdfast.guarantees.table_migration import Pace
from holdfast.runtime import create_tables

NAME = "moorings"
PACE = Pace(lease_s=5, hold_s=5, segments=1, batch_size=3)

berths = Table("Berths", "berth", naming=keep_names)
moorings = Table("Moorings", "ship", "day", naming=keep_names)


class Berth(Entity, table=berths):
    berth: Attr[str] = attr()
    ship: Attr[str]
    day: Attr[str]
    note: Attr[str] = attr(default="")
    version: Attr[int] = attr(default=1)

    of = Key(berth)


class Mooring(Entity, table=moorings):
    ship: Attr[str] = attr()
    day: Attr[str] = attr()
    berth: Attr[str]
    note: Attr[str] = attr(default="")
    version: Attr[int] = attr(default=1)

    of = Key(ship, day)


def build_mooring(berth: Berth) -> Mooring:
    """Transform a berth into its mooring; raise `ValueError` for the ship `ghost`."""
    if berth.ship == "ghost":
        raise ValueError("no such ship")
    return Mooring(ship=berth.ship, day=berth.day, berth=berth.berth, note=berth.note, version=berth.version)


@pattern("MG1", "Read which table to use", rate=Rate("ship"))
def moorings_state() -> Get[MigrationState]:
    return get_migration_state(NAME)


MONDAY = datetime(2026, 2, 2, tzinfo=UTC)
HELD = MigrationState(migration=NAME, phase=Phase.SWITCHING, started_at=MONDAY, changed_at=MONDAY)


@pattern("MG2", "End the hold of a switch that took too long", rate=Rate("ship"), example=(HELD,))
def lift_moorings_hold(state: MigrationState) -> Put[MigrationState]:
    return lift_hold(state)


MOORINGS = Migration(
    NAME,
    Berth,
    Mooring,
    build_mooring,
    version=Berth.version,
    state=moorings_state,
    lift_hold=lift_moorings_hold,
    plain_key=(Mooring.ship,),
)


async def moor(stores: Stores, berth: Berth) -> None:
    """Write a berth as the application does, through the fence."""
    to_source = transact(fence(NAME), Berth.put(berth))
    await MOORINGS.write(stores, to_source, Mooring.put(build_mooring(berth)))


async def cast_off(stores: Stores, berth: Berth) -> None:
    """Delete a berth as the application does, through the fence."""
    to_source = transact(fence(NAME), Berth.of(berth.berth).delete())
    await MOORINGS.write(stores, to_source, Mooring.of(berth.ship).delete(berth.day))


async def read_moorings(stores: Stores) -> dict[str, Mooring]:
    """Read the target table, keyed by berth."""
    found = await stores.all(Mooring.scan(reason="every row is compared").consistent())
    assert len({each.berth for each in found}) == len(found)
    return {each.berth: each for each in found}


def make_berths(count: int) -> list[Berth]:
    """Return this number of berths, each with another ship, on Monday."""
    return [Berth(berth=f"b{number}", ship=f"s{number}", day="mon") for number in range(count)]


@asynccontextmanager
async def open_harbour(*, rows: int = 10) -> AsyncIterator[Stores]:
    """Open new in-memory stores that contain some berths."""
    async with open_memory_stores() as stores:
        await create_tables(stores, [berths, MIGRATIONS])
        for berth in make_berths(rows):
            await stores.run(Berth.put(berth))
        yield stores
