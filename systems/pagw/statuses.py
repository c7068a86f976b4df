"""Where a request may stand, and which step may follow which. Every change of a status is compared with this table.

    RECEIVED → PARSED → VALIDATED → ENRICHED → ATTACHMENTS_PROCESSED → CONVERTED → SUBMITTED → RESPONSE_BUILT
             → CALLBACK_SENT → COMPLETED

A payer that needs time makes it PENDED in place of SUBMITTED; its callback brings it to SUBMITTED, and so it does with one
that FAILED because the payer's former answer made no sense. From anywhere before the end a request may fail or be cancelled.
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
    CALLBACK_SENT = "CALLBACK_SENT"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Stage(StrEnum):
    """Who has a request next. The queue of a stage is `pagw-{stage}-queue`."""

    request_parser = "request-parser"
    business_validator = "business-validator"
    request_enricher = "request-enricher"
    attachment_handler = "attachment-handler"
    request_converter = "request-converter"
    api_connector = "api-connector"
    response_builder = "response-builder"
    callback_handler = "callback-handler"
    subscription_handler = "subscription-handler"
    # Nobody of ours: the payer has it, or nobody has.
    payer = "payer"
    done = "done"

    @property
    def service(self) -> str:
        """The document's name of the service that does it: `pasrequestenricher`."""
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
    # A decision that was cancelled after the fact.
    Status.COMPLETED: frozenset({Status.CANCELLED}),
    # A payer whose answer could not be read, and that decides after all. Any other way back is an operator's replay.
    Status.FAILED: frozenset({Status.SUBMITTED}),
}
ENDS: Final = frozenset({Status.FAILED, Status.CANCELLED})


def may_follow(now: Status, then: Status) -> bool:
    """Whether a request that stands at one may be brought to the other."""
    return then in _NEXT.get(now, frozenset()) or (now not in TERMINAL and then in ENDS)


def predecessors(then: Status) -> tuple[Status, ...]:
    """Where a request may stand that is brought to this status."""
    return tuple(now for now in Status if may_follow(now, then))
