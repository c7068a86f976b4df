"""Access patterns of the history of payers' decisions, which only grows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from holdfast import pattern
from holdfast.model.sql import SqlChange, SqlRows
from pagw.model.entities import DecisionRow, pagw
from pagw.model.patterns import PER_QUESTION, PER_REQUEST

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_TENANT: Final = "acme"

# The source of a decision that the payer's first answer brought; any other is the number of a callback.
FIRST_ANSWER: Final = "answer"


def _build_decision_example() -> tuple[DecisionRow]:
    """Build the example arguments of `record_decision`."""
    return (
        DecisionRow(
            pagw_id=_ID,
            number=0,
            source=FIRST_ANSWER,
            outcome="approved",
            review_action="A1",
            arrived_at=_NOW,
            payer_decided_at=_NOW,
            response_key=f"202611/{_ID}/response/fhir_claim_response.json",
            response_sha256="0" * 64,
            contradicts=False,
        ),
    )


@pattern("S60", "Append a payer's decision to its history", rate=PER_REQUEST, example=_build_decision_example)
def record_decision(decision: DecisionRow) -> SqlChange:
    """Insert a decision under the next number, unless one of the same source exists. `number` is ignored."""
    return pagw.change(
        """INSERT INTO pagw.decisions (pagw_id, number, source, outcome, review_action, arrived_at,
               payer_decided_at, response_key, response_sha256, contradicts)
           VALUES (%(pagw_id)s::text,
               (SELECT coalesce(max(number), 0) + 1 FROM pagw.decisions WHERE pagw_id = %(pagw_id)s::text),
               %(source)s, %(outcome)s, %(review_action)s, %(arrived_at)s, %(payer_decided_at)s,
               %(response_key)s, %(response_sha256)s, %(contradicts)s)
           ON CONFLICT (pagw_id, source) DO NOTHING""",
        **decision.model_dump(exclude={"number"}),
    )


@pattern("S61", "The decisions about a request, oldest first", rate=PER_QUESTION, example=(_TENANT, _ID))
def decisions_of(tenant: str, pagw_id: str) -> SqlRows[DecisionRow]:
    return pagw.rows(
        DecisionRow,
        """SELECT {columns} FROM pagw.decisions WHERE pagw_id IN (
               SELECT pagw_id FROM pagw.request_tracker
               WHERE pagw_id = %(pagw_id)s AND tenant = %(tenant)s)
           ORDER BY number""",
        tenant=tenant,
        pagw_id=pagw_id,
    )


@pattern("S62", "Make a later decision the current one", rate=PER_REQUEST, example=(_ID, "denied"))
def revise_decision(pagw_id: str, outcome: str) -> SqlChange:
    """Set the current decision. The time of the first decision stays: it stopped the clock."""
    return pagw.change(
        "UPDATE pagw.request_tracker SET decision = %(outcome)s WHERE pagw_id = %(pagw_id)s",
        pagw_id=pagw_id,
        outcome=outcome,
    ).expect_rows(1)
