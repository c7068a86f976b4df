"""The Redis cache engine: runs each operation as one command or Lua script, in threads of its own.

The threads use the blocking client, so that the engine can serve one event loop after another and close
without one. It never retries, because a caller does better to fetch a value elsewhere than to wait for a
cache. The one exception is a refused password, which is looked up again once. After a missing response or a
password that is still refused, it refuses all operations for a moment.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError
from redis.retry import Retry

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import CacheUnavailable, InternalError, SettingsError, StoreClosed
from holdfast.operations import cache as requests
from holdfast.operations.cache import IncrementResult
from holdfast.security.secrets import Secrets
from holdfast.stores.cache.checks import check
from holdfast.stores.cache.redis import scripts
from holdfast.stores.cache.redis.errors import is_password_refused, is_unavailable, map_error

R = TypeVar("R")

DEFAULT_PORT: Final = 6379
THREADS: Final = 16
TIMEOUT_S: Final = 1.0
PAUSE_S: Final = 1.0


def open_redis(
    address: str,
    *,
    clock: Clock = SYSTEM_CLOCK,
    secrets: Secrets | None = None,
    secret: str = "",
    timeout_s: float = TIMEOUT_S,
    pause_s: float = PAUSE_S,
) -> RedisCache:
    """Open a cache at `redis://host:6379/0`, or at `rediss://…` over TLS.

    `secret` names the password among the `secrets`; empty means no password. `timeout_s` limits a connection
    attempt and a response. After a missing response, the engine sends nothing for `pause_s`.
    """
    url = urlsplit(address)
    password = PasswordProvider(unquote(url.username or ""), secrets, secret) if secrets and secret else None
    tls: dict[str, Any] = {"ssl": True, "ssl_check_hostname": True} if url.scheme == "rediss" else {}
    client = redis.Redis(
        host=url.hostname or "",
        port=url.port or DEFAULT_PORT,
        db=int(url.path.strip("/") or 0),
        credential_provider=password,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        max_connections=THREADS,
        retry=Retry(NoBackoff(), 0),
        **tls,
    )
    if password is not None:
        password.refresh()  # Report a missing secret now, not later as an unavailable cache.
    display_name = f"{url.scheme}://{url.hostname}:{url.port or DEFAULT_PORT}{url.path}"
    return RedisCache(client, display_name, clock, password, pause_s)


class PasswordProvider(redis.CredentialProvider):
    """Redis credentials from a secret, looked up for every new connection, so that a rotated password is
    found.
    """

    def __init__(self, user: str, secrets: Secrets, name: str) -> None:
        self._user, self._secrets, self._name = user, secrets, name

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the password, after the user if the address names one."""
        value = self._secrets.get(self._name).current
        return (self._user, value) if self._user else (value,)

    def refresh(self) -> None:
        """Read the secret from its source again; raise if it is missing."""
        self._secrets.refresh(self._name)


