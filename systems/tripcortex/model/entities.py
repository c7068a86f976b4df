"""Tables, entities and nested documents of Trip Cortex, with the design document's names, keys and numbers.

The document has four tables. This model adds the marker of an employee's active booking, messages to
employees, the record of each booking at the portal, and the tables of flows and outboxes. In the document's
tables it adds `node` of a connection and the index by employee, and to a booking what the flow needs
(`flowState`, `taskToken`, `version` …), the open question, the approval and the citations.

`patterns` declares how the tables are read; policies are stored in SQL.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NewType, Self

from pydantic import Field, PlainSerializer, field_validator, model_validator

from holdfast import (
    Attr,
    Bucket,
    Document,
    Entity,
    EpochSeconds,
    IndexKey,
    Key,
    Lifetime,
    Table,
    Update,
    attr,
)
from holdfast.flows import FlowItem
from holdfast.guarantees import CircuitLimits, CircuitRecord, OnceRecord, declare_retention
from holdfast.model.entities import TimestampSeconds
from holdfast.model.ulids import Ulid

EmployeeId = NewType("EmployeeId", str)
# How likely it is that a policy covers a question.
Confidence = Literal["none", "low", "high"]
# A timetable's local time, stored with its UTC offset: in UTC the day of departure would be lost.
LocalTime = Annotated[datetime, PlainSerializer(datetime.isoformat)]

# API Gateway closes a WebSocket after two hours.
CONNECTION_S: Final = 7_200
AUDIT_YEARS: Final = 2
# A message that no client has acknowledged for this long is dropped.
MESSAGE_DAYS: Final = 7
# A circuit is kept for this long after its last change and the time of its recovery.
CIRCUIT_KEPT_S: Final = 86_400
MAX_OPTIONS: Final = 3
OPTIONS_CAP: Final = 5
MAX_ITEM_OPTIONS_BYTES: Final = 300_000

connections = Table(
    "TripCortexConnections",
    "connectionId",
    ttl="ttl",
    purpose="Open WebSocket connections of employees, and the process that holds each",
)
connections_by_employee = connections.global_index(
    "employeeId-index",
    "employeeId",
    purpose="All live connections of an employee: messages are addressed to employees, not to connections",
)
bookings = Table(
    "TripCortexBookings",
    "employeeId",
    "bookingId",
    purpose="Bookings, from the request to the confirmation; kept permanently",
)
audit_log = Table(
    "TripCortexAuditLog",
    "bookingId",
    "auditId",
    ttl="expiresAt",
    purpose="Inputs and outputs of each step of a booking; append-only, expires after two years",
)
audit_by_employee = audit_log.global_index(
    "employeeId-timestamp-index", "employeeId", "timestamp", purpose="An employee's audit entries by time"
)
circuits = Table(
    "TripCortexCircuitBreaker", "circuitId", ttl="ttl", purpose="Circuit breaker of the travel portal"
)
active_bookings = Table(
    "TripCortexActiveBookings", "employeeId", purpose="The one active booking of an employee"
)
messages = Table(
    "TripCortexMessages",
    "employeeId",
    "messageId",
    ttl="ttl",
    purpose="Messages to an employee, until one of their clients acknowledges them",
)
portal_calls = Table(
    "TripCortexPortalCalls",
    "reference",
    ttl="expiresAt",
    purpose=(
        "Idempotency record of each booking at the portal: claimed before the call, looked up before a retry"
    ),
)
TABLES: Final = (
    connections,
    bookings,
    audit_log,
    circuits,
    active_bookings,
    messages,
    portal_calls,
)

policy_files = Bucket(
    "tripcortex-policies",
    encryption="kms",
    purpose="Policy documents as uploaded, and crops of their figures",
)


# --- a booking ----------------------------------------------------------------------------------------------


class BookingStatus(StrEnum):
    initiated = "initiated"
    searching = "searching"
    options_presented = "options_presented"
    user_selected = "user_selected"
    booking = "booking"
    confirmed = "confirmed"
    failed = "failed"
    cancelled = "cancelled"


TERMINAL_STATUSES: Final = (BookingStatus.confirmed, BookingStatus.failed, BookingStatus.cancelled)


class Cabin(StrEnum):
    """Cabin classes, from the cheapest to the most expensive."""

    economy = "economy"
    premium_economy = "premium_economy"
    business = "business"
    first = "first"

    @property
    def rank(self) -> int:
        """Return the position from the cheapest cabin (0) on."""
        return list(Cabin).index(self)


class TripParameters(Document):
    """Origin, destination and dates of a trip.

    Airports are IATA codes; dates are local to the departure airport.
    """

    origin: str = Field(pattern=r"^[A-Z]{3}$")
    destination: str = Field(pattern=r"^[A-Z]{3}$")
    departure_date: date
    return_date: date | None = None
    cabin_class: Cabin = Cabin.economy


class Preferences(Document):
    """Preferences of the employee. None of them is a rule."""

    vendors: list[str] = Field(default_factory=list)
    avoided_vendors: list[str] = Field(default_factory=list)
    # Other airports of the cities in the request.
    origin_airports: list[str] = Field(default_factory=list)
    destination_airports: list[str] = Field(default_factory=list)
    nonstop: bool = False
    # "morning", "afternoon", "evening", "night".
    depart_part: str | None = None
    budget_usd: Decimal | None = None
    is_cabin_asked: bool = False


class PolicyConstraints(Document):
    max_budget_usd: Decimal | None = None
    preferred_vendors: list[str] = Field(default_factory=list)
    max_cabin: Cabin = Cabin.economy


class Citation(Document):
    """The location of a rule in a policy, for a person to read."""

    chunk_id: str
    policy_id: str
    file_name: str
    source_page: int | None = None
    section_title: str | None = None
    similarity: float | None = None
    # The rule's own words, shortened.
    quote: str | None = None


class Breach(Document):
    """A breach of the policy. A hard breach ends the request; a soft one needs an approval."""

    code: str
    severity: str = Field(pattern="^(hard|soft)$")
    text: str
    remedy: str
    citation: Citation | None = None
    # Who has to approve, in the policy's own words and order, all of them: ["L1 manager", "Finance"].
    approvers: list[str] = Field(default_factory=list)


class BookingPlan(Document):
    """The document's plan (intent, confidence, parameters, constraints), with preferences and citations."""

    intent: str = "flight_booking"
    confidence: float = Field(ge=0, le=1)
    parameters: TripParameters
    policy_constraints: PolicyConstraints = PolicyConstraints()
    preferences: Preferences = Preferences()
    citations: list[Citation] = Field(default_factory=list)


