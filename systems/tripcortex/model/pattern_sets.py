"""Sets of access patterns that several components may run, or a component of a test.

The patterns of the flow and of the policies are declared with those.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import Pattern
from holdfast.model.components import HasPatterns
from tripcortex.model import patterns
from tripcortex.model.notices import NOTICES

Patterns = tuple[Pattern[..., Any] | HasPatterns, ...]

# Connections, messages and acknowledgements, and an employee's bookings.
API: Final[Patterns] = (
    patterns.connection,
    patterns.unacknowledged,
    patterns.place_of,
    patterns.booking,
    patterns.history,
    patterns.trail,
    patterns.employee_audit,
    patterns.put_connection,
    patterns.delete_connection,
    patterns.acknowledge,
    patterns.create_booking,
    patterns.take_place,
    patterns.leave_place,
)
SENDER: Final[Patterns] = (
    patterns.message,
    patterns.connections_of,
    patterns.connection,
    patterns.all_connections,
    patterns.delete_connection,
    *NOTICES.reads,
    NOTICES.relay,
)
# To send an employee a message.
MESSAGES: Final[Patterns] = (patterns.put_message, NOTICES.publisher)
