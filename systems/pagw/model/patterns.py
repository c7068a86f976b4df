"""Access patterns of request processing: keys, rows and queues, and the guarantees over them.

`SUBMISSIONS` and `CALLS` are `Once` over the idempotency table, `OUTBOX` and `INBOX` use the SQL schema.
Operators' patterns are next to their functions (`monitoring`, `retention`). Every read for a client names the
tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Get, Rate, Update, pattern
from holdfast.guarantees import Once, SqlInbox, SqlOutbox
from holdfast.model.sql import SqlChange, SqlOne, SqlRows
from pagw.domain.statuses import TERMINAL, Stage, Status, get_predecessors
from pagw.model.entities import (
    ALL_QUEUES,
    HOUR_S,
    IDEMPOTENCY_HOURS,
    AuditEntry,
    AuditRow,
    IdempotencyRecord,
    NewRequest,
    PagwId,
    PayerRow,
    PlainKeyAge,
    Provider,
    RequestRow,
    RequestUpdate,
    pagw,
)
from pagw.settings import PagwSettings

PER_REQUEST: Final = Rate(per="request")
PER_STAGE: Final = Rate(per="stage of a request")
PER_QUESTION: Final = Rate(per="question")
PER_NOTICE: Final = Rate(per="notice to a client")
PER_OPERATOR_CHANGE: Final = Rate(per="change by an operator")
PER_START: Final = Rate(per="start of a process")
PER_AUDIT_EVENT: Final = Rate(per="audit event")

# A call renews its claim three times in this time. A copy of it waits for this long at most: nothing shows
# whether the call still runs or its process has crashed.
SUBMISSION_LEASE_S: Final = 10.0
CALL_LEASE_S: Final = 60.0

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"


def _build_record_example() -> IdempotencyRecord:
    """Build an example idempotency record."""
    return IdempotencyRecord(
        idempotency_key=f"{_TENANT}:abc123",
        pagw_id=_ID,
        payload_sha256=hashlib.sha256(b"{}").hexdigest(),
    )


SUBMISSIONS: Final = Once(
    IdempotencyRecord,
    prefix="IK",
    rate=PER_REQUEST,
    example=_build_record_example,
    lease_s=SUBMISSION_LEASE_S,
    retention_s=IDEMPOTENCY_HOURS * HOUR_S,
)
CALLS: Final = Once(
    IdempotencyRecord,
    prefix="PC",
    rate=PER_REQUEST,
    example=_build_record_example,
    lease_s=CALL_LEASE_S,
    retention_s=IDEMPOTENCY_HOURS * HOUR_S,
)


def build_outbox(settings: PagwSettings) -> SqlOutbox:
    """Build the outbox with the document's numbers, or with those of the settings."""
    poll_s = settings.outbox_poll_interval_ms / 1000
    return SqlOutbox(
        pagw,
        queues=ALL_QUEUES,
        prefix="OB",
        rate=PER_STAGE,
        batch_size=settings.outbox_batch_size,
        poll_s=poll_s,
        max_attempts=settings.outbox_max_retries,
        # The document tries a failed message again at the next poll.
        retry_delay_s=poll_s,
    )


OUTBOX: Final = build_outbox(PagwSettings.load())
INBOX: Final = SqlInbox(pagw, prefix="IN", rate=PER_STAGE)

NO_UPDATE: Final = RequestUpdate()

# The lookup of requests by a payer, which knows no tenants.
PAYERS_TENANT: Final = ".payers"
PAYER_CLAIM: Final = "payer-claim"

# The NOTIFY channel on which a stage announces that a request has an answer.
ANSWERED_CHANNEL: Final = "pagw_answered"


@pattern("K1", "The record of an idempotency key", rate=PER_QUESTION, example=(f"{_TENANT}:abc123",))
def submission(key: str) -> Get[IdempotencyRecord]:
    """Read the record of an idempotency key, `tenant:key`."""
    return IdempotencyRecord.of(key).get().consistent()


# --- requests -----------------------------------------------------------------------------------------------


def _build_request_example() -> tuple[NewRequest]:
    """Build the example arguments of `create_request`."""
    return (
        NewRequest(
            pagw_id=_ID,
            tenant=_TENANT,
            s3_bucket="crln-pagw-local-dataz-gbd-phi-useast1",
            s3_request_key=f"202611/{_ID}/request/original_bundle.json",
            provider_npi="1234567893",
            payer_id="sandbox-payer",
            created_at=_NOW,
            due_at=_NOW,
        ),
    )