class Segment(Document):
    """One flight. Times are local to their airports, with their UTC offset."""

    carrier: str
    flight_number: str
    origin: str
    destination: str
    departs_at: LocalTime
    arrives_at: LocalTime
    duration_minutes: int


class FlightOption(Document):
    """An option that the employee may choose. `offer_id` is the portal's, valid until `offer_expires_at`."""

    option_id: str
    offer_id: str
    offer_expires_at: datetime
    carrier: str
    carrier_name: str
    cabin: Cabin
    price_usd: Decimal
    outbound: list[Segment]
    inbound: list[Segment] = Field(default_factory=list)
    stops: int = 0
    duration_minutes: int
    is_preferred_vendor: bool = False
    breaches: list[Breach] = Field(default_factory=list)
    citations: list[Citation] = Field(default_factory=list)
    # "allowed" or "approval"; a forbidden option is never offered. None in bookings of older versions.
    verdict: str | None = None

    @property
    def needs_approval(self) -> bool:
        """Return whether an approver has to agree: the option breaches a rule, or no rule permits it."""
        return self.verdict == "approval" or bool(self.breaches)


class ApprovalAsk(Document):
    """One approver that the policy names, and the people of whom any one decides."""

    word: str
    people: list[str]
    # They may decide, and are asked when the approval is escalated.
    stand_ins: list[str] = Field(default_factory=list)
    # False if `people` are not those whom the word means: the travel desk instead of them, or nobody.
    is_named: bool = True
    decision: str | None = None
    decided_by: str | None = None
    on_behalf_of: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None


