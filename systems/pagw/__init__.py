"""PAGW: a healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that loses and repeats nothing.

routes → intake (orchestrator, parser, validator) → outbox → pipeline (seven stages, each with its queue) → payers, and back
by waiting, subscriptions and callbacks. `model` and `patterns` say what is kept in four stores; `fhir` what a request and
an answer are; `payers` how payers are asked, for whom `sandbox` stands in; `monitoring` and `commands` are for operators.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from holdfast import Component, Consumer, Handler, Pattern, Stores, System, patterns_in
from holdfast.clock import Clock, RunClock
from pagw import (
    erasing,
    explaining,
    files,
    following_up,
    holds,
    monitoring,
    notices,
    patterns,
    registering,
    replaying,
    retaining,
    sweeping,
)
from pagw.commands import COMMANDS
from pagw.environments import ENVIRONMENTS
from pagw.limits import TENANT_LIMIT
from pagw.loads import LOAD, WHAT_IF
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
from pagw.redacting import redact
from pagw.registries import PAYERS, PROVIDERS, REGISTRY_READS, REGISTRY_WRITES, TOKENS
from pagw.sessions import SESSIONS
from pagw.settings import RANGES
from pagw.statuses import Stage
from pagw.tools import TOOLS
from pagw.watching import SCHEDULES

Patterns = tuple[Pattern[..., Any], ...]

PIPELINE: Final = "pipeline"
# Of every stage: what it reads first and writes last, in one transaction.
STEP_READS: Final[Patterns] = (patterns.request_in_hand, INBOX.use.stored)
STEP_WRITES: Final[Patterns] = (
    patterns.advance,
    patterns.note,
    patterns.tell_answered,
    notices.create_delivery,
    patterns.record_audit,
    INBOX.use.take,
    OUTBOX.append,
)


def _api_routes(stores: Stores) -> Any:
    """Imported when they are wanted: only those who serve need a web framework."""
    from pagw.routes import api_routes

    return api_routes(stores)


def _callback_routes(stores: Stores) -> Any:
    from pagw.routes import callback_routes

    return callback_routes(stores)


def _manners(app: Any) -> None:
    from pagw.routes import outcome_manners

    outcome_manners(app)


async def _sample(
    stores: Stores, *, scale: float = 1, progress: Callable[[str, int, int], None] | None = None
) -> int:
    from pagw.sample import sample

    return await sample(stores, scale=scale, progress=progress)


async def _story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    from pagw.story import story

    await story(stores, console, clock, folder)


def _payer_sandbox(clock: Clock, folder: Path) -> Any:
    from pagw import sandbox

    return sandbox.payer(clock, folder)


def _issuer_sandbox(clock: Clock, folder: Path) -> Any:
    from pagw import sandbox

    return sandbox.issuer(clock, folder)


def _client_sandbox(clock: Clock, folder: Path) -> Any:
    from pagw import sandbox

    return sandbox.client(clock, folder)


def _sandbox_variables(parties: Mapping[str, str], own: str) -> Mapping[str, str]:
    from pagw import sandbox

    return sandbox.variables(parties, own)


async def _know_the_sandbox(stores: Stores) -> None:
    """Where somebody says where the sandbox's payer is, it is one that requests can name."""
    if url := os.environ.get("PAGW_PAYER_URL"):
        from pagw import sandbox

        await sandbox.register(stores, url)


@asynccontextmanager
async def _notifying(stores: Stores) -> AsyncIterator[Handler]:
    """Imported when it is wanted: what it calls clients with is the web's."""
    from pagw.pipeline.notifying import notifying

    async with notifying(stores) as handler:
        yield handler


def _once(*several: Patterns) -> Patterns:
    """All of them, each once: what two parts of a component need is declared once."""
    return tuple({each.id: each for patterns in several for each in patterns}.values())


def _declared(*modules: Any) -> Patterns:
    """The patterns that stand in these modules, without those that they import."""
    return tuple(
        each
        for module in modules
        for each in patterns_in(module)
        if each.function.__module__ == module.__name__
    )


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
        reads=(files.bundle, *REGISTRY_READS),
        writes=(files.keep_parsed, files.keep_enriched, *REGISTRY_WRITES),
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
            files.keep_callback,
            patterns.note_callback,
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
            files.renew_pended_response,
            patterns.make_findable,
            *REGISTRY_WRITES,
        ),
    ),
    _stage(
        Stage.callback_handler,
        "Takes up what a payer called back with, and tells the client that asked to be called back",
        handling(CallbackHandler),
        reads=(files.callback, *REGISTRY_READS),
        writes=(*REGISTRY_WRITES,),
    ),
    _stage(
        Stage.subscription_handler,
        "Ends a request: its key gets the answer, subscribers are told",
        handling(SubscriptionHandler),
        reads=(notices.subscribers,),
        writes=(notices.count_event, notices.set_subscription, patterns.finish_submission),
    ),
)

