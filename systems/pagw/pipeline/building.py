"""pasresponsebuilder: makes the ClaimResponse of what the payer said, now or later by a callback.

Of a pended request it makes the interim answer, and the request waits for its payer; a callback that came before is taken up
now. A final one is decided with it: the decision, its time for the clocks, and, where it is a cancellation, the end of the
request that it cancels, in one transaction. The clock of a decision stops when it came in, by our time; the payer's own is
kept beside it.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from holdfast import SqlWrite, Stores
from pagw import files, patterns
from pagw.auditing import audited
from pagw.fhir.answers import response_bundle
from pagw.fhir.decisions import Decision, Outcome
from pagw.fhir.outcomes import errors
from pagw.fhir.response_rules import answer_issues
from pagw.findable import Findable
from pagw.following_up import first_inquiry
from pagw.model import Learnt, StageMessage, Tracked, fhir_response, pended_response
from pagw.payer_callbacks import told_of_callback
from pagw.pipeline.payer_answers import CONTRADICTS, UNREADABLE, answer_of, arrived_at, newest_callback
from pagw.pipeline.staging import Ending, StageFailed, StageHandler, Step, told_client
from pagw.pipeline.subscribing import CANCELLED
from pagw.statuses import TERMINAL, Stage, Status, may_follow


class ResponseBuilder(StageHandler):
    stage = Stage.response_builder
    takes = (Status.SUBMITTED, Status.PENDED)

    def __init__(self, stores: Stores, findable: Findable | None = None) -> None:
        super().__init__(stores)
        self.findable = findable or Findable.open()

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        number = _callback_of(request)
        decision = await answer_of(self.stores, request, number, self.now())
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        if request.status is Status.PENDED:
            return await self._pended(request, bundle, decision)
        if not decision.outcome.is_final:
            raise StageFailed(
                CONTRADICTS, "The payer says that it has decided, and what it has decided is nothing."
            )
        return await self._final(request, bundle, decision, arrived_at(request, number))

    async def _pended(self, request: Tracked, bundle: dict[str, Any], decision: Decision) -> Step:
        body = self._response(request, bundle, decision, request.updated_at)
        interim = request.metadata.get("interim")
        keep = files.keep_pended_response if interim is None else files.renew_pended_response
        await self.stores.run(keep(body, request.created_at, request.pagw_id))
        key = pended_response.key(created_at=request.created_at, pagw_id=request.pagw_id)
        return Step(
            Status.PENDED,
            Stage.payer,
            Learnt(response_key=key, inquire_at=first_inquiry(self.now(), request.due_at)),
            {"decision": Outcome.PENDED},
            (patterns.tell_answered(request.pagw_id), *self._early(request)),
        )

    def _early(self, request: Tracked) -> list[SqlWrite[Any]]:
        """The newest callback, if it came before the request was pended: nobody else would look at it again."""
        number = newest_callback(request)
        if number is None or number == request.metadata.get("interim"):
            return []
        return [told_of_callback(self.stores, request, number, f"early-{number}")]

    async def _final(
        self, request: Tracked, bundle: dict[str, Any], decision: Decision, arrived: datetime | None
    ) -> Step:
        body = self._response(request, bundle, decision, decision.decided_at or request.updated_at)
        kept = await self.stores.run(files.keep_response(body, request.created_at, request.pagw_id))
        return Step(
            Status.RESPONSE_BUILT,
            Stage.callback_handler,
            Learnt(
                response_key=fhir_response.key(created_at=request.created_at, pagw_id=request.pagw_id),
                decision=decision.outcome,
                decided_at=arrived or self.now(),
                metadata={
                    "responseSha256": hashlib.sha256(kept.body).hexdigest(),
                    "payerDecidedAt": None
                    if decision.decided_at is None
                    else decision.decided_at.isoformat(),
                },
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

    def _response(
        self, request: Tracked, bundle: dict[str, Any], decision: Decision, created: datetime
    ) -> bytes:
        answer = response_bundle(bundle, decision, pagw_id=request.pagw_id, created=created)
        # What was made of the payer's words is held against the rules that any answer is held against.
        if wrong := errors(answer_issues(answer, bundle)):
            raise StageFailed(UNREADABLE, wrong[0].diagnostics)
        return json.dumps(answer, sort_keys=True, separators=(",", ":")).encode()

    async def _ended_former(self, request: Tracked, decision: Decision) -> list[SqlWrite[Any]]:
        """A cancellation that the payer confirms ends the request that it is of. An update that is cancelled itself, as when
        another took its place, ends none."""
        if request.kind != "cancel" or decision.outcome is not Outcome.CANCELLED or request.replaces is None:
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
        ending = Ending(Status.CANCELLED, former.decision)
        return [
            patterns.tell_answered(former.pagw_id),
            *told_client(self.stores, former, at, ending),
            self.told(former, Stage.subscription_handler, CANCELLED),
        ]


def _callback_of(request: Tracked) -> str | None:
    """The callback that decides it, or the newest of those that did not; None is the payer's first answer."""
    number = request.metadata.get("callback" if request.status is Status.SUBMITTED else "interim")
    return None if number is None else str(number)
