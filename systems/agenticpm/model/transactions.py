"""Transactions: commit several writes, and separate conflicts (retry) from writes that are never accepted."""

from __future__ import annotations

from typing import Any, Final

from holdfast import Stores, Write
from holdfast.core.errors import ConditionFailed, InvalidRequest, TransactionCancelled, TransactionConflict

# Cancellation code of an item that is too large or otherwise invalid: a retry would fail too.
VALIDATION_ERROR: Final = "ValidationError"
# Another writer changed the items that the decision was based on: read again and retry.
CONFLICTS: Final = (ConditionFailed, TransactionCancelled, TransactionConflict)


async def commit(stores: Stores, *writes: Write[Any], what: str) -> None:
    """Commit all writes or none. `what` names them in the error message.

    Raise one of `CONFLICTS` if another writer was faster, InvalidRequest if a write is invalid.
    """
    try:
        await stores.transact(*writes)
    except TransactionCancelled as error:
        for reason in error.reasons:
            if reason.code == VALIDATION_ERROR:
                raise InvalidRequest(f"{what} cannot be stored: {reason.message}") from error
        raise
