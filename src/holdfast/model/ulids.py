"""ULIDs: ids of 26 characters that sort by the time they were made.

48 bits of milliseconds, then 80 random bits, in Crockford's base 32. Several made within one millisecond count
up from the first, so that they sort in the order they were made.
"""

from __future__ import annotations

import re
import threading
from typing import Annotated, Any, Final, NewType

from pydantic import StringConstraints

from holdfast.chance import CHANCE
from holdfast.clock import Clock, SystemClock
from holdfast.errors import InvalidRequest

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH: Final = 26
RANDOM_BITS: Final = 80
# Two characters at a time take half the time.
_PAIRS: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)
_SHIFTS: Final = tuple(range(5 * (LENGTH - 2), -1, -10))
PATTERN: Final = re.compile(rf"[0-7][{ALPHABET}]{{{LENGTH - 1}}}")

Ulid = NewType("Ulid", str)
# Pydantic follows a NewType to what it is made of: here, to a text that must look like one.
_ulid: Any = Ulid
_ulid.__supertype__ = Annotated[str, StringConstraints(pattern=rf"^{PATTERN.pattern}$")]


class Ulids:
    """A source of ULIDs, on a clock. Safe to share between threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> Ulid:
        milliseconds = int(self._clock.now() * 1000)
        with self._lock:
            fresh = (milliseconds << RANDOM_BITS) | CHANCE.getrandbits(RANDOM_BITS)
            # A clock that stands still, or went back, must not make an id that sorts before the last one.
            same_tick = milliseconds <= self._last >> RANDOM_BITS
            self._last = self._last + 1 if same_tick else fresh
            number = self._last
        return Ulid("".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS]))


def ulid(text: str) -> Ulid:
    """A ULID from a text, or a refusal."""
    if not PATTERN.fullmatch(text.upper()):
        raise InvalidRequest(f"{text!r} is no ULID: {LENGTH} characters of {ALPHABET}, the first up to 7.")
    return Ulid(text.upper())
