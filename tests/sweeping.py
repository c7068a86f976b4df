"""Tables whose background work rests, so that what has ended stays, as it does on DynamoDB for days."""

from __future__ import annotations

from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.port import Tables


def rest(tables: Tables) -> None:
    """Let nothing be swept any more; without it a sweep comes within a second of the clock's move, or not."""
    assert isinstance(tables, EmbeddedTables)
    tables._worker.close()
