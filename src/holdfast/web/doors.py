"""What a request must be before any route sees it: called by our name, and not too large.

Both are plain ASGI around the app. A refusal is a problem like any other.
"""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.security.hosts import is_name_of_this_machine
from holdfast.web.problems import problem_of_status

_FORBIDDEN: Final = 403
_TOO_LARGE: Final = 413


class OwnNameOnly:
    """Where no token is asked for, a page in a browser here must not reach us under a name of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] in ("http", "websocket")
        if is_call and not is_name_of_this_machine(_header(scope, b"host")):
            refusal = problem_of_status(
                _FORBIDDEN,
                "Without a token this API answers only to names of its own machine, such as localhost and "
                "127.0.0.1. Call it by one, or configure a token.",
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


class BodyBound:
    """A body that says it is too large is refused unread; one that does not say is cut off where it becomes so."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._refusal = f"The body is larger than {bytes_max} bytes, the most this takes. Send less at once."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._says_too_large(scope):
            await problem_of_status(_TOO_LARGE, self._refusal)(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    def _says_too_large(self, scope: Scope) -> bool:
        length = _header(scope, b"content-length")
        return length.isdigit() and int(length) > self._bytes_max

    def _counted(self, receive: Receive) -> Receive:
        count = 0

        async def receive_counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._bytes_max:
                raise HTTPException(_TOO_LARGE, self._refusal)
            return message

        return receive_counted


def _header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")
