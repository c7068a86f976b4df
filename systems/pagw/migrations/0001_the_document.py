"""The first migration: creates the design document's tables, our additions, indexes and triggers.

Columns, types and indexes are the document's where it has DDL. Its NOW() defaults stay but are never relied
on: statements pass the time. `audit_log` has no foreign key, because it outlives the requests it describes. A
trigger prevents every component from changing or removing its rows before their retention ends.
"""

from __future__ import annotations

from typing import Final

from alembic import op

from holdfast.guarantees import inbox_ddl, outbox_ddl

revision = "0001"
down_revision = None

TRACKER: Final = """
CREATE TABLE pagw.request_tracker (
    pagw_id VARCHAR(50) PRIMARY KEY,
    tenant VARCHAR(50) NOT NULL,
    correlation_id VARCHAR(100),
    status VARCHAR(50) NOT NULL,
    stage VARCHAR(50),
    s3_bucket VARCHAR(255),
    s3_request_key VARCHAR(500),
    s3_response_key VARCHAR(500),
    provider_npi VARCHAR(10),
    payer_id VARCHAR(50),
    created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    completed_at TIMESTAMP WITH TIME ZONE,
    error_code VARCHAR(50),
    error_message TEXT,
    retry_count INTEGER NOT NULL DEFAULT 0,
    metadata JSONB NOT NULL DEFAULT '{}',
    -- Ours: what kind of request it is and of which, and the clock of its decision.
    kind VARCHAR(10) NOT NULL DEFAULT 'submit',
    replaces VARCHAR(50),
    urgency VARCHAR(10) NOT NULL DEFAULT 'standard',
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    decision VARCHAR(20),
    decided_at TIMESTAMP WITH TIME ZONE,
    inquire_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT request_tracker_status CHECK (status IN (
        'RECEIVED', 'PARSED', 'VALIDATED', 'ENRICHED', 'ATTACHMENTS_PROCESSED', 'CONVERTED', 'SUBMITTED',
            'PENDED',
        'RESPONSE_BUILT', 'CALLBACK_SENT', 'COMPLETED', 'FAILED', 'CANCELLED')),
    CONSTRAINT request_tracker_kind CHECK (kind IN ('submit', 'update', 'cancel')),
    CONSTRAINT request_tracker_urgency CHECK (urgency IN ('expedited', 'standard')),
    -- A date that the database holds and a program cannot read makes all rows beside it unreadable.
    CONSTRAINT request_tracker_times CHECK (
        due_at BETWEEN '1970-01-01Z' AND '3000-01-01Z' AND decided_at BETWEEN '1970-01-01Z' AND '3000-01-01Z'
        AND inquire_at BETWEEN '1970-01-01Z' AND '3000-01-01Z')
)
"""

AUDIT: Final = """
CREATE TABLE pagw.audit_log (
    id BIGSERIAL PRIMARY KEY,
    pagw_id VARCHAR(50),
    event_type VARCHAR(100) NOT NULL,
    event_subtype VARCHAR(100),
    actor_type VARCHAR(50) NOT NULL,
    actor_id VARCHAR(100),
    resource_type VARCHAR(100),
    resource_id VARCHAR(255),
    details JSONB,
    timestamp TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    service_name VARCHAR(100) NOT NULL,
    service_version VARCHAR(20) NOT NULL,
    -- Ours: the name of its object in the audit bucket, and whose it is.
    event_uuid VARCHAR(36) NOT NULL UNIQUE,
    tenant VARCHAR(50),
    CONSTRAINT audit_log_actor CHECK (actor_type IN ('service', 'user', 'system'))
)
"""

# A row is never changed. It may be removed when it is older than the retention limit that the session sets.
APPEND_ONLY: Final = """
CREATE FUNCTION pagw.audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.timestamp < nullif(current_setting('pagw.retained_until', true),
        '')::timestamptz THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_log only grows: % is refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$
"""

REGISTRIES: Final = (
    """
CREATE TABLE pagw.provider_registry (
    npi VARCHAR(10) PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    type VARCHAR(50),
    endpoints JSONB NOT NULL DEFAULT '{}',
    credentials_arn VARCHAR(500),
    CONSTRAINT provider_registry_npi CHECK (npi ~ '^[0-9]{10}$')
)
""",
    """
CREATE TABLE pagw.payer_config (
    payer_id VARCHAR(50) PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    api_endpoint VARCHAR(500) NOT NULL,
    auth_type VARCHAR(50) NOT NULL,
    credentials_arn VARCHAR(500),
    format VARCHAR(20) NOT NULL DEFAULT 'json',
    client_id VARCHAR(100),
    callback_secret VARCHAR(500),
    token_url VARCHAR(500),
    scope VARCHAR(1000),
    answer_s DOUBLE PRECISION
)
""",
)

