"""What is noted of a place while its flow stands in one state: failed tries, messages sent again, that it is set aside.

Each note is conditional on the one before it. Where two workers have something to say of the same place, one is heard.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.correlation import correlated
from holdfast.errors import Conflict
from holdfast.flows.places import Lane, ParkedFor, Place
from holdfast.flows.transition import limit_s, message_of, relayed
from holdfast.guarantees.pattern_sets import moment
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

REASON_CHARS_MAX: Final = 500
# The longest that a message is waited for, however often it was sent.
PAUSE_S_MAX: Final = 3600.0
# As if it had just come to its state.
FRESH: Final[dict[str, Any]] = {
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


async def noted(flow: Flow[Any], stores: Stores, seen: Place, **changes: Any) -> Place | None:
    """The place as it is now; None where somebody was quicker."""
    place = _changed(seen, changes)
    try:
        await stores.run(flow.use.note(place, seen))
    except Conflict:
        return None
    return place


async def parked(flow: Flow[Any], stores: Stores, seen: Place, kind: ParkedFor, reason: str) -> bool:
    """Set aside with a reason, where `holdfast flows` lists it: nothing is lost, and nothing goes round in circles."""
    changes = {"lane": Lane.PARKED, "parked_for": kind, "parked": reason[:REASON_CHARS_MAX]}
    if await noted(flow, stores, seen, due=moment(stores.clock), **changes) is None:
        return False
    log.error(
        "The flow %s of %s is parked in %s (%s): %s Mend the cause, then `holdfast flows resume`.",
        *(flow.name, seen.key, seen.state, kind, reason),
    )
    stores.count("flow_parked", flow=flow.name, state=seen.state, reason=kind)
    return True


async def sent_again(flow: Flow[Any], stores: Stores, seen: Place, **changes: Any) -> bool:
    """Its message goes out once more, in one transaction with the note that it did. Whether it was this caller's to send."""
    limit = limit_s(flow.find(changes.get("state", seen.state)))
    # Nobody may be at work for hours: the queue need not fill with copies meanwhile.
    pause_s = min(limit * 2.0 ** min(seen.sends, 30), max(limit, PAUSE_S_MAX))
    due = moment(stores.clock) + timedelta(seconds=pause_s)
    changes = {"due": due, "sends": seen.sends + 1} | changes
    place = _changed(seen, changes)
    with correlated(seen.correlation):
        try:
            await stores.transact(flow.use.note(place, seen), message_of(flow, stores, place))
        except Conflict:
            return False
        await relayed(flow, stores, seen.key)
    return True


def _changed(seen: Place, changes: dict[str, Any]) -> Place:
    return seen.model_copy(update=changes | {"revision": seen.revision + 1})
