"""How Trip Cortex asks for what it keeps in tables: the document's D1 to D14 under their numbers, and ours.

D7, every change of a booking, is the flow's own (`flow.py`); D13 and D14 are those of the circuit (`portal/circuit.py`); A1 to
A6, of policies, stand in `knowledge/patterns.py`. TX… are ours: the marker of the active booking, and what employees are told.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Delete, Get, Put, Query, Rate, Scan, Ulid, pattern
from tripcortex.model import (
    TERMINAL,
    ActiveBooking,
    AuditEvent,
    AuditRecord,
    Booking,
    Connection,
    EmployeeId,
    Message,
    audit_end,
)

PAGE: Final = 20
MESSAGES_PAGE: Final = 100

REQUEST: Final = Rate(per="booking request")
ENTRY: Final = Rate(per="audit entry")
CONNECTED: Final = Rate(per="connection")
TOLD: Final = Rate(per="message to an employee")
HEARTBEAT: Final = Rate(per="heartbeat")
QUESTION: Final = Rate(per="question")

_EMPLOYEE: Final = EmployeeId("emp-42")
_BOOKING: Final = Ulid("01KKBW6R000000000000000000")
# A confirmed one of the sample's.
_CONFIRMED: Final = Ulid("01KK4CFSSGET7K6V2MMMVV3QH6")
_MESSAGE: Final = Ulid("01KKBW6R000000000000000001")
_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)


def _connection() -> tuple[Connection]:
    return (Connection(connection_id="abc123xyz", employee_id=_EMPLOYEE, connected_at=_NOW),)


def _booking() -> Booking:
    return Booking(
        employee_id=_EMPLOYEE,
        booking_id=_BOOKING,
        user_request="Book me a flight to Chicago next Tuesday returning Thursday, prefer United",
        flow_state="initiated",
        created_at=_NOW,
        updated_at=_NOW,
    )


def _audit() -> tuple[AuditRecord]:
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
            expires_at=audit_end(_NOW),
        ),
    )


def _marker() -> tuple[ActiveBooking]:
    return (ActiveBooking(employee_id=_EMPLOYEE, booking_id=_BOOKING, since=_NOW),)


def _message() -> tuple[Message]:
    return (
        Message(employee_id=_EMPLOYEE, message_id=_MESSAGE, kind="options", booking_id=_BOOKING, at=_NOW),
    )


# --- connections -----------------------------------------------------------------------------------------------


@pattern("D1", "Store a WebSocket connection", rate=CONNECTED, example=_connection)
def put_connection(connection: Connection) -> Put[Connection]:
    return Connection.put(connection)


@pattern("D2", "The connection that a message is delivered to", rate=TOLD, example=("abc123xyz",))
def connection(connection_id: str) -> Get[Connection]:
    return Connection.of(connection_id).get()


@pattern("D3", "Forget a connection", rate=CONNECTED, example=("abc123xyz",))
def delete_connection(connection_id: str) -> Delete[Connection]:
    return Connection.of(connection_id).delete()


@pattern("D4", "All connections, for the heartbeat", rate=HEARTBEAT)
def all_connections() -> Scan[Connection]:
    return Connection.scan(reason="under 500 connections, every five minutes, outside of any request")


@pattern("TX1", "The live connections of an employee", rate=TOLD, example=(_EMPLOYEE,))
def connections_of(employee_id: EmployeeId) -> Query[Connection]:
    return Connection.of_employee(employee_id).query()


# --- bookings --------------------------------------------------------------------------------------------------


@pattern("D5", "A new booking", rate=REQUEST, example=lambda: (_booking(),))
def create_booking(booking: Booking) -> Put[Booking]:
    return Booking.create(booking)


@pattern("D6", "The active booking of an employee", rate=REQUEST, example=(_EMPLOYEE,))
def active_bookings_of(employee_id: EmployeeId) -> Query[Booking]:
    """To show. Whether a new one may begin is decided by the marker, in the transaction that begins it."""
    return Booking.of(employee_id).query().newest_first().where(Booking.status.not_in(TERMINAL))


@pattern("D8", "A booking", rate=QUESTION, example=(_EMPLOYEE, _CONFIRMED))
def booking(employee_id: EmployeeId, booking_id: Ulid) -> Get[Booking]:
    return Booking.of(employee_id).get(booking_id).consistent()


@pattern("D9", "An employee's bookings, newest first", rate=QUESTION, example=(_EMPLOYEE,))
def history(employee_id: EmployeeId, limit: int = PAGE, after: str | None = None) -> Query[Booking]:
    return Booking.of(employee_id).query().newest_first().page(limit, after)


@pattern("TX2", "Take the one place of an active booking, if it is free", rate=REQUEST, example=_marker)
def take_place(marker: ActiveBooking) -> Put[ActiveBooking]:
    return ActiveBooking.create(marker)


@pattern("TX3", "Which booking has an employee's one place", rate=REQUEST, example=(_EMPLOYEE,))
def place_of(employee_id: EmployeeId) -> Get[ActiveBooking]:
    return ActiveBooking.of(employee_id).get().consistent()


@pattern("TX4", "Give the place back with the end of a booking", rate=REQUEST, example=(_EMPLOYEE, _BOOKING))
def leave_place(employee_id: EmployeeId, booking_id: Ulid) -> Delete[ActiveBooking]:
    """A place that is nobody's is left so. Another booking's is never there: it is taken over only from one that has ended."""
    mine = (ActiveBooking.booking_id == booking_id) | ActiveBooking.booking_id.missing()
    return ActiveBooking.of(employee_id).delete().when(mine)


# --- audit -----------------------------------------------------------------------------------------------------


@pattern("D10", "Write an audit entry", rate=ENTRY, example=_audit)
def append_audit(entry: AuditRecord) -> Put[AuditRecord]:
    return AuditRecord.create(entry)


@pattern("D11", "The audit trail of a booking, in order", rate=QUESTION, example=(_CONFIRMED,))
def trail(booking_id: Ulid, limit: int = 100, after: str | None = None) -> Query[AuditRecord]:
    return AuditRecord.of(booking_id).query().page(limit, after)


@pattern(
    "D12",
    "An employee's audit entries in a time range, both ends included",
    rate=QUESTION,
    example=(_EMPLOYEE, _NOW - timedelta(days=30), _NOW),
)
def employee_audit(
    employee_id: EmployeeId, since: datetime, until: datetime, limit: int = 100, after: str | None = None
) -> Query[AuditRecord]:
    return AuditRecord.by_employee(employee_id).between(since, until).page(limit, after)


# --- what employees are told -----------------------------------------------------------------------------------


@pattern("TX5", "Keep what an employee is told, until it is acknowledged", rate=TOLD, example=_message)
def put_message(message: Message) -> Put[Message]:
    return Message.create(message)


@pattern("TX6", "What an employee has not acknowledged, oldest first", rate=CONNECTED, example=(_EMPLOYEE,))
def unacknowledged(
    employee_id: EmployeeId, limit: int = MESSAGES_PAGE, after: str | None = None
) -> Query[Message]:
    return Message.of(employee_id).query().page(limit, after)


@pattern("TX7", "A client has it", rate=TOLD, example=(_EMPLOYEE, _MESSAGE))
def acknowledge(employee_id: EmployeeId, message_id: Ulid) -> Delete[Message]:
    return Message.of(employee_id).delete(message_id)


@pattern("TX8", "One message, to be delivered", rate=TOLD, example=(_EMPLOYEE, _MESSAGE))
def message(employee_id: EmployeeId, message_id: Ulid) -> Get[Message]:
    return Message.of(employee_id).get(message_id).consistent()
