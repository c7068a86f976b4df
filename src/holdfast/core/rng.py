"""The one place that draws random numbers: `RNG` for what is only spread, the functions for what is an id.

`RNG` draws pauses, orders and samples. Ids, tokens, keys and nonces come from the operating system, by the
functions below. Neither is the `random` module's shared generator: a program or a test that seeds that one
gets the sequence it expects, and two processes that seed it alike never make the same id. A forked child
starts afresh.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable
from random import Random
from typing import Final
from uuid import UUID

__all__ = [
    "RNG",
    "draw_bits",
    "draw_bytes",
    "make_hex_token",
    "make_url_token",
    "make_uuid",
]

# One system call for this many bytes: a call for each id would release the interpreter's lock each time.
_POOL_BYTES: Final = 4096

RNG: Final = Random(os.urandom(32))
"""A generator for values that must be spread, and need be neither secret nor unique."""


def draw_bytes(count: int) -> bytes:
    """Return random bytes of the operating system, for keys, nonces and secrets."""
    return os.urandom(count)


def make_hex_token(byte_count: int) -> str:
    """Return a random token of `byte_count` bytes as hexadecimal digits."""
    return os.urandom(byte_count).hex()


def make_url_token(byte_count: int = 32) -> str:
    """Return a random token of `byte_count` bytes as letters, digits, '-' and '_'."""
    return base64.urlsafe_b64encode(os.urandom(byte_count)).rstrip(b"=").decode()


def make_uuid() -> UUID:
    """Return a random UUID (version 4)."""
    return UUID(bytes=_pool.take(16), version=4)


def draw_bits(count: int) -> int:
    """Return an integer of `count` random bits, for ids."""
    byte_count = (count + 7) // 8
    return int.from_bytes(_pool.take(byte_count), "big") >> (byte_count * 8 - count)


class _Pool:
    """Random bytes of the operating system, fetched for many ids at a time. Any thread may take some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes, self._position = b"", 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; they are never returned again."""
        with self._lock:
            if self._position + count > len(self._bytes):
                self._bytes, self._position = os.urandom(max(_POOL_BYTES, count)), 0
            start = self._position
            self._position += count
            return self._bytes[start : self._position]


_pool = _Pool()


def _start_afresh() -> None:
    """Forget, in a forked child, what its parent will draw."""
    global _pool  # noqa: PLW0603 - the lock of the old one may be held for ever
    _pool = _Pool()
    RNG.seed(os.urandom(32))


def call_after_fork(function: Callable[[], None]) -> None:
    """Call the function in each forked child, before the child's own code. Windows does not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


call_after_fork(_start_afresh)
