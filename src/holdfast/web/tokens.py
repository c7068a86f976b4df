"""A bearer token in front of an API: one secret of the settings, compared in constant time.

`make_app` puts it in front of all routes when it is given a token; a route may also ask for it alone.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast.errors import SettingsError

_BEARER: Final = HTTPBearer(auto_error=False, description="The token of the settings.")
_Given: TypeAlias = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]

# What a bearer token may be made of (RFC 6750, section 2.1).
_SENDABLE: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_UNAUTHORIZED: Final = 401


def require_token(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    """A dependency that refuses every request without this very token: `Depends(require_token(token))`."""
    if not _SENDABLE.fullmatch(token):
        raise SettingsError(
            "The token cannot be sent in a header: make one of letters, digits and - . _ ~ + /, for example with "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`, or configure none."
        )
    expected = token.encode()

    def token_required(given: _Given) -> None:
        if given is None:
            raise _refused("Bearer", "This needs a token: send the header `Authorization: Bearer TOKEN`.")
        if not hmac.compare_digest(given.credentials.encode(), expected):
            raise _refused('Bearer error="invalid_token"', "This is not the token: look it up and try again.")

    return token_required


def _refused(challenge: str, detail: str) -> HTTPException:
    return HTTPException(_UNAUTHORIZED, detail, headers={"WWW-Authenticate": challenge})