class RedisCache:
    """The Redis cache engine, opened by `open_redis`."""

    def __init__(
        self, client: redis.Redis, where: str, clock: Clock, password: PasswordProvider | None, pause_s: float
    ) -> None:
        # The client's methods are typed for both the blocking and the asyncio client, which fits neither.
        self._client: Any = client
        self._where, self._clock, self._password, self._pause_s = where, clock, password, pause_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-cache")
        self._retry_at = -math.inf
        self._put_if_absent = self._client.register_script(scripts.PUT_IF_ABSENT)
        self._extend = self._client.register_script(scripts.EXTEND)
        self._delete = self._client.register_script(scripts.DELETE)
        self._increment = self._client.register_script(scripts.INCREMENT)
        self._is_closed = False
        self._process = os.getpid()

    async def run(self, operation: requests.Operation[R]) -> R:
        """Run one operation in a thread.

        Raise `CacheUnavailable` without sending it during the pause after a failure.
        """
        check(operation)
        if os.getpid() != self._process:
            # The threads belong to the parent process: no request would ever be sent.
            raise SettingsError(
                "This cache was opened before the process forked, and its threads are in the parent. Open it "
                "after the fork."
            )
        if self._is_closed:
            raise StoreClosed("The cache was closed.")
        wait_s = self._retry_at - time.monotonic()
        if wait_s > 0:
            raise CacheUnavailable(
                f"The cache at {self._where} did not respond a moment ago. The next request is sent in "
                f"{wait_s:.1f} s.",
                retry_after_s=wait_s,
            )
        try:
            result = asyncio.get_running_loop().run_in_executor(self._threads, self._run_in_thread, operation)
        except RuntimeError as error:  # Another thread has just closed the cache.
            raise StoreClosed("The cache was closed.") from error
        return cast(R, await result)

    def close(self) -> None:
        """Wait for the operations in flight, at most as long as a response may take.

        Does nothing in a forked child.
        """
        self._is_closed = True
        if os.getpid() != self._process:
            return
        self._threads.shutdown(wait=True)
        self._client.close()

    # --- in a thread ----------------------------------------------------------------------------------------

    def _run_in_thread(self, operation: requests.Operation[Any]) -> Any:
        """Execute the operation and map its errors.

        A missing response or refused password starts the pause.
        """
        if self._is_closed:
            raise StoreClosed("The cache was closed.")
        try:
            return self._call_with_current_password(lambda: self._execute(operation, self._clock.now()))
        except Exception as error:
            if is_unavailable(error):
                self._retry_at = time.monotonic() + self._pause_s
            if isinstance(error, ReadOnlyError):
                # The connections lead to the former primary: new ones resolve its name again.
                self._client.connection_pool.disconnect()
            raise map_error(error, self._where) from error

    def _call_with_current_password(self, call: Callable[[], Any]) -> Any:
        """Call; if the server refuses the password, look the secret up again and call a second time."""
        try:
            return call()
        except Exception as error:
            if self._password is None or not is_password_refused(error):
                raise
        self._password.refresh()
        return call()

    def _execute(self, operation: requests.Operation[Any], now: float) -> Any:
        """Run the operation on the client in this thread, as one command or script."""
        now_ms = _to_milliseconds(now)
        match operation:
            case requests.GetValue(key=key):
                return scripts.decode_value(self._client.get(key), now_ms)
            case requests.PutValue():
                return self._put(operation, now)
            case requests.ExtendValue(key=key, lifetime_s=lifetime_s):
                return bool(self._extend([key], [now_ms, *_to_lifetime_ms(now, lifetime_s)]))
            case requests.DeleteValue(key=key, only_if=only_if):
                return bool(self._delete([key], [now_ms] if only_if is None else [now_ms, only_if]))
            case requests.Increment():
                most = [] if operation.most is None else [operation.most]
                life = _to_lifetime_ms(now, operation.lifetime_s)
                count, is_counted = self._increment([operation.key], [now_ms, *life, operation.by, *most])
                return IncrementResult(count=count, is_counted=bool(is_counted))
            case requests.Ping():
                self._client.ping()
                return None
        raise InternalError(f"Invalid operation {type(operation).__name__}: expected a cache operation.")

    def _put(self, put: requests.PutValue, now: float) -> bool:
        """Store the value and return True; return False if `only_if_absent` is set and the key has a live
        value.
        """
        ends_ms, lifetime_ms = _to_lifetime_ms(now, put.lifetime_s)
        if put.only_if_absent:
            return bool(
                self._put_if_absent([put.key], [_to_milliseconds(now), ends_ms, lifetime_ms, put.value])
            )
        self._client.set(put.key, scripts.encode_value(put.value, ends_ms), px=lifetime_ms)
        return True


def _to_milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _to_lifetime_ms(now: float, lifetime_s: float) -> tuple[int, int]:
    """Return when a lifetime that starts `now` ends, and how long it is (at least 1), both in
    milliseconds.
    """
    lifetime_ms = max(1, _to_milliseconds(lifetime_s))
    return _to_milliseconds(now) + lifetime_ms, lifetime_ms
