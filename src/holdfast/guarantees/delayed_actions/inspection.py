"""Reads of delayed actions for operators, over all of them: those in the queue, and those that have ended.

They are no patterns of a component: they read with stores that have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.guarantees.delayed_actions.patterns import find_due_key
from holdfast.guarantees.delayed_actions.record import DELAYED_ACTIONS, DelayedAction
from holdfast.guarantees.idempotency.record import OnceStatus
from holdfast.model.entities import get_declaration
from holdfast.model.entities.keys import BoundIndex
from holdfast.model.operations import Page
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.guarantees.delayed_actions.declaration import DelayedActions

H = TypeVar("H", bound=DelayedAction)

PAGE_SIZE: Final = 100
# Items that one page of a search through the table reads at most.
EXAMINED: Final = 1_000

__all__ = ["list_queued", "search_ended"]


async def list_queued(
    actions: DelayedActions[H],
    stores: Stores,
    *,
    limit: int = PAGE_SIZE,
    after: str | None = None,
    statuses: Sequence[OnceStatus] = (),
) -> Page[H]:
    """Return one page of the actions that wait, run or failed, by the time at which they are due.

    `statuses` keeps only these; a page then has fewer.
    """
    index: BoundIndex[H, Any, Any] = BoundIndex(get_declaration(actions.entity), find_due_key(actions.entity))
    query = index(DELAYED_ACTIONS).query()
    if statuses:
        query = query.where(actions.entity.status.in_(statuses))
    return await stores.run(query.page(limit, after))


async def search_ended(actions: DelayedActions[H], stores: Stores, after: str | None = None) -> Page[H]:
    """Return the actions among the next `EXAMINED` items of the table that were done, cancelled or refused.

    No index has them: an action leaves it when it ends.
    """
    entity = actions.entity
    scan = entity.scan(reason="an operator searches for actions that have ended")
    return await stores.run(scan.where(entity.queue.not_exists()).page(EXAMINED, after))
