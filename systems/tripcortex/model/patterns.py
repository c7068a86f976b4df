"""Access patterns of Trip Cortex's tables: the document's D1 to D14 under their numbers, and further ones.

D7, every change of a booking, belongs to the flow (`workers.flow`); D13 and D14 belong to the portal's
circuit breaker; A1 to A6 are the patterns of policies in SQL. TX… are not in the document: the marker of the
active booking, and the messages to employees.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Delete, Get, Put, Query, Rate, pattern
from holdfast.model.entities import Scan
from holdfast.model.ulids import Ulid
from tripcortex.model.entities import (
    TERMINAL_STATUSES,
    ActiveBooking,
    AuditEvent,
    AuditRecord,
    Booking,
    Connection,
    EmployeeId,
    Message,
    compute_audit_expiry,
)

PAGE_SIZE: Final = 20
MESSAGES_PAGE_SIZE: Final = 100

REQUEST: Final = Rate(per="booking request")
ENTRY: Final = Rate(per="audit entry")
CONNECTION: Final = Rate(per="connection")
MESSAGE: Final = Rate(per="message to an employee")
HEARTBEAT: Final = Rate(per="heartbeat")
QUESTION: Final = Rate(per="question")

_EMPLOYEE: Final = EmployeeId("emp-42")
_BOOKING: Final = Ulid("01KKBW6R000000000000000000")
# A confirmed booking of the sample.
_CONFIRMED_BOOKING: Final = Ulid("01KK4CFSSGET7K6V2MMMVV3QH6")
_MESSAGE: Final = Ulid("01KKBW6R000000000000000001")
_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)


def _build_connection() -> tuple[Connection]:
    """Return the arguments of a pattern's example."""
    return (Connection(connection_id="abc123xyz", employee_id=_EMPLOYEE, connected_at=_NOW),)


def _build_booking() -> Booking:
    """Return the booking of a pattern's example."""
    return Booking(
        employee_id=_EMPLOYEE,
        booking_id=_BOOKING,
        user_request="Book me a flight to Chicago next Tuesday returning Thursday, prefer United",
        flow_state="initiated",
        created_at=_NOW,
        updated_at=_NOW,
    )


def _build_audit_entry() -> tuple[AuditRecord]:
    """Return the arguments of a pattern's example: the document's audit entry."""
    return (
        AuditRecord(
            booking_id=_BOOKING,
            audit_id=_MESSAGE,
            employee_id=_EMPLOYEE,
            timestamp=_NOW,
            event=AuditEvent.policy_retrieval,
            step="EmbedAndRetrieve",
            input={"user_request": "Flight to Chicago next Tuesday…", "query_embedding_dim": 1024},
            output={"chunks_retrieved": 5, "max_similarity": 0.89, "confidence": "high"},
            model_id="amazon.nova-2-multimodal-embeddings-v1:0",
            latency_ms=450,
            expires_at=compute_audit_expiry(_NOW),
        ),
    )


def _build_marker() -> tuple[ActiveBooking]:
    """Return the arguments of a pattern's example."""
    return (ActiveBooking(employee_id=_EMPLOYEE, booking_id=_BOOKING, since=_NOW),)


def _build_message() -> tuple[Message]:
    """Return the arguments of a pattern's example."""
    return (
        Message(employee_id=_EMPLOYEE, message_id=_MESSAGE, kind="options", booking_id=_BOOKING, at=_NOW),
    )


# --- connections --------------------------------------------------------------------------------------------


@pattern("D1", "Store a WebSocket connection", rate=CONNECTION, example=_build_connection)
def put_connection(connection: Connection) -> Put[Connection]:
    return Connection.put(connection)


@pattern("D2", "Read a connection, to deliver a message to it", rate=MESSAGE, example=("abc123xyz",))
def connection(connection_id: str) -> Get[Connection]:
    return Connection.of(connection_id).get()


@pattern("D3", "Delete a connection", rate=CONNECTION, example=("abc123xyz",))
def delete_connection(connection_id: str) -> Delete[Connection]:
    return Connection.of(connection_id).delete()


@pattern("D4", "List all connections, for the heartbeat", rate=HEARTBEAT)
def all_connections() -> Scan[Connection]:
    return Connection.scan(reason="under 500 connections, every five minutes, outside of any request")


@pattern("TX1", "List an employee's live connections", rate=MESSAGE, example=(_EMPLOYEE,))
def connections_of(employee_id: EmployeeId) -> Query[Connection]:
    return Connection.of_employee(employee_id).query()


