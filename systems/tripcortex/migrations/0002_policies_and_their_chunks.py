"""Migration: create policies, and the foreign key, constraints and indexes of their chunks.

The foreign key would reject existing chunks, since none of them has a policy. The migration creates a
placeholder policy for each policy id that they name, and that policy serves: the chunks answered questions
before, and a travel policy that disappears is worse than one whose file is unknown. It logs how many there
were; an offline SQL script counts them with a preceding statement.
"""

from __future__ import annotations

import logging
from typing import Final

from alembic import op

revision = "0002"
down_revision = "0001"

log = logging.getLogger(__name__)

POLICIES: Final = """
CREATE TABLE tripcortex.policies (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    source_s3_uri TEXT NOT NULL,
    file_name VARCHAR(255) NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'ready', 'failed')),
    bda_project_arn VARCHAR(512),
    bda_invocation_arn VARCHAR(512),
    total_pages INTEGER,
    total_chunks INTEGER DEFAULT 0,
    uploaded_by VARCHAR(255),
    error_message TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    version INTEGER NOT NULL DEFAULT 1
)
"""

ORPHANS: Final = """
SELECT count(*) AS orphan_chunks, count(DISTINCT policy_id) AS placeholder_policies
FROM tripcortex.policy_chunks AS chunk
WHERE NOT EXISTS (SELECT 1 FROM tripcortex.policies AS policy WHERE policy.id = chunk.policy_id)
"""

# Placeholder policies take their times from their chunks.
PLACEHOLDERS: Final = """
INSERT INTO tripcortex.policies
    (id, source_s3_uri, file_name, status, total_pages, total_chunks, created_at, updated_at)
SELECT chunk.policy_id, 'unknown:', 'unknown (chunks from before policies were kept)', 'ready',
    max(chunk.source_page), count(*), min(chunk.created_at), max(chunk.updated_at)
FROM tripcortex.policy_chunks AS chunk
WHERE NOT EXISTS (SELECT 1 FROM tripcortex.policies AS policy WHERE policy.id = chunk.policy_id)
GROUP BY chunk.policy_id
"""

FOREIGN_KEY: Final = """
ALTER TABLE tripcortex.policy_chunks ADD CONSTRAINT policy_chunks_policy_id_fkey
    FOREIGN KEY (policy_id) REFERENCES tripcortex.policies (id) ON DELETE CASCADE
"""

CONTENT_TYPE: Final = """
ALTER TABLE tripcortex.policy_chunks ADD CONSTRAINT policy_chunks_content_type_check
    CHECK (content_type IN ('text', 'table', 'figure'))
"""

INDEXES: Final = (
    "CREATE INDEX idx_policies_status ON tripcortex.policies (status)",
    "CREATE INDEX idx_policies_uploaded_by ON tripcortex.policies (uploaded_by)",
    """CREATE INDEX idx_policy_chunks_embedding ON tripcortex.policy_chunks
        USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64)""",
    "CREATE INDEX idx_policy_chunks_policy_id ON tripcortex.policy_chunks (policy_id)",
    "CREATE INDEX idx_policy_chunks_content_type ON tripcortex.policy_chunks (content_type)",
)


def upgrade() -> None:
    op.execute(POLICIES)
    _report_orphans()
    for statement in (PLACEHOLDERS, FOREIGN_KEY, CONTENT_TYPE, *INDEXES):
        op.execute(statement)


def _report_orphans() -> None:
    """Log how many chunks have no policy; in an offline script, add the statement that counts them."""
    if op.get_context().as_sql:
        op.execute(ORPHANS)
        return
    chunks, policies = op.get_bind().exec_driver_sql(ORPHANS).one()
    if chunks:
        log.warning("%d chunks had no policy: created %d placeholder policies for them.", chunks, policies)
