"""Adds what the operators' pages read: indexes of the worklist, and calls to payers.

Each index holds only the rows of its view, so that it stays small and a page of the view reads a bounded
number of entries. Two indexes of the first migration are replaced by narrower ones: with PENDED requests, or
with ended ones without a decision, they grew with the gateway's history.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0003"
down_revision = "0002"

PAYER_CALLS: Final = """
CREATE TABLE pagw.payer_calls (
    id BIGSERIAL PRIMARY KEY,
    payer_id VARCHAR(50) NOT NULL,
    pagw_id VARCHAR(50) NOT NULL,
    action VARCHAR(20) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    error_code VARCHAR(50),
    took_ms DOUBLE PRECISION NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT payer_calls_outcome CHECK (outcome IN ('final', 'pended', 'unknown', 'failed', 'refused'))
)
"""

STATEMENTS: Final = (
    PAYER_CALLS,
    "CREATE INDEX idx_payer_calls_payer ON pagw.payer_calls (payer_id, id DESC)",
    "CREATE INDEX idx_payer_calls_at ON pagw.payer_calls (at)",
    "DROP INDEX pagw.idx_request_tracker_active",
    # Requests that a stage should move on: all active ones except those that wait for their payer.
    """CREATE INDEX idx_request_tracker_moving ON pagw.request_tracker (updated_at, pagw_id)
       WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
           AND NOT (status = 'PENDED' AND stage = 'payer')""",
    "DROP INDEX pagw.idx_request_tracker_undecided",
    # Without the columns after INCLUDE, the backlog of each payer would read the rows.
    """CREATE INDEX idx_request_tracker_undecided ON pagw.request_tracker (due_at, pagw_id)
       INCLUDE (payer_id, status)
       WHERE decided_at IS NULL AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')""",
    """CREATE INDEX idx_request_tracker_pended ON pagw.request_tracker (due_at, pagw_id)
       WHERE status = 'PENDED'""",
    """CREATE INDEX idx_request_tracker_failed ON pagw.request_tracker (updated_at DESC, pagw_id DESC)
       WHERE status = 'FAILED'""",
    """CREATE INDEX idx_request_tracker_contradicted ON pagw.request_tracker (updated_at DESC, pagw_id DESC)
       WHERE error_code IN ('PAYER_CONTRADICTS_ITSELF', 'PAYER_ANSWER_UNREADABLE')
           OR metadata ? 'contradicted'""",
    # The annual report: decisions of a year.
    """CREATE INDEX idx_request_tracker_decided ON pagw.request_tracker (decided_at)
       INCLUDE (urgency, decision, kind, created_at, due_at, payer_id) WHERE decided_at IS NOT NULL""",
    """CREATE INDEX idx_deliveries_undelivered ON pagw.deliveries (updated_at DESC, delivery_id DESC)
       WHERE status NOT IN ('waiting', 'delivered') OR (status = 'waiting' AND attempts > 0)""",
    # The sent messages of a request, as long as the outbox keeps them.
    "CREATE INDEX idx_outbox_sent ON pagw.outbox (aggregate, id) WHERE processed",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
