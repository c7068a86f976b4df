"""A payer's decisions after the first: what changes in the request, and what its history keeps.

Every later decision is kept and audited. The newest final one becomes the request's current decision and is
announced to the client, whatever it says; the request keeps its status, and its first decision keeps the
time that stopped the clock. A decision that says the same again changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast import Stores
from holdfast.model.sql import SqlWrite
from pagw.domain.fhir.decisions import Decision
from pagw.domain.statuses import Stage
from pagw.model import decision_patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import DecisionRow, RequestRow, RequestUpdate, later_response
from pagw.workers.stages.base_stage import Ending
from pagw.workers.stages.payer_answers import (
    LoadedAnswer,
    get_arrival_time,
    get_deciding_callback,
    load_answer,
    load_body,
)


@dataclass(frozen=True)
class LaterDecision:
    """The decision in the callback `number`, which came after the request's first one.

    It is current if it is final and newer than the request's current decision.
    """

    number: str
    answer: LoadedAnswer
    arrived_at: datetime
    is_repeated: bool
    is_current: bool
    contradicts: bool

    @property
    def decision(self) -> Decision:
        return self.answer.decision

    def build_ending(self, request: RequestRow) -> Ending:
        """Return the end of the request as its client is notified of this decision."""
        return Ending(request.status, self.decision.outcome, later_callback=self.number)


async def load_later_decision(
    stores: Stores, request: RequestRow, number: str, now: datetime
) -> LaterDecision:
    """Load the decision in the callback `number` and compare it with the request's current one. Raise
    `StageFailed` if it is invalid.
    """
    answer = await load_answer(stores, request, number, now)
    current = get_deciding_callback(request)
    is_repeated = False
    if request.decision is not None:
        before = await load_body(stores, request, current)
        is_repeated = answer.form.is_same_answer(answer.body, before)
    is_final = answer.decision.outcome.is_final
    return LaterDecision(
        number,
        answer,
        get_arrival_time(request, number) or now,
        is_repeated,
        is_current=is_final and number > (current or ""),
        contradicts=is_final and request.decision not in (None, answer.decision.outcome),
    )


def build_later_writes(
    stores: Stores, request: RequestRow, later: LaterDecision, response: bytes
) -> tuple[list[SqlWrite[Any]], RequestUpdate]:
    """Return the writes of the history and of the audit, and the update of the request. `response` is the
    stored response to the decision.
    """
    sha256 = hashlib.sha256(response).hexdigest()
    key = later_response.build_key(
        created_at=request.created_at, pagw_id=request.pagw_id, number=later.number
    )
    row = _build_row(request, later, key, sha256)
    writes: list[SqlWrite[Any]] = [
        decision_patterns.record_decision(row),
        *build_audit_writes(stores, _build_event(request, later)),
    ]
    if not later.is_current:
        return writes, RequestUpdate()
    writes.append(decision_patterns.revise_decision(request.pagw_id, later.decision.outcome))
    changes = {"laterCallback": later.number, "laterStatus": request.status, "responseSha256": sha256}
    if later.contradicts:
        changes["contradicted"] = later.number
    return writes, RequestUpdate(response_key=key, metadata=changes)


def _build_row(request: RequestRow, later: LaterDecision, key: str, sha256: str) -> DecisionRow:
    """Build the history's row of a later decision."""
    decision = later.decision
    return DecisionRow(
        pagw_id=request.pagw_id,
        number=0,
        source=later.number,
        outcome=decision.outcome,
        review_action=decision.action,
        arrived_at=later.arrived_at,
        payer_decided_at=decision.decided_at,
        response_key=key,
        response_sha256=sha256,
        contradicts=later.contradicts,
    )


def _build_event(request: RequestRow, later: LaterDecision) -> AuditEvent:
    """Build the audit event of a later decision."""
    service = Stage.response_builder.service
    return AuditEvent(
        type="DECISION",
        subtype=later.decision.outcome,
        actor=Actor.service(service),
        service=service,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="decision",
        resource_id=later.number,
        details={"before": request.decision, "contradicts": later.contradicts, "current": later.is_current},
    )
