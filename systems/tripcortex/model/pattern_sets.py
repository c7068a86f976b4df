"""Sets of access patterns that the components `api` and `sender` may run, by reads and writes.

The patterns of the flow and of the policies are declared with those.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import Pattern
from tripcortex.model import notices, patterns
from tripcortex.model.notices import NOTICES

Patterns = tuple[Pattern[..., Any], ...]

# Connections, messages and acknowledgements, and an employee's bookings.
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
RELAY_WRITES: Final[Patterns] = tuple(each for each in NOTICES.relay if each not in NOTICES.reads)
SENDER_WRITES: Final[Patterns] = (
    patterns.delete_connection,
    *RELAY_WRITES,
    notices.receive,
    notices.done,
    notices.hold,
)
# To send an employee a message.
MESSAGE_WRITES: Final[Patterns] = (patterns.put_message, *NOTICES.publisher)
