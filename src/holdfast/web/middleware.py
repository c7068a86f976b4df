"""ASGI middleware in front of every route: checks of the host name and of the size of the body.

A refusal is a problem detail like any other.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.distribution import explain_missing
from holdfast.security.hosts import is_local_host
from holdfast.web.problems import build_status_response

with explain_missing(__name__, "api"):
    from starlette.exceptions import HTTPException
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FORBIDDEN: Final = 403
_TOO_LARGE: Final = 413


class LocalHostOnly:
    """Refuse foreign host names on an API without a token.

    A page in a local browser must not reach the API under a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] in ("http", "websocket")
        if is_call and not is_local_host(_get_header(scope, b"host")):
            refusal = build_status_response(
                _FORBIDDEN,
                "Without a token, this API accepts only requests to its own machine, such as localhost or "
                "127.0.0.1. Use such an address, or set a token in the settings.",
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuse a body whose declared length is too large, and stop reading one that turns out to be (413)."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._refusal = f"The body is larger than the limit of {bytes_max} bytes. Send a smaller body."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._declares_too_large(scope):
            await build_status_response(_TOO_LARGE, self._refusal)(scope, receive, send)
        else:
            await self._app(scope, self._count_bytes(receive), send)

    def _declares_too_large(self, scope: Scope) -> bool:
        """Return whether the Content-Length header exceeds the limit."""
        length = _get_header(scope, b"content-length")
        return length.isdigit() and int(length) > self._bytes_max

    def _count_bytes(self, receive: Receive) -> Receive:
        """Wrap `receive` so that it raises `HTTPException` 413 once the body exceeds the limit."""
        count = 0

        async def receive_counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._bytes_max:
                raise HTTPException(_TOO_LARGE, self._refusal)
            return message

        return receive_counted


def _get_header(scope: Scope, name: bytes) -> bytes:
    """Return the first value of a header, or empty bytes."""
    return next((value for key, value in scope["headers"] if key == name), b"")