@pattern(
    "S1",
    "Insert a request, unless it exists",
    rate=PER_REQUEST,
    example=_build_request_example,
)
def create_request(new: NewRequest) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.request_tracker (pagw_id, tenant, correlation_id, status, stage, s3_bucket,
               s3_request_key,
               provider_npi, payer_id, created_at, updated_at, due_at, kind, replaces, urgency, metadata)
           VALUES (%(pagw_id)s, %(tenant)s, %(correlation_id)s, %(status)s, %(stage)s, %(s3_bucket)s,
               %(s3_request_key)s,
               %(provider_npi)s, %(payer_id)s, %(created_at)s, %(created_at)s, %(due_at)s, %(kind)s,
                   %(replaces)s,
               %(urgency)s, %(metadata)s)
           ON CONFLICT (pagw_id) DO NOTHING""",
        **new.model_dump(),
    )


@pattern("S2", "A tenant's request by its id", rate=PER_QUESTION, example=(_TENANT, _ID))
def request(tenant: str, pagw_id: str) -> SqlOne[RequestRow]:
    return pagw.one(
        RequestRow,
        "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern("S3", "The request in a stage's message", rate=PER_STAGE, example=(_TENANT, _ID))
def request_in_hand(tenant: str, pagw_id: str) -> SqlOne[RequestRow]:
    """Like `request`, for stages. The tenant comes from the message, so that a message cannot reach another
    tenant's request.
    """
    return pagw.one(
        RequestRow,
        "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern(
    "S4",
    "Move a request to its next status, if that may follow its current one",
    rate=PER_STAGE,
    example=(_ID, Status.VALIDATED, Status.ENRICHED, Stage.attachment_handler, _NOW),
)
def advance(
    pagw_id: str,
    seen: Status,
    then: Status,
    stage: Stage,
    at: datetime,
    learnt: RequestUpdate = NO_UPDATE,
) -> SqlChange:
    """Move the request from the status `seen` to `then`, and record what the stage learnt.

    Compare and set. Raise `ConditionFailed` if another process was faster or the transition is not allowed.
    """
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET status = %(then)s::text, stage = %(stage)s, updated_at = %(at)s,
               s3_response_key = coalesce(%(response_key)s::text, s3_response_key),
               decision = coalesce(%(decision)s::text, decision),
               decided_at = coalesce(decided_at, %(decided_at)s::timestamptz),
               due_at = least(due_at, %(due_at)s::timestamptz),
               inquire_at = coalesce(%(inquire_at)s::timestamptz, inquire_at),
               completed_at = CASE WHEN %(then)s::text = ANY(%(ends)s::text[])
                   THEN coalesce(%(completed_at)s::timestamptz, completed_at) END,
               error_code = %(error_code)s::text, error_message = %(error_message)s::text,
               metadata = metadata || %(metadata)s::jsonb
           WHERE pagw_id = %(pagw_id)s AND status = %(seen)s AND status = ANY(%(from)s::text[])""",
        pagw_id=pagw_id,
        seen=seen,
        then=then,
        stage=stage,
        at=at,
        **learnt.model_dump(),
        ends=tuple(each.value for each in TERMINAL),
        **{"from": tuple(each.value for each in get_predecessors(then))},
    ).expect_rows(1)


@pattern(
    "S5",
    "Update a request without a change of status",
    rate=PER_STAGE,
    example=(_ID, Status.VALIDATED, Stage.request_enricher, _NOW),
)
def note(
    pagw_id: str,
    seen: Status,
    stage: Stage,
    at: datetime,
    learnt: RequestUpdate = NO_UPDATE,
) -> SqlChange:
    """Record what a stage learnt while the request keeps the status `seen`. Raise `ConditionFailed` if it
    changed.
    """
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET stage = %(stage)s, updated_at = %(at)s,
               s3_response_key = coalesce(%(response_key)s::text, s3_response_key),
               inquire_at = coalesce(%(inquire_at)s::timestamptz, inquire_at),
               metadata = metadata || %(metadata)s::jsonb
           WHERE pagw_id = %(pagw_id)s AND status = %(seen)s""",
        pagw_id=pagw_id,
        seen=seen,
        stage=stage,
        at=at,
        response_key=learnt.response_key,
        inquire_at=learnt.inquire_at,
        metadata=learnt.metadata,
    ).expect_rows(1)


@pattern("S6", "Count a stage's failed attempt", rate=PER_STAGE, example=(_ID, "PartyFailed", _NOW))
def count_retry(pagw_id: str, error_code: str, at: datetime) -> SqlChange:
    """Count a failed attempt of a request that has not ended, with its error code."""
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET retry_count = retry_count + 1, error_code = %(error_code)s, updated_at = %(at)s
           WHERE pagw_id = %(pagw_id)s AND completed_at IS NULL""",
        pagw_id=pagw_id,
        error_code=error_code,
        at=at,
    )


