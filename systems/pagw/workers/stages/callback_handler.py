"""pascallbackhandler: processes payers' callbacks, and notifies the client that named a callback URL.

A callback is stored as an object and acknowledged before it comes here. A callback that arrives before the
API connector has recorded the payer's first answer waits for it. A callback without a decision is a note: the
request stays PENDED. A decision for a request that FAILED because of the payer's invalid answer resumes the
request.
"""

from __future__ import annotations

from holdfast.core.errors import RetryLater
from pagw.domain.statuses import Stage, Status
from pagw.model import files
from pagw.model.entities import RequestRow, RequestUpdate, StageMessage
from pagw.model.registries import REGISTRIES
from pagw.workers.stages.base_stage import BaseStage, StageResult, build_client_delivery
from pagw.workers.stages.payer_answers import PAYER_FAULTS, load_decision


class CallbackHandler(BaseStage):
    """The stage that processes callbacks and notifies the client."""

    stage = Stage.callback_handler
    purpose = "Processes payers' callbacks and schedules callbacks to clients"
    uses = (files.callback, REGISTRIES)
    also_accepts = (Status.CONVERTED, Status.PENDED, Status.FAILED)

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
        """Resume the request if the callback decides, or note it if not. Return None if the request no longer
        waits. Raise `RetryLater` until the payer's first answer is recorded.
        """
        if request.status is Status.CONVERTED:
            # Retries back off, because the connector may be blocked as long as its payer is down. If they
            # run out, the response builder finds the noted callback when the request is pended.
            raise RetryLater(
                f"The payer's first answer about {request.pagw_id} is not recorded yet. Retry the callback "
                "later."
            )
        if request.status is not Status.PENDED and not is_payer_fault(request):
            return None
        decision = await load_decision(self.stores, request, number, self.get_now())
        if decision.outcome.is_final:
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
            {"callback": number, "decision": decision.outcome},
            occasion=f"interim-{number}",
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
