"""Pended requests whose payer does not call back: the payer is asked what became of them, from time to time.

A callback may never come, for reasons of the payer's or of the network's, while the payer has decided long ago. So each
pended request has a time at which its payer is asked: an hour after it was pended, then after twice as long each time, once
a day at least, and when its decision is nearly due. Here it is only announced; the connector asks, and what it is answered
goes the way of a callback.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Pattern, Rate, SqlChange, SqlRow, SqlRows, SqlWrite, Stores, pattern
from holdfast.errors import ConditionFailed
from pagw.model import QUEUES, StageMessage, Tracked, pagw
from pagw.patterns import OUTBOX
from pagw.statuses import Stage

FIRST: Final = timedelta(hours=1)
LONGEST: Final = timedelta(days=1)
# So long before a decision is due it is asked for once more, while there is time to ask a person.
BEFORE_DUE: Final = timedelta(hours=12)
EVERY_S: Final = 5 * 60
BATCH: Final = 200
FOLLOW_UP: Final = Rate(per="look at pended requests")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"

log = logging.getLogger(__name__)


class Waiting(SqlRow):
    """A pended request whose payer is to be asked."""

    pagw_id: str
    tenant: str
    created_at: datetime
    due_at: datetime
    inquire_at: datetime


@pattern("M22", "Pended requests whose payer is to be asked by now", rate=FOLLOW_UP, example=(_NOW,))
def to_be_asked(now: datetime, limit: int = BATCH) -> SqlRows[Waiting]:
    return pagw.rows(
        Waiting,
        """SELECT pagw_id, tenant, created_at, due_at, coalesce(inquire_at, created_at) AS inquire_at
           FROM pagw.request_tracker
           WHERE status = 'PENDED' AND request_tracker.inquire_at <= %(now)s
           ORDER BY request_tracker.inquire_at LIMIT %(limit)s""",
        now=now,
        limit=limit,
    )


@pattern("M23", "Say when a payer is asked again", rate=FOLLOW_UP, example=(_ID, _NOW, _NOW))
def ask_again(pagw_id: str, seen: datetime, then: datetime) -> SqlChange:
    """Only one of several who look at the same time."""
    return pagw.change(
        """UPDATE pagw.request_tracker SET inquire_at = %(then)s
           WHERE pagw_id = %(pagw_id)s AND status = 'PENDED' AND inquire_at = %(seen)s""",
        pagw_id=pagw_id,
        seen=seen,
        then=then,
    )


READS: Final[tuple[Pattern[..., Any], ...]] = (to_be_asked,)
WRITES: Final[tuple[Pattern[..., Any], ...]] = (ask_again, OUTBOX.append)


def first_inquiry(now: datetime, due_at: datetime) -> datetime:
    """When the payer of a request that is pended now is asked first."""
    return _not_past(now + FIRST, now, due_at)


def next_inquiry(now: datetime, created_at: datetime, due_at: datetime) -> datetime:
    """As long again as it has taken until now: so the pauses double."""
    pause = min(max(now - created_at, FIRST), LONGEST)
    return _not_past(now + pause, now, due_at)


def _not_past(then: datetime, now: datetime, due_at: datetime) -> datetime:
    nearly_due = due_at - BEFORE_DUE
    return min(then, nearly_due) if now < nearly_due else then


async def follow_up(stores: Stores) -> int:
    """Announces an inquiry for each request whose time has come; gives how many."""
    now, count = datetime.fromtimestamp(stores.clock.now(), UTC), 0
    for each in await stores.run(to_be_asked(now)):
        then = next_inquiry(now, each.created_at, each.due_at)
        occasion = f"inquiry-{each.inquire_at:%Y%m%dT%H%M%S%f}"
        try:
            await stores.transact(
                ask_again(each.pagw_id, each.inquire_at, then).expecting(1),
                told_to_ask(stores, each, occasion),
            )
        except ConditionFailed:
            # Another has just done it, or the payer has called back.
            continue
        count += 1
    if count:
        log.info("The payers of %d pended requests are asked.", count)
    return count


def told_to_ask(stores: Stores, request: Waiting | Tracked, occasion: str) -> SqlWrite[Any]:
    """The message by which the connector asks a payer what became of a request."""
    message = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.api_connector,
        occasion=occasion,
        is_inquiry=True,
    )
    return OUTBOX.message(stores, request.pagw_id, QUEUES[Stage.api_connector], message)
