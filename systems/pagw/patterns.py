"""How the gateway's data is asked for while requests run: keys, rows, objects, queues, and the guarantees over them.

`SUBMISSIONS` and `CALLS` are `Once` over the idempotency table, `OUTBOX` and `INBOX` over the schema. What operators ask has
its patterns beside its functions (`monitoring`, `retention`). Every read that serves a client names the tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import (
    AdoptObject,
    ChangeVisibility,
    DeleteReceived,
    Get,
    GetObject,
    Pattern,
    PutObject,
    Queue,
    Rate,
    Receive,
    Received,
    SqlChange,
    SqlOne,
    SqlReturning,
    SqlRows,
    Update,
    pattern,
)
from holdfast.guarantees import Once, OnceStatus, SqlInbox, SqlOutbox
from pagw import model
from pagw.model import (
    ALL_QUEUES,
    HOUR_S,
    IDEMPOTENCY_HOURS,
    AuditRow,
    DeliveryRow,
    IdempotencyRecord,
    PagwId,
    PayerRow,
    Provider,
    SubscriptionRow,
    Tracked,
    audit_events,
    notifications,
    pagw,
)
from pagw.statuses import Stage, Status, predecessors

REQUEST: Final = Rate(per="request")
STAGE: Final = Rate(per="stage of a request")
QUESTION: Final = Rate(per="question")
NOTICE: Final = Rate(per="notice to a client")
OPERATOR: Final = Rate(per="change by an operator")
AUDITED: Final = Rate(per="audit event")

SUBMISSION_LEASE_S: Final = 30.0
CALL_LEASE_S: Final = 60.0

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"


def _record() -> IdempotencyRecord:
    return IdempotencyRecord(
        idempotency_key=f"{_TENANT}:abc123",
        pagw_id=_ID,
        payload_sha256=hashlib.sha256(b"{}").hexdigest(),
    )


SUBMISSIONS: Final = Once(
    IdempotencyRecord,
    "IK",
    rate=REQUEST,
    example=_record,
    lease_s=SUBMISSION_LEASE_S,
    lifetime_s=IDEMPOTENCY_HOURS * HOUR_S,
)
CALLS: Final = Once(
    IdempotencyRecord,
    "PC",
    rate=REQUEST,
    example=_record,
    lease_s=CALL_LEASE_S,
    lifetime_s=IDEMPOTENCY_HOURS * HOUR_S,
)
OUTBOX: Final = SqlOutbox(
    pagw, queues=ALL_QUEUES, prefix="OB", rate=STAGE, batch=25, poll_s=5.0, tries_max=5
)
INBOX: Final = SqlInbox(pagw, "IN", rate=STAGE)

# Told when a request has an answer, for those who wait for it.
ANSWERED: Final = "pagw_answered"


@pattern("K1", "What is known of an idempotency key", rate=QUESTION, example=(f"{_TENANT}:abc123",))
def submission(key: str) -> Get[IdempotencyRecord]:
    return IdempotencyRecord.of(key).get(consistent=True)


# --- requests ----------------------------------------------------------------------------------------------------


def _tracked() -> dict[str, Any]:
    return {
        "pagw_id": _ID,
        "tenant": _TENANT,
        "correlation_id": None,
        "status": Status.VALIDATED,
        "stage": Stage.request_enricher,
        "bucket": "crln-pagw-local-dataz-gbd-phi-useast1",
        "request_key": f"202611/{_ID}/request/original_bundle.json",
        "provider_npi": "1234567893",
        "payer_id": "sandbox-payer",
        "at": _NOW,
        "due_at": _NOW,
    }


@pattern("S1", "Begin to track a request; one that is tracked already stays as it is", rate=REQUEST, example=_tracked)
def create_request(
    *,
    pagw_id: str,
    tenant: str,
    correlation_id: str | None,
    status: Status,
    stage: Stage,
    bucket: str,
    request_key: str,
    provider_npi: str,
    payer_id: str,
    at: datetime,
    due_at: datetime,
    kind: str = "submit",
    replaces: str | None = None,
    urgency: str = "standard",
    metadata: Mapping[str, Any] | None = None,
) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.request_tracker (pagw_id, tenant, correlation_id, status, stage, s3_bucket, s3_request_key,
               provider_npi, payer_id, created_at, updated_at, due_at, kind, replaces, urgency, metadata)
           VALUES (%(pagw_id)s, %(tenant)s, %(correlation_id)s, %(status)s, %(stage)s, %(bucket)s, %(request_key)s,
               %(provider_npi)s, %(payer_id)s, %(at)s, %(at)s, %(due_at)s, %(kind)s, %(replaces)s, %(urgency)s, %(metadata)s)
           ON CONFLICT (pagw_id) DO NOTHING""",
        pagw_id=pagw_id,
        tenant=tenant,
        correlation_id=correlation_id,
        status=status,
        stage=stage,
        bucket=bucket,
        request_key=request_key,
        provider_npi=provider_npi,
        payer_id=payer_id,
        at=at,
        due_at=due_at,
        kind=kind,
        replaces=replaces,
        urgency=urgency,
        metadata=dict(metadata or {}),
    )


