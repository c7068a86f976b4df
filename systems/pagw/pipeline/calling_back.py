"""pascallbackhandler: takes up what a payer called back with, and tells the client that named an address for its request.

A payer's callback was kept as an object and acknowledged before it comes here. One that comes while the connector has not
yet recorded the payer's first answer waits for that. One that decides nothing is a note: the request stays PENDED. One that
decides a request which had FAILED because the payer's former answer made no sense brings it on again.
"""

from __future__ import annotations

from holdfast.errors import RetryLater
from pagw.model import Learnt, StageMessage, Tracked
from pagw.pipeline.payer_answers import OF_PAYER, answer_of
from pagw.pipeline.staging import StageHandler, Step, told_client
from pagw.statuses import Stage, Status


class CallbackHandler(StageHandler):
    stage = Stage.callback_handler
    takes = (Status.CONVERTED, Status.PENDED, Status.RESPONSE_BUILT, Status.FAILED)

    async def done(self, request: Tracked, message: StageMessage) -> Step | None:
        if message.callback_key is not None:
            return await self._called_back(request, message.callback_key)
        if request.status is not Status.RESPONSE_BUILT:
            return None
        return Step(
            Status.CALLBACK_SENT,
            Stage.subscription_handler,
            to_client=told_client(self.stores, request, self.now()),
        )

    async def _called_back(self, request: Tracked, number: str) -> Step | None:
        if request.status is Status.CONVERTED:
            # With pauses that grow: the connector may be away for as long as its payer is. Should this be given up before,
            # the builder finds the callback noted when the request is pended.
            raise RetryLater(
                f"The payer called back for {request.pagw_id} before its first answer was recorded."
            )
        if request.status is not Status.PENDED and not was_payers_fault(request):
            return None
        decision = await answer_of(self.stores, request, number, self.now())
        if decision.outcome.is_final:
            return Step(
                Status.SUBMITTED,
                Stage.response_builder,
                Learnt(metadata={"callback": number}),
                {"callback": number},
                occasion=f"callback-{number}",
            )
        if request.status is not Status.PENDED:
            return None
        return Step(
            Status.PENDED,
            Stage.response_builder,
            Learnt(metadata={"interim": number}),
            {"callback": number, "decision": decision.outcome},
            occasion=f"interim-{number}",
        )


def was_payers_fault(request: Tracked) -> bool:
    """Whether it failed at what the payer said, so that the payer may still say something else."""
    at = request.metadata.get("failedAt")
    return (
        request.status is Status.FAILED
        and at in (Status.PENDED, Status.SUBMITTED)
        and request.error_code in OF_PAYER
    )
