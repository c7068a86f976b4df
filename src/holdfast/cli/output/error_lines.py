"""Format an error for the user."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError
from holdfast.core.terminal import escape_control_chars


def format_error(error: HoldfastError) -> str:
    """Return the error's message and notes on one line, with control characters escaped."""
    return escape_control_chars(" ".join(" ".join([error.message, *getattr(error, "__notes__", [])]).split()))