@pattern("S2", "A tenant's request by its id", rate=QUESTION, example=(_TENANT, _ID))
def request(tenant: str, pagw_id: str) -> SqlOne[Tracked]:
    return pagw.one(
        Tracked,
        "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern("S3", "The request that a stage is told of", rate=STAGE, example=(_TENANT, _ID))
def request_in_hand(tenant: str, pagw_id: str) -> SqlOne[Tracked]:
    """As `request`, for stages: the tenant is the message's, so that a message cannot reach into another's."""
    return pagw.one(
        Tracked,
        "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern(
    "S4",
    "Bring a request to its next status, if it stands where it must",
    rate=STAGE,
    example=(_ID, Status.VALIDATED, Status.ENRICHED, Stage.attachment_handler, _NOW),
)
def advance(
    pagw_id: str,
    seen: Status,
    then: Status,
    stage: Stage,
    at: datetime,
    *,
    response_key: str | None = None,
    decision: str | None = None,
    decided_at: datetime | None = None,
    completed_at: datetime | None = None,
    error_code: str | None = None,
    error_message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> SqlChange:
    """Compares and sets: somebody who was quicker, or a step that must not follow, makes it `ConditionFailed`."""
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET status = %(then)s, stage = %(stage)s, updated_at = %(at)s,
               s3_response_key = coalesce(%(response_key)s::text, s3_response_key),
               decision = coalesce(%(decision)s::text, decision),
               decided_at = coalesce(decided_at, %(decided_at)s::timestamptz),
               completed_at = coalesce(%(completed_at)s::timestamptz, completed_at),
               error_code = coalesce(%(error_code)s::text, error_code),
               error_message = coalesce(%(error_message)s::text, error_message),
               metadata = metadata || %(metadata)s::jsonb
           WHERE pagw_id = %(pagw_id)s AND status = %(seen)s AND status = ANY(%(from)s::text[])""",
        pagw_id=pagw_id,
        seen=seen,
        then=then,
        stage=stage,
        at=at,
        response_key=response_key,
        decision=decision,
        decided_at=decided_at,
        completed_at=completed_at,
        error_code=error_code,
        error_message=error_message,
        metadata=dict(metadata or {}),
        **{"from": [each.value for each in predecessors(then)]},
    ).expecting(1)


@pattern(
    "S5",
    "Note what was learnt of a request whose status stays",
    rate=STAGE,
    example=(_ID, Status.PENDED, Stage.payer, _NOW),
)
def note(
    pagw_id: str,
    seen: Status,
    stage: Stage,
    at: datetime,
    *,
    response_key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> SqlChange:
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET stage = %(stage)s, updated_at = %(at)s,
               s3_response_key = coalesce(%(response_key)s::text, s3_response_key),
               metadata = metadata || %(metadata)s::jsonb
           WHERE pagw_id = %(pagw_id)s AND status = %(seen)s""",
        pagw_id=pagw_id,
        seen=seen,
        stage=stage,
        at=at,
        response_key=response_key,
        metadata=dict(metadata or {}),
    ).expecting(1)


@pattern("S6", "Count a try of a stage that failed", rate=STAGE, example=(_ID, "PartyFailed", _NOW))
def count_retry(pagw_id: str, error_code: str, at: datetime) -> SqlChange:
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET retry_count = retry_count + 1, error_code = %(error_code)s, updated_at = %(at)s
           WHERE pagw_id = %(pagw_id)s AND completed_at IS NULL""",
        pagw_id=pagw_id,
        error_code=error_code,
        at=at,
    )


@pattern("S7", "Tell those who wait that a request has an answer", rate=REQUEST, example=(_ID,))
def tell_answered(pagw_id: str) -> SqlChange:
    return pagw.change("SELECT pg_notify('pagw_answered', %(pagw_id)s)", pagw_id=pagw_id)


@pattern("S8", "A tenant's requests, newest first", rate=QUESTION, example=(_TENANT,))
def requests_of(
    tenant: str,
    *,
    status: Status | None = None,
    before: datetime | None = None,
    before_id: str | None = None,
    limit: int = 50,
) -> SqlRows[Tracked]:
    return pagw.rows(
        Tracked,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE tenant = %(tenant)s AND (%(status)s::text IS NULL OR status = %(status)s)
             AND (%(before)s::timestamptz IS NULL OR (created_at, pagw_id) < (%(before)s, %(before_id)s::text))
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        tenant=tenant,
        status=status,
        before=before,
        before_id=before_id,
        limit=limit,
    ).on_reader()


@pattern("S9", "A payer's request, by the reference that it was given", rate=REQUEST, example=("sandbox-payer", _ID))
def request_of_payer(payer_id: str, pagw_id: str) -> SqlOne[Tracked]:
    return pagw.one(
        Tracked,
        "SELECT {columns} FROM pagw.request_tracker WHERE payer_id = %(payer_id)s AND pagw_id = %(pagw_id)s",
        payer_id=payer_id,
        pagw_id=pagw_id,
    )


# --- finding by what must not be stored ---------------------------------------------------------------------------


@pattern(
    "S10",
    "Make a request findable by a keyed hash",
    rate=REQUEST,
    example=(_TENANT, "member", "0" * 64, _ID),
)
def make_findable(tenant: str, kind: str, hash: str, pagw_id: str) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.request_lookup (tenant, kind, hash, pagw_id)
           VALUES (%(tenant)s, %(kind)s, %(hash)s, %(pagw_id)s) ON CONFLICT DO NOTHING""",
        tenant=tenant,
        kind=kind,
        hash=hash,
        pagw_id=pagw_id,
    )


