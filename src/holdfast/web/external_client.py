"""HTTP client of external services: one request, with its outcome mapped to Holdfast's errors.

An integration of a system builds on `ExternalClient.request`. A failure says whether the effect may have
happened (`ExternalServiceFailed.may_be_done`) and when to retry, if the service says so. Each call is made
once: the caller decides what is safe to repeat. The service's own reason for a refusal is shown to people,
but never a credential that it repeats.
"""

from __future__ import annotations

import asyncio
import base64
import html
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from json import dumps, loads
from typing import Any, Final, TypeVar
from urllib.parse import quote

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound
from holdfast.core.http.headers import parse_http_date, parse_retry_after

with explain_missing(__name__, "http"):
    import httpx2

__all__ = [
    "PROXY_TIMEOUTS",
    "REFUSALS",
    "ExternalClient",
    "ExternalResponse",
    "read_field",
    "refuse_missing",
]

T = TypeVar("T")

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
MAX_BODY_BYTES: Final = 32 * 2**20
# For the whole response: the client's own timeouts apply to each read, and a read may return one byte.
TIMEOUT_S: Final = 60.0
MAX_TEXT_SHOWN: Final = 300
CONNECTION_ERRORS: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
SUCCESSES: Final = range(200, 300)
REDIRECTS: Final = range(300, 400)
SERVER_ERRORS: Final = range(500, 600)
CREDENTIAL_REFUSALS: Final = frozenset({401, 403})
GONE: Final = frozenset({404, 410})
# Refusals that a retry would meet again; any other status below 500 may be temporary. A conflict (409) is
# with another request that is running now: for a service that means something else by it, put 409 into
# `accepted_statuses`.
REFUSALS: Final = frozenset({400, 404, 405, 406, 410, 412, 413, 414, 415, 422})
"""Statuses of a request that the service refuses and will refuse again."""
# Timeouts of a proxy: the service may have received the request.
PROXY_TIMEOUTS: Final = frozenset({408, 499})
"""Statuses of a proxy that gave up: the service may have done the request."""
TOO_MANY: Final = 429
SECRET_HEADERS: Final = ("authorization", "proxy-authorization", "cookie", "x-api-key")
# Anything shorter occurs in texts by chance.
MIN_SECRET_CHARS: Final = 4
HIDDEN: Final = b"[hidden]"


