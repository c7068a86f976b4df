"""The sandbox payers' token endpoint: client credentials by secret or by signed assertion (RFC 6749, SMART).

Tokens end with the process: a client that is refused fetches another.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.core.clock import Clock
from holdfast.core.rng import make_url_token

ALGORITHMS: Final = ("RS384", "ES384")
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class PayerTokens:
    """Issues and checks tokens. A client authenticates with `client_id` and `client_secret`, or with an
    assertion that a key of `jwks` verifies; or calls with `api_key`. Without all of them, every call is
    accepted.
    """

    clock: Clock
    client_id: str = ""
    client_secret: str = ""
    api_key: str = ""
    life_s: float = 3600.0
    jwks: dict[str, Any] | None = None
    # The ids of the assertions that were used: each is accepted once.
    used: set[str] = field(default_factory=set)
    _tokens: dict[str, float] = field(default_factory=dict)

    async def issue(self, request: Request) -> Response:
        """Issue a token by client credentials."""
        form = {
            name: values[-1]
            for name, values in parse_qs((await request.body()).decode(errors="replace")).items()
        }
        if form.get("grant_type") != "client_credentials":
            return _build_refusal(400, "unsupported_grant_type")
        if not self._is_client(request, form):
            return _build_refusal(401, "invalid_client")
        now, token = self.clock.now(), make_url_token()
        self._tokens = {each: ends for each, ends in self._tokens.items() if ends > now}
        self._tokens[token] = now + self.life_s
        body = {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}
        return JSONResponse(body, headers={"cache-control": "no-store"})

    def forget(self) -> None:
        """Invalidate all tokens."""
        self._tokens.clear()

    def is_authorized(self, request: Request) -> bool:
        """Return whether a request has a valid token or the API key."""
        if not self.client_secret and not self.api_key and self.jwks is None:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.casefold() == "bearer" and self._tokens.get(token, 0.0) > self.clock.now():
            return True
        return bool(self.api_key) and _is_equal(request.headers.get("x-api-key", ""), self.api_key)

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        """Return whether a token request proves to come from the client."""
        if self.jwks is not None:
            return form.get("client_assertion_type") == ASSERTION_TYPE and self._is_assertion(
                form.get("client_assertion", ""), str(request.url)
            )
        if not self.client_secret:
            return True
        id, secret = _parse_secret(request, form)
        return _is_equal(id, self.client_id) & _is_equal(secret, self.client_secret)

    def _is_assertion(self, assertion: str, audience: str) -> bool:
        """Return whether an assertion is the client's, for this endpoint, and was not used before."""
        import jwt

        try:
            kid = jwt.get_unverified_header(assertion).get("kid")
            key = next(each for each in jwt.PyJWKSet.from_dict(self.jwks or {}).keys if each.key_id == kid)
            claims = jwt.decode(
                assertion,
                key.key,
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=self.client_id,
                # The sandbox has a clock of its own.
                options={"verify_exp": False, "verify_iat": False, "require": ["exp", "jti", "sub"]},
            )
        except (jwt.PyJWTError, StopIteration):
            return False
        now = self.clock.now()
        is_current = now < claims["exp"] <= now + 300 and claims["sub"] == self.client_id
        is_new = claims["jti"] not in self.used
        self.used.add(claims["jti"])
        return is_current and is_new


def _parse_secret(request: Request, form: dict[str, str]) -> tuple[str, str]:
    """Return client id and secret from the Basic header or the form; empty texts without them."""
    scheme, _, proof = request.headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        id, _, secret = base64.b64decode(proof).decode().partition(":")
    except ValueError:
        return "", ""
    return unquote(id), unquote(secret)


def _build_refusal(status: int, code: str) -> Response:
    return JSONResponse({"error": code}, status_code=status)


def _is_equal(given: str, known: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())
