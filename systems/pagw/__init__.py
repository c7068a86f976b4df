"""PAGW: a healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that loses and repeats nothing.

routes → intake (orchestrator, parser, validator) → outbox → pipeline (seven stages, each with its queue) → payers, and back
by waiting, subscriptions and callbacks. `model` and `patterns` say what is kept in four stores; `fhir` what a request and
an answer are; `payers` how payers are asked, for whom `sandbox` stands in; `monitoring` and `commands` are for operators.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from holdfast import Component, Consumer, Handler, Pattern, Stores, System, patterns_in
from pagw import files, notices, patterns
from pagw.model import (
    ALL_QUEUES,
    audit_events,
    audit_events_bucket,
    idempotency,
    notifications,
    pagw,
    requests_bucket,
)
from pagw.patterns import AUDIT_QUEUE, CALLS, INBOX, NOTIFICATION_QUEUE, OUTBOX, STAGE_QUEUES, SUBMISSIONS
from pagw.pipeline.archiving import AuditArchive
from pagw.pipeline.attaching import AttachmentHandler
from pagw.pipeline.building import ResponseBuilder
from pagw.pipeline.calling_back import CallbackHandler
from pagw.pipeline.connecting import connecting
from pagw.pipeline.converting import Converter
from pagw.pipeline.enriching import Enricher
from pagw.pipeline.staging import handling
from pagw.pipeline.subscribing import SubscriptionHandler
from pagw.registries import PAYERS, PROVIDERS, REGISTRY_READS, REGISTRY_WRITES, TOKENS
from pagw.statuses import Stage

Patterns = tuple[Pattern[..., Any], ...]

PIPELINE: Final = "pipeline"
# Of every stage: what it reads first and writes last, in one transaction.
STEP_READS: Final[Patterns] = (patterns.request_in_hand,)
STEP_WRITES: Final[Patterns] = (
    patterns.advance,
    patterns.note,
    patterns.tell_answered,
    notices.create_delivery,
    patterns.record_audit,
    INBOX.use.take,
    OUTBOX.append,
)


@asynccontextmanager
async def _notifying(stores: Stores) -> AsyncIterator[Handler]:
    """Imported when it is wanted: what it calls clients with is the web's."""
    from pagw.pipeline.notifying import notifying

    async with notifying(stores) as handler:
        yield handler


def _stage(stage: Stage, purpose: str, handler: Any, *, reads: Patterns, writes: Patterns) -> Component:
    """A stage as a component of the document's name, with what it needs and nothing else."""
    queue = STAGE_QUEUES[stage]
    return Component(
        stage.service,
        purpose,
        reads=(*STEP_READS, *reads),
        writes=(*STEP_WRITES, *queue.patterns, *writes),
        consumers=(
            Consumer(
                queue.queue,
                handler,
                receive=queue.receive,
                delete=queue.delete,
                hold=queue.hold,
                at_once=16,
                pause_s=0.5,
                pause_s_max=300.0,
            ),
        ),
        process=PIPELINE,
    )


STAGES: Final = (
    _stage(
        Stage.request_enricher,
        "Adds what the registries know of provider and payer",
        handling(Enricher),
        reads=(files.parsed, *REGISTRY_READS),
        writes=(files.keep_enriched, *REGISTRY_WRITES),
    ),
    _stage(
        Stage.attachment_handler,
        "Takes attachments out of the bundle, typed by content and hashed",
        handling(AttachmentHandler),
        reads=(files.bundle,),
        writes=(files.keep_attachment,),
    ),
    _stage(
        Stage.request_converter,
        "Makes what the payer is sent, in the payer's format",
        handling(Converter),
        reads=(files.enriched, files.bundle, *REGISTRY_READS),
        writes=(files.keep_payer_request, *REGISTRY_WRITES),
    ),
    _stage(
        Stage.api_connector,
        "Asks the payer, once",
        connecting,
        reads=(files.payer_request, *REGISTRY_READS, *TOKENS.reads, *CALLS.reads),
        writes=(
            files.keep_payer_response,
            patterns.count_retry,
            *REGISTRY_WRITES,
            *TOKENS.writes,
            *CALLS.writes,
        ),
    ),
    _stage(
        Stage.response_builder,
        "Makes the ClaimResponse of what the payer said",
        handling(ResponseBuilder),
        reads=(files.bundle, files.payer_response, files.callback, *REGISTRY_READS),
        writes=(
            files.keep_response,
            files.keep_pended_response,
            patterns.make_findable,
            *REGISTRY_WRITES,
        ),
    ),
    _stage(
        Stage.callback_handler,
        "Takes up what a payer called back with, and tells the client that asked to be called back",
        handling(CallbackHandler),
        reads=(),
        writes=(),
    ),
    _stage(
        Stage.subscription_handler,
        "Ends a request: its key gets the answer, subscribers are told",
        handling(SubscriptionHandler),
        reads=(notices.subscribers,),
        writes=(notices.count_event, patterns.finish_submission),
    ),
)

NOTIFIER: Final = Component(
    "pasnotifier",
    "Tells clients, each until its server takes it",
    reads=(*STEP_READS, notices.delivery, files.bundle, files.response, files.kept_subscription),
    writes=(
        notices.note_delivery,
        notices.set_subscription,
        patterns.record_audit,
        OUTBOX.append,
        *NOTIFICATION_QUEUE.patterns,
    ),
    consumers=(
        Consumer(
            notifications,
            _notifying,
            receive=NOTIFICATION_QUEUE.receive,
            delete=NOTIFICATION_QUEUE.delete,
            hold=NOTIFICATION_QUEUE.hold,
            at_once=16,
            pause_s=1.0,
            pause_s_max=300.0,
        ),
    ),
    process=PIPELINE,
)
ARCHIVE: Final = Component(
    "pasauditarchive",
    "Brings audit events to the audit bucket. It sees no request",
    writes=(files.keep_audit_event, *AUDIT_QUEUE.patterns),
    consumers=(
        Consumer(
            audit_events,
            handling(AuditArchive),
            receive=AUDIT_QUEUE.receive,
            delete=AUDIT_QUEUE.delete,
            hold=AUDIT_QUEUE.hold,
            at_once=16,
        ),
    ),
    process=PIPELINE,
)
PUBLISHER: Final = Component(
    "outboxpublisher",
    "Sends what the outbox announces, in order",
    writes=OUTBOX.publishing,
    schedules=(OUTBOX.schedule(),),
    process=PIPELINE,
)

SYSTEM = System(
    name="pagw",
    title="PAGW",
    purpose="A healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that loses and repeats nothing",
    tables=(idempotency,),
    schemas=(pagw,),
    queues=ALL_QUEUES,
    buckets=(requests_bucket, audit_events_bucket),
    patterns=(
        *patterns_in(patterns),
        *patterns_in(files),
        *patterns_in(notices),
        *(each for queue in STAGE_QUEUES.values() for each in queue.patterns),
        *NOTIFICATION_QUEUE.patterns,
        *AUDIT_QUEUE.patterns,
        *SUBMISSIONS.patterns,
        *CALLS.patterns,
        *OUTBOX.patterns,
        *INBOX.patterns,
        *PROVIDERS.patterns,
        *PAYERS.patterns,
        *TOKENS.patterns,
    ),
    components=(*STAGES, NOTIFIER, ARCHIVE, PUBLISHER),
    outboxes=(OUTBOX,),
    needs_environment=True,
    extras=("objects", "sql", "cache", "pagw"),
)
