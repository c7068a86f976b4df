"""The gateway's data: tables, SQL rows, queue messages, queues, buckets and cache entries.

Idempotency keys are in tables, requests in SQL, bundles and files in objects, tokens and rate windows in the
cache. Names and keys are the design document's. No row, message or cache entry holds PHI: they point at
objects. Requests are looked up by keyed hashes of member id, claim identifier or authorization number
(`request_lookup`). The access patterns are in `patterns`, `files` and `notices`; `migrations/` creates the
SQL tables.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast import Attr, Bucket, Key, Queue, Rate, Schema, Table, attr
from holdfast.guarantees import OnceRecord
from holdfast.model.cache import CachedValue, WindowCounter
from holdfast.model.sql import SqlRow
from pagw.domain.statuses import PIPELINE, Stage, Status, Step
from pagw.integrations.payers.oauth import AccessToken
from pagw.model.environments import get_audit_bucket_name, get_request_bucket_name
from pagw.settings import PagwSettings

HOUR_S: Final = 3600
# The document's maximum; its minimum is 24 hours.
IDEMPOTENCY_HOURS: Final = 48
# Policy beyond the rule: HIPAA requires documentation for six years (45 CFR 164.316(b)(2)(i)).
RETENTION_YEARS: Final = PagwSettings.load().retention_years
RETENTION_DAYS: Final = RETENTION_YEARS * 365 + RETENTION_YEARS // 4 + 1
# Retention removes files with their rows, counted from the end of a request. The bucket's lifecycle counts
# from the upload and runs a year later, so that no row points at a removed file.
LIFECYCLE_DAYS: Final = RETENTION_DAYS + 366

FHIR_JSON: Final = "application/fhir+json"
JSON: Final = "application/json"


# --- tables -------------------------------------------------------------------------------------------------

idempotency = Table(
    "pagw-idempotency",
    "idempotencyKey",
    ttl="expiresAt",
    purpose="Requests and payer calls that are running or done, so that none is repeated",
)


class IdempotencyRecord(OnceRecord, table=idempotency):
    """A client's key (`tenant:` and its keyed hash) or a call to a payer (`tenant:pagwId#effect`).

    `response_key` names the object with the answer, so that a repeated call gets the answer and not only its
    hash.
    """

    idempotency_key: Attr[str] = attr()
    pagw_id: Attr[str] = attr()
    response_hash: Attr[str | None] = attr(default=None)
    status_code: Attr[int | None] = attr(default=None)
    response_key: Attr[str | None] = attr(default=None)
    of = Key(idempotency_key)

    def describe(self) -> str:
        return "The request under this idempotency key"


# --- rows ---------------------------------------------------------------------------------------------------

pagw = Schema("pagw", migrations="pagw.migrations", purpose="Request tracking, outbox and audit log")


class RequestRow(SqlRow):
    """A row of `pagw.request_tracker`. The last six columns are not in the design document."""

    pagw_id: str
    tenant: str
    correlation_id: str | None
    status: Status
    stage: Stage | None
    s3_bucket: str | None
    s3_request_key: str | None
    s3_response_key: str | None
    provider_npi: str | None
    payer_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    error_code: str | None
    error_message: str | None
    retry_count: int
    metadata: dict[str, Any]
    # submit, update or cancel, and the request that it updates or cancels.
    kind: str
    replaces: str | None
    # expedited or standard, the decision's due time, the decision and its time.
    urgency: str
    due_at: datetime
    decision: str | None
    decided_at: datetime | None


class NewRequest(SqlRow):
    """A request at its start: accepted, and queued for the first asynchronous stage."""

    pagw_id: str
    tenant: str
    correlation_id: str | None = None
    status: Status = PIPELINE[0].status
    stage: Stage = PIPELINE[0].stage
    s3_bucket: str
    s3_request_key: str
    provider_npi: str
    payer_id: str
    created_at: datetime
    due_at: datetime
    kind: str = "submit"
    replaces: str | None = None
    urgency: str = "standard"
    metadata: dict[str, Any] = Field(default_factory=dict)


class RequestUpdate(SqlRow):
    """The columns that a stage changes. None keeps a column, except the error columns, which the next step
    clears.
    """

    response_key: str | None = None
    decision: str | None = None
    decided_at: datetime | None = None
    # A deadline of the payer's own; the earlier one counts.
    due_at: datetime | None = None
    # The time of the next inquiry, if the payer has not called back.
    inquire_at: datetime | None = None
    completed_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class AuditEntry(SqlRow):
    """A new row of `pagw.audit_log`."""

    event_uuid: str
    tenant: str | None = None
    pagw_id: str | None = None
    event_type: str
    event_subtype: str | None = None
    actor_type: str
    actor_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    timestamp: datetime
    service_name: str
    service_version: str


class AuditRow(SqlRow):
    """A row of `pagw.audit_log`. `event_uuid` and `tenant` are not in the design document."""

    id: int
    event_uuid: str
    tenant: str | None
    pagw_id: str | None
    event_type: str
    event_subtype: str | None
    actor_type: str
    actor_id: str | None
    resource_type: str | None
    resource_id: str | None
    details: dict[str, Any] | None
    timestamp: datetime
    service_name: str
    service_version: str


class Provider(SqlRow):
    """A row of `pagw.provider_registry`. The document caches `endpoints` although its table lacks the column;
    this table has it.
    """

    npi: str
    name: str
    type: str | None
    endpoints: dict[str, Any]
    credentials_arn: str | None


class PayerRow(SqlRow):
    """A row of `pagw.payer_config`. The columns after the credentials are not in the design document."""

    payer_id: str
    name: str
    api_endpoint: str
    auth_type: str
    credentials_arn: str | None
    format: str
    client_id: str | None
    callback_secret: str | None
    # Token endpoint, OAuth scope and response timeout; None is the default of `PayerConfig`.
    token_url: str | None = None
    scope: str | None = None
    answer_s: float | None = None
    # The fields of `PayerConfig` without a column: authentication, limits and clocks.
    options: dict[str, Any] = Field(default_factory=dict)


class DecisionRow(SqlRow):
    """A row of `pagw.decisions`: one decision of a payer about a request. Rows are never changed.

    `source` is the payer's first answer (`answer`) or the number of a callback. A decision that `contradicts`
    differs from the one before.
    """

    pagw_id: str
    number: int
    source: str
    outcome: str
    review_action: str | None
    arrived_at: datetime
    payer_decided_at: datetime | None
    response_key: str | None
    response_sha256: str | None
    contradicts: bool


class SubscriptionRow(SqlRow):
    """A client's FHIR subscription: the endpoint for notifications, and the organization whose requests it
    covers.
    """

    subscription_id: str
    tenant: str
    status: str
    endpoint: str
    # The organisation's NPI; None covers all requests of the tenant.
    organization: str | None
    content: str
    secret_name: str | None
    created_at: datetime
    updated_at: datetime
    ends_at: datetime | None
    events: int
    error: str | None
    # While in error: when the gateway tries the endpoint again; None if only the client can reactivate it.
    retry_at: datetime | None = None


class SubscriptionId(SqlRow):
    subscription_id: str


class DeliveryRow(SqlRow):
    """A notification to a client: delivered at least once, under the same id on every attempt.

    A delivery is `held` while its client is out of reach, and `waiting` again in the next `round` of
    attempts. It is `given_up` if the client ended its subscription or refuses for good, and `expired` if it
    was held for too long.
    """

    delivery_id: str
    tenant: str
    pagw_id: str
    subscription_id: str | None
    target: str
    secret_name: str | None
    event_number: int
    told: dict[str, Any]
    status: str
    attempts: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    delivered_at: datetime | None
    # Counts from 1 how often the delivery was begun: an operator may send it again.
    round: int = 1


class StatusCount(SqlRow):
    status: str
    count: int


class Seconds(SqlRow):
    seconds: float | None


class Total(SqlRow):
    count: int


class PlainKeyAge(SqlRow):
    newest: datetime | None


class PagwId(SqlRow):
    pagw_id: str


# --- messages -----------------------------------------------------------------------------------------------


_MESSAGE_CONFIG: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, frozen=True, hide_input_in_errors=True
)


class StageMessage(BaseModel):
    """The message that gives a request to a stage: ids only, no contents."""

    model_config = _MESSAGE_CONFIG

    pagw_id: str
    tenant: str
    stage: Stage
    # Distinguishes messages to the same stage: the response of a pended request is built twice.
    occasion: str = "1"
    # The number of a payer's callback, which is part of its object key.
    callback_key: str | None = None
    # For the connector: inquire about a pended request.
    is_inquiry: bool = False

    @property
    def id(self) -> str:
        """The message's id: request, stage and occasion."""
        return f"{self.pagw_id}#{self.stage}#{self.occasion}"


