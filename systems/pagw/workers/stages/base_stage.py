"""The base of a stage: one message, one request, one transition, one transaction.

    load the request → run the stage (objects, external services) → write status, inbox, audit and the
    message to the next stage in one SQL transaction

A stage writes objects before the transaction, create-only, so a repeated stage finds its own. If the request
no longer has a status that the stage accepts, an earlier attempt has moved it on and the message is done. A
permanent failure (`StageFailed`, or a payer's refusal) ends the request as FAILED and notifies those who
wait. Any other error, such as a store that refuses a value, says nothing about the request: the queue
redelivers the message and finally dead-letters it, while the request keeps its status and is reported as
stuck.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from holdfast import Component, Consumer, ReceivedMessage, Stores
from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceRefused,
    InvalidRequest,
    RequestRefused,
    RetryLater,
)
from holdfast.model.components import Handler, Use
from holdfast.model.sql import SqlWrite
from pagw.domain.statuses import TERMINAL, Stage, Status, get_stage, get_status
from pagw.model import delivery_patterns, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import (
    QUEUES,
    DeliveryMessage,
    RequestRow,
    RequestUpdate,
    StageMessage,
    notifications,
)

# The process that the stages share.
PROCESS: Final = "pipeline"
# Every stage reads these first and writes these last, in one transaction.
STAGE_PATTERNS: Final = (
    patterns.request_in_hand,
    patterns.INBOX.pattern_set.stored,
    patterns.advance,
    patterns.note,
    patterns.tell_answered,
    delivery_patterns.create_delivery,
    patterns.record_audit,
    patterns.INBOX.pattern_set.take,
    patterns.OUTBOX.publisher,
)

log = logging.getLogger(__name__)


class StageFailed(RequestRefused, label="StageFailed"):
    """A permanent failure that ends the request. `code` and message are stored and shown: they contain no
    PHI. `response_key` is the key of a response to the failed request, if one was stored.
    """

    response_key: str | None = None


@dataclass(frozen=True)
class StageResult:
    """The result of a stage: the request's new status and the writes.

    The next stage is the one that processes the new status, unless `next_stage` names another.
    """

    status: Status
    update: RequestUpdate = patterns.NO_UPDATE
    details: Mapping[str, Any] = field(default_factory=dict)
    next_stage: Stage | None = None
    # Further writes of the same transaction.
    writes: Sequence[SqlWrite[Any]] = ()
    # Distinguishes several messages to the same stage.
    occasion: str = "1"
    # Writes that notify the client. If they are invalid, the transition commits without them.
    client_writes: Sequence[SqlWrite[Any]] = ()


class BaseStage(ABC):
    """One stage. Subclasses declare what they are and what they use, and implement `run`.

    Their module has the stage's name, so that `load_stages` finds it.
    """

    stage: ClassVar[Stage]
    purpose: ClassVar[str]
    # The patterns that it runs, in addition to those of every stage.
    uses: ClassVar[tuple[Use, ...]] = ()
    # Further statuses in which it processes a request, in addition to the one in `PIPELINE`.
    also_accepts: ClassVar[tuple[Status, ...]] = ()

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    @classmethod
    @asynccontextmanager
    async def open(cls, stores: Stores) -> AsyncIterator[BaseStage]:
        """Open the stage. Override this to keep a client open."""
        yield cls(stores)

    @classmethod
    def build_component(cls) -> Component:
        """Return the component under the design document's name, with the patterns it needs and no others."""
        return Component(
            cls.stage.service,
            cls.purpose,
            uses=(STAGE_PATTERNS, *cls.uses),
            consumers=(Consumer(QUEUES[cls.stage], cls._open_handler, concurrency=16, retry_delay_s=0.5),),
            process=PROCESS,
        )

    @classmethod
    @asynccontextmanager
    async def _open_handler(cls, stores: Stores) -> AsyncIterator[Handler]:
        """Open the stage for its consumer."""
        async with cls.open(stores) as stage:
            yield stage.handle

    @abstractmethod
    async def run(self, request: RequestRow, message: StageMessage) -> StageResult | None:
        """Do the stage's work and return its result, or None if there is nothing to write. Raise
        `StageFailed` to end the request.
        """

    async def handle(self, received: ReceivedMessage[StageMessage]) -> None:
        """Run the stage for one message, and end the request as FAILED if the stage fails permanently. Skip a
        request whose status the stage does not accept.
        """
        message = received.message
        request = await self.stores.run(patterns.request_in_hand(message.tenant, message.pagw_id))
        if request is None:
            log.error(
                "%s ignores a message: the request %s is not tracked.", self.stage.service, message.pagw_id
            )
            return
        if request.status not in (get_status(self.stage), *self.also_accepts):
            log.info(
                "%s skips %s with status %s: nothing to do.",
                self.stage.service,
                message.pagw_id,
                request.status,
            )
            return
        try:
            await self._run_and_write(request, message)
        except (StageFailed, ExternalServiceRefused) as error:
            if request.status in TERMINAL:
                raise
            await self._fail(request, message, error)

    # --- transaction ----------------------------------------------------------------------------------------

    async def _run_and_write(self, request: RequestRow, message: StageMessage) -> None:
        """Run the stage and write its result, if there is one."""
        step = await self.run(request, message)
        if step is not None:
            await self.write_result(request, message, step)

    async def write_result(self, request: RequestRow, message: StageMessage, result: StageResult) -> None:
        """Commit the result. If another attempt committed first, discard all of this one."""
        try:
            await self._commit(self.build_writes(request, message, result), result.client_writes)
        except ConditionFailed as refused:
            await self.handle_conflict(request, message, refused)

    async def _commit(self, writes: list[SqlWrite[Any]], client_writes: Sequence[SqlWrite[Any]]) -> None:
        """Commit all writes. If they are invalid, commit without `client_writes`."""
        try:
            await self.stores.transact(*writes, *client_writes)
        except InvalidRequest as refused:
            if not client_writes:
                raise
            log.error("%s continues without notifying the client: %s", self.stage.service, refused)
            await self.stores.transact(*writes)

    async def handle_conflict(
        self, request: RequestRow, message: StageMessage, refused: ConditionFailed
    ) -> None:
        """Return if another attempt wrote this result. Otherwise another request was in the way, such as one
        that this request cancels: raise `RetryLater`, so that the stage runs again.
        """
        now = await self.stores.run(patterns.request_in_hand(request.tenant, request.pagw_id))
        is_open = now is not None and now.status is request.status
        if is_open and not await patterns.INBOX.is_taken(self.stores, self.stage.service, message.id):
            raise RetryLater(
                f"The status of {request.pagw_id} is unchanged. Retry.", retry_after_s=0.1
            ) from refused
        log.info("Another %s already processed %s.", self.stage.service, message.pagw_id)

    def build_writes(
        self, request: RequestRow, message: StageMessage, result: StageResult
    ) -> list[SqlWrite[Any]]:
        """Return all writes of a result. A stage that reads inside its transaction runs them itself."""
        at, next_stage = self.get_now(), result.next_stage or get_stage(result.status)
        moved = (
            patterns.note(request.pagw_id, request.status, next_stage, at, result.update)
            if result.status is request.status
            else patterns.advance(
                request.pagw_id, request.status, result.status, next_stage, at, result.update
            )
        )
        return [
            patterns.INBOX.take(self.stage.service, message.id, at),
            moved,
            *build_audit_writes(self.stores, self.build_event(request, result.status, result.details)),
            *result.writes,
            # The payer has no queue, and a request that has ended needs none.
            *(
                (self.build_stage_message(request, next_stage, result.occasion),)
                if next_stage in QUEUES
                else ()
            ),
        ]

    def build_stage_message(self, request: RequestRow, stage: Stage, occasion: str = "1") -> SqlWrite[Any]:
        """Return the outbox write of a message that passes a request to a stage. `occasion` distinguishes
        several messages to one stage.
        """
        message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage, occasion=occasion)
        return patterns.OUTBOX.enqueue(self.stores, request.pagw_id, message, queue=QUEUES[stage])

    def build_event(self, request: RequestRow, status: Status, details: Mapping[str, Any]) -> AuditEvent:
        """Build the audit event of a transition."""
        return AuditEvent(
            # A stage that leaves the status as it is records no status change.
            type="STATUS" if status is not request.status else "STEP",
            subtype=status,
            actor=Actor.service(self.stage.service),
            service=self.stage.service,
            tenant=request.tenant,
            pagw_id=request.pagw_id,
            resource_type="request",
            resource_id=request.pagw_id,
            details={"from": request.status, **details},
        )

    # --- failure --------------------------------------------------------------------------------------------

    async def _fail(self, request: RequestRow, message: StageMessage, error: RequestRefused) -> None:
        """End the request as FAILED, and notify waiting calls, the client and subscribers."""
        log.warning("%s failed at %s: %s", request.pagw_id, self.stage.service, error.code)
        ending = Ending.from_error(request, error)
        learnt = RequestUpdate(
            response_key=error.response_key if isinstance(error, StageFailed) else None,
            error_code=ending.error_code,
            error_message=ending.error_message,
            completed_at=self.get_now(),
            metadata={"failedAt": request.status, "failures": ending.failure_number},
        )
        # Subscribers are notified of each failure once, too.
        to_subscribers = self.build_stage_message(
            request, Stage.subscription_handler, f"failed-{ending.failure_number}"
        )
        step = StageResult(
            Status.FAILED,
            learnt,
            {"error": ending.error_code},
            writes=(patterns.tell_answered(request.pagw_id), to_subscribers),
            client_writes=build_client_delivery(self.stores, request, self.get_now(), ending),
        )
        await self.write_result(request, message, step)

    def get_now(self) -> datetime:
        """Return the stores' current time in UTC."""
        return self.stores.now()


