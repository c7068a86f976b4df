"""The schema `tripcortex`: rows of `policies` and `policy_chunks`, and what statements give of them.

`migrations/` makes the tables. Columns of a policy up to `version` are the design document's. A document has editions, of
which one serves: A1 and all else that answers questions look at chunks of those alone, so that nobody is answered from a
policy that is being read, has failed or was replaced.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from holdfast import Schema, SqlRow

DIMENSIONS: Final = 1024
# The document's, for its own model; every embedding brings its own.
THRESHOLD: Final = 0.65
TOP_K: Final = 5

FILE_NAME_CHARS_MAX: Final = 255

tripcortex = Schema(
    "tripcortex",
    migrations="tripcortex.migrations",
    purpose="Travel policies, taken apart into chunks with their vectors",
    capacity_max=2,
)


class PolicyStatus(StrEnum):
    pending = "pending"
    processing = "processing"
    ready = "ready"
    failed = "failed"


class Policy(SqlRow):
    """One edition of a policy document. From `document_id` on the columns are ours."""

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
    # Which document it is an edition of, the how manieth, and whether it is the one that serves.
    document_id: UUID
    edition: int
    serves: bool
    # Since when its chunks are gone; the row and the file stay.
    retired_at: datetime | None
    # How often somebody began to ingest it.
    attempts: int
    # For programs, beside the text for people (`tripcortex.rules`).
    rules: dict[str, Any] | None
    embedding_model: str | None


class NewPolicy(SqlRow):
    """A policy as it begins: uploaded, and waiting to be read."""

    id: UUID
    source_s3_uri: str
    file_name: str = Field(min_length=1, max_length=FILE_NAME_CHARS_MAX)
    uploaded_by: str | None = None
    rules: dict[str, Any] | None = None
    bda_project_arn: str | None = None


class NewChunk(SqlRow):
    """One entity on its way into `policy_chunks`. `embedding` is pgvector's text: `[0.1,0.2,…]`."""

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
    """What A1 gives: the document's columns and no other."""

    id: UUID
    content_text: str | None
    section_title: str | None
    source_page: int | None
    content_type: str
    bda_entity_subtype: str | None
    similarity: float


class WordedChunk(SqlRow):
    """A chunk found by its words: how well they fit (the more the better, of no scale), how much of what the question says it has
    (0 to 1), and how near it is besides."""

    id: UUID
    bda_entity_subtype: str | None
    rank: float
    share: float
    similarity: float


class FoundChunk(SqlRow):
    """A chunk with where it stands, for a citation. `similarity` is to the question."""

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
    """An edition that has its chunks."""

    id: UUID
    serves: bool


class ServingRules(SqlRow):
    """The rules of a policy that serves."""

    id: UUID
    file_name: str
    rules: dict[str, Any]
