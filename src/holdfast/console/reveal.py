"""Revealing personal data: a page is masked until a user with the role `personal` asks for it.

The form posts to the console, which records the reveal and leads back to the same page with a token in its
address. The token is for that address, in that sign-in, for five minutes: a copied link, another page or
another user shows masks again. Nothing is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast.console.users import PERSONAL, User
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from starlette.requests import Request

__all__ = ["PARAMETER", "REVEAL_LIFETIME_S", "add_reveal_token", "is_revealed", "strip_reveal_token"]

PARAMETER: Final = "revealed"
REVEAL_LIFETIME_S: Final = 300
_DIGEST_BYTES: Final = 16
_TOKEN: Final = re.compile(r"(?P<until>[0-9]{1,12})-(?P<signature>[0-9a-f]{32})")


def add_reveal_token(request: Request, url: str) -> str:
    """Return the address of a page, on which this sign-in sees personal data for five minutes."""
    url = strip_reveal_token(url)
    until = int(_now(request)) + REVEAL_LIFETIME_S
    token = f"{until}-{_sign(request, url, until)}"
    return f"{url}{'&' if '?' in url else '?'}{PARAMETER}={token}"


def is_revealed(request: Request, user: User, system: str) -> bool:
    """Return whether this request shows personal data of the system: by a token that is valid, and a role."""
    token = _TOKEN.fullmatch(request.query_params.get(PARAMETER, ""))
    if token is None or not user.has_role(PERSONAL, system) or int(token["until"]) < _now(request):
        return False
    # Not `request.url.path`, in which an escaped `%` or `#` of a key is already decoded once.
    url = strip_reveal_token(f"{quote(request.scope['path'])}?{request.url.query}")
    return hmac.compare_digest(token["signature"], _sign(request, url, int(token["until"])))


def strip_reveal_token(url: str) -> str:
    """Return the address of a page without a token: its path and its query, in one spelling."""
    parts = urlsplit(url)
    kept = [each for each in parse_qsl(parts.query, keep_blank_values=True) if each[0] != PARAMETER]
    return parts.path + (f"?{urlencode(kept)}" if kept else "")


def _now(request: Request) -> float:
    """Return the time of the console's clock."""
    return float(request.app.state.console.own.clock.now())


def _sign(request: Request, url: str, until: int) -> str:
    """Return the signature of an address, by the secret of the sign-in."""
    key = str(request.state.csrf).encode()
    path, _, query = url.partition("?")
    url = f"{unquote(path)}?{query}"
    return hmac.new(key, f"reveal {until} {url}".encode(), hashlib.sha256).hexdigest()[: 2 * _DIGEST_BYTES]