@pattern("S11", "A tenant's requests by a keyed hash, newest first", rate=QUESTION, example=(_TENANT, "member", "0" * 64))
def found_by(tenant: str, kind: str, hash: str, *, limit: int = 50) -> SqlRows[Tracked]:
    return pagw.rows(
        Tracked,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE tenant = %(tenant)s AND pagw_id IN (
               SELECT pagw_id FROM pagw.request_lookup
               WHERE tenant = %(tenant)s AND kind = %(kind)s AND hash = %(hash)s)
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        tenant=tenant,
        kind=kind,
        hash=hash,
        limit=limit,
    )


# --- audit -------------------------------------------------------------------------------------------------------


def _audit() -> dict[str, Any]:
    return {
        "event_uuid": "00000000-0000-4000-8000-000000000000",
        "tenant": _TENANT,
        "pagw_id": _ID,
        "event_type": "STATUS",
        "event_subtype": "ENRICHED",
        "actor_type": "service",
        "actor_id": "pasrequestenricher",
        "resource_type": None,
        "resource_id": None,
        "details": {},
        "at": _NOW,
        "service_name": "pasrequestenricher",
        "service_version": "1",
    }


@pattern("S20", "Append to the audit", rate=AUDITED, example=_audit)
def record_audit(
    *,
    event_uuid: str,
    tenant: str | None,
    pagw_id: str | None,
    event_type: str,
    event_subtype: str | None,
    actor_type: str,
    actor_id: str | None,
    resource_type: str | None,
    resource_id: str | None,
    details: Mapping[str, Any],
    at: datetime,
    service_name: str,
    service_version: str,
) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.audit_log (event_uuid, tenant, pagw_id, event_type, event_subtype, actor_type, actor_id,
               resource_type, resource_id, details, timestamp, service_name, service_version)
           VALUES (%(event_uuid)s, %(tenant)s, %(pagw_id)s, %(event_type)s, %(event_subtype)s, %(actor_type)s, %(actor_id)s,
               %(resource_type)s, %(resource_id)s, %(details)s, %(at)s, %(service_name)s, %(service_version)s)
           ON CONFLICT (event_uuid) DO NOTHING""",
        event_uuid=event_uuid,
        tenant=tenant,
        pagw_id=pagw_id,
        event_type=event_type,
        event_subtype=event_subtype,
        actor_type=actor_type,
        actor_id=actor_id,
        resource_type=resource_type,
        resource_id=resource_id,
        details=dict(details),
        at=at,
        service_name=service_name,
        service_version=service_version,
    )


@pattern("S21", "The audit of a request, oldest first", rate=QUESTION, example=(_TENANT, _ID))
def audit_of(tenant: str, pagw_id: str) -> SqlRows[AuditRow]:
    return pagw.rows(
        AuditRow,
        """SELECT {columns} FROM pagw.audit_log
           WHERE pagw_id = %(pagw_id)s AND tenant = %(tenant)s ORDER BY id""",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern("S22", "A tenant's audit of a time", rate=QUESTION, example=(_TENANT, _NOW, _NOW))
def audit_between(
    tenant: str, since: datetime, until: datetime, *, after_id: int = 0, limit: int = 200
) -> SqlRows[AuditRow]:
    return pagw.rows(
        AuditRow,
        """SELECT {columns} FROM pagw.audit_log
           WHERE tenant = %(tenant)s AND timestamp >= %(since)s AND timestamp < %(until)s AND id > %(after_id)s
           ORDER BY id LIMIT %(limit)s""",
        tenant=tenant,
        since=since,
        until=until,
        after_id=after_id,
        limit=limit,
    ).on_reader()


# --- registries --------------------------------------------------------------------------------------------------


@pattern("S30", "A provider by its NPI", rate=REQUEST, example=("1234567893",))
def provider(npi: str) -> SqlOne[Provider]:
    return pagw.one(Provider, "SELECT {columns} FROM pagw.provider_registry WHERE npi = %(npi)s", npi=npi)


@pattern("S31", "A payer by its id", rate=REQUEST, example=("sandbox-payer",))
def payer(payer_id: str) -> SqlOne[PayerRow]:
    return pagw.one(
        PayerRow, "SELECT {columns} FROM pagw.payer_config WHERE payer_id = %(payer_id)s", payer_id=payer_id
    )


@pattern(
    "S32",
    "Register a provider, or change it",
    rate=OPERATOR,
    example=lambda: (Provider(npi="1234567893", name="Clinic", type=None, endpoints={}, credentials_arn=None),),
)
def put_provider(provider: Provider) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.provider_registry (npi, name, type, endpoints, credentials_arn)
           VALUES (%(npi)s, %(name)s, %(type)s, %(endpoints)s, %(credentials_arn)s)
           ON CONFLICT (npi) DO UPDATE SET name = excluded.name, type = excluded.type, endpoints = excluded.endpoints,
               credentials_arn = excluded.credentials_arn""",
        **provider.model_dump(),
    ).repeatable()


