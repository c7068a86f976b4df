"""The headers that protect every page: what it may load, who may frame it, what it tells other sites.

All scripts, styles, images and connections are the console's own. Neither inline scripts nor inline styles
nor `eval` run, so text from a store that reaches a page unescaped would still not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
NO_STORE: Final = (b"cache-control", b"no-store")
STRICT_TRANSPORT_SECURITY: Final = (b"strict-transport-security", b"max-age=31536000")


class SecurityHeaders:
    """ASGI middleware that adds the headers to every response. `is_https` says that users reach it by TLS."""

    def __init__(self, app: ASGIApp, *, is_https: bool) -> None:
        self._app = app
        self._is_https = is_https
        self._headers = [*HEADERS, STRICT_TRANSPORT_SECURITY] if is_https else list(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*self._complete(message["headers"]), *self._headers]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _complete(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers of a response, with cookies for TLS only, and not to be stored unless it says
        otherwise, as assets do: pages show data, and the button to go back must not show it after sign-out.
        """
        found = [(name.lower(), value) for name, value in headers]
        if self._is_https:
            found = [(name, _secure(value) if name == b"set-cookie" else value) for name, value in found]
        return found if any(name == b"cache-control" for name, _ in found) else [*found, NO_STORE]


def _secure(cookie: bytes) -> bytes:
    """Return a cookie that browsers send over TLS only."""
    is_secure = any(part.strip().lower() == b"secure" for part in cookie.split(b";")[1:])
    return cookie if is_secure else cookie + b"; Secure"
