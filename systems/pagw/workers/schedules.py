"""Schedules of the sweeper component: sweeping, retention, legal holds, polling and deadline checks."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from holdfast import Schedule, Stores
from pagw.ops import legal_holds, monitoring, retention
from pagw.settings import PagwSettings
from pagw.workers import payer_polling, sweeper

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
DEADLINE_CHECK_S: Final = 15 * 60
# Decisions due within this time are logged, while there is time to contact the payer.
DUE_SOON: Final = timedelta(hours=12)

log = logging.getLogger(__name__)


async def sweep_files(stores: Stores) -> None:
    """Remove orphaned files, and log how many."""
    swept = await sweeper.sweep(stores)
    if swept.files:
        log.warning("Removed %d orphaned files of %d requests.", swept.files, swept.requests)


async def sweep_messages(stores: Stores) -> None:
    """Remove old outbox and inbox rows."""
    await sweeper.sweep_messages(stores)


async def apply_retention(stores: Stores) -> None:
    """Renew legal holds, so that the buckets' lifecycle removes nothing of a held request, then apply
    retention.
    """
    await legal_holds.renew_holds(stores)
    done = await retention.apply_retention(stores, PagwSettings.load())
    if done.requests or done.audit_rows:
        log.info("Retention removed %d requests and %d audit rows.", done.requests, done.audit_rows)


async def poll_payers(stores: Stores) -> None:
    """Announce the inquiries about pended requests that are due."""
    await payer_polling.announce_inquiries(stores)


async def check_deadlines(stores: Stores) -> None:
    """Measure overdue and stuck requests, and log a warning if any are stuck, late or due soon. Alarms use
    the metrics.
    """
    now = stores.now()
    minutes = PagwSettings.load().stuck_minutes
    counts = await stores.run(monitoring.counted(now - timedelta(minutes=minutes), now))
    soon = await stores.run(monitoring.due_before(now + DUE_SOON))
    if counts is not None:
        stores.measure("pagw_overdue_requests", counts.overdue)
        stores.measure("pagw_stuck_requests", counts.stuck)
        if counts.stuck:
            log.warning("%d requests are stuck. List them with `holdfast pagw stuck`.", counts.stuck)
    if soon:
        late = sum(each.due_at < now for each in soon)
        log.warning("%d decisions are late, %d are due within %s.", late, len(soon) - late, DUE_SOON)


SCHEDULES: Final = (
    Schedule("sweep-files", HOUR_S, sweep_files),
    Schedule("sweep-messages", HOUR_S, sweep_messages),
    Schedule("retention", DAY_S, apply_retention),
    Schedule("clocks", DEADLINE_CHECK_S, check_deadlines),
    Schedule("follow-up", payer_polling.INTERVAL_S, poll_payers),
)
