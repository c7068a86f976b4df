"""Statuses and stages of a request, and the allowed transitions between statuses.

    RECEIVED → PARSED → VALIDATED → ENRICHED → ATTACHMENTS_PROCESSED → CONVERTED → SUBMITTED → RESPONSE_BUILT
      → CALLBACK_SENT → COMPLETED

`PIPELINE` is the order of the stages: queues, components, transitions and the expected load follow from it.
Every change of a status is checked against it. A payer that needs time leads to PENDED instead of SUBMITTED;
its callback then leads to SUBMITTED, also for a request that FAILED because the payer's earlier answer was
inconsistent. Any active request may fail or be cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
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


@dataclass(frozen=True)
class Step:
    """One stage of the pipeline: the status that it processes, and its queue.

    `prefix` begins the ids of its queue's patterns, which reports and metrics name: it stays the same when a
    stage is added before this one.
    """

    status: Status
    stage: Stage
    prefix: str
    queue_purpose: str


# In order. A stage ends with the status of the next step, the last one with COMPLETED.
PIPELINE: Final = (
    Step(Status.VALIDATED, Stage.request_enricher, "Q1", "Requests to enrich from the registries"),
    Step(Status.ENRICHED, Stage.attachment_handler, "Q2", "Requests whose attachments to extract"),
    Step(
        Status.ATTACHMENTS_PROCESSED,
        Stage.request_converter,
        "Q3",
        "Requests to convert to the payer's format",
    ),
    Step(Status.CONVERTED, Stage.api_connector, "Q4", "Requests to submit to the payer, and inquiries"),
    Step(Status.SUBMITTED, Stage.response_builder, "Q5", "Requests whose ClaimResponse to build"),
    Step(Status.RESPONSE_BUILT, Stage.callback_handler, "Q6", "Callbacks from payers and to clients"),
    Step(
        Status.CALLBACK_SENT,
        Stage.subscription_handler,
        "Q7",
        "Requests to complete, and subscribers to notify",
    ),
)
STAGE_BY_STATUS: Final = {
    **{step.status: step.stage for step in PIPELINE},
    Status.PENDED: Stage.response_builder,
}
TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
ACTIVE: Final = tuple(each for each in Status if each not in TERMINAL)

# The statuses of a request to which nothing special happens, in order.
_PATH: Final = (Status.RECEIVED, Status.PARSED, *(step.status for step in PIPELINE), Status.COMPLETED)
_STEPS: Final = frozenset(pairwise(_PATH))
_DETOURS: Final[Mapping[Status, frozenset[Status]]] = {
    Status.CONVERTED: frozenset({Status.PENDED}),
    Status.PENDED: frozenset({Status.SUBMITTED}),
    # A decided request may be cancelled later.
    Status.COMPLETED: frozenset({Status.CANCELLED}),
    # The payer's first answer was unreadable and a valid one followed. All other ways back are an operator's
    # replay.
    Status.FAILED: frozenset({Status.SUBMITTED}),
}
# The payer does not have the request yet; a converted one may be on its way.
BEFORE_PAYER: Final = frozenset(_PATH[: _PATH.index(Status.CONVERTED)])
EARLY_ENDS: Final = frozenset({Status.FAILED, Status.CANCELLED})


def can_follow(now: Status, following: Status) -> bool:
    """Return whether a request may go from the status `now` to the status `following`."""
    if (now, following) in _STEPS or following in _DETOURS.get(now, ()):
        return True
    return now not in TERMINAL and following in EARLY_ENDS


def get_predecessors(status: Status) -> tuple[Status, ...]:
    """Return the statuses from which a request may go directly to this one."""
    return tuple(now for now in Status if can_follow(now, status))


def get_stage(status: Status) -> Stage:
    """Return the stage that processes a request in this status; `done` if none does."""
    return STAGE_BY_STATUS.get(status, Stage.done)


def get_status(stage: Stage) -> Status:
    """Return the status that a stage of the pipeline processes."""
    return next(step.status for step in PIPELINE if step.stage is stage)
