"""Which patterns the parts of `live` and `routes` run, for the components that they are parts of. Those of the flow and of the
knowledge come with these."""

from __future__ import annotations

from typing import Any, Final

from holdfast import Pattern
from tripcortex import patterns
from tripcortex.live import notices
from tripcortex.live.notices import NOTICES

Patterns = tuple[Pattern[..., Any], ...]

# Connections, what employees are told and acknowledge, and what they ask about their bookings.
API_READS: Final[Patterns] = (
    patterns.connection,
    patterns.unacknowledged,
    patterns.place_of,
    patterns.booking,
    patterns.history,
    patterns.trail,
    patterns.employee_audit,
)
API_WRITES: Final[Patterns] = (
    patterns.put_connection,
    patterns.delete_connection,
    patterns.acknowledge,
    patterns.create_booking,
    patterns.take_place,
    patterns.leave_place,
)
SENDER_READS: Final[Patterns] = (
    patterns.message,
    patterns.connections_of,
    patterns.connection,
    patterns.all_connections,
    *NOTICES.reads,
)
SENDER_WRITES: Final[Patterns] = (
    patterns.delete_connection,
    *NOTICES.relaying,
    notices.receive,
    notices.done,
    notices.hold,
)
# For whoever tells an employee something.
TELLING: Final[Patterns] = (patterns.put_message, NOTICES.append)
