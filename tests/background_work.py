"""Stop the background work of embedded tables, so that expired items stay, as on DynamoDB for days."""

from __future__ import annotations

from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.port import Tables


def stop_background_work(tables: Tables) -> None:
    """Stop the background worker, so that no sweep removes expired items during the test."""
    assert isinstance(tables, EmbeddedTables)
    tables._worker.close()
