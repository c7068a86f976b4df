"""The sample data at scale 1, loaded once for all tests, with what the tests need to know about it.

The contents of each store, the rows that a second run adds, the cost of its patterns, and the answers to its
waits, which come last because they change the data.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from holdfast import Entity, Stores
from holdfast.flows import Execution
from holdfast.model.entities import get_declaration
from holdfast.operations.values import item_size
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.system_cost import SystemCost, estimate_cost
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from holdfast.web.demo_env import patch_environ
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.sample.loader import load_sample
from holdfast_demo.tripcortex.sample.policies import write_handbooks
from tripcortex.model.entities import (
    ActiveBooking,
    AuditRecord,
    Booking,
    Circuit,
    Connection,
    Message,
    PortalCall,
)
from tripcortex.model.policies import patterns as policies
from tripcortex.model.policies.schema import Policy
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

E = TypeVar("E", bound=Entity)

# The answer to each wait.
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "asking": ("answer", {"text": "on Tuesday"}),
    "options_presented": ("choose", {"optionId": "1"}),
    "approving": ("decide", {"decision": "approve", "decidedBy": "emp-7"}),
}


@dataclass(frozen=True)
class Company:
    """The sample's rows, measures and costs.

    `answers` has the booking after each wait was answered, by the wait's state.
    """

    bookings: list[Booking]
    entries: list[AuditRecord]
    markers: list[ActiveBooking]
    executions: list[Execution]
    connections: list[Connection]
    messages: list[Message]
    calls: list[PortalCall]
    circuits: list[Circuit]
    policies: list[Policy]
    chunk_ids: set[str]
    progress: list[tuple[str, int, int]]
    added_by_a_second_run: int
    measures: list[Measure]
    cost: SystemCost
    serving_with_a_handbook: int
    answers: dict[str, Booking]


@cache
def load_company() -> Company:
    """Load the sample into memory and read it; once per process."""
    with patch_environ(sandbox.build_variables({}, "")):
        return asyncio.run(_load())


def get_item_size(row: Entity) -> int:
    """Return the item's size in bytes, as DynamoDB counts them."""
    return item_size(get_declaration(type(row)).to_item(row))


async def _load() -> Company:
    """Load the sample, read every store, then load it again, measure the patterns and answer the waits."""
    progress: list[tuple[str, int, int]] = []
    async with open_sample_data(SYSTEM, progress=lambda *each: progress.append(each)) as ground:
        stores = ground.stores
        bookings = await _scan(stores, Booking)
        cited = {UUID(cite.chunk_id) for each in bookings for cite in each.passages}
        found = await stores.run(policies.found_chunks(list(cited), f"[1{',0' * 1023}]"))
        return Company(
            bookings=bookings,
            entries=await _scan(stores, AuditRecord),
            markers=await _scan(stores, ActiveBooking),
            executions=await BOOKING_FLOW.list_executions(stores),
            connections=await _scan(stores, Connection),
            messages=await _scan(stores, Message),
            calls=await _scan(stores, PortalCall),
            circuits=await _scan(stores, Circuit),
            policies=list(await stores.run(policies.policies())),
            chunk_ids={str(each.id) for each in found},
            progress=list(progress),
            added_by_a_second_run=await load_sample(stores),
            measures=await measure_patterns(ground, SYSTEM.patterns),
            cost=await estimate_cost(SYSTEM, ground, load_price_list()),
            serving_with_a_handbook=await _count_active_with_handbook(stores),
            answers={name: await _answer(stores, bookings, name) for name in ANSWERS},
        )


async def _scan(stores: Stores, kind: type[E]) -> list[E]:
    return list((await stores.all(kind.scan(reason="a test reads all of it"))).items)


async def _count_active_with_handbook(stores: Stores) -> int:
    """Add a handbook and return how many policies serve."""
    await write_handbooks(stores, 60)
    return sum(each.serves for each in await stores.run(policies.policies()))


async def _answer(stores: Stores, bookings: list[Booking], state: str) -> Booking:
    """Answer the wait of a sample booking in this state; return the booking."""
    booking = next(each for each in bookings if each.flow_state == state)
    name, given = ANSWERS[state]
    return await BOOKING_FLOW.answer(
        stores, booking, name, token=BOOKING_FLOW.make_token(booking), given=given
    )
