"""The sweeper: resends what is due, and resumes what was parked for an unknown state or an unreadable item.

It runs no code of a system. Pauses between attempts, deadlines, timers and lost messages are the same to it:
an execution that is due. Several processes may sweep at once: each message is sent by one of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import ComponentRefused, HoldfastError, InvalidRequest, ItemUnreadable, NotFound
from holdfast.core.rng import RNG
from holdfast.flows.bookkeeping import RESET, park, resend
from holdfast.flows.executions import Execution, ParkedFor
from holdfast.flows.item import ItemKey
from holdfast.flows.transition import build_execution
from holdfast.flows.worker import follow_item, format_unknown_state
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.runtime import Stores
from holdfast.runtime.stores import gather_or_cancel

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

CONCURRENCY: Final = 8

log = logging.getLogger(__name__)


@dataclass
class SweepReport:
    sent: int = 0
    parked: int = 0
    resumed: int = 0


async def sweep(flow: Flow[Any], stores: Stores) -> SweepReport:
    """Resend everything that is due."""
    report = SweepReport()

    async def one(place: Execution) -> None:
        try:
            if flow.find_state(place.state) is None:
                reason = format_unknown_state(flow, place.state)
                report.parked += await park(flow, stores, place, ParkedFor.UNKNOWN_STATE, reason)
            else:
                report.sent += await resend(flow, stores, place)
        except ComponentRefused:
            raise
        except HoldfastError as error:  # continue with the others
            log.warning("Could not send %s of the flow %s: %s", place.key, flow.name, error)

    # In random order, so that several sweepers do not work on the same shard at the same time.
    for shard in RNG.sample(range(flow.shards), flow.shards):
        due = list(await stores.all(flow.pattern_set.due(shard, utc_now(stores.clock))))
        for start in range(0, len(due), CONCURRENCY):
            await gather_or_cancel(map(one, due[start : start + CONCURRENCY]))
    return report


async def retry_unknown_states(flow: Flow[Any], stores: Stores) -> SweepReport:
    """Resume executions that were parked by code that did not know them, if this code does."""
    report = SweepReport()
    for shard in range(flow.shards):
        for place in await stores.all(flow.pattern_set.parked(shard)):
            if await _is_known_now(flow, stores, place):
                report.resumed += await resend(flow, stores, place, **RESET)
    return report


async def resume(flow: Flow[Any], stores: Stores, key: ItemKey | None = None) -> int:
    """Resend all parked executions, or the one of a key, parked or not. Return how many."""
    if key is not None:
        return await _resume_one(flow, stores, flow.key_text(key))
    aside = [
        each for shard in range(flow.shards) for each in await stores.all(flow.pattern_set.parked(shard))
    ]
    return sum([await resend(flow, stores, place, **RESET) for place in aside])


async def _resume_one(flow: Flow[Any], stores: Stores, key: str) -> int:
    """Resend one execution. An item without one, restored or older than its flow, gets one."""
    place = await stores.run(flow.pattern_set.execution(key))
    if place is not None:
        return int(await resend(flow, stores, place, **RESET))
    item = await stores.run(flow.pattern_set.item(key))
    if item is None:
        raise NotFound(
            f"{flow.entity.__name__} {key!r:.80} not found: use the key that `holdfast flows list` shows."
        )
    if flow.find_state(item.flow_state) is None or flow.get_state(item.flow_state).is_end:
        raise InvalidRequest(
            f"{key} is in {item.flow_state or 'no state'}, where there is nothing to do: it has ended, or "
            "its flow "
            "is unknown to this code."
        )
    place = build_execution(flow, item, utc_now(stores.clock))
    await stores.run(flow.pattern_set.begin(place))
    await follow_item(flow, stores, place, item)
    return 1


async def _is_known_now(flow: Flow[Any], stores: Stores, place: Execution) -> bool:
    if place.parked_for == ParkedFor.UNKNOWN_STATE:
        return flow.find_state(place.state) is not None
    if place.parked_for != ParkedFor.UNREADABLE:
        return False
    try:
        await stores.run(flow.pattern_set.item(place.key))
    except ItemUnreadable:
        return False
    return True
