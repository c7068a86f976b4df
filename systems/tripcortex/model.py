"""What Trip Cortex keeps in tables: names, keys and numbers are the design document's. `patterns` says how it is asked for,
`knowledge` what is kept of policies in SQL.

The document has four tables. Ours are the marker of an employee's one active booking, what an employee is told until it is
acknowledged, the record of each booking at the portal, and the tables of flows and outboxes that come with those. In the
document's tables ours are `node` of a connection and the index by employee; of a booking what a flow needs (`flowState`,
`taskToken`, `version` …), the question that is open, the approval and what was cited.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
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
    Seconds,
    Table,
    Ulid,
    attr,
)
from holdfast.flows import FlowItem
from holdfast.guarantees import OnceRecord, kept

EmployeeId = NewType("EmployeeId", str)
# How sure it is that a policy says something about a question.
Confidence = Literal["none", "low", "high"]
# A time as a timetable has it: kept with its offset, since in UTC nobody could tell which day a flight leaves on.
LocalTime = Annotated[datetime, PlainSerializer(datetime.isoformat)]

# API Gateway ends a WebSocket after two hours.
CONNECTION_S: Final = 7_200
AUDIT_YEARS: Final = 2
# What was told to nobody for so long is told to nobody any more.
MESSAGE_DAYS: Final = 7
OPTIONS_MAX: Final = 3
OPTIONS_CAP: Final = 5
ITEM_OPTIONS_BYTES_MAX: Final = 300_000

connections = Table(
    "TripCortexConnections",
    "connectionId",
    ttl="ttl",
    purpose="Who is connected by WebSocket, and to which process",
)
connections_by_employee = connections.index(
    "employeeId-index",
    "employeeId",
    purpose="All live connections of an employee: who is told something is known by that, not by a connection",
)
bookings = Table(
    "TripCortexBookings",
    "employeeId",
    "bookingId",
    purpose="Bookings, from the request to the confirmation; kept for good",
)
audit_log = Table(
    "TripCortexAuditLog",
    "bookingId",
    "auditId",
    ttl="expiresAt",
    purpose="What each step of a booking was given and gave; it only grows, and ends after two years",
)
audit_by_employee = audit_log.index(
    "employeeId-timestamp-index", "employeeId", "timestamp", purpose="An employee's entries by time"
)
circuits = Table(
    "TripCortexCircuitBreaker", "circuitId", ttl="ttl", purpose="Whether the travel portal may be called"
)
active_bookings = Table(
    "TripCortexActiveBookings", "employeeId", purpose="The one booking of an employee that has not ended"
)
messages = Table(
    "TripCortexMessages",
    "employeeId",
    "messageId",
    ttl="ttl",
    purpose="What an employee is told, until a client of theirs has acknowledged it",
)
portal_calls = Table(
    "TripCortexPortalCalls",
    "reference",
    ttl="expiresAt",
    purpose="Each booking at the portal, claimed before it is asked for and looked up before it is repeated",
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


# --- a booking -----------------------------------------------------------------------------------------------------


class BookingStatus(StrEnum):
    initiated = "initiated"
    searching = "searching"
    options_presented = "options_presented"
    user_selected = "user_selected"
    booking = "booking"
    confirmed = "confirmed"
    failed = "failed"
    cancelled = "cancelled"


TERMINAL: Final = (BookingStatus.confirmed, BookingStatus.failed, BookingStatus.cancelled)


class Cabin(StrEnum):
    """From the cheapest to the dearest."""

    economy = "economy"
    premium_economy = "premium_economy"
    business = "business"
    first = "first"

    @property
    def rank(self) -> int:
        return list(Cabin).index(self)


class TripParameters(Document):
    """Airports are IATA codes; dates are local to where the flight leaves."""

    origin: str = Field(pattern=r"^[A-Z]{3}$")
    destination: str = Field(pattern=r"^[A-Z]{3}$")
    departure_date: date
    return_date: date | None = None
    cabin_class: Cabin = Cabin.economy


class Preferences(Document):
    """What the employee would like. None of it is a rule."""

    vendors: list[str] = Field(default_factory=list)
    avoided_vendors: list[str] = Field(default_factory=list)
    # Other airports of the cities that were named.
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
    """Where a rule stands, so that a person can read it."""

    chunk_id: str
    policy_id: str
    file_name: str
    source_page: int | None = None
    section_title: str | None = None
    similarity: float | None = None
    # The words that say it, shortened.
    quote: str | None = None


class Breach(Document):
    """What is against the policy. A hard one ends the request; a soft one needs somebody's approval."""

    code: str
    severity: str = Field(pattern="^(hard|soft)$")
    text: str
    remedy: str
    citation: Citation | None = None


