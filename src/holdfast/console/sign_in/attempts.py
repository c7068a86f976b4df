"""Limits of attempts to sign in: for each user name, and for each address."""

from __future__ import annotations

import hashlib
from typing import Final

from holdfast.console.model import (
    ATTEMPTS,
    MAX_ATTEMPTS_PER_ADDRESS,
    MAX_ATTEMPTS_PER_NAME,
    MAX_BEGINNINGS_PER_ADDRESS,
    REPORTS,
)
from holdfast.core.errors import RateLimited
from holdfast.runtime.stores import Stores

__all__ = ["count_attempt", "count_beginning", "count_report"]

SUBJECT_CHARS: Final = 32


async def count_attempt(own: Stores, *, address: str, name: str | None = None) -> None:
    """Count an attempt from an address, for a name if it has one. Raise `RateLimited` for too many.

    Attempts that succeed count too. A name counts whether or not it exists.
    """
    await _take(own, "address", address, MAX_ATTEMPTS_PER_ADDRESS)
    if name is not None:
        await _take(own, "name", name, MAX_ATTEMPTS_PER_NAME)


async def count_beginning(own: Stores, address: str) -> None:
    """Count a browser that goes to the identity provider. Raise `RateLimited` for very many of an address."""
    await _take(own, "beginning", address, MAX_BEGINNINGS_PER_ADDRESS)


async def count_report(own: Stores, address: str) -> bool:
    """Return whether to audit that an address had too many attempts: once in a window."""
    try:
        await REPORTS.take(own, kind="address", subject=_hash(address))
    except RateLimited:
        return False
    return True


async def _take(own: Stores, kind: str, value: str, limit: int) -> None:
    await ATTEMPTS.take(own, kind=kind, subject=_hash(value), limit=limit)


def _hash(value: str) -> str:
    """Return a short text for a value of any length and content."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:SUBJECT_CHARS]
