"""Retry delays: exponential backoff with jitter."""

from __future__ import annotations

from typing import Final

from holdfast.core.rng import RNG

# SQS hides a message for at most twelve hours from its receive, part of which may have passed.
DELAY_S_LIMIT: Final = 11 * 3600.0
_MAX_DOUBLINGS: Final = 30


def compute_backoff(attempts: int, min_s: float, max_s: float) -> float:
    """Return a random delay from `min_s` to a bound that doubles with each attempt, up to `max_s` seconds."""
    bound = min(max_s, min_s * 2.0 ** min(attempts, _MAX_DOUBLINGS))
    return RNG.uniform(min(min_s, bound), bound)