@pattern(
    "S12",
    "Record a payer's callback",
    rate=PER_REQUEST,
    example=(_ID, "001", {"at": "2026-11-02T09:00:00+00:00", "sha256": "0" * 64}, _NOW),
)
def note_callback(pagw_id: str, number: str, called: dict[str, Any], at: datetime) -> SqlChange:
    """Add the callback under its number, so that a stage that sets PENDED later sees it."""
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET updated_at = %(at)s, metadata = metadata || jsonb_build_object(
               'callbacks', coalesce(metadata -> 'callbacks', '{}'::jsonb) || %(called)s::jsonb)
           WHERE pagw_id = %(pagw_id)s""",
        pagw_id=pagw_id,
        called={number: called},
        at=at,
    ).expect_rows(1)


@pattern("S7", "Notify waiting calls that a request has an answer", rate=PER_REQUEST, example=(_ID,))
def tell_answered(pagw_id: str) -> SqlChange:
    """Notify the calls that wait for this request, when the transaction commits."""
    return pagw.change("SELECT pg_notify('pagw_answered', %(pagw_id)s)", pagw_id=pagw_id)


@pattern("S8", "A tenant's requests, newest first", rate=PER_QUESTION, example=(_TENANT,))
def requests_of(
    tenant: str,
    *,
    status: Status | None = None,
    before: datetime | None = None,
    before_id: str | None = None,
    limit: int = 50,
) -> SqlRows[RequestRow]:
    """Select a page of the tenant's requests, those before (`before`, `before_id`)."""
    return pagw.rows(
        RequestRow,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE tenant = %(tenant)s AND (%(status)s::text IS NULL OR status = %(status)s)
             AND (%(before)s::timestamptz IS NULL OR (created_at, pagw_id) < (%(before)s,
                 %(before_id)s::text))
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        tenant=tenant,
        status=status,
        before=before,
        before_id=before_id,
        limit=limit,
    ).on_reader()


@pattern(
    "S9",
    "A payer's request, by the reference sent to the payer",
    rate=PER_REQUEST,
    example=("sandbox-payer", _ID),
)
def request_of_payer(payer_id: str, pagw_id: str) -> SqlOne[RequestRow]:
    """Select a request by its id if it was sent to this payer."""
    return pagw.one(
        RequestRow,
        "SELECT {columns} FROM pagw.request_tracker WHERE payer_id = %(payer_id)s AND pagw_id = %(pagw_id)s",
        payer_id=payer_id,
        pagw_id=pagw_id,
    )


@pattern("S15", "The newest request whose idempotency key is stored as text", rate=PER_START, example=(_NOW,))
def newest_plain_key(since: datetime) -> SqlOne[PlainKeyAge]:
    """Select when the newest request since a time was created whose row holds the client's own key, as
    version 0.2 stored it.
    """
    return pagw.one(
        PlainKeyAge,
        """SELECT max(created_at) AS newest FROM pagw.request_tracker
           WHERE created_at >= %(since)s AND metadata ->> 'idempotencyKey' NOT LIKE '%%:hmac-%%'""",
        since=since,
    )


# --- lookup by values that must not be stored ---------------------------------------------------------------


@pattern(
    "S10",
    "Make a request findable by a keyed hash",
    rate=PER_REQUEST,
    example=(_TENANT, {"member": "0" * 64}, _ID),
)
def make_findable(tenant: str, hashes: Mapping[str, str], pagw_id: str) -> SqlChange:
    """Add hashes by which the request can be found, by their kind: member, claim or authorization."""
    return pagw.change(
        """INSERT INTO pagw.request_lookup (tenant, kind, hash, pagw_id)
           SELECT %(tenant)s, named.kind, named.hash, %(pagw_id)s
           FROM unnest(%(kinds)s::text[], %(hashes)s::text[]) AS named (kind, hash)
           ON CONFLICT DO NOTHING""",
        tenant=tenant,
        kinds=tuple(hashes),
        hashes=tuple(hashes.values()),
        pagw_id=pagw_id,
    )


