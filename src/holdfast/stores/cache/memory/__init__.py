"""The in-memory cache engine of one process: a dictionary with lifetimes and a size limit.

Its content ends with the process, and no other process sees it.
"""

from __future__ import annotations

from holdfast.stores.cache.memory.engine import MemoryCache, open_memory_cache

__all__ = ["MemoryCache", "open_memory_cache"]
