"""What stand-ins for issuers of tokens share (SANDBOX): keys that are made here, kept in a file, rotated, published and signed with.

Several processes may stand on one folder: each reads the keys that are there. A system's issuer says what is in a token, and gives
its claims to `SandboxKeys.signed`; `holdfast.web.tokens` verifies it by what `jwks` publishes. Signing needs `pyjwt` and
`cryptography`, which come with the extra of a system that has an issuer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.clock import Clock
from holdfast.web.sandboxes import Faults, faulted

ALGORITHM: Final = "ES256"
# Signed with somebody else's key: under the name of ours, or under its own.
FORGED: Final = "forged"
UNKNOWN_KEY: Final = "unknown_key"
OWNER_ONLY: Final = 0o600

Jwk = dict[str, Any]
Endpoint = Callable[[Request], Awaitable[Response]]


def _some_kid() -> str:
    return f"sandbox-{uuid4()}"


@dataclass
class SandboxKeys:
    """The last key signs; those before it stay published until they are withdrawn. Without a folder they end with the process."""

    folder: Path | None
    file_name: str
    # How this issuer names a new key.
    new_kid: Callable[[], str] = _some_kid

    def __post_init__(self) -> None:
        self._path = None if self.folder is None else self.folder / self.file_name
        self._keys: list[Jwk] = []
        if self._path is None:
            self._keys = [self._made()]
        else:
            self._make_file(self._path)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public halves."""
        return {"keys": [{name: each[name] for name in each if name != "d"} for each in self._read()]}

    def rotate(self, *, withdraw: bool = False) -> str:
        """A new key signs from now on, the one of this `kid`; `withdraw` takes the others back, and with them what they signed."""
        made = self._made()
        keys = [made] if withdraw else [*self._read(), made]
        if self._path is None:
            self._keys = keys
        else:
            _fresh_file(self._path, keys).replace(self._path)
        return str(made["kid"])

    def signed(self, claims: Mapping[str, Any], flaw: str | None = None) -> str:
        """A token. The flaws `FORGED` and `UNKNOWN_KEY` are of its signature; any other is the claims' own."""
        import jwt

        key = self._read()[-1]
        kid = key["kid"]
        if flaw in (FORGED, UNKNOWN_KEY):
            key = self._made()
            kid = kid if flaw == FORGED else key["kid"]
        return jwt.encode(dict(claims), jwt.PyJWK(key).key, algorithm=ALGORITHM, headers={"kid": kid})

    def _read(self) -> list[Jwk]:
        """Another process may have rotated them."""
        if self._path is None:
            return self._keys
        keys: list[Jwk] = json.loads(self._path.read_text(encoding="utf-8"))["keys"]
        return keys

    def _made(self) -> Jwk:
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        private = ec.generate_private_key(ec.SECP256R1())
        told: Jwk = ECAlgorithm.to_jwk(private, as_dict=True)
        return {**told, "kid": self.new_kid(), "alg": ALGORITHM, "use": "sig"}

    def _make_file(self, path: Path) -> None:
        """The first process on a folder makes a key, and of several that are the first, one does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            return
        fresh = _fresh_file(path, [self._made()])
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()


def _fresh_file(path: Path, keys: list[Jwk]) -> Path:
    """Whole and only its owner's before it has its name."""
    fresh = path.with_name(f"{path.name}.{uuid4()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as file:
        json.dump({"keys": keys}, file)
    return fresh


class SandboxIssuer:
    """What every stand-in for an issuer has beside its tokens: its keys, and the doors by which it is driven."""

    clock: Clock
    faults: Faults
    _keys: SandboxKeys

    @property
    def jwks(self) -> dict[str, Any]:
        """The public halves."""
        return self._keys.jwks

    def rotate(self, *, withdraw: bool = False) -> str:
        """A new key signs from now on; `withdraw` takes the others back, and with them what they signed."""
        return self._keys.rotate(withdraw=withdraw)

    async def rotate_key(self, request: Request) -> Response:
        asked = json.loads(await request.body() or b"{}")
        return JSONResponse({"kid": self.rotate(withdraw=bool(asked.get("withdraw"))), "sandbox": True})

    async def set_faults(self, request: Request) -> Response:
        self.faults = Faults(**await request.json())
        return JSONResponse({})

    def party(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint that fails as it is told to."""

        async def answered(request: Request) -> Response:
            return await faulted(self.faults, self.clock.now(), True, lambda: endpoint(request))

        return answered
