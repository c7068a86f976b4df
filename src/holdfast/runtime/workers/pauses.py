"""How long to wait before something is tried again."""

from __future__ import annotations

from typing import Final

from holdfast.chance import CHANCE

# SQS hides a message for twelve hours at most, counted from when it was received: some of that may be over.
PAUSE_S_LIMIT: Final = 11 * 3600.0
_DOUBLINGS_MAX: Final = 30


def jittered(tries: int, least_s: float, most_s: float) -> float:
    """Anywhere between the least and a bound that doubles with each try, up to the most: copies do not come together."""
    bound = min(most_s, least_s * 2.0 ** min(tries, _DOUBLINGS_MAX))
    return CHANCE.uniform(min(least_s, bound), bound)
