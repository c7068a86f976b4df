"""How much the gateway has to bear, for the design check and the cost: the document names no number but its targets.

A hundred thousand requests a month is a regional payer's. Everything else follows from the shape of a request: seven stages,
an audit event for each step and for each read, a question or two of its client, a webhook for one in two.
"""

from __future__ import annotations

from typing import Final

from holdfast import Load, Volume
from pagw.model import RETENTION_YEARS

REQUESTS: Final = 100_000
# Prior authorisations are asked for in office hours, and most of them in the morning.
PEAK: Final = 8.0
TENANTS: Final = 50
PAYERS: Final = 20
MONTH_S: Final = 30 * 24 * 3600
# One in ten is pended and goes through the builder twice, and through the callback handler once more.
STAGES: Final = 7.2
# A step each, two reads of the answer, a delivery.
AUDIT_EVENTS: Final = 12
QUESTIONS: Final = 3
NOTICES: Final = 0.5
# The largest tenant has a fifth of all.
LARGEST_SHARE: Final = 0.2


def load_of(requests: int) -> Load:
    """What so many requests in a month make the gateway bear."""
    return Load(
        {
            "request": Volume(requests, distinct_keys=requests),
            "stage of a request": Volume(requests * STAGES, distinct_keys=requests),
            "audit event": Volume(requests * AUDIT_EVENTS, distinct_keys=requests * AUDIT_EVENTS),
            "question": Volume(requests * QUESTIONS, distinct_keys=requests),
            "notice to a client": Volume(requests * NOTICES, distinct_keys=requests),
            "call of a client": Volume(
                requests * (1 + QUESTIONS), distinct_keys=TENANTS, hottest=LARGEST_SHARE
            ),
            "change by an operator": Volume(1_000, distinct_keys=PAYERS),
            "look of an operator": Volume(5_000),
            "legal hold": Volume(20, distinct_keys=20),
            "sweep": Volume(MONTH_S / 3600),
            "look at pended requests": Volume(MONTH_S / 300),
            "run of retention": Volume(MONTH_S / 86400),
        },
        peak_factor=PEAK,
    )


LOAD: Final = load_of(REQUESTS)
WHAT_IF: Final = {
    "1,000,000 requests a month": load_of(10 * REQUESTS),
    "10,000,000 requests a month": load_of(100 * REQUESTS),
}
# How many requests are tracked when the first of them end: what the database has to hold.
TRACKED: Final = REQUESTS * 12 * RETENTION_YEARS