class AuditMessage(BaseModel):
    """An audit event on its way to the audit bucket, with the contents of its row."""

    model_config = _MESSAGE_CONFIG

    event_uuid: str
    pagw_id: str | None = None
    service_name: str
    timestamp: datetime
    event: dict[str, Any] = Field(default_factory=dict)


class DeliveryMessage(BaseModel):
    model_config = _MESSAGE_CONFIG

    delivery_id: str
    pagw_id: str
    tenant: str
    round: int = 1

    @property
    def id(self) -> str:
        """The message's id: one per delivery and round."""
        return self.delivery_id if self.round == 1 else f"{self.delivery_id}#{self.round}"


# --- queues -------------------------------------------------------------------------------------------------

# With pauses up to five minutes, a payer may be down for about two hours. Then an operator decides.
MAX_RECEIVES: Final = 30
# A webhook is tried this often, with growing pauses; then its delivery is held.
MAX_DELIVERY_ATTEMPTS: Final = 12
VISIBILITY_S: Final = 30


def _build_stage_queue(step: Step) -> Queue[StageMessage]:
    """Build the FIFO queue of a stage: ordered per request, one delivery per message id."""
    return Queue(
        f"pagw-{step.stage}-queue",
        StageMessage,
        fifo=True,
        group=lambda message: message.pagw_id,
        deduplication=lambda message: message.id,
        visibility_s=VISIBILITY_S,
        max_receives=MAX_RECEIVES,
        purpose=step.queue_purpose,
        prefix=step.prefix,
        rate=Rate(per="request"),
    )