def _payer() -> tuple[PayerRow]:
    return (
        PayerRow(
            payer_id="sandbox-payer",
            name="Payer",
            api_endpoint="http://127.0.0.1:9000",
            auth_type="oauth2",
            credentials_arn="pagw/payers/sandbox",
            format="json",
            client_id="pagw",
            callback_secret="pagw/callbacks/sandbox",
        ),
    )


@pattern("S33", "Register a payer, or change it", rate=OPERATOR, example=_payer)
def put_payer(payer: PayerRow) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.payer_config
               (payer_id, name, api_endpoint, auth_type, credentials_arn, format, client_id, callback_secret)
           VALUES (%(payer_id)s, %(name)s, %(api_endpoint)s, %(auth_type)s, %(credentials_arn)s, %(format)s,
               %(client_id)s, %(callback_secret)s)
           ON CONFLICT (payer_id) DO UPDATE SET name = excluded.name, api_endpoint = excluded.api_endpoint,
               auth_type = excluded.auth_type, credentials_arn = excluded.credentials_arn, format = excluded.format,
               client_id = excluded.client_id, callback_secret = excluded.callback_secret""",
        **payer.model_dump(),
    ).repeatable()


# --- subscriptions and deliveries ---------------------------------------------------------------------------------


def _subscription() -> tuple[SubscriptionRow]:
    return (
        SubscriptionRow(
            subscription_id="sub-1",
            tenant=_TENANT,
            status="requested",
            endpoint="https://client.example/hook",
            organization=None,
            content="full-resource",
            secret_name=None,
            created_at=_NOW,
            updated_at=_NOW,
            ends_at=None,
            events=0,
            error=None,
        ),
    )


@pattern("S40", "Subscribe", rate=OPERATOR, example=_subscription)
def create_subscription(subscription: SubscriptionRow) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.subscriptions (subscription_id, tenant, status, endpoint, organization, content, secret_name,
               created_at, updated_at, ends_at, events, error)
           VALUES (%(subscription_id)s, %(tenant)s, %(status)s, %(endpoint)s, %(organization)s, %(content)s, %(secret_name)s,
               %(created_at)s, %(updated_at)s, %(ends_at)s, %(events)s, %(error)s)""",
        **subscription.model_dump(),
    )


