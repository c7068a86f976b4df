"""pascallbackhandler: takes what a payer called back with, and tells the client that named an address for its request.

A payer's callback was kept as an object and acknowledged before it comes here. One that comes while the connector has not
yet recorded the payer's first answer waits for that.
"""

from __future__ import annotations

from holdfast.errors import RetryLater
from pagw.model import Learnt, StageMessage, Tracked
from pagw.pipeline.staging import StageHandler, Step, told_client
from pagw.statuses import Stage, Status

WAIT_S = 2.0


class CallbackHandler(StageHandler):
    stage = Stage.callback_handler
    takes = (Status.CONVERTED, Status.PENDED, Status.RESPONSE_BUILT)

    async def done(self, request: Tracked, message: StageMessage) -> Step | None:
        if message.callback_key is not None:
            return self._called_back(request, message)
        if request.status is not Status.RESPONSE_BUILT:
            return None
        return Step(
            Status.CALLBACK_SENT,
            Stage.subscription_handler,
            writes=told_client(self.stores, request, self.now()),
        )

    def _called_back(self, request: Tracked, message: StageMessage) -> Step | None:
        if request.status is Status.CONVERTED:
            raise RetryLater(
                f"The payer called back for {request.pagw_id} before its first answer was recorded: come again.",
                retry_after_s=WAIT_S,
            )
        if request.status is not Status.PENDED:
            return None
        return Step(
            Status.SUBMITTED,
            Stage.response_builder,
            Learnt(metadata={"callback": message.callback_key}),
            {"callback": message.callback_key},
            occasion=f"callback-{message.callback_key}",
        )