# --- bookings -----------------------------------------------------------------------------------------------


@pattern("D5", "Create a booking", rate=REQUEST, example=lambda: (_build_booking(),))
def create_booking(booking: Booking) -> Put[Booking]:
    return Booking.create(booking)


@pattern("D6", "Find an employee's active booking", rate=REQUEST, example=(_EMPLOYEE,))
def active_bookings_of(employee_id: EmployeeId) -> Query[Booking]:
    """Only for display. Whether a new booking may begin is decided by the marker, in a transaction."""
    return Booking.of(employee_id).query().descending().where(Booking.status.not_in(TERMINAL_STATUSES))


@pattern("D8", "Read a booking", rate=QUESTION, example=(_EMPLOYEE, _CONFIRMED_BOOKING))
def booking(employee_id: EmployeeId, booking_id: Ulid) -> Get[Booking]:
    return Booking.of(employee_id).get(booking_id).consistent()


@pattern("D9", "List an employee's bookings, newest first", rate=QUESTION, example=(_EMPLOYEE,))
def history(employee_id: EmployeeId, limit: int = PAGE_SIZE, after: str | None = None) -> Query[Booking]:
    return Booking.of(employee_id).query().descending().page(limit, after)


@pattern(
    "TX2", "Create the marker of an active booking, unless one exists", rate=REQUEST, example=_build_marker
)
def take_place(marker: ActiveBooking) -> Put[ActiveBooking]:
    return ActiveBooking.create(marker)


@pattern("TX3", "Read the marker of an employee's active booking", rate=REQUEST, example=(_EMPLOYEE,))
def place_of(employee_id: EmployeeId) -> Get[ActiveBooking]:
    return ActiveBooking.of(employee_id).get().consistent()


@pattern("TX4", "Delete the marker when the booking ends", rate=REQUEST, example=(_EMPLOYEE, _BOOKING))
def leave_place(employee_id: EmployeeId, booking_id: Ulid) -> Delete[ActiveBooking]:
    """Succeeds if there is no marker.

    It never meets another booking's marker: only an ended booking's marker is replaced.
    """
    mine = (ActiveBooking.booking_id == booking_id) | ActiveBooking.booking_id.not_exists()
    return ActiveBooking.of(employee_id).delete().when(mine)


# --- audit --------------------------------------------------------------------------------------------------


@pattern("D10", "Write an audit entry", rate=ENTRY, example=_build_audit_entry)
def append_audit(entry: AuditRecord) -> Put[AuditRecord]:
    return AuditRecord.create(entry)


@pattern("D11", "List a booking's audit trail, in order", rate=QUESTION, example=(_CONFIRMED_BOOKING,))
def trail(booking_id: Ulid, limit: int = 100, after: str | None = None) -> Query[AuditRecord]:
    return AuditRecord.of(booking_id).query().page(limit, after)


@pattern(
    "D12",
    "List an employee's audit entries in a time range, both ends included",
    rate=QUESTION,
    example=(_EMPLOYEE, _NOW - timedelta(days=30), _NOW),
)
def employee_audit(
    employee_id: EmployeeId, since: datetime, until: datetime, limit: int = 100, after: str | None = None
) -> Query[AuditRecord]:
    return AuditRecord.by_employee(employee_id).between(since, until).page(limit, after)


# --- messages to employees ----------------------------------------------------------------------------------


@pattern(
    "TX5", "Store a message to an employee, until it is acknowledged", rate=MESSAGE, example=_build_message
)
def put_message(message: Message) -> Put[Message]:
    return Message.create(message)


@pattern(
    "TX6", "List an employee's unacknowledged messages, oldest first", rate=CONNECTION, example=(_EMPLOYEE,)
)
def unacknowledged(
    employee_id: EmployeeId, limit: int = MESSAGES_PAGE_SIZE, after: str | None = None
) -> Query[Message]:
    return Message.of(employee_id).query().page(limit, after)


@pattern("TX7", "Delete a message that a client acknowledged", rate=MESSAGE, example=(_EMPLOYEE, _MESSAGE))
def acknowledge(employee_id: EmployeeId, message_id: Ulid) -> Delete[Message]:
    return Message.of(employee_id).delete(message_id)


@pattern("TX8", "Read a message, to deliver it", rate=MESSAGE, example=(_EMPLOYEE, _MESSAGE))
def message(employee_id: EmployeeId, message_id: Ulid) -> Get[Message]:
    return Message.of(employee_id).get(message_id).consistent()
