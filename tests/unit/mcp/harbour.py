"""A sample system for the tests of MCP and other hosts: a harbour, its ships and their berths."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from holdfast import (
    KEYS_ONLY,
    Attr,
    Component,
    Delete,
    Entity,
    Get,
    IndexKey,
    Key,
    Put,
    Query,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    batch_get,
    pattern,
)
from holdfast.model.entities import BatchGet, CountQuery, ParallelQuery, Scan, SelectQuery, parallel_query
from holdfast.model.system import Admin, Http, collect_patterns

ARRIVAL = Rate(per="arrival", times=2)

ships = Table("Ships", partition="shipId")
by_berth = ships.global_index("by-berth", "berth", "shipId")
by_flag = ships.global_index("by-flag", "flag", projection=KEYS_ONLY, default=False)


class Ship(Entity, table=ships):
    ship_id: Attr[str] = attr()
    berth: Attr[str] = attr()
    tons: Attr[Decimal] = attr(default=Decimal(0))
    flag: Attr[str | None] = attr(default=None)
    seal: Attr[bytes | None] = attr(default=None)
    calls: Attr[int] = attr(default=0)
    of = Key(ship_id)
    at_berth = IndexKey(by_berth, berth, ship_id)
    of_flag = IndexKey(by_flag, flag)


@pattern("H1", "One ship", rate=ARRIVAL, example=("S1",))
def ship(ship_id: str) -> Get[Ship]:
    return Ship.of(ship_id).get()


@pattern("H2", "The ships at a berth", rate=ARRIVAL, example=("B1",))
def ships_at(berth: Annotated[str, Field(min_length=1, description="The berth, as B1")]) -> Query[Ship]:
    return Ship.at_berth(berth).query()


@pattern("H3", "The heavy ships at a berth", rate=ARRIVAL, example=("B1", Decimal(10)))
def heavy_ships_at(berth: str, tons: Decimal) -> Query[Ship]:
    return Ship.at_berth(berth).query().where(Ship.tons >= tons)


@pattern("H4", "The names of the ships at a berth", rate=ARRIVAL, example=("B1",))
def names_at(berth: str) -> SelectQuery[Ship]:
    return Ship.at_berth(berth).query().select(Ship.ship_id, Ship.tons)


@pattern("H5", "How many ships lie at a berth", rate=ARRIVAL, example=("B1",))
def count_at(berth: str) -> CountQuery[Ship]:
    return Ship.at_berth(berth).query().count()


@pattern("H6", "Several ships", rate=ARRIVAL, example=(["S1", "S2"],))
def several(ship_ids: list[str]) -> BatchGet[Ship]:
    return batch_get(Ship.of(each).get() for each in ship_ids)


@pattern("H7", "The ships at several berths", rate=ARRIVAL, example=(["B1", "B2"],))
def at_berths(berths: list[str]) -> ParallelQuery[Ship]:
    return parallel_query(Ship.at_berth(each).query() for each in berths)


@pattern("H8", "Every ship", rate=Rate(per="year"))
def every_ship() -> Scan[Ship]:
    return Ship.scan(reason="the yearly census")


@pattern("H9", "A ship comes in", rate=ARRIVAL, example=("S1", "B1"))
def arrive(ship_id: str, berth: str) -> Put[Ship]:
    return Ship.create(Ship(ship_id=ship_id, berth=berth))


@pattern("H10", "A ship calls again", rate=ARRIVAL, example=("S1",))
def call_again(ship_id: str) -> Update[Ship]:
    return Ship.of(ship_id).update().add(Ship.calls, 1)


@pattern("H11", "A ship leaves", rate=ARRIVAL, example=("S1",))
def leave(ship_id: str) -> Delete[Ship]:
    return Ship.of(ship_id).delete()


@pattern("H12", "A ship is entered again", rate=ARRIVAL, example=("S1", "B1"))
def enter(ship_id: str, berth: str) -> Put[Ship]:
    return Ship.put(Ship(ship_id=ship_id, berth=berth))


async def tonnage(
    stores: Stores, berth: Annotated[str, Field(min_length=1)], at_least: int = 0
) -> dict[str, Any]:
    """All tons at a berth.

    Ships with less than `at_least` are left out.
    """
    page = await stores.all(ships_at(berth))
    return {"berth": berth, "tons": sum(each.tons for each in page if each.tons >= at_least)}


async def sink(stores: Stores, ship_id: str) -> str:
    """Delete a ship, which no agent may."""
    await stores.run(leave(ship_id))
    return "sunk"


async def stumble(stores: Stores) -> None:
    """Write to standard output, then fail unexpectedly."""
    sys.stdout.write("this must not reach the protocol\n")
    raise ZeroDivisionError("a secret of the code")


async def flood(stores: Stores, bytes_wanted: int) -> list[str]:
    """Return a text of this many characters."""
    return ["x" * bytes_wanted]


READS = (ship, ships_at, heavy_ships_at, names_at, count_at, several, at_berths, every_ship)
WRITES = (arrive, call_again, leave, enter)


def routes(stores: Stores) -> APIRouter:
    """Build the API of the harbour: list a berth, and report an arrival with the component that ran it."""
    router = APIRouter()

    @router.get("/berths/{berth}")
    async def berth(berth: str) -> dict[str, list[str]]:
        return {"ships": [each.ship_id for each in await stores.all(ships_at(berth))]}

    @router.post("/ships/{ship_id}")
    async def arrival(ship_id: str, berth: str) -> dict[str, str | None]:
        await stores.run(arrive(ship_id, berth))
        return {"component": stores.component}

    return router


SYSTEM = System(
    "harbour",
    "Ships and where they lie",
    tables=[ships],
    patterns=collect_patterns(sys.modules[__name__]),
    components=[
        Component("agent", uses=(READS,)),
        Component("api", uses=(READS, WRITES)),
        Component("clerk", uses=(ships_at, leave)),
    ],
    title="Harbour",
    http=Http(routes=routes),
    admin=Admin(tools=[tonnage, sink, stumble, flood]),
)


def with_agent(agent: Component | None) -> System:
    """Return the harbour with another agent, or with none."""
    others = [each for each in SYSTEM.components if each.name != "agent"]
    return System(
        "harbour",
        SYSTEM.purpose,
        tables=[ships],
        patterns=SYSTEM.patterns,
        components=others if agent is None else [*others, agent],
        admin=Admin(tools=[tonnage]),
    )


async def moor(stores: Stores, berth: str, count: int, **attributes: Any) -> None:
    """Add the ships S001, S002 … at a berth."""
    for number in range(1, count + 1):
        await stores.run(
            Ship.put(Ship(ship_id=f"S{number:03}", berth=berth, tons=Decimal(number), **attributes))
        )
