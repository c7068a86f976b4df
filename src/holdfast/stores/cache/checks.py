"""Checks that every engine makes of a request: a request valid on one engine is valid on the others."""

from __future__ import annotations

import math
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.cache import (
    KEY_BYTES_MAX,
    LIFETIME_S_MAX,
    VALUE_BYTES_MAX,
    Increment,
    Operation,
    Ping,
    PutValue,
)

# The largest count that every engine can hold, including the doubles of Redis's scripts.
COUNT_MAX: Final = 2**53


def check(operation: Operation[object]) -> None:
    """Raise for an operation that no engine can run. Errors never show keys or values: they may be session
    ids or tokens.
    """
    if isinstance(operation, Ping):
        return
    key: str = getattr(operation, "key", "")
    if not key.isprintable() or not 1 <= len(key.encode(errors="replace")) <= KEY_BYTES_MAX:
        raise InvalidRequest(f"A key of the cache has 1 to {KEY_BYTES_MAX} bytes of characters that print.")
    lifetime_s: float | None = getattr(operation, "lifetime_s", None)
    if lifetime_s is not None and not (math.isfinite(lifetime_s) and 0 < lifetime_s <= LIFETIME_S_MAX):
        raise InvalidRequest(
            f"A lifetime in the cache is longer than 0 s and at most {LIFETIME_S_MAX:.0f} s, not "
            f"{lifetime_s:g}."
        )
    if isinstance(operation, PutValue) and len(operation.value) > VALUE_BYTES_MAX:
        raise InvalidRequest(
            f"A value in the cache has at most {VALUE_BYTES_MAX:,} bytes, and this one has "
            f"{len(operation.value):,}: "
            "keep it elsewhere, and its place here."
        )
    if isinstance(operation, Increment) and not 1 <= operation.by <= COUNT_MAX:
        raise InvalidRequest(f"A count goes up by 1 or more, not by {operation.by}.")
