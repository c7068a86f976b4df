"""SYSTEM of PAGW, the prior-authorisation gateway: its stores, patterns and components.

A request passes the API, the intake (orchestrator, parser, validator), the outbox, seven stages with a queue
each, and the payer. The answer returns by the synchronous wait, by subscriptions or by callbacks. `model`
declares the data in four stores, `domain` holds the rules (FHIR among them), `integrations.payers` calls
payers, and `ops` and `api.commands` serve operators.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from holdfast import Component, Consumer, Handler, Pattern, Stores, System, collect_patterns
from pagw.api import explain
from pagw.api.commands import COMMANDS
from pagw.api.mcp_tools import TOOLS
from pagw.domain.redaction import redact
from pagw.domain.statuses import Stage
from pagw.model import delivery_patterns, files, patterns
from pagw.model.entities import (
    ALL_QUEUES,
    audit_events,
    audit_events_bucket,
    idempotency,
    notifications,
    pagw,
    requests_bucket,
)
from pagw.model.environments import ENVIRONMENTS
from pagw.model.load_profile import LOAD, WHAT_IF
from pagw.model.patterns import (
    AUDIT_QUEUE,
    CALLS,
    INBOX,
    NOTIFICATION_QUEUE,
    OUTBOX,
    STAGE_QUEUES,
    SUBMISSIONS,
)
from pagw.model.rate_limits import TENANT_LIMIT
from pagw.model.registries import PAYERS, PROVIDERS, REGISTRY_READS, REGISTRY_WRITES, TOKENS
from pagw.model.sessions import SESSIONS
from pagw.ops import erasure, legal_holds, monitoring, registry, request_replay, retention
from pagw.settings import RANGES
from pagw.workers import payer_polling, sweeper
from pagw.workers.schedules import SCHEDULES
from pagw.workers.stages.api_connector import open_api_connector
from pagw.workers.stages.attachment_handler import AttachmentHandler
from pagw.workers.stages.audit_archiver import AuditArchiver
from pagw.workers.stages.base_stage import build_handler_factory
from pagw.workers.stages.callback_handler import CallbackHandler
from pagw.workers.stages.converter import Converter
from pagw.workers.stages.enricher import Enricher
from pagw.workers.stages.response_builder import ResponseBuilder
from pagw.workers.stages.subscription_handler import SubscriptionHandler

Patterns = tuple[Pattern[..., Any], ...]

PIPELINE: Final = "pipeline"
# Every stage reads these first and writes these last, in one transaction.
STAGE_READS: Final[Patterns] = (patterns.request_in_hand, INBOX.pattern_set.stored)
STAGE_WRITES: Final[Patterns] = (
    patterns.advance,
    patterns.note,
    patterns.tell_answered,
    delivery_patterns.create_delivery,
    patterns.record_audit,
    INBOX.pattern_set.take,
    *OUTBOX.publisher,
)


def _build_api_routes(stores: Stores) -> Any:
    """Return the API's routes. The import is local because only a server needs the web framework."""
    from pagw.api.routes import build_api_routes

    return build_api_routes(stores)


def _build_callback_routes(stores: Stores) -> Any:
    from pagw.api.routes import build_callback_routes

    return build_callback_routes(stores)


def _configure_app(app: Any) -> None:
    from pagw.api.routes import configure_outcomes

    configure_outcomes(app)


@asynccontextmanager
async def _open_notifier(stores: Stores) -> AsyncIterator[Handler]:
    """Open the notifier. The import is local because the HTTP client comes with the web extra."""
    from pagw.workers.stages.notifier import open_notifier

    async with open_notifier(stores) as handler:
        yield handler


def _deduplicate(*several: Patterns) -> Patterns:
    """Return all patterns without duplicates, in order."""
    return tuple({each.id: each for patterns in several for each in patterns}.values())


def _find_declared_patterns(*modules: Any) -> Patterns:
    """Return the patterns that these modules define, without those that they import."""
    return tuple(
        each
        for module in modules
        for each in collect_patterns(module)
        if each.function.__module__ == module.__name__
    )