class BookingPlan(Document):
    """The document's shape: intent, confidence, parameters and policy constraints; the rest is ours."""

    intent: str = "flight_booking"
    confidence: float = Field(ge=0, le=1)
    parameters: TripParameters
    policy_constraints: PolicyConstraints = PolicyConstraints()
    preferences: Preferences = Preferences()
    citations: list[Citation] = Field(default_factory=list)


class Segment(Document):
    """One flight. Times are local to their airports, with their offset."""

    carrier: str
    flight_number: str
    origin: str
    destination: str
    departs_at: LocalTime
    arrives_at: LocalTime
    duration_minutes: int


class FlightOption(Document):
    """What an employee may choose. `offer_id` is the portal's name for it, and ends with `offer_expires_at`."""

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

    @property
    def needs_approval(self) -> bool:
        return bool(self.breaches)


class Approval(Document):
    """Who was asked to let a soft breach pass, until when, and what they said."""

    asked_of: str
    due_at: datetime
    # What becomes of it where nobody answers: "approve" (soft) or "refuse" (hard).
    at_deadline: str = "refuse"
    decision: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None


class OpenQuestion(Document):
    """What the planner has to know before it can go on."""

    text: str
    missing: list[str] = Field(default_factory=list)
    choices: list[str] = Field(default_factory=list)


class Failure(Document):
    """Why a booking ended without a trip: a code for programs, words for the employee, what would go."""

    code: str
    text: str
    remedy: str | None = None
    breaches: list[Breach] = Field(default_factory=list)


class Booking(FlowItem, table=bookings):
    """The truth about a booking. What drives it is `flow.py`; every change of it is a transition there."""

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
    created_at: Attr[Seconds] = attr()
    updated_at: Attr[Seconds] = attr()
    # Ours, from here on.
    flow_token: Attr[str | None] = attr("taskToken", default=None)
    time_zone: Attr[str] = attr(default="UTC")
    home_airport: Attr[str | None] = attr(default=None)
    passages: Attr[list[Citation]] = attr(default_factory=list)
    policy_confidence: Attr[Confidence | None] = attr(default=None)
    question: Attr[OpenQuestion | None] = attr(default=None)
    answers: Attr[list[str]] = attr(default_factory=list)
    # What the planner read other than it was written, or left out.
    notes: Attr[list[str]] = attr(default_factory=list)
    approval: Attr[Approval | None] = attr(default=None)
    failure: Attr[Failure | None] = attr(default=None)
    e_ticket_number: Attr[str | None] = attr(default=None)
    paid_usd: Attr[Decimal | None] = attr(default=None)

    of = Key(employee_id, booking_id)

    @field_validator("flight_options")
    @classmethod
    def _few(cls, options: list[FlightOption]) -> list[FlightOption]:
        if len(options) > OPTIONS_CAP:
            raise ValueError(f"a booking has at most {OPTIONS_CAP} options to choose from")
        return options

    @model_validator(mode="after")
    def _has_what_was_confirmed(self) -> Self:
        is_known = self.selected_option is not None and self.confirmation_number is not None
        if self.status is BookingStatus.confirmed and not is_known:
            raise ValueError(
                "a confirmed booking has the option that was chosen and the portal's confirmation"
            )
        return self

    @property
    def is_ended(self) -> bool:
        return self.status in TERMINAL


