"""By when a payer must have decided (CMS-0057-F, from 2026): 72 hours where it is expedited, else 7 calendar days."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

EXPEDITED: Final = "expedited"
STANDARD: Final = "standard"
LIMITS: Final = {EXPEDITED: timedelta(hours=72), STANDARD: timedelta(days=7)}


def due_at(received: datetime, urgency: str) -> datetime:
    return received + LIMITS[urgency]
