"""GetItemAt and ListItemChanges, which DynamoDB does not have: it restores whole tables."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import RecoveryUnavailable
from holdfast.stores.tables.dynamodb.service import Service


async def refuse_item_history(operation: Any, service: Service) -> None:
    """Raise `RecoveryUnavailable`: there is no request for the past of one item."""
    raise RecoveryUnavailable(
        f"DynamoDB has no read of one item of {operation.table} at a past time: it only restores whole "
        "tables. Restore it into a new table with `holdfast restore`, and read the item there."
    )
