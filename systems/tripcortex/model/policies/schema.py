"""The schema `tripcortex`: rows of `policies` and `policy_chunks`, and the results of statements on them.

`migrations/` creates the tables. The columns of a policy up to `version` are the design document's. A
document has editions, of which one serves: A1 and every other query for answers uses only chunks of serving
editions, never of a policy that is being ingested, has failed or was replaced.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from holdfast import Schema
from holdfast.model.sql import SqlRow

DIMENSIONS: Final = 1024
# The design document's threshold, for its model; every embedding has its own.
THRESHOLD: Final = 0.65
TOP_K: Final = 5

MAX_FILE_NAME_CHARS: Final = 255

tripcortex = Schema(
    "tripcortex",
    migrations="tripcortex.migrations",
    purpose="Travel policies, split into chunks with their vectors",
    capacity_max=2,
)


class PolicyStatus(StrEnum):
    """The status of an edition's ingestion."""

    pending = "pending"
    processing = "processing"
    ready = "ready"
    failed = "failed"


class Policy(SqlRow):
    """One edition of a policy document.

    The columns from `document_id` on are additions to the design document.
    """

    id: UUID
    source_s3_uri: str
    file_name: str
    status: PolicyStatus
    bda_project_arn: str | None
    bda_invocation_arn: str | None
    total_pages: int | None
    total_chunks: int | None
    uploaded_by: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    version: int
    # The document, the number of this edition, and whether this edition serves.
    document_id: UUID
    edition: int
    serves: bool
    # When its chunks were deleted; the row and the file remain.
    retired_at: datetime | None
    # The number of ingestion attempts.
    attempts: int
    # The machine-readable rules (`tripcortex.domain.policy_rules`), in addition to the text.
    rules: dict[str, Any] | None
    embedding_model: str | None


class NewPolicy(SqlRow):
    """A policy to insert: uploaded, and pending ingestion."""

    id: UUID
    source_s3_uri: str
    file_name: str = Field(min_length=1, max_length=MAX_FILE_NAME_CHARS)
    uploaded_by: str | None = None
    rules: dict[str, Any] | None = None
    bda_project_arn: str | None = None


class NewChunk(SqlRow):
    """A chunk to insert into `policy_chunks`. `embedding` is pgvector's text form: `[0.1,0.2,…]`."""

    id: UUID
    content_type: str
    content_text: str
    source_page: int | None = None
    section_title: str | None = Field(default=None, max_length=255)
    reading_order: int
    bda_entity_id: str = Field(max_length=255)
    bda_entity_subtype: str = Field(max_length=50)
    embedding: str = Field(repr=False)
    metadata: dict[str, Any]


class SimilarChunk(SqlRow):
    """A result of A1, with exactly the design document's columns."""

    id: UUID
    content_text: str | None
    section_title: str | None
    source_page: int | None
    content_type: str
    bda_entity_subtype: str | None
    similarity: float


class WordedChunk(SqlRow):
    """A chunk found by full text.

    `rank` is the BM25 score (higher is better, no fixed scale), `share` the part of the question that it
    covers (0 to 1), `similarity` that of the vectors.
    """

    id: UUID
    bda_entity_subtype: str | None
    rank: float
    share: float
    similarity: float


class FoundChunk(SqlRow):
    """A chunk with its position, for a citation. `similarity` is to the question."""

    id: UUID
    policy_id: UUID
    file_name: str
    content_text: str | None
    section_title: str | None
    source_page: int | None
    content_type: str
    bda_entity_subtype: str | None
    reading_order: int | None
    metadata: dict[str, Any] | None
    similarity: float


class KeptEdition(SqlRow):
    """An edition that still has its chunks."""

    id: UUID
    serves: bool


class ServingRules(SqlRow):
    """The machine-readable rules of a serving policy."""

    id: UUID
    file_name: str
    rules: dict[str, Any]
