"""Expected load of Trip Cortex per month, for the design checks and the cost estimate.

The document's year: 5,000 bookings and 60,000 audit entries a year, fewer than 500 connections at once, one
to five policies that change each quarter.
"""

from __future__ import annotations

from typing import Final

from holdfast import Load, Volume

BOOKINGS_A_YEAR: Final = 5_000
AUDIT_ENTRIES_A_BOOKING: Final = 12
# Request, retrieval, plan, validation, search, choice, price, booking.
STEPS_A_BOOKING: Final = 8
MESSAGES_A_BOOKING: Final = 2.2
# Search, price and booking, and one retry.
PORTAL_CALLS_A_BOOKING: Final = 4
QUESTIONS_A_BOOKING: Final = 20
# One booking in four needs an approval; each reads the directory when it is asked for, escalated and decided.
APPROVALS_A_BOOKING: Final = 0.75
# Joiners, leavers and transfers in a month, over SCIM.
DIRECTORY_CHANGES: Final = 100
EMPLOYEES: Final = 1_000
CONNECTIONS_A_DAY: Final = 400
DAYS_A_MONTH: Final = 30
MONTH_S: Final = DAYS_A_MONTH * 24 * 3600
HEARTBEAT_S: Final = 300
POLL_S: Final = 5
PEAK_FACTOR: Final = 10.0
# A booking with its options; each option cites the passages it was judged by.
BOOKING_BYTES: Final = 16_000
MAX_BOOKING_BYTES: Final = 24_000
OPTIONS_BYTES: Final = 8_000
# Every state change is written in one transaction with its audit entry, its message and the next step.
TRANSACTION_PATTERNS: Final = (
    *("D5", "D10", "TX2", "TX4", "TX5"),
    *("D7", "FL4", "FL5", "FL6", "FLO1", "TN1"),
)


def build_load(bookings_a_year: int) -> Load:
    """Return the expected load per month for this many bookings a year."""
    bookings = bookings_a_year / 12
    keys = max(1, round(bookings))
    connections = CONNECTIONS_A_DAY * DAYS_A_MONTH * bookings_a_year / BOOKINGS_A_YEAR
    return Load(
        {
            "booking request": Volume(bookings, distinct_keys=keys),
            "step of a booking": Volume(bookings * STEPS_A_BOOKING, distinct_keys=keys),
            "audit entry": Volume(bookings * AUDIT_ENTRIES_A_BOOKING, distinct_keys=keys),
            "message to an employee": Volume(bookings * MESSAGES_A_BOOKING, distinct_keys=keys),
            "booking at the portal": Volume(bookings, distinct_keys=keys),
            # All calls share one circuit breaker item.
            "call of the portal": Volume(bookings * PORTAL_CALLS_A_BOOKING, distinct_keys=1),
            "connection": Volume(connections, distinct_keys=EMPLOYEES),
            "heartbeat": Volume(MONTH_S / HEARTBEAT_S),
            "question": Volume(bookings * QUESTIONS_A_BOOKING, distinct_keys=EMPLOYEES),
            "approval": Volume(bookings * APPROVALS_A_BOOKING, distinct_keys=keys),
            "change of the directory": Volume(DIRECTORY_CHANGES),
            "policy upload": Volume(2),
            "batch of chunks": Volume(20),
            "look by an administrator": Volume(200),
            "poll of the orchestrator": Volume(MONTH_S / POLL_S),
        },
        peak_factor=PEAK_FACTOR,
        max_item_bytes={"TripCortexBookings": MAX_BOOKING_BYTES},
        transacted_patterns=TRANSACTION_PATTERNS,
        item_bytes={"D7": BOOKING_BYTES, "TX5": OPTIONS_BYTES},
    )


LOAD: Final = build_load(BOOKINGS_A_YEAR)
WHAT_IF: Final = {"50,000 bookings a year": build_load(10 * BOOKINGS_A_YEAR)}
