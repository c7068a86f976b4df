"""The frame of a stage: one message, one request, one step forward, one transaction.

    the request as it stands → what the stage does (objects, outside parties) → status, inbox, audit and the message to
    the next stage, in one SQL transaction

Objects are written before the transaction, create-only: a stage that is repeated finds its own. A request that no longer
stands where this stage takes it was brought on by an earlier try: then the message is done with. What can never succeed
(`StageFailed`, or a payer's refusal) ends the request as FAILED, and says so to whoever waits. Anything else, such as a store
that refuses a value, is no verdict on the request: the message comes again, and is a dead letter in the end, while the
request stands where it stood and is found as stuck.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from holdfast import Handler, Received, SqlWrite, Stores
from holdfast.errors import ConditionFailed, InvalidRequest, PartyRefused, RequestRefused, RetryLater
from pagw import notices, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.model import QUEUES, DeliveryMessage, Learnt, StageMessage, Tracked, notifications
from pagw.statuses import TERMINAL, Stage, Status

log = logging.getLogger(__name__)


class StageFailed(RequestRefused, label="StageFailed"):
    """It can never succeed: the request ends here. `code` and the message are kept and shown, and hold no PHI."""


@dataclass(frozen=True)
class Step:
    """What a stage has done, and where the request goes."""

    then: Status
    stage: Stage
    learnt: Learnt = patterns.NOTHING
    details: Mapping[str, Any] = field(default_factory=dict)
    # Further writes of the same transaction, and what else is to be told: (aggregate, queue, message) of the outbox.
    writes: Sequence[SqlWrite[Any]] = ()
    # Tells two messages to the same stage apart.
    occasion: str = "1"
    # What tells the client that named an address. Whether it can be written is no condition of the step.
    to_client: Sequence[SqlWrite[Any]] = ()


class StageHandler(ABC):
    """One stage. Derived ones say what they take, and do it."""

    stage: ClassVar[Stage]
    takes: ClassVar[tuple[Status, ...]]

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    @abstractmethod
    async def done(self, request: Tracked, message: StageMessage) -> Step | None:
        """Does the stage's work; None where there is nothing to write."""

    async def handle(self, received: Received[StageMessage]) -> None:
        message = received.message
        request = await self.stores.run(patterns.request_in_hand(message.tenant, message.pagw_id))
        if request is None:
            log.error(
                "%s is told of %s, which is not tracked: it is left.", self.stage.service, message.pagw_id
            )
            return
        if request.status not in self.takes:
            log.info(
                "%s finds %s at %s: nothing is left to do.",
                self.stage.service,
                message.pagw_id,
                request.status,
            )
            return
        try:
            await self._forward(request, message)
        except (StageFailed, PartyRefused) as error:
            if request.status in TERMINAL:
                raise
            await self._fail(request, message, error)

    # --- one transaction ----------------------------------------------------------------------------------------

    async def _forward(self, request: Tracked, message: StageMessage) -> None:
        step = await self.done(request, message)
        if step is not None:
            await self.written(request, message, step)

    async def written(self, request: Tracked, message: StageMessage, step: Step) -> None:
        """The step, unless another try was quicker: then all of it is there, and nothing of this one."""
        try:
            await self._transacted(self.step_writes(request, message, step), step.to_client)
        except ConditionFailed as refused:
            await self.judge(request, message, refused)

    async def _transacted(self, writes: list[SqlWrite[Any]], to_client: Sequence[SqlWrite[Any]]) -> None:
        try:
            await self.stores.transact(*writes, *to_client)
        except InvalidRequest as refused:
            if not to_client:
                raise
            log.error("%s goes on without telling a client, which cannot be: %s", self.stage.service, refused)
            await self.stores.transact(*writes)

    async def judge(self, request: Tracked, message: StageMessage, refused: ConditionFailed) -> None:
        """Of a step that was refused: whether another try had made it. If not, it was another request that stood in the way,
        as one that this one cancels, and the stage begins anew."""
        now = await self.stores.run(patterns.request_in_hand(request.tenant, request.pagw_id))
        is_open = now is not None and now.status is request.status
        if is_open and not await patterns.INBOX.was_taken(self.stores, self.stage.service, message.id):
            raise RetryLater(
                f"{request.pagw_id} stands where it stood: come again.", retry_after_s=0.1
            ) from refused
        log.info("%s was brought on by another %s.", message.pagw_id, self.stage.service)

    def step_writes(self, request: Tracked, message: StageMessage, step: Step) -> list[SqlWrite[Any]]:
        """Everything that the step writes. A stage that needs to read inside its transaction runs them itself."""
        at = self.now()
        moved = (
            patterns.note(request.pagw_id, request.status, step.stage, at, step.learnt)
            if step.then is request.status
            else patterns.advance(request.pagw_id, request.status, step.then, step.stage, at, step.learnt)
        )
        return [
            patterns.INBOX.taken(self.stage.service, message.id, at),
            moved,
            *audited(self.stores, self.event(request, step.then, step.details)),
            *step.writes,
            *self._next(request, step),
        ]

    def _next(self, request: Tracked, step: Step) -> tuple[SqlWrite[Any], ...]:
        if step.stage not in QUEUES:
            return ()
        return (self.told(request, step.stage, step.occasion),)

    def told(self, request: Tracked, stage: Stage, occasion: str = "1") -> SqlWrite[Any]:
        """The message that gives a request to a stage."""
        message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage, occasion=occasion)
        return patterns.OUTBOX.message(self.stores, request.pagw_id, QUEUES[stage], message)

    def event(self, request: Tracked, then: Status, details: Mapping[str, Any]) -> AuditEvent:
        return AuditEvent(
            # What a stage does for a request that stays where it stands is no new status.
            type="STATUS" if then is not request.status else "STEP",
            subtype=then,
            actor=Actor.service(self.stage.service),
            service=self.stage.service,
            tenant=request.tenant,
            pagw_id=request.pagw_id,
            resource_type="request",
            resource_id=request.pagw_id,
            details={"from": request.status, **details},
        )

    # --- the end by a failure -----------------------------------------------------------------------------------

    async def _fail(self, request: Tracked, message: StageMessage, error: RequestRefused) -> None:
        log.warning("%s ends at %s: %s", request.pagw_id, self.stage.service, error.code)
        ending = Ending.of_failure(request, error)
        learnt = Learnt(
            error_code=ending.error_code,
            error_message=ending.error_message,
            completed_at=self.now(),
            metadata={"failedAt": request.status, "failures": ending.number},
        )
        # Subscribers are told of a failure too, of each once.
        to_subscribers = self.told(request, Stage.subscription_handler, f"failed-{ending.number}")
        step = Step(
            Status.FAILED,
            Stage.done,
            learnt,
            {"error": ending.error_code},
            (patterns.tell_answered(request.pagw_id), to_subscribers),
            to_client=told_client(self.stores, request, self.now(), ending),
        )
        await self.written(request, message, step)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.stores.clock.now(), UTC)


