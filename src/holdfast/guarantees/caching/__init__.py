"""What is promised of a cache: that nobody depends on it, and that it spares what is behind it.

read_through.py    a value from the cache, else from where it is kept; loaded once, however many ask
window_limit.py    no more than so much per subject and window
sessions.py        who is logged in, until the cache is lost
outages.py         a cache that is down, told once in a while
"""

from __future__ import annotations

from holdfast.guarantees.caching.read_through import ReadThrough, until
from holdfast.guarantees.caching.sessions import SessionRecord, Sessions
from holdfast.guarantees.caching.window_limit import WindowLimit

__all__ = ["ReadThrough", "SessionRecord", "Sessions", "WindowLimit", "until"]
