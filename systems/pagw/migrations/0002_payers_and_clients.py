"""The second migration: payers' options, the history of decisions, and held deliveries.

A decision's row is never changed, and is removed only together with its request. A delivery is `held` while
its subscription is in error, and `expired` when it was held for too long.
"""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0002"
down_revision = "0001"

DECISIONS: Final = """
CREATE TABLE pagw.decisions (
    pagw_id VARCHAR(50) NOT NULL REFERENCES pagw.request_tracker ON DELETE CASCADE,
    number INTEGER NOT NULL,
    source VARCHAR(20) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    review_action VARCHAR(10),
    arrived_at TIMESTAMP WITH TIME ZONE NOT NULL,
    payer_decided_at TIMESTAMP WITH TIME ZONE,
    response_key VARCHAR(500),
    response_sha256 VARCHAR(64),
    contradicts BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (pagw_id, number),
    CONSTRAINT decisions_source UNIQUE (pagw_id, source)
)
"""

# The removal of a request removes its decisions by a trigger of the foreign key, one level up.
ONLY_GROWS: Final = """
CREATE FUNCTION pagw.decisions_only_grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND pg_trigger_depth() > 1 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'decisions only grow: % is refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$
"""

STATEMENTS: Final = (
    "ALTER TABLE pagw.payer_config ADD COLUMN options JSONB NOT NULL DEFAULT '{}'",
    DECISIONS,
    ONLY_GROWS,
    """CREATE TRIGGER decisions_only_grow BEFORE UPDATE OR DELETE ON pagw.decisions
       FOR EACH ROW EXECUTE FUNCTION pagw.decisions_only_grow()""",
    "ALTER TABLE pagw.deliveries DROP CONSTRAINT deliveries_status",
    """ALTER TABLE pagw.deliveries ADD CONSTRAINT deliveries_status
       CHECK (status IN ('waiting', 'delivered', 'given_up', 'held', 'expired'))""",
    "ALTER TABLE pagw.deliveries ADD COLUMN round INTEGER NOT NULL DEFAULT 1",
    """CREATE INDEX idx_deliveries_events ON pagw.deliveries (subscription_id, event_number)
       WHERE subscription_id IS NOT NULL""",
    "ALTER TABLE pagw.subscriptions ADD COLUMN retry_at TIMESTAMP WITH TIME ZONE",
    """CREATE INDEX idx_deliveries_held ON pagw.deliveries (created_at) WHERE status = 'held'""",
    # What was given up during an outage that still lasts is delivered after it.
    "UPDATE pagw.subscriptions SET retry_at = updated_at WHERE status = 'error'",
    """UPDATE pagw.deliveries SET status = 'held' FROM pagw.subscriptions
       WHERE deliveries.subscription_id = subscriptions.subscription_id
         AND subscriptions.status = 'error' AND deliveries.status = 'given_up'""",
    "CREATE INDEX idx_subscriptions_retry ON pagw.subscriptions (retry_at) WHERE status = 'error'",
    "CREATE INDEX idx_request_tracker_payer ON pagw.request_tracker (payer_id, created_at)",
    # Follows a request to the ones that replaced it.
    """CREATE INDEX idx_request_tracker_replaces ON pagw.request_tracker (replaces)
       WHERE replaces IS NOT NULL""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
