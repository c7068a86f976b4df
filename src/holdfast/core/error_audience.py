"""Tell errors that the caller of a service can act on from those that only its operator can.

Both kinds of host answer by it: HTTP (`web/problems.py`) and MCP (`mcp/errors.py`). A message for the
operator may name files, addresses and settings, so that it goes to the log and not to the caller.
"""

from __future__ import annotations

from typing import Final

from holdfast.core import errors
from holdfast.core.errors import HoldfastError

__all__ = [
    "is_for_caller",
]

# Requests that the service made itself: its caller can change nothing about them.
_OWN_REQUESTS: Final = (
    errors.AccessRefused,
    errors.ComponentRefused,
    errors.CrossStoreTransaction,
    errors.RequestRefused,
    errors.SecretMissing,
)


def is_for_caller(error: HoldfastError) -> bool:
    """Return whether the caller can act on the error's message."""
    if error.is_for_operator or not isinstance(error, errors.RequestError | errors.Conflict):
        return False
    return not isinstance(error, _OWN_REQUESTS) or isinstance(error, errors.CallerRefused)
