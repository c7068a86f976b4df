"""The gateway's expected load, for the design check and the cost estimate.

The design document gives only latency targets. A hundred thousand requests a month is the volume of a
regional payer. The other figures follow from one request: its stages, an audit event per step and per read,
one or two status queries, a webhook for every second request.
"""

from __future__ import annotations

from typing import Final

from holdfast import Load, Volume
from pagw.domain.statuses import PIPELINE
from pagw.model.entities import RETENTION_YEARS

REQUESTS_PER_MONTH: Final = 100_000
# Prior authorisations are submitted in office hours, most of them in the morning.
PEAK_FACTOR: Final = 8.0
TENANTS: Final = 50
PAYERS: Final = 20
MONTH_S: Final = 30 * 24 * 3600
# One in ten is pended and passes the response builder and the callback handler twice.
PENDED_SHARE: Final = 0.1
STAGES_PER_REQUEST: Final = len(PIPELINE) + 2 * PENDED_SHARE
# One per stage, and for the intake, a pended response, two reads of the response and a delivery.
AUDIT_EVENTS_PER_REQUEST: Final = len(PIPELINE) + 5
QUESTIONS_PER_REQUEST: Final = 3
NOTICES_PER_REQUEST: Final = 0.5
# The largest tenant sends a fifth of all calls.
LARGEST_SHARE: Final = 0.2


def build_load(requests: int) -> Load:
    """Return the load of `requests` requests a month."""
    return Load(
        {
            "request": Volume(requests, distinct_keys=requests),
            "stage of a request": Volume(requests * STAGES_PER_REQUEST, distinct_keys=requests),
            "audit event": Volume(
                requests * AUDIT_EVENTS_PER_REQUEST, distinct_keys=requests * AUDIT_EVENTS_PER_REQUEST
            ),
            "question": Volume(requests * QUESTIONS_PER_REQUEST, distinct_keys=requests),
            "notice to a client": Volume(requests * NOTICES_PER_REQUEST, distinct_keys=requests),
            "call of a client": Volume(
                requests * (1 + QUESTIONS_PER_REQUEST), distinct_keys=TENANTS, hottest=LARGEST_SHARE
            ),
            "change by an operator": Volume(1_000, distinct_keys=PAYERS),
            "look of an operator": Volume(5_000),
            "start of a process": Volume(500),
            "legal hold": Volume(20, distinct_keys=20),
            "sweep": Volume(MONTH_S / 3600),
            "look at pended requests": Volume(MONTH_S / 300),
            "look at clients out of reach": Volume(MONTH_S / 300),
            "run of retention": Volume(MONTH_S / 86400),
        },
        peak_factor=PEAK_FACTOR,
    )


LOAD: Final = build_load(REQUESTS_PER_MONTH)
WHAT_IF: Final = {
    "1,000,000 requests a month": build_load(10 * REQUESTS_PER_MONTH),
    "10,000,000 requests a month": build_load(100 * REQUESTS_PER_MONTH),
}
# Requests in the database when the first ones reach the end of their retention.
TRACKED_REQUESTS: Final = REQUESTS_PER_MONTH * 12 * RETENTION_YEARS
