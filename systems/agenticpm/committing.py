"""Several writes at once, as every part of the system makes them: what was overtaken is told from what can never be kept."""

from __future__ import annotations

from typing import Any, Final

from holdfast import Stores, Write
from holdfast.errors import ConditionFailed, InvalidRequest, TransactionCancelled, TransactionConflict

# An item that is too large, or breaks another rule of the table: no second attempt would pass.
INVALID: Final = "ValidationError"
# Somebody wrote what this was decided on: read again, and decide again.
OVERTAKEN: Final = (ConditionFailed, TransactionCancelled, TransactionConflict)


async def commit(stores: Stores, *writes: Write[Any], what: str) -> None:
    """All of them, or none. Raises one of `OVERTAKEN` where somebody was faster, `InvalidRequest` where it cannot be kept."""
    try:
        await stores.transact(*writes)
    except TransactionCancelled as error:
        for reason in error.reasons:
            if reason.code == INVALID:
                raise InvalidRequest(f"{what} cannot be kept so: {reason.message}") from error
        raise
