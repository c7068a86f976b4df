"""What the gateway keeps, in four stores: idempotency keys in tables, the course of requests in SQL, bundles and files as
objects, tokens and windows in the cache; and the queues between its stages. Names and keys are the design document's.

No row, message or cache entry holds PHI: they point at objects. What must be found by a member's id, a claim's identifier
or an authorization's number is found by a keyed hash of it (`request_lookup`). `patterns.py` says how all this is asked for;
`migrations/` makes the tables of the schema.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast import Attr, Bucket, Cached, Key, Queue, Schema, SqlRow, Table, Windows, attr
from holdfast.guarantees import OnceRecord
from pagw.environments import audit_bucket, request_bucket
from pagw.payers.oauth import AccessToken
from pagw.settings import PagwSettings
from pagw.statuses import Stage, Status

HOUR_S: Final = 3600
# The most that the document allows; 24 hours is the least.
IDEMPOTENCY_HOURS: Final = 48
# Policy, and more than the rule: HIPAA asks for six years of documentation (45 CFR 164.316(b)(2)(i)).
RETENTION_YEARS: Final = PagwSettings.load().retention_years
RETENTION_DAYS: Final = RETENTION_YEARS * 365 + RETENTION_YEARS // 4 + 1
# Files are removed with their rows, when a request has ended so long ago. The bucket's own rule counts from when a file was
# put: it comes a year later, so that no row ever points at a file that is gone.
LIFECYCLE_DAYS: Final = RETENTION_DAYS + 366

FHIR_JSON: Final = "application/fhir+json"
JSON: Final = "application/json"


# --- tables ------------------------------------------------------------------------------------------------------

idempotency = Table(
    "pagw-idempotency",
    "idempotencyKey",
    ttl="expiresAt",
    purpose="Which requests and calls at payers are being worked on or done, so that none is done twice",
)


class IdempotencyRecord(OnceRecord, table=idempotency):
    """A client's key (`tenant:key`), or an effect at a payer (`tenant:pagwId#effect`).

    `response_key` names the object that has the answer, so that a repeat is given it and not only its hash.
    """

    idempotency_key: Attr[str] = attr()
    pagw_id: Attr[str] = attr()
    response_hash: Attr[str | None] = attr(default=None)
    status_code: Attr[int | None] = attr(default=None)
    response_key: Attr[str | None] = attr(default=None)
    of = Key(idempotency_key)

    def spoken(self) -> str:
        return "The request under this idempotency key"


# --- rows --------------------------------------------------------------------------------------------------------

pagw = Schema("pagw", migrations="pagw.migrations", purpose="The course of requests, outbox and audit")


class Tracked(SqlRow):
    """A row of `pagw.request_tracker`. The last six columns are ours, beside the document's."""

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
    # submit, update or cancel; and the request that it updates or cancels.
    kind: str
    replaces: str | None
    # For the clocks of decisions: expedited or standard, when a decision is due, what and when it was.
    urgency: str
    due_at: datetime
    decision: str | None
    decided_at: datetime | None


class NewRequest(SqlRow):
    """A request as it begins: accepted, and with the first of the asynchronous stages next."""

    pagw_id: str
    tenant: str
    correlation_id: str | None = None
    status: Status = Status.VALIDATED
    stage: Stage = Stage.request_enricher
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


class Learnt(SqlRow):
    """What a step adds to a request; what it leaves out stays as it is, but for an error, which the next step ends."""

    response_key: str | None = None
    decision: str | None = None
    decided_at: datetime | None = None
    # When the payer is asked what became of it, if it has not called back.
    inquire_at: datetime | None = None
    completed_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class AuditEntry(SqlRow):
    """An event on its way into `pagw.audit_log`."""

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
    """A row of `pagw.audit_log`. `event_uuid` and `tenant` are ours."""

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
    """A row of `pagw.provider_registry`; the document caches `endpoints`, and its table has no such column: here it has."""

    npi: str
    name: str
    type: str | None
    endpoints: dict[str, Any]
    credentials_arn: str | None