@dataclass(frozen=True)
class ExternalResponse:
    """A response of an external service. `body` is its parsed JSON, None if it is empty; `content` are the
    bytes that it sent.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class ExternalClient:
    """An external service behind one HTTP client with its address, credentials and timeouts.

    `name` is the service's name in errors. `secrets` are credentials that are not sent as a header: neither
    these nor those in headers appear in an error. `timeout_s` bounds a whole response.
    """

    http: httpx2.AsyncClient
    name: str
    clock: Clock = SYSTEM_CLOCK
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeout_s: float = TIMEOUT_S

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        has_effect: bool | None = None,
        accepted_statuses: frozenset[int] = frozenset(),
    ) -> ExternalResponse:
        """Make one request and return its response.

        The body is `json`, `form` or `content`, which is sent byte for byte.

        A status in `accepted_statuses` is returned as a response; any other that is not 2xx raises
        `ExternalServiceFailed`, `ExternalServiceRefused` or, for a read, `NotFound`. Pass `has_effect=False`
        for a search by POST.
        """
        changing = method not in SAFE_METHODS if has_effect is None else has_effect
        arguments = {"params": params, "json": json, "content": content, "data": form, "headers": headers}
        request = self._build_request(method, path, arguments, changing)
        status, head, received = await self._send(request, changing)
        if status not in SUCCESSES:
            received = _hide_secrets(received, [*self.secrets, *_list_secrets(request)])
            if status not in accepted_statuses:
                raise self._build_failure(status, head, received, changing)
        # An accepted error page need not be JSON; a successful response must.
        parsed = self._parse_json(received, changing, strict=status in SUCCESSES)
        return ExternalResponse(status, parsed, head, received)

    def get_response_time(self, answer: ExternalResponse) -> float:
        """Return when the service responded by its own clock, if it says so; else by ours."""
        server_time = parse_http_date(answer.headers.get("date", ""))
        return self.clock.now() if server_time is None else server_time

    def _build_request(
        self, method: str, path: str, arguments: dict[str, Any], changes: bool
    ) -> httpx2.Request:
        """Build the request; `arguments` are its parameters, body and headers. If that fails it was never
        sent; the reason may contain a credential and is left out.
        """
        try:
            return self.http.build_request(method, path, **arguments)
        except (ValueError, TypeError, httpx2.InvalidURL):
            text = f"The request to {self.name} was not sent: its content is invalid in an HTTP request."
            refusal = (
                ExternalServiceRefused("unsendable", text)
                if changes
                else ExternalServiceFailed(text, may_be_done=False)
            )
            raise refusal from None

    async def _send(self, request: httpx2.Request, changes: bool) -> tuple[int, httpx2.Headers, bytes]:
        """Send the request and return status, headers and body. Raise `ExternalServiceFailed` if that
        fails.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._read(request, changes)
        except CONNECTION_ERRORS as error:
            raise ExternalServiceFailed(
                f"No connection to {self.name}: the request was not sent.", may_be_done=False
            ) from error
        except TimeoutError as error:
            text = f"{self.name} did not respond completely within {self.timeout_s:g} s."
            raise ExternalServiceFailed(text, may_be_done=changes) from error
        except httpx2.HTTPError as error:
            why = type(error).__name__
            raise ExternalServiceFailed(
                f"{self.name} did not respond ({why}).", may_be_done=changes
            ) from error

    async def _read(self, request: httpx2.Request, changes: bool) -> tuple[int, httpx2.Headers, bytes]:
        """Send the request and read the whole body. Raise `ExternalServiceFailed` if it is too large."""
        content = bytearray()
        response = await self.http.send(request, stream=True)
        try:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_BODY_BYTES:
                    raise self._build_invalid_response(f"larger than {MAX_BODY_BYTES} bytes", changes)
            return response.status_code, response.headers, bytes(content)
        finally:
            await response.aclose()

    def _build_failure(self, status: int, head: httpx2.Headers, content: bytes, changes: bool) -> Exception:
        """Return the error for a status that is not accepted. `changes`: the request has an effect."""
        pause = self._parse_retry_after(head)
        if status == TOO_MANY:
            text = f"{self.name} accepts no more requests for now."
            return ExternalServiceFailed(text, may_be_done=False, retry_after_s=pause)
        if status in SERVER_ERRORS:
            # It may have started: a 503 too may come from a proxy.
            text = f"{self.name} failed with {status}."
            return ExternalServiceFailed(text, may_be_done=changes, retry_after_s=pause)
        if status in CREDENTIAL_REFUSALS:
            text = f"{self.name} refused the credentials with {status}: fix them in the integration."
            return ExternalServiceFailed(text, may_be_done=False)
        if status in REDIRECTS:
            # The address may be wrong; a 303 may also say where to see the result.
            text = f"{self.name} responded with {status}, a redirect: fix the address in the integration."
            return ExternalServiceFailed(text, may_be_done=changes)
        return self._build_refusal(status, content, changes, pause)

    def _build_refusal(self, status: int, content: bytes, changes: bool, pause: float | None) -> Exception:
        """Return the error for a 4xx status: not found, refused for good, or refused for now."""
        words = _format_reason(content)
        if status in GONE and not changes:
            return NotFound(f"{self.name} did not find it ({status}){words}")
        text = f"{self.name} refused the request with {status}{words}"
        if status in REFUSALS:
            return ExternalServiceRefused(str(status), text)
        return ExternalServiceFailed(
            text, may_be_done=changes and status in PROXY_TIMEOUTS, retry_after_s=pause
        )

    def _parse_json(self, content: bytes, changes: bool, *, strict: bool) -> Any:
        """Return the body's JSON, or None if it is empty. Invalid JSON raises if `strict`, else is None
        too.
        """
        if not content.strip():
            return None
        try:
            return loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            if not strict:
                return None
            raise self._build_invalid_response("not JSON", changes) from error

    def _build_invalid_response(self, why: str, changes: bool) -> ExternalServiceFailed:
        return ExternalServiceFailed(f"Invalid response from {self.name}: {why}.", may_be_done=changes)

    def _parse_retry_after(self, head: httpx2.Headers) -> float | None:
        """Return the pause in seconds, at most an hour, or None. A date is compared with the service's own
        clock if it sends it.
        """
        since = parse_http_date(head.get("date", ""))
        return parse_retry_after(
            head.get("retry-after", ""), since=self.clock.now() if since is None else since
        )


def read_field(body: Any, name: str, kind: type[T], service: str, *, may_be_done: bool = False) -> T:
    """Return a field of a JSON object, or raise `ExternalServiceFailed` if it is missing or of another type.

    A bool is not a number. `service` is the service's name in the error.
    """
    found = body.get(name) if isinstance(body, dict) else None
    if isinstance(found, kind) and (kind is bool or not isinstance(found, bool)):
        return found
    got = "nothing" if found is None else type(found).__name__
    raise ExternalServiceFailed(
        f"Invalid response from {service}: expected {name} as {kind.__name__}, got {got}.",
        may_be_done=may_be_done,
    )


@contextmanager
def refuse_missing() -> Iterator[None]:
    """Turn `NotFound` into a refusal, for reads before a change: nothing was done."""
    try:
        yield
    except NotFound as error:
        raise ExternalServiceRefused("404", error.message) from error


def _list_secrets(request: httpx2.Request) -> list[str]:
    """Return the credentials sent with a request: the headers, their parts, and a basic password."""
    found: list[str] = []
    for name in SECRET_HEADERS:
        value = request.headers.get(name, "")
        scheme, _, proof = value.partition(" ")
        found += [value, proof]
        if scheme.casefold() == "basic":
            found.append(_decode_password(proof))
    return found


def _decode_password(proof: str) -> str:
    """Return the password of HTTP basic credentials; empty if they cannot be decoded."""
    try:
        return base64.b64decode(proof).decode(errors="replace").partition(":")[2]
    except ValueError:
        return ""


def _hide_secrets(content: bytes, secrets: list[str]) -> bytes:
    """Replace the secrets in every form in which a page or JSON would repeat them, the longest first."""
    known = {each for each in secrets if len(each) >= MIN_SECRET_CHARS}
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


def _format_reason(content: bytes) -> str:
    """Return the service's reason for a refusal, shortened, for a person to read."""
    text = content[: 4 * MAX_TEXT_SHOWN].decode(errors="replace")
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return f": {shown[:MAX_TEXT_SHOWN]}" if shown else "."


def _refuse_constant(name: str) -> Any:
    """Raise `ValueError` for NaN and Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{name} is not JSON")
