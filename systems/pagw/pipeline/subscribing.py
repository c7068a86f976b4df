"""passubscriptionhandler: the end of a request. Its idempotency key gets the final answer, subscribers are told, it is
COMPLETED.

Whether a client's server takes what it is told has no part in that: a delivery is a row and a message of its own, tried
until it is taken or given up (`notifying`).
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from holdfast import SqlWrite, Stores
from holdfast.errors import ConditionFailed, InvalidRequest, ItemUnreadable
from pagw import notices, patterns
from pagw.model import Learnt, StageMessage, SubscriptionRow, Tracked
from pagw.pipeline.staging import Ending, StageHandler, Step, told_delivery
from pagw.settings import PagwSettings
from pagw.statuses import Stage, Status

CANCELLED: Final = "cancelled"

log = logging.getLogger(__name__)


class Untellable(Exception):
    """A subscription whose row cannot be read, or of which nothing can be written."""

    def __init__(self, subscription_id: str) -> None:
        super().__init__(subscription_id)
        self.subscription_id = subscription_id


class SubscriptionHandler(StageHandler):
    stage = Stage.subscription_handler
    takes = (Status.CALLBACK_SENT, Status.FAILED, Status.CANCELLED)

    def __init__(self, stores: Stores, settings: PagwSettings | None = None) -> None:
        super().__init__(stores)
        self.settings = settings or PagwSettings.load()

    async def done(self, request: Tracked, message: StageMessage) -> None:
        if not _is_of(request, message):
            return
        await self._finish_submission(request)
        while True:
            try:
                await self._complete(request, message)
            except Untellable as untold:
                await self._set_aside(request, untold)
                continue
            except ConditionFailed as refused:
                await self.judge(request, message, refused)
            return

    async def _complete(self, request: Tracked, message: StageMessage) -> None:
        """The number of an event is known only inside the transaction that counts it."""
        at, count = self.now(), 0
        # A request that failed or was taken back has ended already: its subscribers are told, and it stays as it is.
        is_over = request.status in (Status.FAILED, Status.CANCELLED)
        async with self.stores.transaction() as sql:
            for each in await sql.run(notices.subscribers(request.tenant, request.provider_npi or "", at)):
                await self._tell(sql, request, each.subscription_id)
                count += 1
            step = Step(
                request.status if is_over else Status.COMPLETED,
                Stage.done,
                patterns.NOTHING if is_over else Learnt(completed_at=at),
                {"subscribers": count},
            )
            for write in self.step_writes(request, message, step):
                await sql.run(write)

    async def _tell(self, sql: Any, request: Tracked, subscription_id: str) -> None:
        try:
            numbered = await sql.run(notices.count_event(subscription_id))
            for write in self._told(request, numbered[0]):
                await sql.run(write)
        except (InvalidRequest, ItemUnreadable) as error:
            raise Untellable(subscription_id) from error

    async def _set_aside(self, request: Tracked, untold: Untellable) -> None:
        """One that cannot be told does not stand in the way of the others, nor of the request: its own row says so."""
        log.error("The subscription %s cannot be told of anything: it is set aside.", untold.subscription_id)
        why = "it could not be told of a decision: end it, and create another"
        await self.stores.run(
            notices.set_subscription(request.tenant, untold.subscription_id, "error", self.now(), error=why)
        )

    def _told(self, request: Tracked, subscription: SubscriptionRow) -> list[SqlWrite[Any]]:
        at, ending = self.now(), _ending(request)
        failed = f"#{ending.id('f')}" if ending.number else ""
        delivery_id = f"{request.pagw_id}#{subscription.subscription_id}{failed}"
        return [
            notices.create_delivery(
                delivery_id=delivery_id,
                tenant=request.tenant,
                pagw_id=request.pagw_id,
                subscription_id=subscription.subscription_id,
                target=subscription.endpoint,
                secret_name=subscription.secret_name,
                event_number=subscription.events,
                told=ending.told(request.completed_at or at),
                at=at,
            ),
            told_delivery(self.stores, request, delivery_id),
        ]

    async def _finish_submission(self, request: Tracked) -> None:
        """Before the row: a crash between them repeats this, which changes nothing more."""
        key = request.metadata.get("idempotencyKey")
        if not key or request.s3_response_key is None:
            return
        ends = self.now() + timedelta(hours=self.settings.idempotency_hours)
        hash = str(request.metadata.get("responseSha256", ""))
        try:
            await self.stores.run(
                patterns.finish_submission(str(key), request.pagw_id, hash, request.s3_response_key, ends)
            )
        except ConditionFailed:
            # Its time was over before the payer decided: whoever uses the key again makes a new request.
            return


def _is_of(request: Tracked, message: StageMessage) -> bool:
    """Whether the message is about the end at which the request stands: each end is told of once."""
    match request.status:
        case Status.FAILED:
            return message.occasion == f"failed-{_ending(request).number}"
        case Status.CANCELLED:
            return message.occasion == CANCELLED
        case _:
            return True


def _ending(request: Tracked) -> Ending:
    if request.status is Status.FAILED:
        return Ending.of_failed(request)
    return Ending(
        Status.CANCELLED if request.status is Status.CANCELLED else Status.COMPLETED, request.decision
    )
