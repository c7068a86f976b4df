"""The log of calls to payers: who was called, what came back, and how long it took. It has no contents.

The pages of payers compute their health from it. Rows are removed after `KEPT_DAYS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from holdfast import Rate, pattern
from holdfast.model.sql import SqlChange, SqlRow, SqlRows
from pagw.model.entities import pagw
from pagw.model.patterns import PER_REQUEST

KEPT_DAYS: Final = 30
MAX_SHOWN: Final = 50
PER_SWEEP: Final = Rate(per="sweep")
PER_PAGE: Final = Rate(per="page of an operator")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


class NewPayerCall(SqlRow):
    """A call that has ended. `outcome` is final, pended, unknown (not found by a lookup), failed, refused."""

    payer_id: str
    pagw_id: str
    action: str
    outcome: str
    error_code: str | None = None
    took_ms: float
    at: datetime


class PayerCallRow(NewPayerCall):
    """A row of `pagw.payer_calls`."""

    id: int


def _build_call_example() -> tuple[NewPayerCall]:
    """Build the example arguments of `record_call`."""
    call = NewPayerCall(
        payer_id="sandbox-payer", pagw_id=_ID, action="submit", outcome="final", took_ms=120.0, at=_NOW
    )
    return (call,)


@pattern("S70", "Append to the log of calls to payers", rate=PER_REQUEST, example=_build_call_example)
def record_call(call: NewPayerCall) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.payer_calls (payer_id, pagw_id, action, outcome, error_code, took_ms, at)
           VALUES (%(payer_id)s, %(pagw_id)s, %(action)s, %(outcome)s, %(error_code)s, %(took_ms)s,
               %(at)s)""",
        **call.model_dump(),
    )


@pattern("M70", "The newest calls to payers", rate=PER_PAGE, example=(["sandbox-payer"],))
def calls_of(payer_ids: Sequence[str], limit: int = MAX_SHOWN) -> SqlRows[PayerCallRow]:
    """Select the newest calls to each of these payers, newest first."""
    return pagw.rows(
        PayerCallRow,
        """SELECT {columns} FROM unnest(%(payer_ids)s::text[]) AS wanted (payer)
           CROSS JOIN LATERAL (
               SELECT * FROM pagw.payer_calls WHERE payer_id = wanted.payer
               ORDER BY id DESC LIMIT %(limit)s) AS calls
           ORDER BY id DESC""",
        payer_ids=tuple(payer_ids),
        limit=limit,
    )


@pattern("R22", "Remove old calls to payers", rate=PER_SWEEP, example=(_NOW,))
def remove_calls(before: datetime, limit: int = 1000) -> SqlChange:
    """Delete at most `limit` calls that ended before a time, in the order of their ids."""
    return pagw.change(
        """DELETE FROM pagw.payer_calls WHERE id IN (
               SELECT id FROM pagw.payer_calls WHERE at < %(before)s ORDER BY at LIMIT %(limit)s)""",
        before=before,
        limit=limit,
    ).idempotent()
