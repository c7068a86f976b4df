"""passubscriptionhandler: the end of a request. Its idempotency key gets the final answer, subscribers are told, it is
COMPLETED.

Whether a client's server takes what it is told has no part in that: a delivery is a row and a message of its own, tried
until it is taken or given up (`notifying`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast import SqlWrite
from holdfast.errors import ConditionFailed
from pagw import notices, patterns
from pagw.model import IDEMPOTENCY_HOURS, Learnt, StageMessage, SubscriptionRow, Tracked
from pagw.pipeline.staging import StageHandler, Step, told_delivery
from pagw.statuses import Stage, Status


class SubscriptionHandler(StageHandler):
    stage = Stage.subscription_handler
    takes = (Status.CALLBACK_SENT, Status.FAILED)

    async def done(self, request: Tracked, message: StageMessage) -> None:
        await self._finish_submission(request)
        try:
            await self._complete(request, message)
        except ConditionFailed as refused:
            await self.judge(request, message, refused)

    async def _complete(self, request: Tracked, message: StageMessage) -> None:
        """The number of an event is known only inside the transaction that counts it."""
        at = self.now()
        async with self.stores.transaction() as sql:
            writes: list[SqlWrite[Any]] = []
            for each in await sql.run(notices.subscribers(request.tenant, request.provider_npi or "", at)):
                numbered = await sql.run(notices.count_event(each.subscription_id))
                writes += self._told(request, numbered[0])
            # A request that failed has ended already: its subscribers are told, and it stays as it is.
            is_failed = request.status is Status.FAILED
            step = Step(
                request.status if is_failed else Status.COMPLETED,
                Stage.done,
                patterns.NOTHING if is_failed else Learnt(completed_at=at),
                {"subscribers": len(writes) // 2},
                writes,
            )
            for write in self.step_writes(request, message, step):
                await sql.run(write)

    def _told(self, request: Tracked, subscription: SubscriptionRow) -> list[SqlWrite[Any]]:
        ending = "#f" if request.status is Status.FAILED else ""
        delivery_id = f"{request.pagw_id}#{subscription.subscription_id}{ending}"
        return [
            notices.create_delivery(
                delivery_id=delivery_id,
                tenant=request.tenant,
                pagw_id=request.pagw_id,
                subscription_id=subscription.subscription_id,
                target=subscription.endpoint,
                secret_name=subscription.secret_name,
                event_number=subscription.events,
                at=self.now(),
            ),
            told_delivery(self.stores, request, delivery_id),
        ]

    async def _finish_submission(self, request: Tracked) -> None:
        """Before the row: a crash between them repeats this, which changes nothing more."""
        key = request.metadata.get("idempotencyKey")
        if not key or request.s3_response_key is None:
            return
        ends = self.now() + timedelta(hours=IDEMPOTENCY_HOURS)
        hash = str(request.metadata.get("responseSha256", ""))
        try:
            await self.stores.run(
                patterns.finish_submission(str(key), request.pagw_id, hash, request.s3_response_key, ends)
            )
        except ConditionFailed:
            # Its time was over before the payer decided: whoever uses the key again makes a new request.
            return
