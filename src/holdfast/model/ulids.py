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
from holdfast.core.rng import call_after_fork, draw_bits

__all__ = [
    "Ulid",
    "UlidGenerator",
    "get_ulid_time",
    "parse_ulid",
]

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH: Final = 26
RANDOM_BITS: Final = 80
TIME_CHARS: Final = 10
# Encoding two characters at a time is twice as fast.
_PAIRS: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)
_SHIFTS: Final = tuple(range(5 * (LENGTH - 2), -1, -10))
PATTERN: Final = re.compile(rf"[0-7][{ALPHABET}]{{{LENGTH - 1}}}")

# Another object in each forked child.
_fork = object()


def _note_fork() -> None:
    global _fork  # noqa: PLW0603
    _fork = object()


call_after_fork(_note_fork)

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
        self._last, self._fork = 0, _fork

    def new(self) -> Ulid:
        """Return a ULID that sorts after all earlier ones of this generator, even if the clock was set
        back.
        """
        milliseconds = int(self._clock.now() * 1000)
        with self._lock:
            # If the clock stopped or went back, the id must still sort after the last one.
            is_same_tick = milliseconds <= self._last >> RANDOM_BITS
            if is_same_tick and self._fork is _fork:
                self._last += 1
            else:
                # A forked child must not count on where its parent does.
                tick = (self._last >> RANDOM_BITS) + 1 if is_same_tick else milliseconds
                self._last, self._fork = (tick << RANDOM_BITS) | draw_bits(RANDOM_BITS), _fork
            number = self._last
        return Ulid("".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS]))


def parse_ulid(text: str) -> Ulid:
    """Return the text as a ULID, in upper case. Raise InvalidRequest if it is not one."""
    if not PATTERN.fullmatch(text.upper()):
        raise InvalidRequest(
            f"Invalid ULID {text!r}: expected {LENGTH} characters of {ALPHABET}, the first from 0 to 7."
        )
    return Ulid(text.upper())


def get_ulid_time(ulid: Ulid) -> float:
    """Return when a ULID was made, in epoch seconds."""
    milliseconds = 0
    for character in ulid[:TIME_CHARS]:
        milliseconds = milliseconds * len(ALPHABET) + ALPHABET.index(character)
    return milliseconds / 1000
