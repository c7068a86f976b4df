"""Bookkeeping of an execution within one state: failed attempts, resent messages, parking.

Each record is conditional on the one before it. If two workers record something about the same execution, one
wins.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import Conflict
from holdfast.flows.executions import Execution, Lane, ParkedFor
from holdfast.flows.transition import build_message, get_timeout_s, relay
from holdfast.model.operations import Write
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

MAX_REASON_CHARS: Final = 500
# The longest pause before a message is resent.
MAX_PAUSE_S: Final = 3600.0
# The values of an execution that has just entered its state.
RESET: Final[dict[str, Any]] = {
    "lane": Lane.DUE,
    "attempts": 0,
    "delays": 0,
    "sends": 0,
    "takes": 0,
    "delayed_since": None,
    "error": None,
    "parked_for": None,
    "parked": None,
}

log = logging.getLogger(__name__)


async def record(
    flow: Flow[Any], stores: Stores, seen: Execution, writes: Sequence[Write[Any]] = (), **changes: Any
) -> Execution | None:
    """Write changes of the execution and return it; None if another worker changed it since `seen` was
    read.

    `writes` are written in the same transaction.
    """
    execution = _apply_changes(stores, seen, changes)
    change = flow.pattern_set.record(execution, seen)
    try:
        await (stores.transact(change, *writes) if writes else stores.run(change))
    except Conflict:
        return None
    return execution


async def park(flow: Flow[Any], stores: Stores, seen: Execution, kind: ParkedFor, reason: str) -> bool:
    """Park the execution with a reason, log it, and return True; False if another worker was quicker.

    A parked execution stays in its state until it is resumed; `holdfast flows` lists it.
    """
    changes: dict[str, Any] = {
        "lane": Lane.PARKED,
        "parked_for": kind,
        "parked": reason[:MAX_REASON_CHARS],
        "due": stores.now(),
    }
    if await record(flow, stores, seen, **changes) is None:
        return False
    log.error(
        "The flow %s of %s is parked in %s (%s): %s Fix the cause, then run `holdfast flows resume`.",
        *(flow.name, seen.key, seen.state, kind, reason),
    )
    stores.count("flow_parked", flow=flow.name, state=seen.state, reason=kind)
    return True


async def resend(flow: Flow[Any], stores: Stores, seen: Execution, **changes: Any) -> bool:
    """Resend the step's message and record that in one transaction.

    Return False if another worker was quicker. The pause before the next resend doubles, from the step's
    timeout up to an hour. `changes` of the execution are recorded too.
    """
    limit = get_timeout_s(flow.find_state(changes.get("state", seen.state)))
    # No worker may run for hours: do not fill the queue with copies in the meantime.
    pause_s = min(limit * 2.0 ** min(seen.sends, 30), max(limit, MAX_PAUSE_S))
    due = stores.now() + timedelta(seconds=pause_s)
    changes = {"due": due, "sends": seen.sends + 1} | changes
    execution = _apply_changes(stores, seen, changes)
    with bind_correlation_id(seen.correlation):
        try:
            await stores.transact(
                flow.pattern_set.record(execution, seen), build_message(flow, stores, execution)
            )
        except Conflict:
            return False
        await relay(flow, stores, seen.key)
    return True


def _apply_changes(stores: Stores, seen: Execution, changes: dict[str, Any]) -> Execution:
    """Return the execution with the changes, the next revision, and the time at which a new `due` was set."""
    if "due" in changes:
        changes = {"due_set_at": stores.now()} | changes
    return seen.model_copy(update=changes | {"revision": seen.revision + 1})
