"""The operations of a cache, as frozen values: bytes under keys, each for a lifetime, any of which may be
lost at any time.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

KEY_BYTES_MAX: Final = 1024
VALUE_BYTES_MAX: Final = 1024**2
# What is to be kept for longer is no cache's.
LIFETIME_S_MAX: Final = 31 * 86_400.0

R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One thing to do in the cache; `R_co` is what running it gives. `pattern` is who made it."""

    pattern: str | None = None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What a count stands at, and whether what was asked for is in it."""

    count: int
    is_counted: bool


class Ping(Operation[None], frozen=True):
    """Whether the cache answers."""


class GetValue(Operation[bytes | None], frozen=True):
    key: str


class PutValue(Operation[bool], frozen=True):
    """Whether it was put: with `only_if_absent`, of several at once one is."""

    key: str
    value: bytes
    lifetime_s: float
    only_if_absent: bool = False


class ExtendValue(Operation[bool], frozen=True):
    """What is there lives for `lifetime_s` from now; False where nothing is, and nothing comes back by it."""

    key: str
    lifetime_s: float


class DeleteValue(Operation[bool], frozen=True):
    """Whether there was one to delete: with `only_if`, only this very value."""

    key: str
    only_if: bytes | None = None


class Increment(Operation[Counted], frozen=True):
    """Counts, unless the count would pass `most`. Its lifetime begins with the first count, and no later one
    extends it.
    """

    key: str
    lifetime_s: float
    by: int = 1
    most: int | None = None
