"""Maps every error of the Redis client to a `HoldfastError`. A cache may always be lost, so all say the same:
continue without it.

The server's messages may name a key, and a key may be a session id: errors show only the kind of failure.
"""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.exceptions import ConnectionError as NoConnection

from holdfast.core.errors import CacheUnavailable, HoldfastError, InternalError


def failure_of(error: Exception, where: str) -> HoldfastError:
    if isinstance(error, HoldfastError):
        return error
    if not isinstance(error, (RedisError, OSError)):
        return InternalError(
            f"The cache at {where} failed in a way that is not known here: {type(error).__name__}."
        )
    return CacheUnavailable(f"The cache at {where} {_what(error)}")


def is_no_answer(error: Exception) -> bool:
    """Return whether the next request would also wait in vain."""
    return isinstance(error, (NoConnection, TimeoutError, OSError)) or is_refused(error)


def is_refused(error: Exception) -> bool:
    """Return whether another password may help. Servers without one refuse it by an untyped error."""
    return isinstance(error, (AuthenticationError, AuthorizationError)) or "AUTH" in str(error)


def _what(error: Exception) -> str:
    if is_refused(error):
        return "does not take the password: look at the secret that cache_secret names."
    if isinstance(error, NoPermissionError):
        return (
            "does not permit this: its user needs GET, SET, DEL, EVALSHA, SCRIPT LOAD and PING on its keys."
        )
    if isinstance(error, ReadOnlyError):
        return "is a replica now, as after a failover: it is asked anew."
    if isinstance(error, OutOfMemoryError):
        return "is full: give it an eviction policy such as allkeys-lru, or more memory."
    if isinstance(error, (TimeoutError, NoConnection, OSError)):
        return f"gives no answer ({type(error).__name__}): check that it runs and that the address is right."
    return f"failed ({type(error).__name__})."
