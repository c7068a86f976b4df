"""The sweeper: what is due is sent to the workers again; what was set aside for want of understanding is taken up again.

It runs no function of a system. Pauses between tries, deadlines, timers and messages that were lost are all one thing to
it: a place whose time has come. Several processes may sweep at once: each send is one of them's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.chance import CHANCE
from holdfast.errors import ComponentRefused, HoldfastError, InvalidRequest, ItemUnreadable, NotFound
from holdfast.flows.driving import follow_item, unknown_state
from holdfast.flows.item import ItemKey
from holdfast.flows.noting import FRESH, parked, sent_again
from holdfast.flows.places import ParkedFor, Place
from holdfast.flows.transition import place_of
from holdfast.guarantees.pattern_sets import moment
from holdfast.runtime import Stores
from holdfast.runtime.stores import together

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

AT_ONCE: Final = 8

log = logging.getLogger(__name__)


@dataclass
class SweepReport:
    sent: int = 0
    parked: int = 0
    resumed: int = 0


async def swept(flow: Flow[Any], stores: Stores) -> SweepReport:
    """Everything that is due, sent again."""
    report = SweepReport()

    async def one(place: Place) -> None:
        try:
            if flow.find(place.state) is None:
                reason = unknown_state(flow, place.state)
                report.parked += await parked(flow, stores, place, ParkedFor.UNKNOWN_STATE, reason)
            else:
                report.sent += await sent_again(flow, stores, place)
        except ComponentRefused:
            raise
        except HoldfastError as error:  # the others shall not wait for it
            log.warning("%s of the flow %s could not be sent: %s", place.key, flow.name, error)

    # Not everybody in the same order: several sweepers would follow on each other's heels.
    for shard in CHANCE.sample(range(flow.shards), flow.shards):
        due = list(await stores.all(flow.use.due(shard, moment(stores.clock))))
        for start in range(0, len(due), AT_ONCE):
            await together(map(one, due[start : start + AT_ONCE]))
    return report


async def understood(flow: Flow[Any], stores: Stores) -> SweepReport:
    """What was parked because its code did not understand it, and this code does."""
    report = SweepReport()
    for shard in range(flow.shards):
        for place in await stores.all(flow.use.parked(shard)):
            if await _is_understood(flow, stores, place):
                report.resumed += await sent_again(flow, stores, place, **FRESH)
    return report


async def resumed(flow: Flow[Any], stores: Stores, key: ItemKey | None = None) -> int:
    """All that is parked is sent again, or the flow of one item, parked or not; how many."""
    if key is not None:
        return await _resumed_one(flow, stores, flow.key(key))
    aside = [each for shard in range(flow.shards) for each in await stores.all(flow.use.parked(shard))]
    return sum([await sent_again(flow, stores, place, **FRESH) for place in aside])


async def _resumed_one(flow: Flow[Any], stores: Stores, key: str) -> int:
    """Of an item that has no place, because it was brought back or its flow is new, one is made."""
    place = await stores.run(flow.use.place(key))
    if place is not None:
        return int(await sent_again(flow, stores, place, **FRESH))
    item = await stores.run(flow.use.one(key))
    if item is None:
        raise NotFound(
            f"There is no {flow.entity.__name__} {key!r:.80}: give its key as `holdfast flows list` does."
        )
    if flow.find(item.flow_state) is None or flow.state(item.flow_state).is_end:
        raise InvalidRequest(
            f"{key} stands in {item.flow_state or 'no state'}, where nothing is to be done: it has ended, or is no flow of "
            "this code."
        )
    place = place_of(flow, item, moment(stores.clock))
    await stores.run(flow.use.begin(place))
    await follow_item(flow, stores, place, item)
    return 1


async def _is_understood(flow: Flow[Any], stores: Stores, place: Place) -> bool:
    if place.parked_for == ParkedFor.UNKNOWN_STATE:
        return flow.find(place.state) is not None
    if place.parked_for != ParkedFor.UNREADABLE:
        return False
    try:
        await stores.run(flow.use.one(place.key))
    except ItemUnreadable:
        return False
    return True
