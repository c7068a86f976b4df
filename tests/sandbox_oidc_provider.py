"""A sandbox of an OpenID provider: real HTTP, real keys, no real users. Tests make it misbehave.

    sandbox = SandboxProvider()
    with sandbox.serve() as issuer:       # http://127.0.0.1:PORT
        sandbox.user = {"sub": "u-1", "preferred_username": "ada", "roles": ["operator"]}

`/authorize` signs in the user at once: there is no page to fill in. A code is redeemed once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.web import serve_in_thread

CLIENT_ID: Final = "holdfast-console"
CLIENT_SECRET: Final = "a secret with : and %"
TOKEN_LIFETIME_S: Final = 300


class SandboxProvider:
    """The provider. Its attributes are what tests change."""

    def __init__(self) -> None:
        self.issuer = ""
        self.user: dict[str, Any] = {
            "sub": "u-1",
            "preferred_username": "grace",
            "roles": ["operator", "pagw:personal"],
        }
        # Claims in place of those that the ID token would have; None leaves one out.
        self.claims: dict[str, Any] = {}
        # Members of the discovery, likewise.
        self.discovery: dict[str, Any] = {}
        # Parameters of the address that leads back.
        self.answer: dict[str, str] = {}
        # Whether the client needs its secret, or is known by its verifier alone.
        self.has_secret = True
        self.requests: list[str] = []
        self.token_bodies: list[dict[str, str]] = []
        self.is_down = False
        self._codes: dict[str, dict[str, str]] = {}
        self._key_number = 0
        self._key: EllipticCurvePrivateKey
        self.rotate_keys()

    def rotate_keys(self) -> None:
        """Sign with another key from now on, and publish only that one."""
        self._key = generate_private_key(SECP256R1())
        self._key_number += 1

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve the provider and yield its issuer."""
        routes = [
            Route("/.well-known/openid-configuration", self._discover),
            Route("/authorize", self._authorize),
            Route("/token", self._redeem, methods=["POST"]),
            Route("/keys", self._list_keys),
        ]
        with serve_in_thread(Starlette(routes=routes)) as url:
            self.issuer = url
            yield url

    def sign(self, claims: dict[str, Any], key: EllipticCurvePrivateKey | None = None) -> str:
        """Return an ID token with these claims."""
        return jwt.encode(claims, key or self._key, "ES256", headers={"kid": self._get_key_id()})

    def _get_key_id(self) -> str:
        return f"key-{self._key_number}"

    async def _discover(self, request: Request) -> Response:
        self.requests.append("discover")
        if self.is_down:
            return Response(status_code=503)
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        return JSONResponse(found | self.discovery)

    async def _authorize(self, request: Request) -> Response:
        self.requests.append("authorize")
        asked = dict(request.query_params)
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"]} | self.answer
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def _redeem(self, request: Request) -> Response:
        self.requests.append("redeem")
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.token_bodies.append(form)
        asked = self._codes.pop(form.get("code", ""), None)
        if self.has_secret and not self._knows(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_valid = (
            asked is not None
            and form.get("grant_type") == "authorization_code"
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
        if asked is None or not is_valid:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse({"access_token": "unused", "id_token": self.sign(self._build_claims(asked))})

    def _knows(self, request: Request, form: dict[str, str]) -> bool:
        """Return whether the request has the client's id and secret, in its header or its body."""
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            id, _, secret = base64.b64decode(encoded).decode().partition(":")
            return (unquote_plus(id), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)

    def _build_claims(self, asked: dict[str, str]) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + TOKEN_LIFETIME_S,
            "nonce": asked["nonce"],
            **self.user,
            **self.claims,
        }
        return {name: value for name, value in claims.items() if value is not None}

    async def _list_keys(self, request: Request) -> Response:
        self.requests.append("keys")
        jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return JSONResponse({"keys": [jwk | {"kid": self._get_key_id(), "alg": "ES256", "use": "sig"}]})
