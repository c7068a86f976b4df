"""pascallbackhandler: processes payers' callbacks, and notifies the client that named a callback URL.

A callback is stored as an object and acknowledged before it comes here. A callback that arrives before the
API connector has recorded the payer's first answer waits for it. A callback without a decision is a note: the
request stays PENDED. A decision for a request that FAILED resumes the request. One that comes after another
decision goes to the response builder, which adds it to the request's history; if the earlier decision is
still on its way to the client, the later one waits until the request is completed.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import RetryLater
from pagw.domain.statuses import Stage, Status
from pagw.model import files, patterns
from pagw.model.entities import QUEUES, RequestRow, RequestUpdate, StageMessage
from pagw.model.registries import REGISTRIES
from pagw.workers.stages.base_stage import BaseStage, StageResult, build_client_delivery
from pagw.workers.stages.payer_answers import (
    PAYER_FAULTS,
    PassedOnFailure,
    keep_failure_response,
    load_answer,
)

# A request that failed in one of these has reached its payer, which may decide it all the same.
AT_THE_PAYER: Final = (Status.CONVERTED, Status.PENDED, Status.SUBMITTED)


class CallbackHandler(BaseStage):
    """The stage that processes callbacks and notifies the client."""

    stage = Stage.callback_handler
    purpose = "Processes payers' callbacks and schedules callbacks to clients"
    uses = (files.callback, files.renew_pended_response, REGISTRIES)
    also_accepts = (
        Status.CONVERTED,
        Status.PENDED,
        Status.CALLBACK_SENT,
        Status.COMPLETED,
        Status.FAILED,
        Status.CANCELLED,
    )

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult | None:
        """Process the payer's callback that the message names. Without one, notify the client of a built
        response.

        Return None if the request's status no longer fits.
        """
        if message.callback_key is not None:
            return await self._handle_callback(request, message.callback_key)
        if request.status is not Status.RESPONSE_BUILT:
            return None
        return StageResult(
            Status.CALLBACK_SENT,
            client_writes=build_client_delivery(self.stores, request, self.get_now()),
        )

    async def _handle_callback(self, request: RequestRow, number: str) -> StageResult | None:
        """Process a callback by the request's status. Raise `RetryLater` while another decision or answer of
        the payer is being recorded.
        """
        match request.status:
            case Status.PENDED:
                return await self._decide(request, number)
            case Status.FAILED if can_be_resumed(request):
                return await self._decide(request, number)
            case Status.CONVERTED:
                # Retries back off, because the connector may be blocked as long as its payer is down. If
                # they run out, the response builder finds the noted callback when the request is pended.
                raise RetryLater(
                    f"The payer's first answer about {request.pagw_id} is not recorded yet. Retry the "
                    "callback later."
                )
            case Status.CALLBACK_SENT:
                raise RetryLater(
                    f"{request.pagw_id} is being completed. Retry the callback later.", retry_after_s=1.0
                )
            case Status.COMPLETED | Status.CANCELLED | Status.FAILED:
                return self._pass_on(request, number)
            case _:
                # The response is being built. The stage that completes the request sends the callback here
                # again.
                return None

    async def _decide(self, request: RequestRow, number: str) -> StageResult | None:
        """Resume the request if the callback decides, or note it if not."""
        try:
            answer = await load_answer(self.stores, request, number, self.get_now())
        except PassedOnFailure as failure:
            await keep_failure_response(self.stores, request, failure)
            raise
        if answer.decision.outcome.is_final:
            return StageResult(
                Status.SUBMITTED,
                RequestUpdate(metadata={"callback": number}),
                {"callback": number},
                occasion=f"callback-{number}",
            )
        if request.status is not Status.PENDED:
            return None
        return StageResult(
            Status.PENDED,
            RequestUpdate(metadata={"interim": number}),
            {"callback": number, "decision": answer.decision.outcome},
            occasion=f"interim-{number}",
        )

    def _pass_on(self, request: RequestRow, number: str) -> StageResult:
        """Give a callback about a decided request to the response builder."""
        message = StageMessage(
            pagw_id=request.pagw_id,
            tenant=request.tenant,
            stage=Stage.response_builder,
            occasion=f"later-{number}",
            callback_key=number,
        )
        queue = QUEUES[Stage.response_builder]
        return StageResult(
            request.status,
            details={"callback": number},
            next_stage=Stage.done,
            writes=(patterns.OUTBOX.enqueue(self.stores, request.pagw_id, message, queue=queue),),
        )


def is_payer_fault(request: RequestRow) -> bool:
    """Return whether the request failed because of the payer's answer, so that a later callback may still
    decide it.
    """
    at = request.metadata.get("failedAt")
    return (
        request.status is Status.FAILED
        and at in (Status.PENDED, Status.SUBMITTED)
        and request.error_code in PAYER_FAULTS
    )


def can_be_resumed(request: RequestRow) -> bool:
    """Return whether a payer's decision resumes a failed request: the payer has it, and none came before."""
    return request.metadata.get("failedAt") in AT_THE_PAYER and request.decision is None