class ApprovalStage(Document):
    """Approvers who decide jointly: the stage ends when all of them have approved."""

    asks: list[ApprovalAsk]


class Approval(Document):
    """A request to approve soft breaches: stages of approvers, the current deadline, and the decision.

    An approval that version 0.2 stored has no stages: one person, `asked_of`, decides.
    """

    asked_of: str
    due_at: datetime
    # The decision if the approver does not answer: "approve" (soft) or "refuse" (hard).
    at_deadline: str = "refuse"
    decision: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None
    stages: list[ApprovalStage] = Field(default_factory=list)
    # The position of the current stage, from 0.
    stage: int = 0
    # The seconds that each stage has, and after which it is escalated; None: never.
    stage_s: int = 86_400
    escalate_s: int | None = None
    # When the current stage is escalated; None if it was.
    escalate_at: datetime | None = None
    # Of the breaches; and the prices that the approvers see and that the traveller accepted.
    codes: list[str] = Field(default_factory=list)
    words: list[str] = Field(default_factory=list)
    price_usd: Decimal | None = None
    accepted_usd: Decimal | None = None


class Repricing(Document):
    """What an approved flight costs now, which the traveller has to accept; None if it is sold out."""

    accepted_usd: Decimal
    price_usd: Decimal | None = None


class OpenQuestion(Document):
    """A question that the planner needs answered before it can continue."""

    text: str
    missing: list[str] = Field(default_factory=list)
    choices: list[str] = Field(default_factory=list)
    # What a yes means, if the question can be answered with yes or no.
    yes: str | None = None


class Failure(Document):
    """The reason why a booking ended without a trip: a code, a text for the employee, and a remedy."""

    code: str
    text: str
    remedy: str | None = None
    breaches: list[Breach] = Field(default_factory=list)


class Booking(FlowItem, table=bookings):
    """A booking and its state. `workers.flow` drives it; every change is a transition of that flow."""

    employee_id: Attr[EmployeeId] = attr()
    booking_id: Attr[Ulid] = attr()
    status: Attr[BookingStatus] = attr(default=BookingStatus.initiated)
    user_request: Attr[str] = attr()
    booking_plan: Attr[BookingPlan | None] = attr(default=None)
    flight_options: Attr[list[FlightOption]] = attr(default_factory=list)
    selected_option: Attr[FlightOption | None] = attr(default=None)
    confirmation_number: Attr[str | None] = attr(default=None)
    execution_arn: Attr[str | None] = attr(default=None)
    fallback_url: Attr[str | None] = attr(default=None)
    created_at: Attr[TimestampSeconds] = attr()
    updated_at: Attr[TimestampSeconds] = attr()
    # Not in the document, from here on.
    flow_token: Attr[str | None] = attr("taskToken", default=None)
    time_zone: Attr[str] = attr(default="UTC")
    home_airport: Attr[str | None] = attr(default=None)
    passages: Attr[list[Citation]] = attr(default_factory=list)
    policy_confidence: Attr[Confidence | None] = attr(default=None)
    question: Attr[OpenQuestion | None] = attr(default=None)
    answers: Attr[list[str]] = attr(default_factory=list)
    # What the planner interpreted differently from the text, or ignored.
    notes: Attr[list[str]] = attr(default_factory=list)
    approval: Attr[Approval | None] = attr(default=None)
    repricing: Attr[Repricing | None] = attr(default=None)
    failure: Attr[Failure | None] = attr(default=None)
    e_ticket_number: Attr[str | None] = attr(default=None)
    paid_usd: Attr[Decimal | None] = attr(default=None)

    of = Key(employee_id, booking_id)

    @field_validator("flight_options")
    @classmethod
    def _check_option_count(cls, options: list[FlightOption]) -> list[FlightOption]:
        """Raise `ValueError` if there are more than five options."""
        if len(options) > OPTIONS_CAP:
            raise ValueError(f"a booking has at most {OPTIONS_CAP} options, got {len(options)}")
        return options

    @model_validator(mode="after")
    def _check_confirmation(self) -> Self:
        """Raise `ValueError` if a confirmed booking lacks its option or its confirmation number."""
        is_known = self.selected_option is not None and self.confirmation_number is not None
        if self.status is BookingStatus.confirmed and not is_known:
            raise ValueError(
                "a confirmed booking needs the selected option and the portal's confirmation number"
            )
        return self

    @property
    def is_ended(self) -> bool:
        """Return whether the booking is confirmed, failed or cancelled."""
        return self.status in TERMINAL_STATUSES


