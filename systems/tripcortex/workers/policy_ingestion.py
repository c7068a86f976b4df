"""The schedule's job that ingests waiting policies with the embedding of the settings."""

from __future__ import annotations

from holdfast import Stores
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.policies.ingestion import ingest_pending
from tripcortex.settings import TripCortexSettings


async def ingest_waiting_policies(stores: Stores) -> int:
    """Ingest the waiting policies. Return how many were ingested or found unreadable."""
    return len(await ingest_pending(stores, open_embedding(TripCortexSettings.load())))
