"""The cache engine on Redis.

The engine runs the blocking client in its own threads, so that it can serve one event loop after another and
close without one. It never retries, because a caller does better to fetch a value elsewhere than to wait for
a cache. After a missing response or a refused password, it refuses all operations for a moment.
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
from holdfast.operations.cache import Counted
from holdfast.security.secrets import Secrets
from holdfast.stores.cache.checks import check
from holdfast.stores.cache.redis import scripts
from holdfast.stores.cache.redis.failures import failure_of, is_no_answer, is_refused

R = TypeVar("R")

PORT: Final = 6379
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
    place = urlsplit(address)
    password = Password(unquote(place.username or ""), secrets, secret) if secrets and secret else None
    tls: dict[str, Any] = {"ssl": True, "ssl_check_hostname": True} if place.scheme == "rediss" else {}
    client = redis.Redis(
        host=place.hostname or "",
        port=place.port or PORT,
        db=int(place.path.strip("/") or 0),
        credential_provider=password,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        max_connections=THREADS,
        retry=Retry(NoBackoff(), 0),
        **tls,
    )
    if password is not None:
        password.look_up()  # Report a missing secret now, not later as an unavailable cache.
    shown = f"{place.scheme}://{place.hostname}:{place.port or PORT}{place.path}"
    return RedisCache(client, shown, clock, password, pause_s)


class Password(redis.CredentialProvider):
    """The password, looked up for every new connection, so that a rotated one is found."""

    def __init__(self, user: str, secrets: Secrets, name: str) -> None:
        self._user, self._secrets, self._name = user, secrets, name

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        value = self._secrets.get(self._name).current
        return (self._user, value) if self._user else (value,)

    def look_up(self) -> None:
        self._secrets.refresh(self._name)


class RedisCache:
    def __init__(
        self, client: redis.Redis, where: str, clock: Clock, password: Password | None, pause_s: float
    ) -> None:
        # The client's methods are typed for both the blocking and the asyncio client, which fits neither.
        self._client: Any = client
        self._where, self._clock, self._password, self._pause_s = where, clock, password, pause_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-cache")
        self._asked_again_at = -math.inf
        self._put_if_absent = self._client.register_script(scripts.PUT_IF_ABSENT)
        self._extend = self._client.register_script(scripts.EXTEND)
        self._delete = self._client.register_script(scripts.DELETE)
        self._increment = self._client.register_script(scripts.INCREMENT)
        self._is_closed = False
        self._process = os.getpid()

    async def run(self, operation: requests.Operation[R]) -> R:
        check(operation)
        if os.getpid() != self._process:
            # The threads belong to the parent process: no request would ever be sent.
            raise SettingsError(
                "This cache was opened before the process was forked, and cannot be used here: open it after "
                "the fork."
            )
        if self._is_closed:
            raise StoreClosed("The cache was closed.")
        wait_s = self._asked_again_at - time.monotonic()
        if wait_s > 0:
            raise CacheUnavailable(
                f"The cache at {self._where} gave no answer a moment ago: it is asked again in {wait_s:.1f} "
                "s.",
                retry_after_s=wait_s,
            )
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._threads, self._asked, operation)
        except RuntimeError as error:  # Another thread has just closed it.
            raise StoreClosed("The cache was closed.") from error
        return cast(R, await answer)

    def close(self) -> None:
        """Wait for the operations in flight, at most as long as a response may take. Does nothing in a forked
        child.
        """
        self._is_closed = True
        if os.getpid() != self._process:
            return
        self._threads.shutdown(wait=True)
        self._client.close()

    # --- in a thread ----------------------------------------------------------------------------------------

    def _asked(self, operation: requests.Operation[Any]) -> Any:
        if self._is_closed:
            raise StoreClosed("The cache was closed.")
        try:
            return self._with_the_password_of_now(lambda: self._do(operation, self._clock.now()))
        except Exception as error:
            if is_no_answer(error):
                self._asked_again_at = time.monotonic() + self._pause_s
            if isinstance(error, ReadOnlyError):
                # The connections lead to the former primary: new ones resolve its name again.
                self._client.connection_pool.disconnect()
            raise failure_of(error, self._where) from error

    def _with_the_password_of_now(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            if self._password is None or not is_refused(error):
                raise
        self._password.look_up()
        return ask()

    def _do(self, operation: requests.Operation[Any], now: float) -> Any:
        now_ms = _milliseconds(now)
        match operation:
            case requests.GetValue(key=key):
                return scripts.value_in(self._client.get(key), now_ms)
            case requests.PutValue():
                return self._put(operation, now)
            case requests.ExtendValue(key=key, lifetime_s=lifetime_s):
                return bool(self._extend([key], [now_ms, *_life(now, lifetime_s)]))
            case requests.DeleteValue(key=key, only_if=only_if):
                return bool(self._delete([key], [now_ms] if only_if is None else [now_ms, only_if]))
            case requests.Increment():
                most = [] if operation.most is None else [operation.most]
                life = _life(now, operation.lifetime_s)
                count, done = self._increment([operation.key], [now_ms, *life, operation.by, *most])
                return Counted(count=count, is_counted=bool(done))
            case requests.Ping():
                self._client.ping()
                return None
        raise InternalError(f"{type(operation).__name__} is no operation of a cache.")

    def _put(self, put: requests.PutValue, now: float) -> bool:
        ends_ms, lifetime_ms = _life(now, put.lifetime_s)
        if put.only_if_absent:
            return bool(self._put_if_absent([put.key], [_milliseconds(now), ends_ms, lifetime_ms, put.value]))
        self._client.set(put.key, scripts.kept(put.value, ends_ms), px=lifetime_ms)
        return True


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _life(now: float, lifetime_s: float) -> tuple[int, int]:
    """Return when a lifetime ends and how long it is, both in milliseconds."""
    lifetime_ms = max(1, _milliseconds(lifetime_s))
    return _milliseconds(now) + lifetime_ms, lifetime_ms
