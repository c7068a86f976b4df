"""ASGI middleware in front of every route: correlation id and cache, encoding and size of the body.

A refusal has the app's error format like any other.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.correlation import bind_correlation_id
from holdfast.core.distribution import explain_missing
from holdfast.web.bodies import build_too_large, count_bytes, decode_bodies, is_declared_larger
from holdfast.web.problems import build_error_response

with explain_missing(__name__, "api"):
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CORRELATION_HEADER: Final = "x-correlation-id"
# A UUID, a trace id or a ULID: none of these can contain personal data.
CORRELATION_ID: Final = re.compile(
    r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}"
)


class CorrelationId:
    """Bind the caller's correlation id, or a new one, and name it in the response.

    The response also gets `cache-control: no-store`, unless the route sets the header: it is for its caller
    alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _get_header(scope, CORRELATION_HEADER.encode()).decode("latin-1")
        with bind_correlation_id(given if CORRELATION_ID.fullmatch(given) else None) as id:

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = [*message["headers"], (CORRELATION_HEADER.encode(), id.encode())]
                    if not any(name == b"cache-control" for name, _ in headers):
                        headers.append((b"cache-control", b"no-store"))
                    message = {**message, "headers": headers}
                await send(message)

            await self._app(scope, receive, send_with_headers)


class BodyLimit:
    """Decode bodies by their Content-Encoding (415, 400), and refuse a body that is too large (413), by its
    declared length or once it turns out to be. The limit holds before and after decoding.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if is_declared_larger(_get_header(scope, b"content-length").decode("latin-1"), self._max_bytes):
                raise build_too_large(self._max_bytes)
            call = decode_bodies(scope, count_bytes(receive, self._max_bytes), self._max_bytes)
        except HTTPException as refusal:
            await build_error_response(HTTPConnection(scope), refusal)(scope, receive, send)
        else:
            await self._app(*call, send)


def _get_header(scope: Scope, name: bytes) -> bytes:
    """Return the first value of a header, or empty bytes."""
    return next((value for key, value in scope["headers"] if key == name), b"")
