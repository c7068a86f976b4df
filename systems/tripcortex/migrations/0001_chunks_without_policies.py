"""Migration: create policy chunks with vectors as the design document found them, without policies."""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0001"
down_revision = None

# If the extension is missing, the migrating role needs the right to create it.
EXTENSION: Final = "CREATE EXTENSION IF NOT EXISTS vector"

CHUNKS: Final = """
CREATE TABLE tripcortex.policy_chunks (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    policy_id UUID NOT NULL,
    content_type VARCHAR(20) NOT NULL,
    content_text TEXT,
    source_page INTEGER,
    section_title VARCHAR(255),
    reading_order INTEGER,
    bda_entity_id VARCHAR(255),
    bda_entity_subtype VARCHAR(50),
    embedding vector(1024) NOT NULL,
    metadata JSONB,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
)
"""


def upgrade() -> None:
    for statement in (EXTENSION, CHUNKS):
        op.execute(statement)
