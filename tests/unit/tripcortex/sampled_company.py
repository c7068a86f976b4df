"""The sample at its own size, looked at once for all tests: what is in each store, what a second run adds, what its patterns use,
and whether those who are waited for can answer. Their answers come last, since they change it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from holdfast import Entity, Stores
from holdfast.flows import Place
from holdfast.model import declaration_of
from holdfast.operations.values import item_size
from holdfast.reports.cost import SystemCost, estimate
from holdfast.reports.measuring import Measure, measure
from holdfast.reports.prices import price_list
from holdfast.reports.scratch import sample_ground
from holdfast.web.staging import environment
from tripcortex import SYSTEM, sandbox
from tripcortex.flow import BOOKING
from tripcortex.knowledge import patterns as policies
from tripcortex.knowledge.schema import Policy
from tripcortex.model import ActiveBooking, AuditRecord, Booking, Circuit, Connection, Message, PortalCall
from tripcortex.sample import sample
from tripcortex.sampling.policies import handbooks

E = TypeVar("E", bound=Entity)

# What each wait is answered with.
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "asking": ("answer", {"text": "on Tuesday"}),
    "options_presented": ("choose", {"optionId": "1"}),
    "approving": ("decide", {"decision": "approve", "decidedBy": "emp-7"}),
}


@dataclass(frozen=True)
class Company:
    bookings: list[Booking]
    entries: list[AuditRecord]
    markers: list[ActiveBooking]
    places: list[Place]
    connections: list[Connection]
    messages: list[Message]
    calls: list[PortalCall]
    circuits: list[Circuit]
    policies: list[Policy]
    chunk_ids: set[str]
    told: list[tuple[str, int, int]]
    added_by_a_second_run: int
    measures: list[Measure]
    cost: SystemCost
    serving_with_a_handbook: int
    answered: dict[str, Booking]


@cache
def company() -> Company:
    with environment(sandbox.variables({}, "")):
        return asyncio.run(_looked_at())


def size_of(row: Entity) -> int:
    """In bytes, as DynamoDB counts them."""
    return item_size(declaration_of(type(row)).to_item(row))


async def _looked_at() -> Company:
    told: list[tuple[str, int, int]] = []
    async with sample_ground(SYSTEM, progress=lambda *each: told.append(each)) as ground:
        stores = ground.stores
        bookings = await _all(stores, Booking)
        cited = {UUID(cite.chunk_id) for each in bookings for cite in each.passages}
        found = await stores.run(policies.found_chunks(list(cited), f"[1{',0' * 1023}]"))
        return Company(
            bookings=bookings,
            entries=await _all(stores, AuditRecord),
            markers=await _all(stores, ActiveBooking),
            places=await BOOKING.standing(stores),
            connections=await _all(stores, Connection),
            messages=await _all(stores, Message),
            calls=await _all(stores, PortalCall),
            circuits=await _all(stores, Circuit),
            policies=list(await stores.run(policies.policies())),
            chunk_ids={str(each.id) for each in found},
            told=list(told),
            added_by_a_second_run=await sample(stores),
            measures=await measure(ground, SYSTEM.patterns),
            cost=await estimate(SYSTEM, ground, price_list()),
            serving_with_a_handbook=await _with_handbook(stores),
            answered={name: await _answered(stores, bookings, name) for name in ANSWERS},
        )


async def _all(stores: Stores, kind: type[E]) -> list[E]:
    return list((await stores.all(kind.scan(reason="a test looks at all of it"))).items)


async def _with_handbook(stores: Stores) -> int:
    await handbooks(stores, 60)
    return sum(each.serves for each in await stores.run(policies.policies()))


async def _answered(stores: Stores, bookings: list[Booking], state: str) -> Booking:
    booking = next(each for each in bookings if each.flow_state == state)
    name, given = ANSWERS[state]
    return await BOOKING.answer(stores, booking, name, token=BOOKING.token(booking), given=given)
