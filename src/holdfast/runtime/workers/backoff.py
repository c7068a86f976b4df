"""Retry delays: exponential backoff with jitter."""

from __future__ import annotations

from typing import Final

from holdfast.core.rng import RNG

# SQS hides a message for at most twelve hours from its receive, part of which may have passed.
DELAY_S_LIMIT: Final = 11 * 3600.0
_DOUBLINGS_MAX: Final = 30


def compute_backoff(attempts: int, min_s: float, max_s: float) -> float:
    """Return a random delay between `min_s` and a bound that doubles with each attempt, up to `max_s`:
    retries spread out.
    """
    bound = min(max_s, min_s * 2.0 ** min(attempts, _DOUBLINGS_MAX))
    return RNG.uniform(min(min_s, bound), bound)
