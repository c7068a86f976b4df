"""The steps of a booking: functions from the booking to its next state and the writes that go with it.

    retrieval → plan → validation → search → (choice) → purchase → confirmed
                                                                └→ endings: how any of them ends

Each is one of the document's steps and writes its audit entries. `workers.flow` declares their order.
"""

from __future__ import annotations
