"""Requests to the issuer of tokens: its keys, and what an OpenID provider publishes and answers.

An issuer is another service. Its address must be secure, redirects are not followed so that only configured
addresses are trusted, and neither a slow nor an endless answer holds the caller.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import SettingsError
from holdfast.core.http.addresses import is_loopback

with explain_missing(__name__, "tokens"):
    import httpx2

__all__ = ["is_secure_address", "request_issuer", "require_secure_address"]

MAX_ANSWER_BYTES: Final = 256 * 1024


async def request_issuer(
    method: str, url: str, *, timeout_s: float, max_bytes: int = MAX_ANSWER_BYTES, **request: Any
) -> tuple[int, bytes]:
    """Send one request and return the status and the body. `request` has arguments of httpx2, such as `data`.

    Raise `ValueError` for a body above `max_bytes`, and httpx2's errors or `TimeoutError` without an answer.
    """
    content = bytearray()
    # In a thread, because reading the certificates would block the event loop.
    client = await asyncio.to_thread(httpx2.AsyncClient, timeout=timeout_s, follow_redirects=False)
    headers = {"accept": "application/json", **request.pop("headers", {})}
    async with (
        client as http,
        asyncio.timeout(timeout_s),
        http.stream(method, url, headers=headers, **request) as answer,
    ):
        async for part in answer.aiter_bytes():
            content += part
            if len(content) > max_bytes:
                raise ValueError(f"the answer is larger than {max_bytes} bytes")
    return answer.status_code, bytes(content)


def require_secure_address(url: str, problem: str, remedy: str = "") -> None:
    """Raise `SettingsError` unless the URL is https or on this machine: what an insecure connection brings
    proves nothing. `problem` begins the message, `remedy` is its last sentence.
    """
    try:
        is_secure = is_secure_address(url)
    except ValueError:
        raise SettingsError(f"{problem}: it is not a URL. Give an https address.") from None
    if not is_secure:
        raise SettingsError(f"{problem}: expected https, or http on this machine. {remedy}".rstrip())


def is_secure_address(url: str) -> bool:
    """Return whether the URL is https, or http on this machine. Raise `ValueError` if it is not a URL."""
    parts = urlsplit(url)
    is_local = is_loopback(parts.hostname or "") and parts.username is None
    return bool(parts.netloc) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))
