"""pasresponsebuilder: makes the ClaimResponse of what the payer said, now or later by a callback.

Of a pended request it makes the interim answer, and the request waits for its payer. A final one is decided with it: the
decision, its time for the clocks, and, where it cancels another request, that one's end, in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from holdfast import SqlWrite, Stores
from holdfast.errors import PartyFailed
from pagw import files, patterns
from pagw.auditing import audited
from pagw.fhir.answers import response_bundle
from pagw.fhir.decisions import Decision, Outcome
from pagw.findable import Findable
from pagw.model import Learnt, StageMessage, Tracked, fhir_response, pended_response
from pagw.payers.config import payer_config
from pagw.payers.formats import format_of
from pagw.pipeline.staging import StageFailed, StageHandler, Step, told_client
from pagw.registries import payer_of
from pagw.statuses import TERMINAL, Stage, Status, may_follow


class ResponseBuilder(StageHandler):
    stage = Stage.response_builder
    takes = (Status.SUBMITTED, Status.PENDED)

    def __init__(self, stores: Stores, findable: Findable | None = None) -> None:
        super().__init__(stores)
        self.findable = findable or Findable.open()

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        decision = await self._decision(request)
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        if request.status is Status.PENDED:
            return await self._pended(request, bundle, decision)
        if not decision.outcome.is_final:
            raise StageFailed(
                "PAYER_CONTRADICTS_ITSELF", "The payer called back with a decision that is none."
            )
        return await self._final(request, bundle, decision)

    async def _pended(self, request: Tracked, bundle: dict[str, Any], decision: Decision) -> Step:
        body = self._response(request, bundle, decision, request.updated_at)
        await self.stores.run(files.keep_pended_response(body, request.created_at, request.pagw_id))
        key = pended_response.key(created_at=request.created_at, pagw_id=request.pagw_id)
        return Step(
            Status.PENDED,
            Stage.payer,
            Learnt(response_key=key),
            {"decision": Outcome.PENDED},
            (patterns.tell_answered(request.pagw_id),),
        )

    async def _final(self, request: Tracked, bundle: dict[str, Any], decision: Decision) -> Step:
        body = self._response(request, bundle, decision, decision.decided_at or request.updated_at)
        kept = await self.stores.run(files.keep_response(body, request.created_at, request.pagw_id))
        return Step(
            Status.RESPONSE_BUILT,
            Stage.callback_handler,
            Learnt(
                response_key=fhir_response.key(created_at=request.created_at, pagw_id=request.pagw_id),
                decision=decision.outcome,
                decided_at=decision.decided_at or self.now(),
                metadata={"responseSha256": hashlib.sha256(kept.body).hexdigest()},
            ),
            {"decision": decision.outcome, "action": decision.action},
            (
                *self.findable.made(
                    request.tenant, request.pagw_id, authorization=decision.authorization_number
                ),
                *await self._ended_former(request, decision),
                patterns.tell_answered(request.pagw_id),
            ),
        )

    async def _decision(self, request: Tracked) -> Decision:
        payer = await payer_of(self.stores, request.payer_id or "")
        if payer is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        created, pagw_id = request.created_at, request.pagw_id
        number = request.metadata.get("callback")
        said = await self.stores.run(
            files.callback(created, pagw_id, str(number))
            if number
            else files.payer_response(created, pagw_id)
        )
        try:
            return format_of(payer_config(payer.model_dump())).decision(said.body)
        except PartyFailed as error:
            raise StageFailed("PAYER_ANSWER_UNREADABLE", error.message) from error

    def _response(
        self, request: Tracked, bundle: dict[str, Any], decision: Decision, created: datetime
    ) -> bytes:
        answer = response_bundle(bundle, decision, pagw_id=request.pagw_id, created=created)
        return json.dumps(answer, sort_keys=True, separators=(",", ":")).encode()

    async def _ended_former(self, request: Tracked, decision: Decision) -> list[SqlWrite[Any]]:
        """A cancellation that the payer confirms ends the request that it is of."""
        if decision.outcome is not Outcome.CANCELLED or request.replaces is None:
            return []
        former = await self.stores.run(patterns.request_in_hand(request.tenant, request.replaces))
        if former is None or not may_follow(former.status, Status.CANCELLED):
            return []
        at, is_open = self.now(), former.status not in TERMINAL
        learnt = Learnt(
            completed_at=at if is_open else None,
            metadata={"cancelledBy": request.pagw_id, "cancelledAt": former.status},
        )
        return [
            patterns.advance(former.pagw_id, former.status, Status.CANCELLED, Stage.done, at, learnt),
            *audited(self.stores, self.event(former, Status.CANCELLED, {"by": request.pagw_id})),
            # Whoever waits for its end has it now; one that had ended before was told of that.
            *(self._told_of_end(former, at) if is_open else ()),
        ]

    def _told_of_end(self, former: Tracked, at: datetime) -> list[SqlWrite[Any]]:
        return [patterns.tell_answered(former.pagw_id), *told_client(self.stores, former, at)]
