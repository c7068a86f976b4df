"""The operations of a cache, as frozen values: bytes under keys, each with a lifetime.

The cache may lose any value at any time.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

MAX_KEY_BYTES: Final = 1024
MAX_VALUE_BYTES: Final = 1024**2
# Data that must live longer does not belong in a cache.
MAX_LIFETIME_S: Final = 31 * 86_400.0

R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One operation on the cache. `R_co` is the type of its result; `pattern` is the id of the access pattern
    that built it.
    """

    pattern: str | None = None


class IncrementResult(msgspec.Struct, frozen=True, kw_only=True):
    """The count after the operation, and whether it includes the requested increment."""

    count: int
    is_counted: bool


class Ping(Operation[None], frozen=True):
    """Check that the cache responds."""


class GetValue(Operation[bytes | None], frozen=True):
    """Return the value under a key, or None if it is absent or has expired."""

    key: str


class PutValue(Operation[bool], frozen=True):
    """Put a value and return whether it was stored. With `only_if_absent`, exactly one of several concurrent
    puts succeeds.
    """

    key: str
    value: bytes
    lifetime_s: float
    only_if_absent: bool = False


class ExtendValue(Operation[bool], frozen=True):
    """Set the remaining lifetime of an existing value to `lifetime_s`. Return False, and create nothing, if
    the key is absent.
    """

    key: str
    lifetime_s: float


class DeleteValue(Operation[bool], frozen=True):
    """Delete a value and return whether there was one. With `only_if`, delete it only if it equals that
    value.
    """

    key: str
    only_if: bytes | None = None


class Increment(Operation[IncrementResult], frozen=True):
    """Add `by` to a counter unless the count would exceed `most` (None: no limit). The lifetime starts with
    the first increment; later increments do not extend it.
    """

    key: str
    lifetime_s: float
    by: int = 1
    most: int | None = None
