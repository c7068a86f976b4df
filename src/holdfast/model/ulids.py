"""ULIDs: ids of 26 characters that sort by creation time.

48 bits of milliseconds, then 80 random bits, in Crockford's base 32. Ids created within one millisecond count
up from the first, so that they sort in creation order.
"""

from __future__ import annotations

import re
import threading
from typing import Annotated, Any, Final, NewType

from pydantic import StringConstraints

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.errors import InvalidRequest
from holdfast.core.rng import RNG

__all__ = [
    "Ulid",
    "UlidGenerator",
    "parse_ulid",
]

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH: Final = 26
RANDOM_BITS: Final = 80
# Encoding two characters at a time is twice as fast.
_PAIRS: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)
_SHIFTS: Final = tuple(range(5 * (LENGTH - 2), -1, -10))
PATTERN: Final = re.compile(rf"[0-7][{ALPHABET}]{{{LENGTH - 1}}}")

Ulid = NewType("Ulid", str)
"""A ULID as text."""
# Pydantic validates a NewType by its supertype: here, text of the right form.
_ulid: Any = Ulid
_ulid.__supertype__ = Annotated[str, StringConstraints(pattern=rf"^{PATTERN.pattern}$")]


class UlidGenerator:
    """A generator of ULIDs on a clock. Safe to share between threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> Ulid:
        """Return a ULID that sorts after all earlier ones of this generator, even if the clock was set
        back.
        """
        milliseconds = int(self._clock.now() * 1000)
        with self._lock:
            fresh = (milliseconds << RANDOM_BITS) | RNG.getrandbits(RANDOM_BITS)
            # If the clock stopped or went back, the id must still sort after the last one.
            same_tick = milliseconds <= self._last >> RANDOM_BITS
            self._last = self._last + 1 if same_tick else fresh
            number = self._last
        return Ulid("".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS]))


def parse_ulid(text: str) -> Ulid:
    """Return the text as a ULID, in upper case. Raise InvalidRequest if it is not one."""
    if not PATTERN.fullmatch(text.upper()):
        raise InvalidRequest(
            f"Invalid ULID {text!r}: expected {LENGTH} characters of {ALPHABET}, the first from 0 to 7."
        )
    return Ulid(text.upper())