QUEUES: Final = {step.stage: _build_stage_queue(step) for step in PIPELINE}
notifications = Queue(
    "pagw-notification-queue",
    DeliveryMessage,
    fifo=True,
    group=lambda message: message.delivery_id,
    deduplication=lambda message: message.id,
    visibility_s=VISIBILITY_S,
    max_receives=MAX_DELIVERY_ATTEMPTS,
    purpose="Webhooks to clients, retried until accepted or held",
    prefix="Q8",
    rate=Rate(per="notice to a client"),
)
audit_events = Queue(
    "pagw-audit-queue",
    AuditMessage,
    fifo=True,
    group=lambda message: message.event_uuid,
    deduplication=lambda message: message.event_uuid,
    visibility_s=VISIBILITY_S,
    max_receives=MAX_RECEIVES,
    purpose="Audit events on their way to the audit bucket",
    prefix="Q9",
    rate=Rate(per="audit event"),
)
ALL_QUEUES: Final[tuple[Queue[Any], ...]] = (*QUEUES.values(), notifications, audit_events)


# --- objects ------------------------------------------------------------------------------------------------

requests_bucket = Bucket(
    "pagw-requests",
    physical=get_request_bucket_name,
    encryption="kms",
    kms_key="alias/pagw-s3-{environment}",
    versions=True,
    legal_holds=True,
    purpose="Bundles, attachments, responses: everything with PHI",
)
audit_events_bucket = Bucket(
    "pagw-audit",
    physical=get_audit_bucket_name,
    encryption="s3",
    versions=True,
    legal_holds=True,
    purpose="Audit events, without PHI",
)

_FOLDER_TEMPLATE: Final = "{created_at:%Y%m}/{pagw_id}"
# The folder is that of the month in which the request was created, also for files added later.
original_bundle = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/request/original_bundle.json", content_type=FHIR_JSON, lifetime_days=LIFECYCLE_DAYS
)
parsed_claim = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/request/parsed_claim.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
enriched_request = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/request/enriched_request.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
# Not in the document: the request in the payer's format.
payer_request = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/request/payer_request.bin",
    content_type="application/octet-stream",
    lifetime_days=LIFECYCLE_DAYS,
)
payer_response = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/response/payer_response.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
fhir_response = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/response/fhir_claim_response.json",
    content_type=FHIR_JSON,
    lifetime_days=LIFECYCLE_DAYS,
)
# Not in the document: the responses to the payer's later decisions.
later_response = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/response/fhir_claim_response_{{number}}.json",
    content_type=FHIR_JSON,
    lifetime_days=LIFECYCLE_DAYS,
)
# Not in the document: the response until the payer has decided.
pended_response = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/response/fhir_claim_response_pended.json",
    content_type=FHIR_JSON,
    lifetime_days=LIFECYCLE_DAYS,
)
attachment = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/attachments/attachment_{{number}}",
    content_type="application/octet-stream",
    lifetime_days=LIFECYCLE_DAYS,
)
callback = requests_bucket.objects(
    f"{_FOLDER_TEMPLATE}/callbacks/callback_{{number}}.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
# Not in the document: a subscription as the client requested it. Its headers may hold a token, so no row has
# them.
subscription_request = requests_bucket.objects(
    "subscriptions/{tenant}/{subscription_id}.json", content_type=FHIR_JSON, lifetime_days=LIFECYCLE_DAYS
)
audit_event = audit_events_bucket.objects(
    "{created_at:%Y%m}/{created_at:%Y%m%d}/{service}/{created_at:%H}/{pagw_id}_{uuid}.json",
    content_type=JSON,
    lifetime_days=LIFECYCLE_DAYS,
)


# --- cache --------------------------------------------------------------------------------------------------

FIVE_MINUTES_S: Final = 300

tokens = CachedValue("oauth:{payer_id}", AccessToken, lifetime_s=HOUR_S)
providers = CachedValue("provider:{npi}", Provider, lifetime_s=FIVE_MINUTES_S)
payers = CachedValue("payer:{payer_id}", PayerRow, lifetime_s=FIVE_MINUTES_S)
windows = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)
