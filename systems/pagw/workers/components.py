"""The components that work in the background: the stages, the notifier, the outbox and the sweeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from holdfast import Component, Consumer, Schedule, Stores
from holdfast.model.components import Handler
from pagw.model import delivery_patterns, files, patterns
from pagw.model.entities import audit_events, notifications
from pagw.model.patterns import INBOX, OUTBOX
from pagw.ops import legal_holds, monitoring, retention
from pagw.workers import payer_polling, sweeper
from pagw.workers.responses import READS as RESPONSE_READS
from pagw.workers.schedules import SCHEDULES
from pagw.workers.stages import load_stages
from pagw.workers.stages.audit_archiver import open_audit_archiver
from pagw.workers.stages.base_stage import PROCESS

# Clients out of reach are looked at this often.
RECOVERY_INTERVAL_S: Final = 5 * 60
AUDIT_WRITES: Final = (patterns.record_audit, OUTBOX.publisher)
INBOX_SWEEP: Final = (*INBOX.reads, INBOX.pattern_set.take, INBOX.pattern_set.sweep)


@asynccontextmanager
async def _open_notifier(stores: Stores) -> AsyncIterator[Handler]:
    """Open the notifier. The import is local because the HTTP client comes with the web extra."""
    from pagw.workers.stages.notifier import open_notifier

    async with open_notifier(stores) as handler:
        yield handler


async def _recover_clients(stores: Stores) -> None:
    """Try the clients that were out of reach. The import is local for the same reason."""
    from pagw.workers.client_recovery import recover_clients

    await recover_clients(stores)


NOTIFIER: Final = Component(
    "pasnotifier",
    "Sends webhooks to clients and retries until the client's server accepts them",
    uses=(
        patterns.request_in_hand,
        INBOX.pattern_set.stored,
        delivery_patterns.delivery,
        delivery_patterns.subscription,
        delivery_patterns.note_delivery,
        delivery_patterns.set_subscription,
        (
            delivery_patterns.subscriptions_to_retry,
            delivery_patterns.set_retry,
            delivery_patterns.release_held,
            delivery_patterns.release_held_callbacks,
            delivery_patterns.expire_held,
        ),
        # A response may be built from any of these (`responses.ResponseReader.read_response`).
        (*RESPONSE_READS, files.kept_subscription),
        AUDIT_WRITES,
    ),
    consumers=(Consumer(notifications, _open_notifier, concurrency=16),),
    schedules=(Schedule("recover-clients", RECOVERY_INTERVAL_S, _recover_clients),),
    process=PROCESS,
)
ARCHIVE: Final = Component(
    "pasauditarchive",
    "Copies audit events to the audit bucket. It cannot read requests",
    uses=(files.keep_audit_event,),
    consumers=(Consumer(audit_events, open_audit_archiver, concurrency=16),),
    process=PROCESS,
)
PUBLISHER: Final = Component(
    "outboxpublisher",
    "Sends the messages of the outbox to their queues, in order",
    uses=(OUTBOX.relay,),
    schedules=(OUTBOX.schedule("publish"),),
    process=PROCESS,
)
SWEEPER: Final = Component(
    "sweeper",
    "Removes orphaned files and expired requests, and polls payers about pended requests",
    uses=(
        (monitoring.counted, monitoring.due_before),
        AUDIT_WRITES,
        INBOX_SWEEP,
        OUTBOX.pattern_set.sweep,
        payer_polling.PATTERNS,
        legal_holds.READS,
        (legal_holds.hold_file, legal_holds.hold_audit_file),
        retention.PATTERNS,
        sweeper.PATTERNS,
    ),
    schedules=SCHEDULES,
    process=PROCESS,
)
WORKERS: Final = (
    *(stage.build_component() for stage in load_stages().values()),
    NOTIFIER,
    ARCHIVE,
    PUBLISHER,
)
