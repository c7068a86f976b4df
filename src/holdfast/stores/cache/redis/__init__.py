"""The cache engine on Redis, or on a server that speaks its protocol (Valkey, ElastiCache).

engine.py     runs operations, in threads of its own
scripts.py    the atomic operations as Lua scripts, and the stored form of a value
errors.py     maps every error of the client to a `HoldfastError`
"""

from __future__ import annotations

import importlib.util

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError

# Check before the first import of the dependency, whose own error says less.
if importlib.util.find_spec("redis") is None:
    raise SettingsError(
        f"A cache on Redis needs redis-py, which is not installed. Run {format_install_command('cache')}."
    )

from holdfast.stores.cache.redis.engine import RedisCache, open_redis

__all__ = ["RedisCache", "open_redis"]
