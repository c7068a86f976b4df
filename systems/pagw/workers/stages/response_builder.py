"""pasresponsebuilder: builds the ClaimResponse from the payer's answer or a later callback.

For a pended request it builds the interim response, and the request waits for its payer; it processes a
callback that came earlier now. For a final answer, one transaction records the decision, its time for the
deadlines and, if it confirms a cancellation, the end of the cancelled request. The deadline stops when the
decision arrives, by our clock; the payer's own time is stored next to it. A decision that comes after the
first is added to the history (`later_decisions.py`).

A payer that speaks PAS sends the response itself: it is stored as it was received.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final

from holdfast import Stores
from holdfast.model.sql import SqlWrite
from pagw.domain.fhir.claim_participants import iterate_identifiers
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.response_rules import check_built_response
from pagw.domain.statuses import TERMINAL, Stage, Status, can_follow
from pagw.model import decision_patterns, files, patterns
from pagw.model.audit import build_audit_writes
from pagw.model.entities import (
    DecisionRow,
    RequestRow,
    RequestUpdate,
    StageMessage,
    fhir_response,
    pended_response,
)
from pagw.model.lookup import RequestLookup
from pagw.model.registries import REGISTRIES, get_payer
from pagw.workers.payer_callbacks import build_callback_message
from pagw.workers.payer_polling import compute_first_inquiry
from pagw.workers.stages.base_stage import BaseStage, Ending, StageFailed, StageResult, build_client_delivery
from pagw.workers.stages.later_decisions import LaterDecision, build_later_writes, load_later_decision
from pagw.workers.stages.payer_answers import (
    CONTRADICTS,
    UNREADABLE,
    LoadedAnswer,
    PassedOnFailure,
    get_arrival_time,
    get_newest_callback,
    keep_failure_response,
    load_answer,
)
from pagw.workers.stages.subscription_handler import CANCELLED_OCCASION

# Updates in a row, of which the last is decided.
MAX_FORMERS: Final = 50
# A payer may change its decision after one of these.
TERMINAL_WITH_DECISION: Final = (Status.COMPLETED, Status.CANCELLED, Status.FAILED)


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
        files.keep_later_response,
        decision_patterns.record_decision,
        decision_patterns.revise_decision,
        patterns.make_findable,
        REGISTRIES,
    )
    also_accepts = (Status.PENDED, *TERMINAL_WITH_DECISION)

    def __init__(self, stores: Stores, lookup: RequestLookup | None = None) -> None:
        super().__init__(stores)
        self.lookup = lookup or RequestLookup.open()

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult | None:
        """Build and store the response to the payer's answer. Raise `StageFailed` for an invalid answer."""
        if message.callback_key is not None:
            return await self._add_later_decision(request, message.callback_key)
        if request.status in TERMINAL:
            return None
        number = _get_callback_number(request)
        try:
            answer = await load_answer(self.stores, request, number, self.get_now())
        except PassedOnFailure as failure:
            await keep_failure_response(self.stores, request, failure)
            raise
        bundle = await self._load_request_bundle(request)
        if request.status is Status.PENDED:
            return await self._build_pended(request, bundle, answer)
        if not answer.decision.outcome.is_final:
            raise StageFailed(CONTRADICTS, "The payer's answer is final, but its outcome is pended.")
        return await self._build_final(request, bundle, answer, number)

    async def _load_request_bundle(self, request: RequestRow) -> dict[str, Any]:
        """Return the Bundle that the provider submitted."""
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        bundle: dict[str, Any] = parse_exact(stored.body)
        return bundle

    async def _build_pended(
        self, request: RequestRow, bundle: dict[str, Any], answer: LoadedAnswer
    ) -> StageResult:
        """Store the interim response of a pended request, and schedule the first inquiry."""
        body = self._build_response(request, bundle, answer, request.updated_at)
        interim = request.metadata.get("interim")
        keep = files.keep_pended_response if interim is None else files.renew_pended_response
        await self.stores.run(keep(body, request.created_at, request.pagw_id))
        key = pended_response.build_key(created_at=request.created_at, pagw_id=request.pagw_id)
        return StageResult(
            Status.PENDED,
            RequestUpdate(response_key=key, inquire_at=await self._plan_inquiry(request)),
            {"decision": Outcome.PENDED},
            next_stage=Stage.payer,
            writes=(
                *self._build_payer_lookup_writes(request, bundle, answer),
                patterns.tell_answered(request.pagw_id),
                *self._build_early_callback_message(request),
            ),
        )

    async def _plan_inquiry(self, request: RequestRow) -> datetime:
        """Return the time of the first inquiry, by the payer's clock if it has one."""
        payer = await get_payer(self.stores, request.payer_id or "")
        minutes = None if payer is None else payer.options.get("inquire_minutes")
        return compute_first_inquiry(self.get_now(), request.due_at, minutes)

    def _build_early_callback_message(self, request: RequestRow) -> list[SqlWrite[Any]]:
        """Return a message for the newest callback if it came before the request was pended: nothing else
        would process it.
        """
        number = get_newest_callback(request)
        if number is None or number == request.metadata.get("interim"):
            return []
        return [build_callback_message(self.stores, request, number, f"early-{number}")]

    async def _build_final(
        self, request: RequestRow, bundle: dict[str, Any], answer: LoadedAnswer, number: str | None
    ) -> StageResult:
        """Store the final response to the callback `number`, or to the payer's first answer."""
        decision, arrived = answer.decision, get_arrival_time(request, number) or self.get_now()
        body = self._build_response(request, bundle, answer, decision.decided_at or request.updated_at)
        stored = await self.stores.run(files.keep_response(body, request.created_at, request.pagw_id))
        key = fhir_response.build_key(created_at=request.created_at, pagw_id=request.pagw_id)
        row = DecisionRow(
            pagw_id=request.pagw_id,
            number=0,
            source=number or decision_patterns.FIRST_ANSWER,
            outcome=decision.outcome,
            review_action=decision.action,
            arrived_at=arrived,
            payer_decided_at=decision.decided_at,
            response_key=key,
            response_sha256=hashlib.sha256(stored.body).hexdigest(),
            contradicts=False,
        )
        return StageResult(
            Status.RESPONSE_BUILT,
            RequestUpdate(
                response_key=key,
                decision=decision.outcome,
                decided_at=arrived,
                metadata={
                    "responseSha256": row.response_sha256,
                    "payerDecidedAt": None
                    if decision.decided_at is None
                    else decision.decided_at.isoformat(),
                },
            ),
            {"decision": decision.outcome, "action": decision.action},
            writes=(
                decision_patterns.record_decision(row),
                *self._build_payer_lookup_writes(request, bundle, answer),
                *self._build_lookup_writes(request, decision),
                *await self._build_former_ends(request, answer),
                patterns.tell_answered(request.pagw_id),
            ),
        )

    def _build_lookup_writes(self, request: RequestRow, decision: Decision) -> list[SqlWrite[Any]]:
        """Return the writes that make the request findable by its authorization numbers."""
        numbers = {decision.authorization_number, *(each.number for each in decision.items)} - {None}
        return [
            write
            for number in sorted(map(str, numbers))
            for write in self.lookup.build_writes(request.tenant, request.pagw_id, authorization=number)
        ]

    def _build_payer_lookup_writes(
        self, request: RequestRow, bundle: dict[str, Any], answer: LoadedAnswer
    ) -> list[SqlWrite[Any]]:
        """Return the writes that make the request findable by notifications of a payer that speaks PAS."""
        if answer.response is None or request.payer_id is None:
            return []
        return [
            self.lookup.build_payer_claim_write(request.payer_id, request.pagw_id, system, value)
            for system, value in iterate_identifiers(bundle["entry"][0]["resource"])
        ]

    def _build_response(
        self, request: RequestRow, bundle: dict[str, Any], answer: LoadedAnswer, created: datetime
    ) -> bytes:
        """Return the response: the payer's own, or one built from its decision. Raise `StageFailed` if that
        violates the rules of responses.
        """
        if answer.response is not None:
            return answer.response
        built = build_response_bundle(bundle, answer.decision, pagw_id=request.pagw_id, created=created)
        # A response built from the payer's answer must pass the same rules as any other response.
        if wrong := select_errors(check_built_response(built, bundle)):
            raise StageFailed(UNREADABLE, wrong[0].diagnostics)
        return dump_exact(built)

    async def _add_later_decision(self, request: RequestRow, number: str) -> StageResult | None:
        """Add the decision in the callback `number` to the history of a decided request."""
        if request.status not in TERMINAL:
            return None
        later = await load_later_decision(self.stores, request, number, self.get_now())
        details = {"callback": number, "decision": later.decision.outcome}
        if later.is_repeated:
            return StageResult(request.status, details={**details, "repeats": True}, next_stage=Stage.done)
        return await self._write_later_decision(request, later, details)

    async def _write_later_decision(
        self, request: RequestRow, later: LaterDecision, details: dict[str, Any]
    ) -> StageResult:
        """Store the response to a later decision, make the decision the current one, and announce it."""
        created = later.decision.decided_at or later.arrived_at
        bundle = await self._load_request_bundle(request)
        body = self._build_response(request, bundle, later.answer, created)
        stored = await self.stores.run(
            files.keep_later_response(body, request.created_at, request.pagw_id, later.number)
        )
        writes, update = build_later_writes(self.stores, request, later, stored.body)
        if later.is_current:
            writes += [
                *self._build_lookup_writes(request, later.decision),
                patterns.tell_answered(request.pagw_id),
                self.build_stage_message(request, Stage.subscription_handler, f"decision-{later.number}"),
            ]
        told = build_client_delivery(self.stores, request, self.get_now(), later.build_ending(request))
        return StageResult(
            request.status,
            update,
            {**details, "contradicts": later.contradicts},
            next_stage=Stage.done,
            writes=writes,
            client_writes=told if later.is_current else (),
        )

    async def _build_former_ends(self, request: RequestRow, answer: LoadedAnswer) -> list[SqlWrite[Any]]:
        """Return the writes that end the requests that this one replaced, and that wait for no decision of
        their own any more.

        A confirmed cancellation ends the request that it cancels. A payer that speaks PAS decides only the
        current request, so its decision also ends each earlier one that is pended.
        """
        if request.kind == "submit":
            return []
        is_cancelled = answer.decision.outcome is Outcome.CANCELLED
        ended: list[RequestRow] = []
        former = request
        while former.replaces is not None and len(ended) < MAX_FORMERS:
            found = await self.stores.run(patterns.request_in_hand(request.tenant, former.replaces))
            if found is None:
                break
            is_confirmed = request.kind == "cancel" and is_cancelled and former is request
            is_superseded = answer.response is not None and found.status is Status.PENDED
            if (is_confirmed and can_follow(found.status, Status.CANCELLED)) or is_superseded:
                ended.append(found)
            former = found
        return [write for each in ended for write in self._build_end(request, each)]

    def _build_end(self, request: RequestRow, former: RequestRow) -> list[SqlWrite[Any]]:
        """Return the writes that end a request because `request` replaced or cancelled it."""
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