@dataclass(frozen=True)
class Ending:
    """How a request ended, as its client is told of it: what is told stays, whatever becomes of the request afterwards."""

    status: Status
    decision: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    # Which of its failures this is.
    number: int = 0

    @classmethod
    def of_failure(cls, request: Tracked, error: RequestRefused) -> Ending:
        number = int(request.metadata.get("failures", 0)) + 1
        return cls(Status.FAILED, None, str(error.code)[:50], error.message[:500], number)

    @classmethod
    def of_failed(cls, request: Tracked) -> Ending:
        """Of one that stands as failed."""
        number = int(request.metadata.get("failures", 1))
        return cls(Status.FAILED, None, request.error_code, request.error_message, number)

    def told(self, at: datetime) -> dict[str, Any]:
        """As it stands in the row of the delivery."""
        if self.status is not Status.FAILED:
            return {"status": self.status, "decision": self.decision}
        return {
            "status": self.status,
            "error_code": self.error_code,
            "error_message": self.error_message,
            "at": at.isoformat(),
        }

    def id(self, name: str) -> str:
        """The part of a delivery's id that tells the ends of a request apart."""
        return name if self.number <= 1 else f"{name}-{self.number}"


def told_client(
    stores: Stores, request: Tracked, at: datetime, ending: Ending | None = None
) -> list[SqlWrite[Any]]:
    """What tells the client itself that its request has ended, where it named an address for that. One that failed and is
    brought on again is told of more than once: of each failure, and of its end."""
    target = request.metadata.get("callbackUrl")
    if not target:
        return []
    ending = ending or Ending(Status.COMPLETED, request.decision)
    delivery_id = f"{request.pagw_id}#{ending.id('failed') if ending.number else 'callback'}"
    return [
        notices.create_delivery(
            delivery_id=delivery_id,
            tenant=request.tenant,
            pagw_id=request.pagw_id,
            subscription_id=None,
            target=str(target),
            secret_name=None,
            event_number=1,
            told=ending.told(at),
            at=at,
        ),
        told_delivery(stores, request, delivery_id),
    ]


def told_delivery(stores: Stores, request: Tracked, delivery_id: str) -> SqlWrite[Any]:
    message = DeliveryMessage(delivery_id=delivery_id, pagw_id=request.pagw_id, tenant=request.tenant)
    return patterns.OUTBOX.message(stores, delivery_id, notifications, message)


class HandlesMessages(Protocol):
    def __init__(self, stores: Stores) -> None: ...

    async def handle(self, received: Received[Any]) -> None: ...


def handling(handler: type[HandlesMessages]) -> Callable[[Stores], AbstractAsyncContextManager[Handler]]:
    """What handles messages, as a consumer takes it."""

    @asynccontextmanager
    async def entered(stores: Stores) -> AsyncIterator[Handler]:
        yield handler(stores).handle

    return entered
