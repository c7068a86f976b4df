"""How much Trip Cortex has to bear, for the design check and the cost: the document's year, in months.

5,000 bookings and 60,000 audit entries a year, fewer than 500 connections at once, one to five policies that change each quarter.
"""

from __future__ import annotations

from typing import Final

from holdfast import Load, Volume

BOOKINGS_A_YEAR: Final = 5_000
AUDIT_ENTRIES_A_BOOKING: Final = 12
# Requests, retrieval, plan, validation, search, choice, price, booking.
STEPS: Final = 8
MESSAGES: Final = 2.2
# Search, price and booking, and one that was made again.
PORTAL_CALLS: Final = 4
QUESTIONS: Final = 20
EMPLOYEES: Final = 1_000
CONNECTIONS_A_DAY: Final = 400
DAYS: Final = 30
MONTH_S: Final = DAYS * 24 * 3600
HEARTBEAT_S: Final = 300
POLL_S: Final = 5
PEAK: Final = 10.0
# A booking with its options, each of which cites the passages that it was judged by.
BOOKING_BYTES: Final = 16_000
BOOKING_BYTES_MAX: Final = 24_000
OPTIONS_BYTES: Final = 8_000
# What ends, begins and goes on is written together with its audit, its message and the next step.
TRANSACTED: Final = (
    *("D5", "D10", "TX2", "TX4", "TX5"),
    *("D7", "FL4", "FL5", "FL6", "FLO1", "TN1"),
)


def load_of(bookings_a_year: int) -> Load:
    bookings = bookings_a_year / 12
    keys = max(1, round(bookings))
    connections = CONNECTIONS_A_DAY * DAYS * bookings_a_year / BOOKINGS_A_YEAR
    return Load(
        {
            "booking request": Volume(bookings, distinct_keys=keys),
            "step of a booking": Volume(bookings * STEPS, distinct_keys=keys),
            "audit entry": Volume(bookings * AUDIT_ENTRIES_A_BOOKING, distinct_keys=keys),
            "message to an employee": Volume(bookings * MESSAGES, distinct_keys=keys),
            "booking at the portal": Volume(bookings, distinct_keys=keys),
            # All calls go through the one circuit.
            "call of the portal": Volume(bookings * PORTAL_CALLS, distinct_keys=1),
            "connection": Volume(connections, distinct_keys=EMPLOYEES),
            "heartbeat": Volume(MONTH_S / HEARTBEAT_S),
            "question": Volume(bookings * QUESTIONS, distinct_keys=EMPLOYEES),
            "policy upload": Volume(2),
            "batch of chunks": Volume(20),
            "look by an administrator": Volume(200),
            "poll of the orchestrator": Volume(MONTH_S / POLL_S),
        },
        peak_factor=PEAK,
        grows_to={"TripCortexBookings": BOOKING_BYTES_MAX},
        transacted=TRANSACTED,
        item_bytes={"D7": BOOKING_BYTES, "TX5": OPTIONS_BYTES},
    )


LOAD: Final = load_of(BOOKINGS_A_YEAR)
WHAT_IF: Final = {"50,000 bookings a year": load_of(10 * BOOKINGS_A_YEAR)}
