"""Statuses and stages of a request, and the allowed transitions between statuses.

    RECEIVED → PARSED → VALIDATED → ENRICHED → ATTACHMENTS_PROCESSED → CONVERTED → SUBMITTED → RESPONSE_BUILT
      → CALLBACK_SENT → COMPLETED

Every change of a status is checked against this table. A payer that needs time leads to PENDED instead of
SUBMITTED; its callback then leads to SUBMITTED, also for a request that FAILED because the payer's earlier
answer was inconsistent. Any active request may fail or be cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    RECEIVED = "RECEIVED"
    PARSED = "PARSED"
    VALIDATED = "VALIDATED"
    ENRICHED = "ENRICHED"
    ATTACHMENTS_PROCESSED = "ATTACHMENTS_PROCESSED"
    CONVERTED = "CONVERTED"
    SUBMITTED = "SUBMITTED"
    PENDED = "PENDED"
    RESPONSE_BUILT = "RESPONSE_BUILT"
    # The delivery to the client, if it has a callback URL, is queued; the notifier sends it later.
    CALLBACK_SENT = "CALLBACK_SENT"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Stage(StrEnum):
    """The stage that processes a request next. Stages of the pipeline have a queue, `pagw-{stage}-queue`."""

    request_parser = "request-parser"
    business_validator = "business-validator"
    request_enricher = "request-enricher"
    attachment_handler = "attachment-handler"
    request_converter = "request-converter"
    api_connector = "api-connector"
    response_builder = "response-builder"
    callback_handler = "callback-handler"
    subscription_handler = "subscription-handler"
    # Not a stage of the gateway: the payer has the request, or it has ended.
    payer = "payer"
    done = "done"

    @property
    def service(self) -> str:
        """The document's name of the stage's service: `pasrequestenricher`."""
        return "pas" + self.value.replace("-", "")


TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
ACTIVE: Final = tuple(each for each in Status if each not in TERMINAL)

_NEXT: Final[Mapping[Status, frozenset[Status]]] = {
    Status.RECEIVED: frozenset({Status.PARSED}),
    Status.PARSED: frozenset({Status.VALIDATED}),
    Status.VALIDATED: frozenset({Status.ENRICHED}),
    Status.ENRICHED: frozenset({Status.ATTACHMENTS_PROCESSED}),
    Status.ATTACHMENTS_PROCESSED: frozenset({Status.CONVERTED}),
    Status.CONVERTED: frozenset({Status.SUBMITTED, Status.PENDED}),
    Status.PENDED: frozenset({Status.SUBMITTED}),
    Status.SUBMITTED: frozenset({Status.RESPONSE_BUILT}),
    Status.RESPONSE_BUILT: frozenset({Status.CALLBACK_SENT}),
    Status.CALLBACK_SENT: frozenset({Status.COMPLETED}),
    # A decided request may be cancelled later.
    Status.COMPLETED: frozenset({Status.CANCELLED}),
    # The payer's first answer was unreadable and a valid one followed. All other ways back are an operator's
    # replay.
    Status.FAILED: frozenset({Status.SUBMITTED}),
}
EARLY_ENDS: Final = frozenset({Status.FAILED, Status.CANCELLED})


def can_follow(now: Status, following: Status) -> bool:
    """Return whether a request may go from the status `now` to the status `following`."""
    return following in _NEXT.get(now, frozenset()) or (now not in TERMINAL and following in EARLY_ENDS)


def get_predecessors(status: Status) -> tuple[Status, ...]:
    """Return the statuses from which a request may go directly to this one."""
    return tuple(now for now in Status if can_follow(now, status))
