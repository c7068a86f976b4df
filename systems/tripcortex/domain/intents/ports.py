"""The six intents of a sentence."""

from __future__ import annotations

from enum import StrEnum


class Intent(StrEnum):
    """What a sentence asks for. Only `book` ever creates a booking."""

    book = "book"
    change = "change"
    cancel = "cancel"
    status = "status"
    policy = "policy"
    other = "other"
