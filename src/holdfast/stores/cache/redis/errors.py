"""Error mapping of the Redis client: every error becomes a `HoldfastError`.

A cache may always be lost, so nearly all become `CacheUnavailable`: continue without the cache. An error has
Redis' code, and Redis' sentence where that is a fixed one: others may name a key, and a key may be a session
id.
"""

from __future__ import annotations

import re
from typing import Final

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.exceptions import ConnectionError as NoConnection

from holdfast.core.errors import CacheUnavailable, HoldfastError, InternalError

CODE: Final = re.compile(r"[A-Z]{2,24}")
# Replies whose sentence is part of Redis and quotes no argument of the command.
FIXED_SENTENCES: Final = frozenset(
    {
        "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOAUTH", "NOPERM", "NOREPLICAS", "OOM", "READONLY",
        "TRYAGAIN", "WRONGPASS",
    }
)  # fmt: skip


def map_error(error: Exception, where: str) -> HoldfastError:
    """Return the error unchanged if it is a `HoldfastError`; `CacheUnavailable` for an error of Redis or the
    network; `InternalError` for any other.
    """
    if isinstance(error, HoldfastError):
        return error
    if not isinstance(error, (RedisError, OSError)):
        return InternalError(f"The cache at {where} failed with an unexpected error: {type(error).__name__}.")
    code = get_code(error)
    said = f" Redis says: {code} {error}" if code in FIXED_SENTENCES else ""
    return CacheUnavailable(f"The cache at {where} {_describe_failure(error)}{said}").with_code(code)


def get_code(error: Exception) -> str:
    """Return the code of Redis' error reply, such as `OOM`; empty if the error is not a reply."""
    code = getattr(error, "status_code", None)
    if code is None and isinstance(error, ResponseError):
        # The client takes the code off the text only where it knows the code.
        code = str(error).partition(" ")[0]
    return code if code is not None and CODE.fullmatch(code) else ""


def is_unavailable(error: Exception) -> bool:
    """Return whether the next request would fail the same way: no connection, no response or a refused
    password.
    """
    return isinstance(error, (NoConnection, TimeoutError, OSError)) or is_password_refused(error)


def is_password_refused(error: Exception) -> bool:
    """Return whether another password may help. Servers without one refuse it by an untyped error."""
    return isinstance(error, (AuthenticationError, AuthorizationError)) or "AUTH" in str(error)


def _describe_failure(error: Exception) -> str:
    """Return the rest of the sentence that begins with "The cache at …": what failed and how to fix it."""
    if is_password_refused(error):
        return "refused the password: check the secret that cache_secret names."
    if isinstance(error, NoPermissionError):
        return "refused the command: its user needs GET, SET, DEL, EVALSHA, SCRIPT LOAD and PING on its keys."
    if isinstance(error, ReadOnlyError):
        return "is now a replica, as after a failover. The next request connects again."
    if isinstance(error, OutOfMemoryError):
        return "is full: set an eviction policy such as allkeys-lru, or add memory."
    if isinstance(error, (TimeoutError, NoConnection, OSError)):
        return f"does not respond ({type(error).__name__}): check that it runs and that the address is right."
    return f"failed ({' '.join(filter(None, (type(error).__name__, get_code(error))))})."