def _build_stage(stage: Stage, purpose: str, handler: Any, *, reads: Patterns, writes: Patterns) -> Component:
    """Return a stage as a component under the design document's name, with the patterns it needs and no
    others.
    """
    queue = STAGE_QUEUES[stage]
    return Component(
        stage.service,
        purpose,
        reads=(*STAGE_READS, *reads),
        writes=(*STAGE_WRITES, *queue.patterns, *writes),
        consumers=(
            Consumer(
                queue.queue,
                handler,
                receive=queue.receive,
                delete=queue.delete,
                extend_visibility=queue.extend_visibility,
                concurrency=16,
                retry_delay_s=0.5,
                max_retry_delay_s=300.0,
            ),
        ),
        process=PIPELINE,
    )


STAGES: Final = (
    _build_stage(
        Stage.request_enricher,
        "Adds provider and payer data from the registries",
        build_handler_factory(Enricher),
        reads=(files.bundle, *REGISTRY_READS),
        writes=(files.keep_parsed, files.keep_enriched, *REGISTRY_WRITES),
    ),
    _build_stage(
        Stage.attachment_handler,
        "Extracts attachments from the bundle, detects their types and hashes them",
        build_handler_factory(AttachmentHandler),
        reads=(files.bundle,),
        writes=(files.keep_attachment,),
    ),
    _build_stage(
        Stage.request_converter,
        "Builds the payer's request in the payer's format",
        build_handler_factory(Converter),
        reads=(files.enriched, files.bundle, *REGISTRY_READS),
        writes=(files.keep_payer_request, *REGISTRY_WRITES),
    ),
    _build_stage(
        Stage.api_connector,
        "Submits the request to the payer, once",
        open_api_connector,
        reads=(files.payer_request, *REGISTRY_READS, *TOKENS.reads, *CALLS.reads),
        writes=(
            files.keep_payer_response,
            files.keep_callback,
            patterns.note_callback,
            patterns.count_retry,
            *REGISTRY_WRITES,
            *TOKENS.writes,
            *CALLS.writes,
        ),
    ),
    _build_stage(
        Stage.response_builder,
        "Builds the ClaimResponse from the payer's answer",
        build_handler_factory(ResponseBuilder),
        reads=(files.bundle, files.payer_response, files.callback, *REGISTRY_READS),
        writes=(
            files.keep_response,
            files.keep_pended_response,
            files.renew_pended_response,
            patterns.make_findable,
            *REGISTRY_WRITES,
        ),
    ),
    _build_stage(
        Stage.callback_handler,
        "Processes payers' callbacks and schedules callbacks to clients",
        build_handler_factory(CallbackHandler),
        reads=(files.callback, *REGISTRY_READS),
        writes=(*REGISTRY_WRITES,),
    ),
    _build_stage(
        Stage.subscription_handler,
        "Completes a request: stores the answer with its idempotency key and notifies subscribers",
        build_handler_factory(SubscriptionHandler),
        reads=(delivery_patterns.subscribers,),
        writes=(
            delivery_patterns.count_event,
            delivery_patterns.set_subscription,
            patterns.finish_submission,
        ),
    ),
)

