"""pasresponsebuilder: builds the ClaimResponse from the payer's answer or a later callback.

For a pended request it builds the interim response, and the request waits for its payer; it processes a
callback that came earlier now. For a final answer, one transaction records the decision, its time for the
deadlines and, if it confirms a cancellation, the end of the cancelled request. The deadline stops when the
decision arrives, by our clock; the payer's own time is stored next to it.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from holdfast import Stores
from holdfast.model.sql import SqlWrite
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.response_rules import check_built_response
from pagw.domain.statuses import TERMINAL, Stage, Status, can_follow
from pagw.model import files, patterns
from pagw.model.audit import build_audit_writes
from pagw.model.entities import RequestRow, RequestUpdate, StageMessage, fhir_response, pended_response
from pagw.model.lookup import RequestLookup
from pagw.model.registries import REGISTRIES
from pagw.workers.payer_callbacks import build_callback_message
from pagw.workers.payer_polling import compute_first_inquiry
from pagw.workers.stages.base_stage import BaseStage, Ending, StageFailed, StageResult, build_client_delivery
from pagw.workers.stages.payer_answers import (
    CONTRADICTS,
    UNREADABLE,
    get_arrival_time,
    get_newest_callback,
    load_decision,
)
from pagw.workers.stages.subscription_handler import CANCELLED_OCCASION


class ResponseBuilder(BaseStage):
    """The stage that builds responses."""

    stage = Stage.response_builder
    purpose = "Builds the ClaimResponse from the payer's answer"
    uses = (
        files.bundle,
        files.payer_response,
        files.callback,
        files.keep_response,
        files.keep_pended_response,
        files.renew_pended_response,
        patterns.make_findable,
        REGISTRIES,
    )
    also_accepts = (Status.PENDED,)

    def __init__(self, stores: Stores, lookup: RequestLookup | None = None) -> None:
        super().__init__(stores)
        self.lookup = lookup or RequestLookup.open()

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult:
        """Build and store the response to the payer's answer. Raise `StageFailed` for an invalid answer."""
        number = _get_callback_number(request)
        decision = await load_decision(self.stores, request, number, self.get_now())
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        if request.status is Status.PENDED:
            return await self._build_pended(request, bundle, decision)
        if not decision.outcome.is_final:
            raise StageFailed(CONTRADICTS, "The payer's answer is final, but its outcome is pended.")
        return await self._build_final(request, bundle, decision, get_arrival_time(request, number))

    async def _build_pended(
        self, request: RequestRow, bundle: dict[str, Any], decision: Decision
    ) -> StageResult:
        """Store the interim response of a pended request, and schedule the first inquiry."""
        body = self._build_response(request, bundle, decision, request.updated_at)
        interim = request.metadata.get("interim")
        keep = files.keep_pended_response if interim is None else files.renew_pended_response
        await self.stores.run(keep(body, request.created_at, request.pagw_id))
        key = pended_response.build_key(created_at=request.created_at, pagw_id=request.pagw_id)
        return StageResult(
            Status.PENDED,
            RequestUpdate(response_key=key, inquire_at=compute_first_inquiry(self.get_now(), request.due_at)),
            {"decision": Outcome.PENDED},
            next_stage=Stage.payer,
            writes=(patterns.tell_answered(request.pagw_id), *self._build_early_callback_message(request)),
        )

    def _build_early_callback_message(self, request: RequestRow) -> list[SqlWrite[Any]]:
        """Return a message for the newest callback if it came before the request was pended: nothing else
        would process it.
        """
        number = get_newest_callback(request)
        if number is None or number == request.metadata.get("interim"):
            return []
        return [build_callback_message(self.stores, request, number, f"early-{number}")]

    async def _build_final(
        self, request: RequestRow, bundle: dict[str, Any], decision: Decision, arrived: datetime | None
    ) -> StageResult:
        """Store the final response. `arrived` is when the payer's answer arrived."""
        body = self._build_response(request, bundle, decision, decision.decided_at or request.updated_at)
        stored = await self.stores.run(files.keep_response(body, request.created_at, request.pagw_id))
        return StageResult(
            Status.RESPONSE_BUILT,
            RequestUpdate(
                response_key=fhir_response.build_key(created_at=request.created_at, pagw_id=request.pagw_id),
                decision=decision.outcome,
                decided_at=arrived or self.get_now(),
                metadata={
                    "responseSha256": hashlib.sha256(stored.body).hexdigest(),
                    "payerDecidedAt": None
                    if decision.decided_at is None
                    else decision.decided_at.isoformat(),
                },
            ),
            {"decision": decision.outcome, "action": decision.action},
            writes=(
                *self.lookup.build_writes(
                    request.tenant, request.pagw_id, authorization=decision.authorization_number
                ),
                *await self._build_former_end(request, decision),
                patterns.tell_answered(request.pagw_id),
            ),
        )

    def _build_response(
        self, request: RequestRow, bundle: dict[str, Any], decision: Decision, created: datetime
    ) -> bytes:
        """Return the response as JSON bytes. Raise `StageFailed` if it violates the rules of responses."""
        answer = build_response_bundle(bundle, decision, pagw_id=request.pagw_id, created=created)
        # A response built from the payer's answer must pass the same rules as any other response.
        if wrong := select_errors(check_built_response(answer, bundle)):
            raise StageFailed(UNREADABLE, wrong[0].diagnostics)
        return json.dumps(answer, sort_keys=True, separators=(",", ":")).encode()

    async def _build_former_end(self, request: RequestRow, decision: Decision) -> list[SqlWrite[Any]]:
        """Return the writes that end the request that a confirmed cancellation cancels.

        An update that is itself cancelled, because another replaced it, ends no other request.
        """
        if request.kind != "cancel" or decision.outcome is not Outcome.CANCELLED or request.replaces is None:
            return []
        former = await self.stores.run(patterns.request_in_hand(request.tenant, request.replaces))
        if former is None or not can_follow(former.status, Status.CANCELLED):
            return []
        at, is_open = self.get_now(), former.status not in TERMINAL
        learnt = RequestUpdate(
            completed_at=at if is_open else None,
            metadata={"cancelledBy": request.pagw_id, "cancelledAt": former.status},
        )
        return [
            patterns.advance(former.pagw_id, former.status, Status.CANCELLED, Stage.done, at, learnt),
            *build_audit_writes(
                self.stores, self.build_event(former, Status.CANCELLED, {"by": request.pagw_id})
            ),
            # Notify those who wait for its end. If it had ended before, they were notified then.
            *(self._build_end_notices(former, at) if is_open else ()),
        ]

    def _build_end_notices(self, former: RequestRow, at: datetime) -> list[SqlWrite[Any]]:
        """Return the writes that notify waiting calls, the client and subscribers of a cancellation."""
        ending = Ending(Status.CANCELLED, former.decision)
        return [
            patterns.tell_answered(former.pagw_id),
            *build_client_delivery(self.stores, former, at, ending),
            self.build_stage_message(former, Stage.subscription_handler, CANCELLED_OCCASION),
        ]


def _get_callback_number(request: RequestRow) -> str | None:
    """Return the number of the deciding callback, or the newest that did not decide; None for the first
    answer.
    """
    number = request.metadata.get("callback" if request.status is Status.SUBMITTED else "interim")
    return None if number is None else str(number)