@pattern(
    "S11",
    "A tenant's requests by a keyed hash, newest first",
    rate=PER_QUESTION,
    example=(_TENANT, "member", "0" * 64),
)
def found_by(tenant: str, kind: str, hash: str, *, limit: int = 50) -> SqlRows[RequestRow]:
    """Select the tenant's requests with this hash. `kind` is member, claim or authorization."""
    return pagw.rows(
        RequestRow,
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


@pattern(
    "S13",
    "A payer's requests by the keyed hash of a claim identifier, newest first",
    rate=PER_REQUEST,
    example=("sandbox-payer", "0" * 64),
)
def found_by_payer(payer_id: str, hash: str, *, limit: int = 20) -> SqlRows[RequestRow]:
    """Select the requests that were sent to this payer under a claim identifier with this hash."""
    return pagw.rows(
        RequestRow,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE payer_id = %(payer_id)s AND pagw_id IN (
               SELECT pagw_id FROM pagw.request_lookup
               WHERE tenant = %(tenant)s AND kind = %(kind)s AND hash = %(hash)s)
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        payer_id=payer_id,
        tenant=PAYERS_TENANT,
        kind=PAYER_CLAIM,
        hash=hash,
        limit=limit,
    )


@pattern("S14", "The current request in the place of one", rate=PER_QUESTION, example=(_TENANT, _ID))
def current_request(tenant: str, pagw_id: str) -> SqlOne[RequestRow]:
    """Select the last update of a request, over any number of updates; the request itself without one.

    An update that failed, or that was cancelled before the payer had it, has replaced nothing.
    """
    return pagw.one(
        RequestRow,
        """WITH RECURSIVE chain (pagw_id, depth) AS (
               SELECT pagw_id, 0 FROM pagw.request_tracker
               WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s
             UNION ALL
               SELECT later.pagw_id, chain.depth + 1 FROM pagw.request_tracker AS later
               JOIN chain ON later.replaces = chain.pagw_id
               WHERE later.tenant = %(tenant)s AND later.kind = 'update' AND later.status <> 'FAILED'
                 AND (later.status <> 'CANCELLED' OR later.metadata ? 'cancelledBy') AND depth < 100)
           SELECT {columns} FROM pagw.request_tracker
           WHERE pagw_id = (
               SELECT chain.pagw_id FROM chain JOIN pagw.request_tracker AS found USING (pagw_id)
               ORDER BY depth DESC, found.created_at DESC, chain.pagw_id DESC LIMIT 1)""",
        tenant=tenant,
        pagw_id=pagw_id,
    )


# --- audit --------------------------------------------------------------------------------------------------


def _build_audit_example() -> tuple[AuditEntry]:
    """Build the example arguments of `record_audit`."""
    return (
        AuditEntry(
            event_uuid="00000000-0000-4000-8000-000000000000",
            tenant=_TENANT,
            pagw_id=_ID,
            event_type="STATUS",
            event_subtype="ENRICHED",
            actor_type="service",
            actor_id="pasrequestenricher",
            timestamp=_NOW,
            service_name="pasrequestenricher",
            service_version="1",
        ),
    )


@pattern("S20", "Append to the audit log", rate=PER_AUDIT_EVENT, example=_build_audit_example)
def record_audit(entry: AuditEntry) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.audit_log (event_uuid, tenant, pagw_id, event_type, event_subtype, actor_type,
               actor_id,
               resource_type, resource_id, details, timestamp, service_name, service_version)
           VALUES (%(event_uuid)s, %(tenant)s, %(pagw_id)s, %(event_type)s, %(event_subtype)s,
               %(actor_type)s, %(actor_id)s,
               %(resource_type)s, %(resource_id)s, %(details)s, %(timestamp)s, %(service_name)s,
                   %(service_version)s)
           ON CONFLICT (event_uuid) DO NOTHING""",
        **entry.model_dump(),
    )


@pattern("S21", "Audit events of a request, oldest first", rate=PER_QUESTION, example=(_TENANT, _ID))
def audit_of(tenant: str, pagw_id: str, *, after_id: int = 0, limit: int | None = None) -> SqlRows[AuditRow]:
    """Return all events, or a page of them."""
    return pagw.rows(
        AuditRow,
        """SELECT {columns} FROM pagw.audit_log
           WHERE pagw_id = %(pagw_id)s AND tenant = %(tenant)s AND id > %(after_id)s
           ORDER BY id LIMIT %(limit)s""",
        tenant=tenant,
        pagw_id=pagw_id,
        after_id=after_id,
        limit=limit,
    )


@pattern("S22", "A tenant's audit events in a period", rate=PER_QUESTION, example=(_TENANT, _NOW, _NOW))
def audit_between(
    tenant: str, since: datetime, until: datetime, *, after_id: int = 0, limit: int = 200
) -> SqlRows[AuditRow]:
    return pagw.rows(
        AuditRow,
        """SELECT {columns} FROM pagw.audit_log
           WHERE tenant = %(tenant)s AND timestamp >= %(since)s AND timestamp < %(until)s
               AND id > %(after_id)s
           ORDER BY id LIMIT %(limit)s""",
        tenant=tenant,
        since=since,
        until=until,
        after_id=after_id,
        limit=limit,
    ).on_reader()


# --- registries ---------------------------------------------------------------------------------------------


@pattern("S30", "A provider by its NPI", rate=PER_REQUEST, example=("1234567893",))
def provider(npi: str) -> SqlOne[Provider]:
    return pagw.one(Provider, "SELECT {columns} FROM pagw.provider_registry WHERE npi = %(npi)s", npi=npi)


@pattern("S31", "A payer by its id", rate=PER_REQUEST, example=("sandbox-payer",))
def payer(payer_id: str) -> SqlOne[PayerRow]:
    return pagw.one(
        PayerRow, "SELECT {columns} FROM pagw.payer_config WHERE payer_id = %(payer_id)s", payer_id=payer_id
    )


@pattern(
    "S32",
    "Register or update a provider",
    rate=PER_OPERATOR_CHANGE,
    example=lambda: (
        Provider(npi="1234567893", name="Clinic", type=None, endpoints={}, credentials_arn=None),
    ),
)
def put_provider(provider: Provider) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.provider_registry (npi, name, type, endpoints, credentials_arn)
           VALUES (%(npi)s, %(name)s, %(type)s, %(endpoints)s, %(credentials_arn)s)
           ON CONFLICT (npi) DO UPDATE SET name = excluded.name, type = excluded.type,
               endpoints = excluded.endpoints,
               credentials_arn = excluded.credentials_arn""",
        **provider.model_dump(),
    ).idempotent()