@dataclass(frozen=True)
class Ending:
    """The end of a request as its client is notified of it. It stays the same whatever happens to the request
    later.
    """

    status: Status
    decision: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    # Counts the request's failures from 1; 0 if it did not fail.
    failure_number: int = 0
    # The callback that brought a later decision; None for the first decision.
    later_callback: str | None = None

    @classmethod
    def from_error(cls, request: RequestRow, error: RequestRefused) -> Ending:
        """Build the ending of a request that fails now with this error."""
        number = int(request.metadata.get("failures", 0)) + 1
        return cls(Status.FAILED, None, str(error.code)[:50], error.message[:500], number)

    @classmethod
    def from_failed_request(cls, request: RequestRow) -> Ending:
        """Build the ending of a request that already has the status FAILED."""
        number = int(request.metadata.get("failures", 1))
        return cls(Status.FAILED, None, request.error_code, request.error_message, number)

    def to_json(self, at: datetime) -> dict[str, Any]:
        """Return the ending as stored in the delivery's row."""
        if self.status is not Status.FAILED:
            later = {} if self.later_callback is None else {"callback": self.later_callback}
            return {"status": self.status, "decision": self.decision, **later}
        return {
            "status": self.status,
            "error_code": self.error_code,
            "error_message": self.error_message,
            "at": at.isoformat(),
        }

    def format_id(self, name: str) -> str:
        """Return the part of a delivery's id that distinguishes the endings of a request."""
        if self.later_callback is not None:
            return f"{name}-{self.later_callback}"
        return name if self.failure_number <= 1 else f"{name}-{self.failure_number}"