@pattern("S41", "A tenant's subscription", rate=QUESTION, example=(_TENANT, "sub-1"))
def subscription(tenant: str, subscription_id: str) -> SqlOne[SubscriptionRow]:
    return pagw.one(
        SubscriptionRow,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE tenant = %(tenant)s AND subscription_id = %(subscription_id)s""",
        tenant=tenant,
        subscription_id=subscription_id,
    )


@pattern("S42", "A tenant's subscriptions", rate=QUESTION, example=(_TENANT,))
def subscriptions_of(tenant: str) -> SqlRows[SubscriptionRow]:
    return pagw.rows(
        SubscriptionRow,
        "SELECT {columns} FROM pagw.subscriptions WHERE tenant = %(tenant)s ORDER BY created_at, subscription_id",
        tenant=tenant,
    )


@pattern(
    "S43",
    "The live subscriptions that a request concerns",
    rate=REQUEST,
    example=(_TENANT, "1234567893", _NOW),
)
def subscribers(tenant: str, organization: str, at: datetime) -> SqlRows[SubscriptionRow]:
    return pagw.rows(
        SubscriptionRow,
        """SELECT {columns} FROM pagw.subscriptions
           WHERE tenant = %(tenant)s AND status = 'active' AND (ends_at IS NULL OR ends_at > %(at)s)
             AND (organization IS NULL OR organization = %(organization)s)
           ORDER BY subscription_id""",
        tenant=tenant,
        organization=organization,
        at=at,
    )


@pattern("S44", "Change what a subscription is", rate=OPERATOR, example=(_TENANT, "sub-1", "active", _NOW))
def set_subscription(
    tenant: str, subscription_id: str, status: str, at: datetime, *, error: str | None = None
) -> SqlChange:
    return pagw.change(
        """UPDATE pagw.subscriptions SET status = %(status)s, updated_at = %(at)s, error = %(error)s
           WHERE tenant = %(tenant)s AND subscription_id = %(subscription_id)s""",
        tenant=tenant,
        subscription_id=subscription_id,
        status=status,
        at=at,
        error=error,
    ).expecting(1)


@pattern("S45", "Number the next event of a subscription", rate=NOTICE, example=("sub-1",))
def count_event(subscription_id: str) -> SqlReturning[SubscriptionRow]:
    return pagw.returning(
        SubscriptionRow,
        """UPDATE pagw.subscriptions SET events = events + 1
           WHERE subscription_id = %(subscription_id)s RETURNING {columns}""",
        subscription_id=subscription_id,
    )


def _delivery() -> dict[str, Any]:
    return {
        "delivery_id": f"{_ID}#sub-1",
        "tenant": _TENANT,
        "pagw_id": _ID,
        "subscription_id": "sub-1",
        "target": "https://client.example/hook",
        "secret_name": None,
        "event_number": 1,
        "at": _NOW,
    }


@pattern("S50", "Decide that a client is told something", rate=NOTICE, example=_delivery)
def create_delivery(
    *,
    delivery_id: str,
    tenant: str,
    pagw_id: str,
    subscription_id: str | None,
    target: str,
    secret_name: str | None,
    event_number: int,
    at: datetime,
) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.deliveries (delivery_id, tenant, pagw_id, subscription_id, target, secret_name, event_number,
               created_at, updated_at)
           VALUES (%(delivery_id)s, %(tenant)s, %(pagw_id)s, %(subscription_id)s, %(target)s, %(secret_name)s,
               %(event_number)s, %(at)s, %(at)s)
           ON CONFLICT (delivery_id) DO NOTHING""",
        delivery_id=delivery_id,
        tenant=tenant,
        pagw_id=pagw_id,
        subscription_id=subscription_id,
        target=target,
        secret_name=secret_name,
        event_number=event_number,
        at=at,
    )


