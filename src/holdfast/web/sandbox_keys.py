"""Signing keys of sandbox token issuers: made here, kept in a file, rotated and published.

Several processes may share one folder: each reads the keys that are there. A system's issuer builds the
claims and passes them to `SandboxKeys.sign`; `holdfast.web.tokens` verifies the token with what `jwks`
publishes. Signing needs the extra `tokens`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.core.clock import Clock
from holdfast.core.disk import make_private_folder, open_private
from holdfast.core.distribution import explain_missing
from holdfast.core.rng import make_uuid
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ControlBody, Faults, FaultsBody, apply_faults

with explain_missing(__name__, "api"):
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

__all__ = [
    "Endpoint",
    "Jwk",
    "SandboxIssuer",
    "SandboxKeys",
]

ALGORITHM: Final = "ES256"
# Flaws of a token signed with a foreign key: under the id of the issuer's key, or under its own id.
FORGED: Final = "forged"
UNKNOWN_KEY: Final = "unknown_key"

Jwk = dict[str, Any]
"""A JSON Web Key."""
Endpoint = Callable[[Request], Awaitable[Response]]
"""A route's function."""


def _make_kid() -> str:
    return f"sandbox-{make_uuid()}"


@dataclass
class SandboxKeys:
    """Keys of which the last one signs; earlier ones stay published until they are withdrawn.

    Without a folder they end with the process.
    """

    folder: Path | None
    file_name: str
    # Makes the id of a new key.
    new_kid: Callable[[], str] = _make_kid

    def __post_init__(self) -> None:
        self._path = None if self.folder is None else self.folder / self.file_name
        self._keys: list[Jwk] = []
        if self._path is None:
            self._keys = [self._make_key()]
        else:
            self._make_file(self._path)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        return {"keys": [{name: each[name] for name in each if name != "d"} for each in self._read()]}

    def rotate(self, *, withdraw: bool = False) -> str:
        """Make a new signing key and return its `kid`; `withdraw` removes the others, which invalidates their
        tokens.
        """
        made = self._make_key()
        keys = [made] if withdraw else [*self._read(), made]
        if self._path is None:
            self._keys = keys
        else:
            _write_new_file(self._path, keys).replace(self._path)
        return str(made["kid"])

    def sign(self, claims: Mapping[str, Any], flaw: str | None = None) -> str:
        """Return a token signed with the last key. With the flaw `FORGED` or `UNKNOWN_KEY` a foreign key
        signs it; any other flaw concerns the claims and changes nothing here.
        """
        import jwt

        key = self._read()[-1]
        kid = key["kid"]
        if flaw in (FORGED, UNKNOWN_KEY):
            key = self._make_key()
            kid = kid if flaw == FORGED else key["kid"]
        return jwt.encode(dict(claims), jwt.PyJWK(key).key, algorithm=ALGORITHM, headers={"kid": kid})

    def _read(self) -> list[Jwk]:
        """Return the keys; another process may have rotated them."""
        if self._path is None:
            return self._keys
        keys: list[Jwk] = json.loads(self._path.read_text(encoding="utf-8"))["keys"]
        return keys

    def _make_key(self) -> Jwk:
        """Return a new private P-256 key as a JWK with an id."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        private = ec.generate_private_key(ec.SECP256R1())
        jwk: Jwk = ECAlgorithm.to_jwk(private, as_dict=True)
        return {**jwk, "kid": self.new_kid(), "alg": ALGORITHM, "use": "sig"}

    def _make_file(self, path: Path) -> None:
        """Make the first key of a folder; of several processes that are first, one makes it."""
        make_private_folder(path.parent)
        if path.exists():
            return
        fresh = _write_new_file(path, [self._make_key()])
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()


def _write_new_file(path: Path, keys: list[Jwk]) -> Path:
    """Write a complete file that only its owner may read, under a temporary name."""
    fresh = path.with_name(f"{path.name}.{make_uuid()}")
    with open(fresh, "x", encoding="utf-8", opener=open_private) as file:
        json.dump({"keys": keys}, file)
    return fresh


class RotationBody(ControlBody):
    """The body of a request to rotate the key."""

    withdraw: bool = False


class SandboxIssuer:
    """The base of sandbox token issuers: their keys, and the endpoints that control keys and faults."""

    clock: Clock
    faults: Faults
    _keys: SandboxKeys

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        return self._keys.jwks

    def rotate(self, *, withdraw: bool = False) -> str:
        """Make a new signing key; `withdraw` removes the others, which invalidates their tokens."""
        return self._keys.rotate(withdraw=withdraw)

    async def rotate_key(self, request: Request) -> Response:
        """Answer a control request: rotate the key, and withdraw the others if the body says so."""
        body = await JsonBody(RotationBody)(request)
        return JSONResponse({"kid": self.rotate(withdraw=body.withdraw), "sandbox": True})

    async def set_faults(self, request: Request) -> Response:
        """Answer a control request: replace the faults by those in the body."""
        self.faults = (await JsonBody(FaultsBody)(request)).to_faults()
        return JSONResponse({})

    def with_faults(self, endpoint: Endpoint) -> Endpoint:
        """Wrap an endpoint so that it fails as the faults say."""

        async def answer_or_fail(request: Request) -> Response:
            return await apply_faults(self.faults, self.clock.now(), True, lambda: endpoint(request))

        return answer_or_fail