NOTIFIER: Final = Component(
    "pasnotifier",
    "Tells clients, each until its server takes it",
    # All that an answer may be made of (`waiting.Answers.bundle`).
    reads=(
        *STEP_READS,
        notices.delivery,
        notices.subscription,
        files.bundle,
        files.response,
        files.pended_response,
        files.kept_subscription,
    ),
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

API: Final = Component(
    "api",
    "What clients ask: submissions, inquiries, subscriptions, sessions, and where requests stand",
    reads=(
        patterns.submission,
        patterns.request,
        patterns.requests_of,
        patterns.found_by,
        patterns.audit_of,
        notices.subscription,
        notices.subscriptions_of,
        notices.live_subscriptions,
        notices.deliveries_of,
        files.bundle,
        files.response,
        files.pended_response,
        files.attachment,
        files.kept_subscription,
        *REGISTRY_READS,
        INBOX.use.stored,
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
        notices.create_delivery,
        notices.create_subscription,
        notices.set_subscription,
        INBOX.use.take,
        OUTBOX.append,
        *REGISTRY_WRITES,
        *SUBMISSIONS.writes,
        *TENANT_LIMIT.writes,
        *SESSIONS.writes,
    ),
    # Every call of a client has a token of its issuer.
    is_signed=True,
    routes=_api_routes,
)
PAYER_CALLBACKS: Final = Component(
    "payer-callbacks",
    "Where payers call back: kept, acknowledged, and given to the callback handler",
    reads=(patterns.request_of_payer, INBOX.use.stored, *REGISTRY_READS, *TENANT_LIMIT.reads),
    writes=(
        files.keep_callback,
        patterns.note_callback,
        patterns.record_audit,
        INBOX.use.take,
        OUTBOX.append,
        *REGISTRY_WRITES,
        *TENANT_LIMIT.writes,
    ),
    is_signed=True,
    routes=_callback_routes,
    # Where the API is, so that one address (`PAGW_PUBLIC_URL`) has both.
    process="api",
)
WATCH_READS: Final[Patterns] = (
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
AUDITING: Final[Patterns] = (patterns.record_audit, OUTBOX.append)
OPERATOR: Final = Component(
    "operator",
    "What people do who run it: looking, replaying, registries, holds, sweeping, retention. It reads no bundle",
    reads=_once(
        WATCH_READS,
        (monitoring.newest, patterns.audit_between, *CALLS.reads, *INBOX.reads),
        explaining.READS_HASHES,
        holds.READS,
        registering.READS,
        replaying.READS,
        retaining.READS,
        sweeping.READS,
    ),
    writes=_once(
        AUDITING,
        (INBOX.use.take, INBOX.use.sweep),
        OUTBOX.tending,
        CALLS.writes,
        holds.WRITES,
        registering.WRITES,
        replaying.WRITES,
        retaining.WRITES,
        sweeping.WRITES,
    ),
)
SWEEPER: Final = Component(
    "sweeper",
    "Removes what nobody points at and what has outlived its retention, and looks after pended requests",
    reads=_once(
        (monitoring.counted, monitoring.due_before, *INBOX.reads),
        following_up.READS,
        holds.READS,
        retaining.READS,
        sweeping.READS,
    ),
    writes=_once(
        AUDITING,
        (INBOX.use.take, INBOX.use.sweep, OUTBOX.use.sweep, holds.hold_file, holds.hold_audit_file),
        following_up.WRITES,
        retaining.WRITES,
        sweeping.WRITES,
    ),
    schedules=SCHEDULES,
    process=PIPELINE,
)
AGENT: Final = Component(
    "agent",
    "Answers questions about requests by their pointers. It reads and never writes, and sees no PHI",
    reads=_once(WATCH_READS, explaining.READS),
    # What takes no words to understand; the tools say the rest, and leave out what clients have written.
    offers=(
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
    purpose="A healthcare prior-authorisation gateway (FHIR, Da Vinci PAS) that loses and repeats nothing",
    tables=(idempotency,),
    schemas=(pagw,),
    queues=ALL_QUEUES,
    buckets=(requests_bucket, audit_events_bucket),
    patterns=(
        *patterns_in(patterns),
        *patterns_in(files),
        *patterns_in(notices),
        *_declared(monitoring, following_up, replaying, registering, explaining, holds, sweeping, retaining),
        *(each for queue in STAGE_QUEUES.values() for each in queue.patterns),
        *NOTIFICATION_QUEUE.patterns,
        *AUDIT_QUEUE.patterns,
        *SUBMISSIONS.patterns,
        *CALLS.patterns,
        *OUTBOX.patterns,
        *INBOX.reads,
        INBOX.use.take,
        INBOX.use.sweep,
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
    why=explaining.why,
    tools=TOOLS,
    redact_logs=redact,
    retention={pagw.name: retaining.PERIOD},
    subjects={erasing.KIND: erasing.of_request},
    environments={each.name: each.region for each in ENVIRONMENTS.values()},
    manners=_manners,
    body_bytes_max=RANGES["bundle_bytes_max"][2],
    outboxes=(OUTBOX,),
    sample=_sample,
    story=_story,
    sandboxes={"payer": _payer_sandbox, "issuer": _issuer_sandbox, "client": _client_sandbox},
    sandbox_variables=_sandbox_variables,
    at_start=_know_the_sandbox,
    needs_environment=True,
    extras=("objects", "sql", "cache", "pagw"),
)
