"""The cache on Redis, or on what speaks its protocol (Valkey, ElastiCache).

engine.py     runs operations, in threads of its own
scripts.py    what must be one step there, and how a value is kept
failures.py   every error of the client as one of ours
"""

from __future__ import annotations

import importlib.util

from holdfast.core.errors import SettingsError

# Before the first import of it, which would say less.
if importlib.util.find_spec("redis") is None:
    raise SettingsError(
        "A cache on Redis needs redis-py, which this installation does not have: pip install '.[cache]' in "
        "the clone "
        "of Holdfast, or make setup"
    )

from holdfast.stores.cache.redis.engine import RedisCache, open_redis

__all__ = ["RedisCache", "open_redis"]