declare_retention(Booking, None, "permanently: employees look up past trips")


class ActiveBooking(Entity, table=active_bookings):
    """The marker of an employee's active booking: created with the booking, deleted when it ends."""

    employee_id: Attr[EmployeeId] = attr()
    booking_id: Attr[Ulid] = attr()
    since: Attr[TimestampSeconds] = attr()

    of = Key(employee_id)


declare_retention(ActiveBooking, None, "until the booking ends")


# --- audit --------------------------------------------------------------------------------------------------


class AuditEvent(StrEnum):
    policy_retrieval = "policy_retrieval"
    reasoning = "reasoning"
    plan_validation = "plan_validation"
    flight_search = "flight_search"
    user_selection = "user_selection"
    booking_completion = "booking_completion"
    error = "error"


class AuditRecord(Entity, table=audit_log):
    """The inputs and outputs of a step.

    Append-only; of the traveller it holds only the employee id and the request's text.
    """

    booking_id: Attr[Ulid] = attr()
    audit_id: Attr[Ulid] = attr()
    employee_id: Attr[EmployeeId] = attr()
    timestamp: Attr[datetime] = attr()
    event: Attr[AuditEvent] = attr()
    step: Attr[str] = attr()
    input: Attr[dict[str, Any]] = attr(default_factory=dict)
    output: Attr[dict[str, Any]] = attr(default_factory=dict)
    model_id: Attr[str | None] = attr(default=None)
    thinking_budget: Attr[str | None] = attr(default=None)
    latency_ms: Attr[int | None] = attr(default=None)
    error_code: Attr[str | None] = attr(default=None)
    error_message: Attr[str | None] = attr(default=None)
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(booking_id, audit_id)
    by_employee = IndexKey(audit_by_employee, employee_id, timestamp)


declare_retention(AuditRecord, None, "two calendar years, unless TRIPCORTEX_AUDIT_YEARS is set")


def compute_audit_expiry(at: datetime, years: int = AUDIT_YEARS) -> datetime:
    """Return the time `years` calendar years later; for 29 February, 1 March if that year has no leap day."""
    try:
        return at.replace(year=at.year + years)
    except ValueError:
        return at.replace(year=at.year + years, month=3, day=1)


# --- live ---------------------------------------------------------------------------------------------------


class Connection(Entity, table=connections):
    """An open WebSocket.

    `node` is the address of the process that holds it; on API Gateway, that of the service.
    """

    connection_id: Attr[str] = attr()
    employee_id: Attr[EmployeeId] = attr()
    connected_at: Attr[TimestampSeconds] = attr()
    node: Attr[str | None] = attr(default=None)

    of = Key(connection_id)
    of_employee = IndexKey(connections_by_employee, employee_id)
    lives = Lifetime(connected_at, timedelta(seconds=CONNECTION_S))


class Message(Entity, table=messages):
    """A message to an employee: options, a confirmation, a question. Stored until it is acknowledged."""

    employee_id: Attr[EmployeeId] = attr()
    message_id: Attr[Ulid] = attr()
    kind: Attr[str] = attr()
    booking_id: Attr[Ulid | None] = attr(default=None)
    body: Attr[dict[str, Any]] = attr(default_factory=dict)
    at: Attr[TimestampSeconds] = attr()

    of = Key(employee_id, message_id)
    lives = Lifetime(at, timedelta(days=MESSAGE_DAYS))


# --- the portal ---------------------------------------------------------------------------------------------


class CircuitState(StrEnum):
    closed = "closed"
    open = "open"
    half_open = "half_open"


