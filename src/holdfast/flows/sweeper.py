"""The sweeper of a flow: resends steps that are due, and resumes executions that are parked.

It runs no code of a system. Pauses between attempts, deadlines, timers and lost messages are the same to it:
an execution that is due. Several processes may sweep at once: each message is sent by one of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import ComponentRefused, HoldfastError, InvalidRequest, ItemUnreadable, NotFound
from holdfast.core.rng import RNG
from holdfast.flows.bookkeeping import RESET, park, resend
from holdfast.flows.executions import Execution, ParkedFor
from holdfast.flows.item import ItemKey
from holdfast.flows.transition import build_execution
from holdfast.flows.worker import follow_item, format_unknown_state
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

CONCURRENCY: Final = 8
# How often a process looks for executions that a clock ahead of its own made due: it reads all that wait.
LOOK_AHEAD_S: Final = 600.0

log = logging.getLogger(__name__)


@dataclass
class SweepReport:
    """Counts of one pass: messages sent, executions parked, executions resumed."""

    sent: int = 0
    parked: int = 0
    resumed: int = 0


async def sweep(flow: Flow[Any], stores: Stores) -> SweepReport:
    """Resend every execution that is due, and park those in a state that this code does not know.

    A failure of one is logged, and the others continue.
    """
    report = SweepReport()

    async def one(execution: Execution) -> None:
        try:
            if flow.find_state(execution.state) is None:
                reason = format_unknown_state(flow, execution.state)
                report.parked += await park(flow, stores, execution, ParkedFor.UNKNOWN_STATE, reason)
            else:
                report.sent += await resend(flow, stores, execution)
        except ComponentRefused:
            raise
        except HoldfastError as error:  # continue with the others
            log.warning("Could not send %s of the flow %s: %s", execution.key, flow.name, error)

    # In random order, so that several sweepers do not work on the same shard at the same time.
    looks_ahead = stores.deadlines.should_look(("flow", flow.name), LOOK_AHEAD_S)
    for shard in RNG.sample(range(flow.shards), flow.shards):
        due = list(await stores.all(flow.pattern_set.due(shard, stores.now())))
        if looks_ahead:
            due += await _find_ahead(flow, stores, shard)
        for start in range(0, len(due), CONCURRENCY):
            await gather_or_cancel(map(one, due[start : start + CONCURRENCY]))
    return report


async def _find_ahead(flow: Flow[Any], stores: Stores, shard: int) -> list[Execution]:
    """Return the executions of a shard that a clock ahead of this one made due, when this process has seen
    them for as long as they had to wait.
    """
    found = await stores.all(flow.pattern_set.due(shard, stores.now(), is_ahead=True))
    return [each for each in found if _compute_left_s(flow, stores, each) <= 0]


def _compute_left_s(flow: Flow[Any], stores: Stores, execution: Execution) -> float:
    """Return the seconds until the execution is due; 0 or less if it is."""
    assert execution.due is not None
    assert execution.due_set_at is not None
    due_at, max_s = execution.due.timestamp(), (execution.due - execution.due_set_at).total_seconds()
    # The worker of a wait uses the same key.
    key, version = (flow.name, execution.key), (execution.version, execution.due)
    return stores.deadlines.compute_left_s(key, version, due_at, max_s)


async def retry_unknown_states(flow: Flow[Any], stores: Stores) -> SweepReport:
    """Resume executions parked for an unknown state or an unreadable item, if this code now knows or reads
    it.
    """
    report = SweepReport()
    for shard in range(flow.shards):
        for execution in await stores.all(flow.pattern_set.parked(shard)):
            if await _is_known_now(flow, stores, execution):
                report.resumed += await resend(flow, stores, execution, **RESET)
    return report


async def resume(flow: Flow[Any], stores: Stores, key: ItemKey | None = None) -> int:
    """Resend all parked executions, or the one of a key, parked or not. Return how many.

    Raises `NotFound` or `InvalidRequest` for a key without a running flow.
    """
    if key is not None:
        return await _resume_one(flow, stores, flow.key_text(key))
    aside = [
        each for shard in range(flow.shards) for each in await stores.all(flow.pattern_set.parked(shard))
    ]
    return sum([await resend(flow, stores, execution, **RESET) for execution in aside])


async def _resume_one(flow: Flow[Any], stores: Stores, key: str) -> int:
    """Resend one execution and return 1, or 0 if another process did.

    An item without one, such as a restored one, gets one.
    """
    execution = await stores.run(flow.pattern_set.execution(key))
    if execution is not None:
        return int(await resend(flow, stores, execution, **RESET))
    item = await stores.run(flow.pattern_set.item(key))
    if item is None:
        raise NotFound(
            f"{flow.entity.__name__} {key!r:.80} not found: use the key that `holdfast flows list` shows."
        )
    if flow.find_state(item.flow_state) is None or flow.get_state(item.flow_state).is_end:
        raise InvalidRequest(
            f"{key} is in {item.flow_state or 'no state'}, where there is nothing to do: it has ended, or "
            "its flow is unknown to this code."
        )
    execution = build_execution(flow, item, stores.now())
    await stores.run(flow.pattern_set.begin(execution))
    await follow_item(flow, stores, execution, item)
    return 1


async def _is_known_now(flow: Flow[Any], stores: Stores, execution: Execution) -> bool:
    """Return True if the reason why the execution was parked, unknown state or unreadable item, no longer
    holds.
    """
    if execution.parked_for == ParkedFor.UNKNOWN_STATE:
        return flow.find_state(execution.state) is not None
    if execution.parked_for != ParkedFor.UNREADABLE:
        return False
    try:
        await stores.run(flow.pattern_set.item(execution.key))
    except ItemUnreadable:
        return False
    return True