NOTIFIER: Final = Component(
    "pasnotifier",
    "Sends webhooks to clients and retries until the client's server accepts them",
    # A response may be built from any of these (`sync_wait.ResponseReader.read_response`).
    reads=(
        *STAGE_READS,
        delivery_patterns.delivery,
        delivery_patterns.subscription,
        files.bundle,
        files.response,
        files.pended_response,
        files.kept_subscription,
    ),
    writes=(
        delivery_patterns.note_delivery,
        delivery_patterns.set_subscription,
        patterns.record_audit,
        *OUTBOX.publisher,
        *NOTIFICATION_QUEUE.patterns,
    ),
    consumers=(
        Consumer(
            notifications,
            _open_notifier,
            receive=NOTIFICATION_QUEUE.receive,
            delete=NOTIFICATION_QUEUE.delete,
            extend_visibility=NOTIFICATION_QUEUE.extend_visibility,
            concurrency=16,
            retry_delay_s=1.0,
            max_retry_delay_s=300.0,
        ),
    ),
    process=PIPELINE,
)
ARCHIVE: Final = Component(
    "pasauditarchive",
    "Copies audit events to the audit bucket. It cannot read requests",
    writes=(files.keep_audit_event, *AUDIT_QUEUE.patterns),
    consumers=(
        Consumer(
            audit_events,
            build_handler_factory(AuditArchiver),
            receive=AUDIT_QUEUE.receive,
            delete=AUDIT_QUEUE.delete,
            extend_visibility=AUDIT_QUEUE.extend_visibility,
            concurrency=16,
        ),
    ),
    process=PIPELINE,
)
PUBLISHER: Final = Component(
    "outboxpublisher",
    "Sends the messages of the outbox to their queues, in order",
    writes=OUTBOX.relay,
    schedules=(OUTBOX.schedule("publish"),),
    process=PIPELINE,
)

API: Final = Component(
    "api",
    "Serves clients: submissions, inquiries, subscriptions, sessions and request status",
    reads=(
        patterns.submission,
        patterns.request,
        patterns.requests_of,
        patterns.found_by,
        patterns.audit_of,
        delivery_patterns.subscription,
        delivery_patterns.subscriptions_of,
        delivery_patterns.live_subscriptions,
        delivery_patterns.deliveries_of,
        files.bundle,
        files.response,
        files.pended_response,
        files.attachment,
        files.kept_subscription,
        *REGISTRY_READS,
        INBOX.pattern_set.stored,
        *SUBMISSIONS.reads,
        *TENANT_LIMIT.reads,
        *SESSIONS.reads,
    ),
    writes=(
        files.keep_bundle,
        files.keep_subscription,
        patterns.create_request,
        patterns.make_findable,
        patterns.advance,
        patterns.tell_answered,
        patterns.record_audit,
        delivery_patterns.create_delivery,
        delivery_patterns.create_subscription,
        delivery_patterns.set_subscription,
        INBOX.pattern_set.take,
        *OUTBOX.publisher,
        *REGISTRY_WRITES,
        *SUBMISSIONS.writes,
        *TENANT_LIMIT.writes,
        *SESSIONS.writes,
    ),
    # Every client call carries a token of the client's issuer.
    has_own_authentication=True,
    routes=_build_api_routes,
)
PAYER_CALLBACKS: Final = Component(
    "payer-callbacks",
    "Receives payers' callbacks: stores and acknowledges them, and queues them for the callback handler",
    reads=(patterns.request_of_payer, INBOX.pattern_set.stored, *REGISTRY_READS, *TENANT_LIMIT.reads),
    writes=(
        files.keep_callback,
        patterns.note_callback,
        patterns.record_audit,
        INBOX.pattern_set.take,
        *OUTBOX.publisher,
        *REGISTRY_WRITES,
        *TENANT_LIMIT.writes,
    ),
    has_own_authentication=True,
    routes=_build_callback_routes,
    # In the API's process, so that one address (`PAGW_PUBLIC_URL`) serves both.
    process="api",
)
MONITORING_READS: Final[Patterns] = (
    monitoring.requests_by_status,
    monitoring.active_by_status,
    monitoring.outbox_pending,
    monitoring.average_seconds,
    monitoring.seconds_since,
    monitoring.stuck_since,
    monitoring.due_before,
    monitoring.decisions_between,
    monitoring.counted,
    *OUTBOX.reads,
)
AUDIT_WRITES: Final[Patterns] = (patterns.record_audit, *OUTBOX.publisher)
OPERATOR: Final = Component(
    "operator",
    "Serves operators: monitoring, replay, registries, legal holds, sweeping, retention. It reads no bundle",
    reads=_deduplicate(
        MONITORING_READS,
        (monitoring.newest, patterns.audit_between, *CALLS.reads, *INBOX.reads),
        explain.READS_HASHES,
        legal_holds.READS,
        registry.READS,
        request_replay.READS,
        retention.READS,
        sweeper.READS,
    ),
    writes=_deduplicate(
        AUDIT_WRITES,
        (INBOX.pattern_set.take, INBOX.pattern_set.sweep),
        tuple(each for each in OUTBOX.operator if each not in OUTBOX.reads),
        CALLS.writes,
        legal_holds.WRITES,
        registry.WRITES,
        request_replay.WRITES,
        retention.WRITES,
        sweeper.WRITES,
    ),
)
SWEEPER: Final = Component(
    "sweeper",
    "Removes orphaned files and expired requests, and polls payers about pended requests",
    reads=_deduplicate(
        (monitoring.counted, monitoring.due_before, *INBOX.reads),
        payer_polling.READS,
        legal_holds.READS,
        retention.READS,
        sweeper.READS,
    ),
    writes=_deduplicate(
        AUDIT_WRITES,
        (
            INBOX.pattern_set.take,
            INBOX.pattern_set.sweep,
            OUTBOX.pattern_set.sweep,
            legal_holds.hold_file,
            legal_holds.hold_audit_file,
        ),
        payer_polling.WRITES,
        retention.WRITES,
        sweeper.WRITES,
    ),
    schedules=SCHEDULES,
    process=PIPELINE,
)
AGENT: Final = Component(
    "agent",
    "Answers questions about requests from ids, states and times. It is read-only and sees no PHI",
    reads=_deduplicate(MONITORING_READS, explain.READS),
    # Plain figures. The MCP tools serve the rest and leave out text written by clients.
    exposed_tools=(
        monitoring.requests_by_status,
        monitoring.active_by_status,
        monitoring.outbox_pending,
        monitoring.average_seconds,
        monitoring.seconds_since,
        monitoring.decisions_between,
    ),
)

