"""Deadlines of payers' decisions (CMS-0057-F): 72 hours if expedited, 7 calendar days if standard."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

EXPEDITED: Final = "expedited"
STANDARD: Final = "standard"
DECISION_LIMITS: Final = {EXPEDITED: timedelta(hours=72), STANDARD: timedelta(days=7)}


def compute_due_at(received: datetime, urgency: str) -> datetime:
    """Return the time by which the payer must have decided. `urgency` is `EXPEDITED` or `STANDARD`."""
    return received + DECISION_LIMITS[urgency]
