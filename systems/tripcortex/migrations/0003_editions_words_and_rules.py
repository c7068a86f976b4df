"""Migration: add editions, full-text search, rules and the embedding model; keep vectors in rows."""

from __future__ import annotations

from typing import Final

from alembic import op

revision = "0003"
down_revision = "0002"

# A document has editions; `serves` marks the one that answers questions. `retired_at`: its chunks were
# deleted.
EDITIONS: Final = """
ALTER TABLE tripcortex.policies
    ADD COLUMN document_id UUID NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN edition INTEGER NOT NULL DEFAULT 1,
    ADD COLUMN serves BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN retired_at TIMESTAMPTZ,
    ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN rules JSONB,
    ADD COLUMN embedding_model VARCHAR(255)
"""
FORMER: Final = "UPDATE tripcortex.policies SET document_id = id, serves = (status = 'ready')"
ONLY_READY_SERVES: Final = """
ALTER TABLE tripcortex.policies ADD CONSTRAINT policies_only_ready_serves
    CHECK (NOT serves OR (status = 'ready' AND retired_at IS NULL))
"""
ONE_SERVES: Final = """
CREATE UNIQUE INDEX uq_policies_one_serves ON tripcortex.policies (document_id) WHERE serves
"""
ONE_OF_EACH_EDITION: Final = """
CREATE UNIQUE INDEX uq_policies_edition ON tripcortex.policies (document_id, edition)
"""

# A chunk's own heading weighs most, then its text, then the headings above it.
WORDS: Final = """
ALTER TABLE tripcortex.policy_chunks ADD COLUMN words tsvector GENERATED ALWAYS AS (
    setweight(to_tsvector('english'::regconfig, coalesce(section_title, '')), 'A')
    || setweight(to_tsvector('english'::regconfig, coalesce(content_text, '')), 'B')
    || setweight(to_tsvector('english'::regconfig, coalesce(metadata -> 'sections', '[]'::jsonb)), 'C')
) STORED
"""
WORDS_INDEX: Final = "CREATE INDEX idx_policy_chunks_words ON tripcortex.policy_chunks USING gin (words)"

# PLAIN keeps vectors in their rows instead of TOAST: the planner ignores the cost of fetching them from TOAST
# and would prefer a sequential scan to the index.
VECTORS_IN_ROWS: Final = "ALTER TABLE tripcortex.policy_chunks ALTER COLUMN embedding SET STORAGE PLAIN"


def upgrade() -> None:
    for statement in (
        VECTORS_IN_ROWS,
        EDITIONS,
        FORMER,
        ONLY_READY_SERVES,
        ONE_SERVES,
        ONE_OF_EACH_EDITION,
        WORDS,
        WORDS_INDEX,
    ):
        op.execute(statement)
