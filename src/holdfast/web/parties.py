"""Asking an outside party over HTTP: one request, and its outcome told in our errors.

A connector of a system puts its paths and its words around `Party.ask`. A failure says whether the effect may have
happened (`PartyFailed.may_be_done`) and after which time to come again where the party tells it. Each call is made once:
what is safe to repeat is decided above, never here. What a party says of its refusal is shown to people, but never a
credential that it repeats.
"""

from __future__ import annotations

import asyncio
import base64
import html
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from json import dumps, loads
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import NotFound, PartyFailed, PartyRefused

T = TypeVar("T")

READS: Final = frozenset({"GET", "HEAD"})
BODY_BYTES_MAX: Final = 32 * 2**20
RETRY_AFTER_S_MAX: Final = 3600.0
# For a whole answer: the limits of a client are for each part of it, and a part may be a byte.
ANSWER_S_MAX: Final = 60.0
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
# What the same request would meet again; any other status below 500 may pass later. A conflict (409) is with what
# somebody else does just now: a party that means something else by it is asked with 409 in `passes`.
REFUSALS: Final = frozenset({400, 404, 405, 406, 410, 412, 413, 414, 415, 422})
# What something in between says when it has waited: the party may have the request.
WAITED: Final = frozenset({408, 499})
TOO_MANY: Final = 429
SECRET_HEADERS: Final = ("authorization", "proxy-authorization", "cookie", "x-api-key")
# Anything shorter stands in texts by chance.
SECRET_CHARS_MIN: Final = 4
HIDDEN: Final = b"[hidden]"


@dataclass(frozen=True)
class Answer:
    """What a party answered. `body` is the JSON of it, None where it is empty."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Party:
    """An outside party behind one client, which knows its address, its credentials and its patience. `name` is for people.

    `secrets` are those that do not go as a header: no text of an error has them, nor those that do.
    """

    http: httpx2.AsyncClient
    name: str
    clock: Clock = SYSTEM_CLOCK
    secrets: tuple[str, ...] = field(default=(), repr=False)
    answer_s: float = ANSWER_S_MAX

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        changes: bool | None = None,
        passes: frozenset[int] = frozenset(),
    ) -> Answer:
        """One request. A status in `passes` comes back as an answer; a search by POST says that it `changes` nothing."""
        changing = method not in READS if changes is None else changes
        told = {"params": params, "json": json, "data": form, "headers": headers}
        request = self._request(method, path, told, changing)
        status, head, content = await self._sent(request, changing)
        if status not in SUCCESSES:
            content = _scrubbed(content, [*self.secrets, *_secrets_of(request)])
            if status not in passes:
                raise self._failure(status, head, content, changing)
        # An error page that is let pass need not be JSON; an answer must.
        return Answer(status, self._parsed(content, changing, strict=status in SUCCESSES), head)

    def told_at(self, answer: Answer) -> float:
        """When it was answered by the party's own clock, if it tells that; else by ours."""
        told = _http_date(answer.headers.get("date", ""))
        return self.clock.now() if told is None else told

    def _request(self, method: str, path: str, told: dict[str, Any], changes: bool) -> httpx2.Request:
        """What cannot be put into a request was never sent. The reason may hold a credential, and is left out."""
        try:
            return self.http.build_request(method, path, **told)
        except (ValueError, TypeError, httpx2.InvalidURL):
            text = f"{self.name} was not asked: what it should be told cannot be put into a request."
            refusal = PartyRefused("unsendable", text) if changes else PartyFailed(text, may_be_done=False)
            raise refusal from None

    async def _sent(self, request: httpx2.Request, changes: bool) -> tuple[int, httpx2.Headers, bytes]:
        try:
            async with asyncio.timeout(self.answer_s):
                return await self._read(request, changes)
        except NOT_ASKED as error:
            raise PartyFailed(
                f"No connection to {self.name}: it was not asked.", may_be_done=False
            ) from error
        except TimeoutError as error:
            text = f"{self.name} gave no whole answer within {self.answer_s:g} s."
            raise PartyFailed(text, may_be_done=changes) from error
        except httpx2.HTTPError as error:
            why = type(error).__name__
            raise PartyFailed(f"{self.name} gave no answer ({why}).", may_be_done=changes) from error

    async def _read(self, request: httpx2.Request, changes: bool) -> tuple[int, httpx2.Headers, bytes]:
        content = bytearray()
        response = await self.http.send(request, stream=True)
        try:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > BODY_BYTES_MAX:
                    raise self._nonsense(f"it is larger than {BODY_BYTES_MAX} bytes", changes)
            return response.status_code, response.headers, bytes(content)
        finally:
            await response.aclose()

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
            # It may stand at the wrong address; a 303 may as well say where to see what was done.
            text = f"{self.name} answers {status}, a redirect: mend the address in the integration."
            return PartyFailed(text, may_be_done=changes)
        return self._refusal(status, content, changes, pause)

    def _refusal(self, status: int, content: bytes, changes: bool, pause: float | None) -> Exception:
        words = _words(content)
        if status in GONE and not changes:
            return NotFound(f"{self.name} knows no such thing ({status}){words}")
        text = f"{self.name} refuses the request with {status}{words}"
        if status in REFUSALS:
            return PartyRefused(str(status), text)
        return PartyFailed(text, may_be_done=changes and status in WAITED, retry_after_s=pause)

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


@contextmanager
def refusing_what_is_gone() -> Iterator[None]:
    """Around the reads before a change: a change of what is not there is refused, and nothing was done."""
    try:
        yield
    except NotFound as error:
        raise PartyRefused("404", error.message) from error


def _secrets_of(request: httpx2.Request) -> list[str]:
    """What went along as proof of who we are: the headers, their parts, and the password of a basic one."""
    found: list[str] = []
    for name in SECRET_HEADERS:
        value = request.headers.get(name, "")
        scheme, _, proof = value.partition(" ")
        found += [value, proof]
        if scheme.casefold() == "basic":
            found.append(_password_of(proof))
    return found


def _password_of(proof: str) -> str:
    try:
        return base64.b64decode(proof).decode(errors="replace").partition(":")[2]
    except ValueError:
        return ""


def _scrubbed(content: bytes, secrets: list[str]) -> bytes:
    """Without the secrets, in any of the forms in which a page or a JSON would repeat them; the longest first."""
    known = {each for each in secrets if len(each) >= SECRET_CHARS_MIN}
    forms = {
        form.encode(errors="replace")
        for each in known
        for form in (
            each,
            dumps(each)[1:-1],
            each.replace("/", "\\/"),
            html.escape(each),
            quote(each, safe=""),
        )
    }
    for form in sorted(forms, key=len, reverse=True):
        content = content.replace(form, HIDDEN)
    return content


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
