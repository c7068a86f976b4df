"""Polling of payers about pended requests without a callback: announces inquiries that are due.

A callback may be lost although the payer has decided. So each pended request has a time of its next inquiry:
an hour after it was pended, then with pauses that double, at least once a day, and shortly before its
decision is due. This module only announces the inquiry; the connector sends it, and the payer's answer is
processed like a callback.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Rate, Stores, pattern
from holdfast.core.errors import ConditionFailed
from holdfast.model.sql import SqlChange, SqlRow, SqlRows, SqlWrite
from pagw.domain.statuses import Stage
from pagw.model.entities import QUEUES, RequestRow, StageMessage, pagw
from pagw.model.patterns import OUTBOX

FIRST_PAUSE: Final = timedelta(hours=1)
LONGEST_PAUSE: Final = timedelta(days=1)
# A last inquiry this long before the decision is due leaves time to call the payer.
BEFORE_DUE: Final = timedelta(hours=12)
INTERVAL_S: Final = 5 * 60
BATCH_SIZE: Final = 200
PER_POLL: Final = Rate(per="look at pended requests")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"

log = logging.getLogger(__name__)


class DueInquiry(SqlRow):
    """A pended request whose next inquiry is due."""

    pagw_id: str
    tenant: str
    created_at: datetime
    due_at: datetime
    inquire_at: datetime


@pattern("M22", "Pended requests whose next inquiry is due", rate=PER_POLL, example=(_NOW,))
def to_be_asked(now: datetime, limit: int = BATCH_SIZE) -> SqlRows[DueInquiry]:
    """Select the pended requests whose next inquiry is due, the earliest first."""
    return pagw.rows(
        DueInquiry,
        """SELECT pagw_id, tenant, created_at, due_at, coalesce(inquire_at, created_at) AS inquire_at
           FROM pagw.request_tracker
           WHERE status = 'PENDED'
             AND (request_tracker.inquire_at <= %(now)s OR request_tracker.inquire_at > %(beyond)s)
           ORDER BY request_tracker.inquire_at LIMIT %(limit)s""",
        now=now,
        # No pause is longer: a clock that was ahead set a later time. An inquiry too many does no harm.
        beyond=now + LONGEST_PAUSE,
        limit=limit,
    )


@pattern("M23", "Set the time of the next inquiry", rate=PER_POLL, example=(_ID, _NOW, _NOW))
def ask_again(pagw_id: str, seen: datetime, then: datetime) -> SqlChange:
    """Set the next inquiry to `then` if it is still `seen`, so that only one of several processes announces
    the inquiry.
    """
    return pagw.change(
        """UPDATE pagw.request_tracker SET inquire_at = %(then)s
           WHERE pagw_id = %(pagw_id)s AND status = 'PENDED' AND inquire_at = %(seen)s""",
        pagw_id=pagw_id,
        seen=seen,
        then=then,
    )


PATTERNS: Final = (to_be_asked, ask_again, OUTBOX.publisher)


def compute_first_inquiry(now: datetime, due_at: datetime, minutes: int | None = None) -> datetime:
    """Return the time of the first inquiry for a request that is pended now: after `minutes`, if the payer's
    configuration sets them.
    """
    pause = FIRST_PAUSE if minutes is None else timedelta(minutes=minutes)
    return _cap_before_due(now + pause, now, due_at)


def compute_next_inquiry(now: datetime, created_at: datetime, due_at: datetime) -> datetime:
    """Return the time of the next inquiry. The pause equals the request's age, so pauses double."""
    pause = min(max(now - created_at, FIRST_PAUSE), LONGEST_PAUSE)
    return _cap_before_due(now + pause, now, due_at)


def _cap_before_due(then: datetime, now: datetime, due_at: datetime) -> datetime:
    """Return `then`, but at the latest BEFORE_DUE ahead of the due time while that is in the future."""
    nearly_due = due_at - BEFORE_DUE
    return min(then, nearly_due) if now < nearly_due else then


async def announce_inquiries(stores: Stores) -> int:
    """Send a message to the connector for each request whose inquiry is due, at most `BATCH_SIZE`. Return how
    many.
    """
    now, count = stores.now(), 0
    for each in await stores.run(to_be_asked(now)):
        then = compute_next_inquiry(now, each.created_at, each.due_at)
        occasion = f"inquiry-{each.inquire_at:%Y%m%dT%H%M%S%f}"
        try:
            await stores.transact(
                ask_again(each.pagw_id, each.inquire_at, then).expect_rows(1),
                build_inquiry_message(stores, each, occasion),
            )
        except ConditionFailed:
            # Another process announced it, or the payer called back.
            continue
        count += 1
    if count:
        log.info("Announced inquiries to payers for %d pended requests.", count)
    return count


def build_inquiry_message(stores: Stores, request: DueInquiry | RequestRow, occasion: str) -> SqlWrite[Any]:
    """Return the outbox write that makes the connector inquire about a request. `occasion` makes the message
    unique.
    """
    message = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.api_connector,
        occasion=occasion,
        is_inquiry=True,
    )
    return OUTBOX.enqueue(stores, request.pagw_id, message, queue=QUEUES[Stage.api_connector])