class Circuit(CircuitRecord, table=circuits):
    """The circuit breaker of the portal. It counts consecutive failures.

    `threshold` and the probe's lease are added to the document's attributes. Each change extends `ttl`
    beyond the recovery, so that expiry never closes a circuit that just opened.
    """

    circuit_id: Attr[str] = attr()
    state: Attr[CircuitState] = attr(default=CircuitState.closed)
    failure_count: Attr[int] = attr(default=0)
    last_failure_time: Attr[int] = attr(default=0)
    recovery_timeout: Attr[int] = attr(default=60)
    threshold: Attr[int] = attr(default=5)
    probe_until: Attr[int | None] = attr(default=None)
    ttl: Attr[EpochSeconds] = attr()

    of = Key(circuit_id)

    @classmethod
    def build_closed(cls, service: str, now: datetime, limits: CircuitLimits) -> Self:
        return cls(circuit_id=service, ttl=now)._change(now, limits)

    def get_refusal_end(self) -> datetime | None:
        if self.state is CircuitState.closed:
            return None
        recovered_at = self.last_failure_time + self.recovery_timeout
        return datetime.fromtimestamp(recovered_at if self.probe_until is None else self.probe_until, UTC)

    def has_expired(self, now: datetime) -> bool:
        return self.ttl < now

    def with_probe(self, token: str, now: datetime, limits: CircuitLimits) -> Self:
        until = math.ceil(now.timestamp() + limits.lease_s)
        return self._change(now, limits, state=CircuitState.half_open, probe=token, probe_until=until)

    def without_probe(self, now: datetime, limits: CircuitLimits) -> Self:
        return self._change(now, limits, state=CircuitState.open, probe=None, probe_until=None)

    def with_failure(self, now: datetime, limits: CircuitLimits) -> Self:
        count = self.failure_count + 1
        is_closed = self.state is CircuitState.closed and count < limits.failures
        return self._change(
            now,
            limits,
            state=CircuitState.closed if is_closed else CircuitState.open,
            failure_count=count,
            last_failure_time=int(now.timestamp()),
            probe=None,
            probe_until=None,
        )

    def with_success(self, now: datetime, limits: CircuitLimits) -> Self:
        if self.state is CircuitState.closed and self.failure_count == 0:
            return self
        state = CircuitState.closed
        return self._change(now, limits, state=state, failure_count=0, probe=None, probe_until=None)

    def replace(self, seen: Self | None) -> Update[Any]:
        """The document's condition, and the rest of the circuit as it was read."""
        change = (
            Circuit.of(self.circuit_id)
            .update()
            .set(Circuit.state, self.state)
            .set(Circuit.failure_count, self.failure_count)
            .set(Circuit.last_failure_time, self.last_failure_time)
            .set(Circuit.recovery_timeout, self.recovery_timeout)
            .set(Circuit.threshold, self.threshold)
            .set(Circuit.ttl, self.ttl)
        )
        if self.probe is None or self.probe_until is None:
            change = change.remove(Circuit.probe).remove(Circuit.probe_until)
        else:
            change = change.set(Circuit.probe, self.probe).set(Circuit.probe_until, self.probe_until)
        if seen is None:
            return change.when(Circuit.state.not_exists()).or_create()
        return change.when(
            Circuit.state == seen.state,
            Circuit.failure_count == seen.failure_count,
            Circuit.last_failure_time == seen.last_failure_time,
            Circuit.probe.not_exists() if seen.probe is None else Circuit.probe == seen.probe,
        )

    def _change(self, now: datetime, limits: CircuitLimits, **changes: Any) -> Self:
        """Return a copy with these attributes, the limits, and a new end of its lifetime."""
        lifetime_s = limits.recovery_s + limits.lease_s + CIRCUIT_KEPT_S
        changes |= {"threshold": limits.failures, "recovery_timeout": math.ceil(limits.recovery_s)}
        return self.model_copy(update={**changes, "ttl": now + timedelta(seconds=lifetime_s)})


declare_retention(Circuit, None, "a day after its last change, and always longer than its recovery time")


class PortalCall(OnceRecord, table=portal_calls):
    """The idempotency record of a booking at the portal. `reference` is the booking's id."""

    reference: Attr[str] = attr()
    employee_id: Attr[EmployeeId] = attr()

    of = Key(reference)
