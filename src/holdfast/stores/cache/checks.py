"""Request checks that every cache engine makes before it runs an operation: key, lifetime, value, increment.

A request that is valid on one engine is valid on the others.
"""

from __future__ import annotations

import math
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.cache import (
    MAX_KEY_BYTES,
    MAX_LIFETIME_S,
    MAX_VALUE_BYTES,
    Increment,
    Operation,
    Ping,
    PutValue,
)

# The largest count that every engine can hold, including the doubles of Redis's scripts.
MAX_COUNT: Final = 2**53


def check(operation: Operation[object]) -> None:
    """Raise `InvalidRequest` for a key, lifetime, value size or increment that an engine could refuse.

    Errors never show keys or values: they may be session ids or tokens.
    """
    if isinstance(operation, Ping):
        return
    key: str = getattr(operation, "key", "")
    if not key.isprintable() or not 1 <= len(key.encode(errors="replace")) <= MAX_KEY_BYTES:
        raise InvalidRequest(
            f"Invalid cache key: expected 1 to {MAX_KEY_BYTES} bytes of printable characters."
        )
    lifetime_s: float | None = getattr(operation, "lifetime_s", None)
    if lifetime_s is not None and not (math.isfinite(lifetime_s) and 0 < lifetime_s <= MAX_LIFETIME_S):
        raise InvalidRequest(
            f"Invalid cache lifetime of {lifetime_s:g} s: expected more than 0 s and at most "
            f"{MAX_LIFETIME_S:.0f} s."
        )
    if isinstance(operation, PutValue) and len(operation.value) > MAX_VALUE_BYTES:
        raise InvalidRequest(
            f"Invalid cache value of {len(operation.value):,} bytes: expected at most {MAX_VALUE_BYTES:,}. "
            "Store it elsewhere and cache its key."
        )
    if isinstance(operation, Increment) and not 1 <= operation.by <= MAX_COUNT:
        raise InvalidRequest(f"Invalid increment by {operation.by}: expected 1 to {MAX_COUNT}.")