class PayerRow(SqlRow):
    """A row of `pagw.payer_config`. All columns after the credentials are ours."""

    payer_id: str
    name: str
    api_endpoint: str
    auth_type: str
    credentials_arn: str | None
    format: str
    client_id: str | None
    callback_secret: str | None
    # Where tokens are fetched and for what, and how long an answer is waited for; None is as `PayerConfig` says.
    token_url: str | None = None
    scope: str | None = None
    answer_s: float | None = None


class SubscriptionRow(SqlRow):
    """A client's FHIR subscription: where it wants to be told of decisions, and of whose requests."""

    subscription_id: str
    tenant: str
    status: str
    endpoint: str
    # The NPI of the organisation whose requests it is about; None is all of the tenant's.
    organization: str | None
    content: str
    secret_name: str | None
    created_at: datetime
    updated_at: datetime
    ends_at: datetime | None
    events: int
    error: str | None


class SubscriptionId(SqlRow):
    subscription_id: str


class DeliveryRow(SqlRow):
    """Something a client is to be told: once decided on, told at least once, under the same id every time."""

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


class StatusCount(SqlRow):
    status: str
    count: int


class Seconds(SqlRow):
    seconds: float | None


class Total(SqlRow):
    count: int


class PagwId(SqlRow):
    pagw_id: str


# --- messages ----------------------------------------------------------------------------------------------------


_MESSAGE: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, frozen=True, hide_input_in_errors=True
)


class StageMessage(BaseModel):
    """Tells a stage which request it has next: pointers, and nothing of what is in them."""

    model_config = _MESSAGE

    pagw_id: str
    tenant: str
    stage: Stage
    # Tells two messages to the same stage apart: a request that was pended is built twice.
    occasion: str = "1"
    # The object of a payer's callback.
    callback_key: str | None = None
    # To the connector: ask what became of a request that is pended.
    is_inquiry: bool = False

    @property
    def id(self) -> str:
        return f"{self.pagw_id}#{self.stage}#{self.occasion}"


class AuditMessage(BaseModel):
    """An audit event on its way to the audit bucket: as it stands in its row."""

    model_config = _MESSAGE

    event_uuid: str
    pagw_id: str | None = None
    service_name: str
    timestamp: datetime
    event: dict[str, Any] = Field(default_factory=dict)


class DeliveryMessage(BaseModel):
    model_config = _MESSAGE

    delivery_id: str
    pagw_id: str
    tenant: str


# --- queues ------------------------------------------------------------------------------------------------------

# A payer may be away for long: with pauses that grow to five minutes, about two hours, then a person decides.
RECEIVES_MAX: Final = 30
VISIBILITY_S: Final = 30


def _stage_queue(stage: Stage, purpose: str) -> Queue[StageMessage]:
    return Queue(
        f"pagw-{stage}-queue",
        StageMessage,
        fifo=True,
        group=lambda message: message.pagw_id,
        deduplication=lambda message: message.id,
        visibility_s=VISIBILITY_S,
        receives_max=RECEIVES_MAX,
        purpose=purpose,
    )


QUEUES: Final = {
    Stage.request_enricher: _stage_queue(Stage.request_enricher, "Adds what registries know"),
    Stage.attachment_handler: _stage_queue(Stage.attachment_handler, "Takes attachments out of bundles"),
    Stage.request_converter: _stage_queue(Stage.request_converter, "Makes the payer's format"),
    Stage.api_connector: _stage_queue(Stage.api_connector, "Asks the payer"),
    Stage.response_builder: _stage_queue(Stage.response_builder, "Makes the ClaimResponse"),
    Stage.callback_handler: _stage_queue(Stage.callback_handler, "Callbacks of payers, and to clients"),
    Stage.subscription_handler: _stage_queue(Stage.subscription_handler, "Tells subscribers"),
}
notifications = Queue(
    "pagw-notification-queue",
    DeliveryMessage,
    fifo=True,
    group=lambda message: message.delivery_id,
    deduplication=lambda message: message.delivery_id,
    visibility_s=VISIBILITY_S,
    receives_max=12,
    purpose="Webhooks to clients, each until it is taken or given up",
)
audit_events = Queue(
    "pagw-audit-queue",
    AuditMessage,
    fifo=True,
    group=lambda message: message.event_uuid,
    deduplication=lambda message: message.event_uuid,
    visibility_s=VISIBILITY_S,
    receives_max=RECEIVES_MAX,
    purpose="Audit events on their way to the audit bucket",
)
ALL_QUEUES: Final[tuple[Queue[Any], ...]] = (*QUEUES.values(), notifications, audit_events)


