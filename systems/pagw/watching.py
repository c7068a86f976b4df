"""What is done by the clock: files and messages swept, retention, holds renewed, payers asked for what they have not told, and
the clocks of decisions looked at."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Schedule, Stores
from pagw import following_up, holds, monitoring, retaining, sweeping
from pagw.settings import PagwSettings

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
CLOCKS_S: Final = 15 * 60
# Told when so much is left: time to ask the payer.
SOON: Final = timedelta(hours=12)

log = logging.getLogger(__name__)


async def sweep_files(stores: Stores) -> None:
    swept = await sweeping.sweep(stores)
    if swept.files:
        log.warning("Swept %d files of %d requests that no row tracks.", swept.files, swept.requests)


async def sweep_messages(stores: Stores) -> None:
    await sweeping.sweep_messages(stores)


async def retain(stores: Stores) -> None:
    """Holds are renewed first, so that nothing of a held request goes by the lifecycle of its bucket."""
    await holds.renew(stores)
    done = await retaining.retain(stores, PagwSettings.load())
    if done.requests or done.audit_rows:
        log.info("Retention removed %d requests and %d audit rows.", done.requests, done.audit_rows)


async def follow_up(stores: Stores) -> None:
    await following_up.follow_up(stores)


async def look_at_clocks(stores: Stores) -> None:
    """Counts what is late, and what soon will be: an alarm is set on the metrics, and the log says of which payers."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    minutes = PagwSettings.load().stuck_minutes
    counts = await stores.run(monitoring.counted(now - timedelta(minutes=minutes), now))
    soon = await stores.run(monitoring.due_before(now + SOON))
    if counts is not None:
        stores.measure("pagw_overdue_requests", counts.overdue)
        stores.measure("pagw_stuck_requests", counts.stuck)
        if counts.stuck:
            log.warning("%d requests are stuck: `holdfast pagw stuck` lists them.", counts.stuck)
    if soon:
        late = sum(each.due_at < now for each in soon)
        log.warning("%d decisions are late, %d are due within %s.", late, len(soon) - late, SOON)


SCHEDULES: Final = (
    Schedule("sweep-files", HOUR_S, sweep_files),
    Schedule("sweep-messages", HOUR_S, sweep_messages),
    Schedule("retention", DAY_S, retain),
    Schedule("clocks", CLOCKS_S, look_at_clocks),
    Schedule("follow-up", following_up.EVERY_S, follow_up),
)
