"""Search one policy file without a running store, by the product's own ingestion and retrieval.

The command `policies ask` and the measurements use it. The answers are those of a store to which the same
file was uploaded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from holdfast import Stores, System, open_memory_stores, provision
from holdfast.core.errors import InvalidRequest
from tripcortex.model.entities import policy_files
from tripcortex.model.policies.schema import Policy, tripcortex
from tripcortex.policies.embedding import Embedding
from tripcortex.policies.ingestion import Upload, ingest, upload
from tripcortex.policies.retrieval import RetrievalResult, retrieve

SYSTEM: Final = System(
    "policies", "Policies", tables=[], patterns=[], schemas=[tripcortex], buckets=[policy_files]
)


@asynccontextmanager
async def open_policy_stores() -> AsyncIterator[Stores]:
    """Open stores in memory for policies alone, and delete them after the block."""
    async with open_memory_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        yield stores


async def ingest_file(stores: Stores, embedding: Embedding, file_name: str, body: bytes) -> Policy:
    """Upload and ingest a file; return the serving policy. Raise `InvalidRequest` if it cannot be read."""
    policy = await upload(stores, Upload(file_name, body), wakes=False)
    policy = await ingest(stores, policy.id, None, embedding)
    if not policy.serves:
        raise InvalidRequest(f"{file_name}: {policy.error_message}")
    return policy


async def search_policy(
    stores: Stores, embedding: Embedding, policy_id: UUID, question: str
) -> RetrievalResult:
    """Return the passages of one policy that are relevant to the question."""
    return await retrieve(stores, embedding, question, policy_ids=[policy_id])
