"""Fault injection for tests: throttling, conflicts and index lag, which a serial engine never produces.

DynamoDB throttles, and cancels a transaction that conflicts with another on the same item. `EngineFaults`
makes a share of the operations fail in these ways, before anything is read or written. DynamoDB's global
secondary indexes also lag behind their table: the lag is configured here and implemented in `index_lag.py`.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

from holdfast.core.errors import (
    CancellationReason,
    HoldfastError,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.operations.tables import (
    DeleteItem,
    ItemOperation,
    Operation,
    PutItem,
    TransactGetItems,
    TransactWriteItems,
    UpdateItem,
)


class EngineFaults:
    """Fault settings.

    `throttled` and `conflicts` are shares between 0 and 1; the same seed gives the same faults. `index_lag_s`
    is the number of seconds until a write is visible in a global secondary index.
    """

    def __init__(
        self,
        *,
        throttled: float = 0.0,
        conflicts: float = 0.0,
        index_lag_s: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if not (0 <= throttled <= 1 and 0 <= conflicts <= 1):
            raise ValueError(
                f"Invalid throttled={throttled} or conflicts={conflicts}: expected shares between 0 and 1"
            )
        if not 0 <= index_lag_s < math.inf:
            raise ValueError(f"Invalid index_lag_s={index_lag_s}: expected 0 seconds or more")
        self.index_lag_s = index_lag_s
        self._throttled = throttled
        self._conflicts = conflicts
        self._random = Random(seed)

    def raise_for(self, operation: Operation[Any]) -> None:
        """Raise a fault for the share of item operations that is configured."""
        if not isinstance(operation, ItemOperation):
            return
        if self._random.random() < self._throttled:
            raise Throttled()
        if self._random.random() < self._conflicts:
            conflict = _build_conflict(operation)
            if conflict is not None:
                raise conflict


def _build_conflict(operation: Operation[Any]) -> HoldfastError | None:
    """Return the error of a conflict on the operation's first item, or None if it cannot have one."""
    if isinstance(operation, PutItem | UpdateItem | DeleteItem):
        return TransactionConflict()
    if isinstance(operation, TransactWriteItems):
        count = len(operation.actions)
    elif isinstance(operation, TransactGetItems):
        count = len(operation.gets)
    else:
        return None
    first = CancellationReason("TransactionConflict", "Transaction is ongoing for the item")
    return TransactionCancelled([first, *(CancellationReason() for _ in range(count - 1))])