# Keyed hashes of member ids, claim identifiers and authorization numbers, never the values themselves.
LOOKUP: Final = """
CREATE TABLE pagw.request_lookup (
    tenant VARCHAR(50) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    pagw_id VARCHAR(50) NOT NULL REFERENCES pagw.request_tracker ON DELETE CASCADE,
    PRIMARY KEY (tenant, kind, hash, pagw_id)
)
"""

CLIENTS: Final = (
    """
CREATE TABLE pagw.subscriptions (
    subscription_id VARCHAR(50) PRIMARY KEY,
    tenant VARCHAR(50) NOT NULL,
    status VARCHAR(20) NOT NULL,
    endpoint VARCHAR(2000) NOT NULL,
    organization VARCHAR(100),
    content VARCHAR(20) NOT NULL,
    secret_name VARCHAR(100),
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE,
    events BIGINT NOT NULL DEFAULT 0,
    error VARCHAR(500),
    CONSTRAINT subscriptions_status CHECK (status IN ('requested', 'active', 'error', 'off')),
    CONSTRAINT subscriptions_end CHECK (ends_at BETWEEN '0001-01-01Z' AND '9999-12-31T23:59:59Z')
)
""",
    """
CREATE TABLE pagw.deliveries (
    delivery_id VARCHAR(120) PRIMARY KEY,
    tenant VARCHAR(50) NOT NULL,
    pagw_id VARCHAR(50) NOT NULL REFERENCES pagw.request_tracker ON DELETE CASCADE,
    subscription_id VARCHAR(50),
    target VARCHAR(2000) NOT NULL,
    secret_name VARCHAR(100),
    event_number BIGINT NOT NULL DEFAULT 1,
    -- How the request stood when it was told of: every attempt tells the same.
    told JSONB NOT NULL DEFAULT '{}',
    status VARCHAR(20) NOT NULL DEFAULT 'waiting',
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error VARCHAR(500),
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    delivered_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT deliveries_status CHECK (status IN ('waiting', 'delivered', 'given_up'))
)
""",
)

# Legal holds keep a request's rows and objects beyond the end of its retention.
HOLDS: Final = """
CREATE TABLE pagw.legal_holds (
    pagw_id VARCHAR(50) PRIMARY KEY,
    reason VARCHAR(200) NOT NULL,
    placed_by VARCHAR(100) NOT NULL,
    placed_at TIMESTAMP WITH TIME ZONE NOT NULL
)
"""

# Requests whose rows are removed and whose files may still exist: the sweeper searches until none is left.
FORGOTTEN: Final = """
CREATE TABLE pagw.forgotten (
    pagw_id VARCHAR(50) PRIMARY KEY,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    forgotten_at TIMESTAMP WITH TIME ZONE NOT NULL
)
"""

INDEXES: Final = (
    "CREATE INDEX idx_request_tracker_tenant ON pagw.request_tracker (tenant)",
    "CREATE INDEX idx_request_tracker_status ON pagw.request_tracker (status)",
    "CREATE INDEX idx_request_tracker_created ON pagw.request_tracker (created_at)",
    # Ours: a tenant's newest requests, stuck ones and due ones. The last two stay small, because they
    # exclude completed requests.
    "CREATE INDEX idx_request_tracker_newest ON pagw.request_tracker (tenant, created_at DESC, pagw_id DESC)",
    """CREATE INDEX idx_request_tracker_active ON pagw.request_tracker (updated_at)
       WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')""",
    "CREATE INDEX idx_request_tracker_undecided ON pagw.request_tracker (due_at) WHERE decided_at IS NULL",
    "CREATE INDEX idx_request_tracker_inquiries ON pagw.request_tracker (inquire_at) WHERE status = 'PENDED'",
    "CREATE INDEX idx_audit_log_pagw_id ON pagw.audit_log (pagw_id)",
    "CREATE INDEX idx_audit_log_timestamp ON pagw.audit_log (timestamp)",
    "CREATE INDEX idx_audit_log_event_type ON pagw.audit_log (event_type)",
    "CREATE INDEX idx_request_lookup_pagw_id ON pagw.request_lookup (pagw_id)",
    "CREATE INDEX idx_subscriptions_tenant ON pagw.subscriptions (tenant, status)",
    "CREATE INDEX idx_deliveries_pagw_id ON pagw.deliveries (pagw_id)",
    "CREATE INDEX idx_deliveries_waiting ON pagw.deliveries (created_at) WHERE status = 'waiting'",
)


def upgrade() -> None:
    statements = [TRACKER, AUDIT, APPEND_ONLY, *REGISTRIES, LOOKUP, *CLIENTS, HOLDS, FORGOTTEN, *INDEXES]
    statements += [
        """CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON pagw.audit_log
           FOR EACH ROW EXECUTE FUNCTION pagw.audit_only_grows()""",
        """CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON pagw.audit_log
           FOR EACH STATEMENT EXECUTE FUNCTION pagw.audit_only_grows()""",
        *outbox_ddl("pagw"),
        *inbox_ddl("pagw"),
    ]
    for statement in statements:
        op.execute(statement)
