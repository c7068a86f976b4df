"""Migration: add the rules of each edition with their decisions, and the log of the decisions."""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0004"
down_revision = "0003"

# `rules_proposed_at`: when the rules were written to `policy_rules`. NULL for an edition of an older version:
# its machine-readable rules are converted whenever a booking needs them.
PROPOSED_AT: Final = "ALTER TABLE tripcortex.policies ADD COLUMN rules_proposed_at TIMESTAMPTZ"

RULES: Final = """
CREATE TABLE tripcortex.policy_rules (
    policy_id UUID NOT NULL REFERENCES tripcortex.policies (id) ON DELETE CASCADE,
    rule_id VARCHAR(128) NOT NULL,
    position INTEGER NOT NULL,
    origin VARCHAR(20) NOT NULL CHECK (origin IN ('document', 'json')),
    status VARCHAR(20) NOT NULL DEFAULT 'proposed' CHECK (status IN ('proposed', 'confirmed', 'rejected')),
    version INTEGER NOT NULL DEFAULT 1,
    proposed JSONB NOT NULL,
    decided JSONB,
    quote TEXT,
    page INTEGER,
    section VARCHAR(255),
    is_complete BOOLEAN NOT NULL,
    decided_by VARCHAR(255),
    decided_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (policy_id, rule_id)
)
"""
A_DECISION_HAS_ITS_TIME: Final = """
ALTER TABLE tripcortex.policy_rules ADD CONSTRAINT policy_rules_decision_has_its_time
    CHECK ((status = 'proposed') = (decided_at IS NULL))
"""

# No foreign key: the log remains after the policy is removed, because it explains past bookings.
CHANGES: Final = """
CREATE TABLE tripcortex.policy_rule_changes (
    policy_id UUID NOT NULL,
    rule_id VARCHAR(128) NOT NULL,
    version INTEGER NOT NULL,
    action VARCHAR(20) NOT NULL CHECK (action IN ('confirm', 'edit', 'reject', 'upload', 'carry')),
    status VARCHAR(20) NOT NULL,
    rule JSONB NOT NULL,
    changed_by VARCHAR(255),
    changed_at TIMESTAMPTZ NOT NULL,
    reason TEXT,
    PRIMARY KEY (policy_id, rule_id, version)
)
"""


def upgrade() -> None:
    for statement in (PROPOSED_AT, RULES, A_DECISION_HAS_ITS_TIME, CHANGES):
        op.execute(statement)
