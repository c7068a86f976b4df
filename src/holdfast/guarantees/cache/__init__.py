"""Guarantees built on the cache: read-through values, limits per window, and login sessions.

read_through.py    a value from the cache or from its source; loaded once, however many callers need it
window_limit.py    at most a given cost per subject and window
sessions.py        login sessions, until the cache is lost
outage_log.py      rate-limited warnings about an unavailable cache
"""

from __future__ import annotations

from holdfast.guarantees.cache.read_through import ReadThrough, lifetime_until
from holdfast.guarantees.cache.sessions import SessionRecord, Sessions
from holdfast.guarantees.cache.window_limit import WindowLimit

__all__ = ["ReadThrough", "SessionRecord", "Sessions", "WindowLimit", "lifetime_until"]
