"""Results that a redirect leads to: those of writes, which must not run again when a page is loaded again,
and those that were revealed.

They are kept in the memory of this process for some minutes, and only the user who got one sees it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from holdfast.core.rng import make_url_token

R = TypeVar("R")

MAX_RESULTS: Final = 64
KEPT_S: Final = 600.0
ID_BYTES: Final = 16


class KeptResults(Generic[R]):
    """The last results of all users, by an id that cannot be guessed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._results: OrderedDict[str, tuple[float, str, R]] = OrderedDict()

    def keep(self, user: str, result: R) -> str:
        """Keep a result of a user and return its id."""
        id = make_url_token(ID_BYTES)
        self._results[id] = (self._now(), user, result)
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)
        return id

    def find(self, user: str, id: str) -> R | None:
        """Return a result of this user; None if there is none, or not any more."""
        at, owner, result = self._results.get(id, (0.0, "", None))
        if result is None or owner != user:
            return None
        if self._now() - at > KEPT_S:
            del self._results[id]
            return None
        return result