kept(Booking, None, "for good: an employee looks up former trips")


class ActiveBooking(Entity, table=active_bookings):
    """There is one exactly while the employee has a booking that has not ended: made with it, removed with its end."""

    employee_id: Attr[EmployeeId] = attr()
    booking_id: Attr[Ulid] = attr()
    since: Attr[Seconds] = attr()

    of = Key(employee_id)


kept(ActiveBooking, None, "until the booking ends")


# --- audit ---------------------------------------------------------------------------------------------------------


class AuditEvent(StrEnum):
    policy_retrieval = "policy_retrieval"
    reasoning = "reasoning"
    plan_validation = "plan_validation"
    flight_search = "flight_search"
    user_selection = "user_selection"
    booking_completion = "booking_completion"
    error = "error"


class AuditRecord(Entity, table=audit_log):
    """What a step was given and what it gave. Created and never changed; nothing of a traveller but the employee's id and
    the request's own words."""

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


kept(AuditRecord, None, "two years by the calendar, unless TRIPCORTEX_AUDIT_YEARS says otherwise")


def audit_end(at: datetime, years: int = AUDIT_YEARS) -> datetime:
    """So many years later by the calendar; of the 29th of February, the 1st of March."""
    try:
        return at.replace(year=at.year + years)
    except ValueError:
        return at.replace(year=at.year + years, month=3, day=1)


# --- live ----------------------------------------------------------------------------------------------------------


class Connection(Entity, table=connections):
    """`node` is the address of the process that holds it; on API Gateway, the service's own."""

    connection_id: Attr[str] = attr()
    employee_id: Attr[EmployeeId] = attr()
    connected_at: Attr[Seconds] = attr()
    node: Attr[str | None] = attr(default=None)

    of = Key(connection_id)
    of_employee = IndexKey(connections_by_employee, employee_id)
    lives = Lifetime(connected_at, timedelta(seconds=CONNECTION_S))


class Message(Entity, table=messages):
    """One thing that an employee is told: options, a confirmation, a question. It stays until it is acknowledged."""

    employee_id: Attr[EmployeeId] = attr()
    message_id: Attr[Ulid] = attr()
    kind: Attr[str] = attr()
    booking_id: Attr[Ulid | None] = attr(default=None)
    body: Attr[dict[str, Any]] = attr(default_factory=dict)
    at: Attr[Seconds] = attr()

    of = Key(employee_id, message_id)
    lives = Lifetime(at, timedelta(days=MESSAGE_DAYS))


# --- the portal ----------------------------------------------------------------------------------------------------


class CircuitState(StrEnum):
    closed = "closed"
    open = "open"
    half_open = "half_open"


class Circuit(Entity, table=circuits):
    """The portal's circuit. `threshold` and the probe's lease are ours; the rest is the document's."""

    circuit_id: Attr[str] = attr()
    state: Attr[CircuitState] = attr(default=CircuitState.closed)
    failure_count: Attr[int] = attr(default=0)
    last_failure_time: Attr[int] = attr(default=0)
    recovery_timeout: Attr[int] = attr(default=60)
    threshold: Attr[int] = attr(default=5)
    probe: Attr[str | None] = attr(default=None)
    probe_until: Attr[int | None] = attr(default=None)
    ttl: Attr[EpochSeconds] = attr()

    of = Key(circuit_id)


kept(Circuit, None, "a day after its last change, and always longer than its recovery")


class PortalCall(OnceRecord, table=portal_calls):
    """A booking at the portal under our reference, which is the booking's id."""

    reference: Attr[str] = attr()
    employee_id: Attr[EmployeeId] = attr()

    of = Key(reference)
