"""Format an error for the user."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError, format_message
from holdfast.core.terminal import escape_control_chars


def format_error(error: HoldfastError) -> str:
    """Return the error's message and notes on one line, with control characters escaped."""
    return escape_control_chars(" ".join(format_message(error).split()))