SYSTEM = System(
    name="pagw",
    title="PAGW",
    purpose=(
        "A healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that neither loses nor repeats a "
        "request"
    ),
    tables=(idempotency,),
    schemas=(pagw,),
    queues=ALL_QUEUES,
    buckets=(requests_bucket, audit_events_bucket),
    patterns=(
        *collect_patterns(patterns),
        *collect_patterns(files),
        *collect_patterns(delivery_patterns),
        *_find_declared_patterns(
            monitoring, payer_polling, request_replay, registry, explain, legal_holds, sweeper, retention
        ),
        *(each for queue in STAGE_QUEUES.values() for each in queue.patterns),
        *NOTIFICATION_QUEUE.patterns,
        *AUDIT_QUEUE.patterns,
        *SUBMISSIONS.patterns,
        *CALLS.patterns,
        *OUTBOX.patterns,
        *INBOX.reads,
        INBOX.pattern_set.take,
        INBOX.pattern_set.sweep,
        *PROVIDERS.patterns,
        *PAYERS.patterns,
        *TOKENS.patterns,
        *TENANT_LIMIT.patterns,
        *SESSIONS.patterns,
    ),
    components=(API, PAYER_CALLBACKS, *STAGES, NOTIFIER, ARCHIVE, PUBLISHER, OPERATOR, SWEEPER, AGENT),
    load=LOAD,
    what_if=WHAT_IF,
    commands=COMMANDS,
    why=explain.why,
    tools=TOOLS,
    redact_logs=redact,
    retention={pagw.name: retention.RETENTION_PERIOD},
    subjects={erasure.KIND: erasure.find_request_traces},
    environments={each.name: each.region for each in ENVIRONMENTS.values()},
    configure_app=_configure_app,
    max_body_bytes=RANGES["bundle_bytes_max"][2],
    outboxes=(OUTBOX,),
    needs_environment=True,
    extras=("objects", "sql", "cache", "http", "tokens"),
)