def build_client_delivery(
    stores: Stores, request: RequestRow, at: datetime, ending: Ending | None = None
) -> list[SqlWrite[Any]]:
    """Return the writes that notify the client of its request's end; empty if it named no callback URL.

    By default the request completed. A request that failed and was resumed notifies its client several times:
    of each failure, and of its end.
    """
    target = request.metadata.get("callbackUrl")
    if not target:
        return []
    ending = ending or Ending(Status.COMPLETED, request.decision)
    name = ending.format_id("failed" if ending.failure_number else "callback")
    delivery_id = f"{request.pagw_id}#{name}"
    return [
        delivery_patterns.create_delivery(
            delivery_id=delivery_id,
            tenant=request.tenant,
            pagw_id=request.pagw_id,
            subscription_id=None,
            target=str(target),
            event_number=1,
            told=ending.to_json(at),
            at=at,
        ),
        build_delivery_message(stores, request, delivery_id),
    ]


def build_delivery_message(stores: Stores, request: RequestRow, delivery_id: str) -> SqlWrite[Any]:
    """Return the outbox write of the message that starts a delivery."""
    message = DeliveryMessage(delivery_id=delivery_id, pagw_id=request.pagw_id, tenant=request.tenant)
    return patterns.OUTBOX.enqueue(stores, delivery_id, message, queue=notifications)
