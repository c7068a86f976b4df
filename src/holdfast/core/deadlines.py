"""Deadlines that one clock wrote and another reads, bounded by what their reader can verify.

A process whose clock is a day ahead, and which is then killed, leaves leases and pauses that end in a day.
Their reader knows how long such a deadline can be: a lease time, a visibility timeout, a longest pause. A
deadline farther away than that ends once the reader has seen it unchanged for that long, by its own elapsed
time.

The reader neither ends such a deadline at once nor shortens it in the store: its own clock may be the wrong
one, and the holder alive. A live holder renews within the same time, which changes the version and starts the
wait again. So this bound never makes a reader take over before the holder gives up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from holdfast.core.clock import Clock, read_elapsed

# The oldest entries are forgotten beyond this number: their deadlines are then watched from the start again.
MAX_WATCHED: Final = 10_000
# Less than this is an error of rounding: the time of a clock has some tenths of a microsecond.
ROUNDING_S: Final = 0.000_01


class DeadlineWatch:
    """The deadlines that are farther away than they can be, and since when this process has seen them."""

    def __init__(self, clock: Clock, max_watched: int = MAX_WATCHED) -> None:
        self._clock, self._max_watched = clock, max_watched
        self._lock = threading.Lock()
        # By key: the version of the record, and the elapsed time at which it was first seen.
        self._watched: OrderedDict[Hashable, tuple[Hashable, float]] = OrderedDict()
        self._looked: dict[Hashable, float] = {}

    def compute_left_s(
        self, key: Hashable, version: Hashable, deadline: float, max_s: float, *, now: float | None = None
    ) -> float:
        """Return the seconds until the deadline passes for this process; 0 or less if it has.

        `key` names the deadline, `version` changes whenever it is written again, `deadline` is in epoch
        seconds, and `max_s` is the longest time for which it can be set. The deadline passes at its time, or
        `max_s` seconds after this process first saw this version if that is earlier. `now` is the time if the
        caller has just read it.
        """
        left_s = deadline - (self._clock.now() if now is None else now)
        if left_s > max_s or key in self._watched:
            left_s = min(left_s, max_s - self._measure_seen_s(key, version, is_beyond=left_s > max_s))
        return 0.0 if 0.0 < left_s < ROUNDING_S else left_s

    def should_look(self, key: Hashable, every_s: float) -> bool:
        """Return True once per `every_s` seconds: to look for deadlines that no other read finds."""
        elapsed = read_elapsed(self._clock)
        with self._lock:
            last = self._looked.get(key)
            if last is not None and 0 <= elapsed - last < every_s:
                return False
            self._looked[key] = elapsed
            return True

    def _measure_seen_s(self, key: Hashable, version: Hashable, *, is_beyond: bool) -> float:
        """Return for how many seconds this process has watched this version, and watch it if it is beyond the
        bound; without that, forget an earlier version.
        """
        elapsed = read_elapsed(self._clock)
        with self._lock:
            seen, since = self._watched.get(key, (None, elapsed))
            if seen == version and since <= elapsed:
                return elapsed - since
            if is_beyond:
                self._watched[key] = (version, elapsed)
                if len(self._watched) > self._max_watched:
                    self._watched.popitem(last=False)
            else:
                self._watched.pop(key, None)
            return 0.0