@pattern("S51", "What a client is to be told", rate=NOTICE, example=(_TENANT, f"{_ID}#sub-1"))
def delivery(tenant: str, delivery_id: str) -> SqlOne[DeliveryRow]:
    return pagw.one(
        DeliveryRow,
        """SELECT {columns} FROM pagw.deliveries
           WHERE tenant = %(tenant)s AND delivery_id = %(delivery_id)s""",
        tenant=tenant,
        delivery_id=delivery_id,
    )


@pattern("S52", "What came of telling a client", rate=NOTICE, example=(f"{_ID}#sub-1", "delivered", _NOW))
def note_delivery(
    delivery_id: str,
    status: str,
    at: datetime,
    *,
    delivered_at: datetime | None = None,
    error: str | None = None,
) -> SqlChange:
    """What is delivered stays so, whoever else tried it."""
    return pagw.change(
        """UPDATE pagw.deliveries
           SET status = %(status)s, attempts = attempts + 1, updated_at = %(at)s, last_error = %(error)s,
               delivered_at = coalesce(delivered_at, %(delivered_at)s::timestamptz)
           WHERE delivery_id = %(delivery_id)s AND status = 'waiting'""",
        delivery_id=delivery_id,
        status=status,
        at=at,
        delivered_at=delivered_at,
        error=error,
    )