# --- objects -----------------------------------------------------------------------------------------------------

requests_bucket = Bucket(
    "pagw-requests",
    physical=request_bucket,
    encryption="kms",
    kms_key="alias/pagw-s3-{environment}",
    versions=True,
    holds=True,
    purpose="Bundles, attachments, answers: everything with PHI",
)
audit_events_bucket = Bucket(
    "pagw-audit",
    physical=audit_bucket,
    encryption="s3",
    versions=True,
    holds=True,
    purpose="Audit events, without PHI",
)

_FOLDER: Final = "{created_at:%Y%m}/{pagw_id}"
# A request's folder is that of the month in which it was created, whenever it is looked for.
original_bundle = requests_bucket.objects(
    f"{_FOLDER}/request/original_bundle.json", content_type=FHIR_JSON, lifetime_days=LIFECYCLE_DAYS
)
parsed_claim = requests_bucket.objects(
    f"{_FOLDER}/request/parsed_claim.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
enriched_request = requests_bucket.objects(
    f"{_FOLDER}/request/enriched_request.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
# Ours: what the payer is sent, in the payer's format.
payer_request = requests_bucket.objects(
    f"{_FOLDER}/request/payer_request.bin",
    content_type="application/octet-stream",
    lifetime_days=LIFECYCLE_DAYS,
)
payer_response = requests_bucket.objects(
    f"{_FOLDER}/response/payer_response.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
fhir_response = requests_bucket.objects(
    f"{_FOLDER}/response/fhir_claim_response.json", content_type=FHIR_JSON, lifetime_days=LIFECYCLE_DAYS
)
# Ours: the answer while the payer has not decided.
pended_response = requests_bucket.objects(
    f"{_FOLDER}/response/fhir_claim_response_pended.json",
    content_type=FHIR_JSON,
    lifetime_days=LIFECYCLE_DAYS,
)
attachment = requests_bucket.objects(
    f"{_FOLDER}/attachments/attachment_{{number}}",
    content_type="application/octet-stream",
    lifetime_days=LIFECYCLE_DAYS,
)
callback = requests_bucket.objects(
    f"{_FOLDER}/callbacks/callback_{{number}}.json", content_type=JSON, lifetime_days=LIFECYCLE_DAYS
)
# Ours: a subscription as it was asked for. Its headers may hold a client's token, and so stand in no row.
subscribed = requests_bucket.objects(
    "subscriptions/{tenant}/{subscription_id}.json", content_type=FHIR_JSON, lifetime_days=LIFECYCLE_DAYS
)
audit_event = audit_events_bucket.objects(
    "{created_at:%Y%m}/{created_at:%Y%m%d}/{service}/{created_at:%H}/{pagw_id}_{uuid}.json",
    content_type=JSON,
    lifetime_days=LIFECYCLE_DAYS,
)


# --- cache -------------------------------------------------------------------------------------------------------

FIVE_MINUTES_S: Final = 300

tokens = Cached("oauth:{payer_id}", AccessToken, lifetime_s=HOUR_S)
providers = Cached("provider:{npi}", Provider, lifetime_s=FIVE_MINUTES_S)
payers = Cached("payer:{payer_id}", PayerRow, lifetime_s=FIVE_MINUTES_S)
windows = Windows("ratelimit:{tenant}:{window}", window_s=60)
