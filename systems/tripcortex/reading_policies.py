"""The ingester's turn: what was uploaded and waits is read. The embedding is the one that the settings name."""

from __future__ import annotations

from holdfast import Stores
from tripcortex.knowledge.ingesting import ingest_waiting
from tripcortex.models import open_embedding
from tripcortex.settings import TripCortexSettings


async def read_waiting(stores: Stores) -> int:
    """How many were read, or found unreadable."""
    return len(await ingest_waiting(stores, open_embedding(TripCortexSettings.load())))