@pattern("S53", "What clients were told of a request", rate=QUESTION, example=(_TENANT, _ID))
def deliveries_of(tenant: str, pagw_id: str) -> SqlRows[DeliveryRow]:
    return pagw.rows(
        DeliveryRow,
        """SELECT {columns} FROM pagw.deliveries
           WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s ORDER BY created_at, delivery_id""",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern("S54", "Which of these requests are tracked", rate=OPERATOR, example=([_ID],))
def tracked_among(pagw_ids: Sequence[str]) -> SqlRows[PagwId]:
    return pagw.rows(
        PagwId,
        "SELECT {columns} FROM pagw.request_tracker WHERE pagw_id = ANY(%(pagw_ids)s::text[])",
        pagw_ids=list(pagw_ids),
    )


# --- objects -----------------------------------------------------------------------------------------------------

_FOLDER: Final = {"created_at": _NOW, "pagw_id": _ID}


def _kept() -> dict[str, Any]:
    return {"body": b"{}", **_FOLDER}


@pattern("O1", "Keep the bundle as it came; one that is there is adopted", rate=REQUEST, example=_kept)
def keep_bundle(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.original_bundle.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O2", "The bundle as it came", rate=STAGE, example=_FOLDER)
def bundle(created_at: datetime, pagw_id: str) -> GetObject:
    return model.original_bundle.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O3", "Keep what was parsed", rate=REQUEST, example=_kept)
def keep_parsed(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.parsed_claim.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O4", "What was parsed", rate=STAGE, example=_FOLDER)
def parsed(created_at: datetime, pagw_id: str) -> GetObject:
    return model.parsed_claim.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O5", "Keep the enriched request", rate=REQUEST, example=_kept)
def keep_enriched(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.enriched_request.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O6", "The enriched request", rate=STAGE, example=_FOLDER)
def enriched(created_at: datetime, pagw_id: str) -> GetObject:
    return model.enriched_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O7", "Keep what the payer is sent", rate=REQUEST, example=_kept)
def keep_payer_request(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.payer_request.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O8", "What the payer is sent", rate=STAGE, example=_FOLDER)
def payer_request(created_at: datetime, pagw_id: str) -> GetObject:
    return model.payer_request.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O9", "Keep what the payer answered", rate=REQUEST, example=_kept)
def keep_payer_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.payer_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O10", "What the payer answered", rate=STAGE, example=_FOLDER)
def payer_response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.payer_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O11", "Keep the ClaimResponse", rate=REQUEST, example=_kept)
def keep_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.fhir_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O12", "The ClaimResponse", rate=QUESTION, example=_FOLDER)
def response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.fhir_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O13", "Keep the ClaimResponse of a pended request", rate=REQUEST, example=_kept)
def keep_pended_response(body: bytes, created_at: datetime, pagw_id: str) -> AdoptObject:
    return model.pended_response.adopt(body, created_at=created_at, pagw_id=pagw_id)


@pattern("O14", "The ClaimResponse of a pended request", rate=QUESTION, example=_FOLDER)
def pended_response(created_at: datetime, pagw_id: str) -> GetObject:
    return model.pended_response.get(created_at=created_at, pagw_id=pagw_id)


@pattern("O15", "Keep an attachment", rate=REQUEST, example=lambda: {**_kept(), "number": "001.pdf"})
def keep_attachment(body: bytes, created_at: datetime, pagw_id: str, number: str) -> AdoptObject:
    return model.attachment.adopt(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O16", "An attachment", rate=QUESTION, example=lambda: {**_FOLDER, "number": "001.pdf"})
def attachment(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return model.attachment.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O17", "Keep a payer's callback", rate=REQUEST, example=lambda: {**_kept(), "number": "001"})
def keep_callback(body: bytes, created_at: datetime, pagw_id: str, number: str) -> AdoptObject:
    return model.callback.adopt(body, created_at=created_at, pagw_id=pagw_id, number=number)


@pattern("O18", "A payer's callback", rate=STAGE, example=lambda: {**_FOLDER, "number": "001"})
def callback(created_at: datetime, pagw_id: str, number: str) -> GetObject:
    return model.callback.get(created_at=created_at, pagw_id=pagw_id, number=number)


@pattern(
    "O20",
    "Keep an audit event as a file",
    rate=AUDITED,
    example=lambda: {**_kept(), "service": "pasorchestrator", "uuid": "00000000-0000-4000-8000-000000000000"},
)
def keep_audit_event(body: bytes, created_at: datetime, service: str, pagw_id: str, uuid: str) -> PutObject:
    return model.audit_event.put(body, created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)


# --- queues ------------------------------------------------------------------------------------------------------


class QueuePatterns:
    """What works a queue off, for each of several queues alike."""

    def __init__(self, queue: Queue[Any], number: int) -> None:
        @pattern(f"Q{number}R", f"Receive from {queue.name}", rate=STAGE, example=(1, 0.0))
        def receive(count: int, wait_s: float) -> Receive[Any]:
            return queue.receive(count, wait_s=wait_s)

        # The examples of these two are of no message: what is received exists only when it is.
        @pattern(f"Q{number}D", f"Done with a message of {queue.name}", rate=STAGE, example=())
        def delete(*received: Received[Any]) -> DeleteReceived[Any]:
            return queue.delete(*received)

        @pattern(
            f"Q{number}H",
            f"Keep a message of {queue.name}, or give it back",
            rate=STAGE,
            example=(None, 30.0),
        )
        def hold(received: Received[Any] | None, seconds: float) -> ChangeVisibility[Any]:
            return queue.hold(*(() if received is None else (received,)), seconds=seconds)

        self.queue = queue
        self.receive, self.delete, self.hold = receive, delete, hold

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (self.receive, self.delete, self.hold)


STAGE_QUEUES: Final = {
    stage: QueuePatterns(queue, 1 + place) for place, (stage, queue) in enumerate(model.QUEUES.items())
}
NOTIFICATION_QUEUE: Final = QueuePatterns(notifications, 8)
AUDIT_QUEUE: Final = QueuePatterns(audit_events, 9)


# --- the end of a submission --------------------------------------------------------------------------------------


@pattern(
    "K2",
    "Note the final answer beside its idempotency key",
    rate=REQUEST,
    example=(f"{_TENANT}:abc123", _ID, "0" * 64, "202611/x", _NOW),
)
def finish_submission(
    key: str, pagw_id: str, response_hash: str, response_key: str, expires_at: datetime
) -> Update[IdempotencyRecord]:
    """A key that has ended, or that is another request's by now, is left alone: `ConditionFailed`."""
    return (
        IdempotencyRecord.of(key)
        .update()
        .set(IdempotencyRecord.response_hash, response_hash)
        .set(IdempotencyRecord.response_key, response_key)
        .set(IdempotencyRecord.expires_at, expires_at)
        .when(IdempotencyRecord.pagw_id == pagw_id)
        .when(IdempotencyRecord.status == OnceStatus.PROCESSED)
    )