def _build_payer_example() -> tuple[PayerRow]:
    """Build the example arguments of `put_payer`."""
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


@pattern("S33", "Register or update a payer", rate=PER_OPERATOR_CHANGE, example=_build_payer_example)
def put_payer(payer: PayerRow) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.payer_config
               (payer_id, name, api_endpoint, auth_type, credentials_arn, format, client_id, callback_secret,
                token_url, scope, answer_s, options)
           VALUES (%(payer_id)s, %(name)s, %(api_endpoint)s, %(auth_type)s, %(credentials_arn)s, %(format)s,
               %(client_id)s, %(callback_secret)s, %(token_url)s, %(scope)s, %(answer_s)s,
               %(options)s)
           ON CONFLICT (payer_id) DO UPDATE SET name = excluded.name, api_endpoint = excluded.api_endpoint,
               auth_type = excluded.auth_type, credentials_arn = excluded.credentials_arn,
                   format = excluded.format,
               client_id = excluded.client_id, callback_secret = excluded.callback_secret,
               token_url = excluded.token_url, scope = excluded.scope, answer_s = excluded.answer_s,
               options = excluded.options""",
        **payer.model_dump(),
    ).idempotent()


@pattern("S54", "The requests among these ids that exist", rate=PER_OPERATOR_CHANGE, example=([_ID],))
def tracked_among(pagw_ids: Sequence[str]) -> SqlRows[PagwId]:
    """Select those of the ids that have a row."""
    return pagw.rows(
        PagwId,
        "SELECT {columns} FROM pagw.request_tracker WHERE pagw_id = ANY(%(pagw_ids)s::text[])",
        pagw_ids=tuple(pagw_ids),
    )


# --- completion of a submission -----------------------------------------------------------------------------


@pattern(
    "K2",
    "Store the final answer with its idempotency key",
    rate=PER_REQUEST,
    example=(f"{_TENANT}:abc123", _ID, "0" * 64, "202611/x", _NOW),
)
def finish_submission(
    key: str, pagw_id: str, response_hash: str, response_key: str, expires_at: datetime
) -> Update[IdempotencyRecord]:
    """Leave a key alone that has expired or belongs to another request by now: raise `ConditionFailed`."""
    return (
        IdempotencyRecord.of(key)
        .update()
        .set(IdempotencyRecord.response_hash, response_hash)
        .set(IdempotencyRecord.response_key, response_key)
        .set(IdempotencyRecord.expires_at, expires_at)
        .when(IdempotencyRecord.pagw_id == pagw_id)
    )
