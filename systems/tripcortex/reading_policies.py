"""The ingester's turn: what was uploaded and waits is read. The embedding is loaded once in a process."""

from __future__ import annotations

from functools import cache

from holdfast import Stores
from tripcortex.knowledge.embedding import Embedding, local_embedding
from tripcortex.knowledge.ingesting import ingest_waiting


async def read_waiting(stores: Stores) -> int:
    """How many were read, or found unreadable."""
    return len(await ingest_waiting(stores, _embedding()))


@cache
def _embedding() -> Embedding:
    return local_embedding()
