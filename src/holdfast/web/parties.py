"""Asking an outside party over HTTP: one request, and its outcome told in our errors.

A connector of a system puts its paths and its words around `Party.ask`. A failure says whether the effect may have
happened (`PartyFailed.may_be_done`) and after which time to come again where the party tells it. Each call is made once:
what is safe to repeat is decided above, never here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from json import loads
from typing import Any, Final, TypeVar

import httpx2

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import NotFound, PartyFailed, PartyRefused

T = TypeVar("T")

READS: Final = frozenset({"GET", "HEAD"})
BODY_BYTES_MAX: Final = 32 * 2**20
RETRY_AFTER_S_MAX: Final = 3600.0
WORDS_SHOWN_MAX: Final = 300
NOT_ASKED: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
SUCCESSES: Final = range(200, 300)
REDIRECTS: Final = range(300, 400)
SERVER_ERRORS: Final = range(500, 600)
NO_CREDENTIALS: Final = frozenset({401, 403})
GONE: Final = frozenset({404, 410})
# What the same request would meet again; any other status below 500 may pass later.
REFUSALS: Final = frozenset({400, 404, 405, 406, 409, 410, 412, 413, 414, 415, 422})
TOO_MANY: Final = 429


@dataclass(frozen=True)
class Answer:
    """What a party answered. `body` is the JSON of it, None where it is empty."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Party:
    """An outside party behind one client, which knows its address, its credentials and its patience. `name` is for people."""

    http: httpx2.AsyncClient
    name: str
    clock: Clock = SYSTEM_CLOCK

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        changes: bool | None = None,
        passes: frozenset[int] = frozenset(),
    ) -> Answer:
        """One request. A status in `passes` comes back as an answer; a search by POST says that it `changes` nothing."""
        changing = method not in READS if changes is None else changes
        request = {"params": params, "json": json, "headers": headers}
        status, head, content = await self._sent(method, path, request, changing)
        if status not in SUCCESSES and status not in passes:
            raise self._failure(status, head, content, changing)
        # An error page that is let pass need not be JSON; an answer must.
        return Answer(status, self._parsed(content, changing, strict=status in SUCCESSES), head)

    async def _sent(
        self, method: str, path: str, request: dict[str, Any], changes: bool
    ) -> tuple[int, httpx2.Headers, bytes]:
        content = bytearray()
        try:
            async with self.http.stream(method, path, **request) as response:
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > BODY_BYTES_MAX:
                        raise self._nonsense(f"it is larger than {BODY_BYTES_MAX} bytes", changes)
                return response.status_code, response.headers, bytes(content)
        except NOT_ASKED as error:
            raise PartyFailed(
                f"No connection to {self.name}: it was not asked.", may_be_done=False
            ) from error
        except httpx2.HTTPError as error:
            why = type(error).__name__
            raise PartyFailed(f"{self.name} gave no answer ({why}).", may_be_done=changes) from error

    def _failure(self, status: int, head: httpx2.Headers, content: bytes, changes: bool) -> Exception:
        pause = self._retry_after(head)
        if status == TOO_MANY:
            text = f"{self.name} takes no more requests for now."
            return PartyFailed(text, may_be_done=False, retry_after_s=pause)
        if status in SERVER_ERRORS:
            # Whether it had begun, nobody knows: a 503 too may come from something that stands in between.
            text = f"{self.name} failed with {status}."
            return PartyFailed(text, may_be_done=changes, retry_after_s=pause)
        if status in NO_CREDENTIALS:
            text = f"{self.name} refuses the credentials with {status}: mend them in the integration."
            return PartyFailed(text, may_be_done=False)
        if status in REDIRECTS:
            text = f"{self.name} answers {status}, a redirect: mend the address in the integration."
            return PartyFailed(text, may_be_done=False)
        return self._refusal(status, content, changes, pause)

    def _refusal(self, status: int, content: bytes, changes: bool, pause: float | None) -> Exception:
        words = _words(content)
        if status in GONE and not changes:
            return NotFound(f"{self.name} knows no such thing ({status}){words}")
        text = f"{self.name} refuses the request with {status}{words}"
        if status in REFUSALS:
            return PartyRefused(str(status), text)
        return PartyFailed(text, may_be_done=False, retry_after_s=pause)

    def _parsed(self, content: bytes, changes: bool, *, strict: bool) -> Any:
        if not content.strip():
            return None
        try:
            return loads(content, parse_constant=_refused_constant)
        except (ValueError, RecursionError) as error:
            if not strict:
                return None
            raise self._nonsense("it is no JSON", changes) from error

    def _nonsense(self, why: str, changes: bool) -> PartyFailed:
        return PartyFailed(f"{self.name} answers nonsense: {why}.", may_be_done=changes)

    def _retry_after(self, head: httpx2.Headers) -> float | None:
        """In seconds, also where the party tells a date; the party's own clock counts, if it tells that too."""
        text = head.get("retry-after", "")
        try:
            pause = float(text)
        except ValueError:
            until, since = _http_date(text), _http_date(head.get("date", ""))
            if until is None:
                return None
            pause = until - (self.clock.now() if since is None else since)
        return min(max(pause, 0.0), RETRY_AFTER_S_MAX) if math.isfinite(pause) else None


def member(body: Any, name: str, kind: type[T], party: str, *, may_be_done: bool = False) -> T:
    """A member of an answer, of a kind; anything else is nonsense (`PartyFailed`). A bool is no number."""
    found = body.get(name) if isinstance(body, dict) else None
    if isinstance(found, kind) and (kind is bool or not isinstance(found, bool)):
        return found
    got = "nothing" if found is None else type(found).__name__
    raise PartyFailed(
        f"{party} answers nonsense: {name} should be {kind.__name__}, and is {got}.", may_be_done=may_be_done
    )


def _words(content: bytes) -> str:
    """What the party says of its refusal, in short: it is for a person to read."""
    text = content[: 4 * WORDS_SHOWN_MAX].decode(errors="replace")
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return f": {shown[:WORDS_SHOWN_MAX]}" if shown else "."


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
