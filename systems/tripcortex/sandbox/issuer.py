"""A stand-in for Clerk (SANDBOX: it gives a token to whoever asks; never trust it outside a demo).

It makes a key, keeps it in its folder, and publishes the public half at `/.well-known/jwks.json`, as Clerk does. Its tokens
are session tokens of Clerk's shape: `sub` the user, `sid` the session, `azp` the page that asked, `org_id` and `org_role`, or in
version 2 `o` with both; what a template of Clerk's adds are `aud` (here in version 1 alone), `email`, `employee_id` and
`public_metadata`. They end soon, as Clerk's do, and say of themselves that they are a sandbox's.

The doors under `/sandbox/…` give any token, also one that must be refused, rotate the key and make the key set fail. A test
in the same process calls `minted` instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import WHO_DIED, Faults, faulted

ISSUER: Final = "https://clerk.sandbox.invalid"
AUDIENCE: Final = "tripcortex"
# The page in whose name a browser asks.
PARTY: Final = "https://trips.sandbox.invalid"
ORGANISATION: Final = "org_sandbox"
ADMIN_ROLE: Final = "org:admin"
MEMBER_ROLE: Final = "org:member"
ROLE_PREFIX: Final = "org:"
ALGORITHM: Final = "ES256"
LIFETIME_S: Final = 900.0
KEYS_FILE: Final = "sandbox_clerk_keys.json"
OWNER_ONLY: Final = 0o600
HEADERS: Final = {"x-sandbox": "holdfast-tripcortex-issuer", "cache-control": "no-store"}
EMPLOYEE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

Flaw = Literal[
    "expired",
    "early",
    "forged",
    "unknown_key",
    "other_issuer",
    "other_audience",
    "other_party",
    "other_organisation",
    "no_employee",
]
Jwk = dict[str, Any]


@dataclass
class IssuerSandbox:
    """The issuer. The last of `keys` signs; those before it stay published until they are withdrawn."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    issuer: str = ISSUER
    audience: str = AUDIENCE
    organisation: str = ORGANISATION
    lifetime_s: float = LIFETIME_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._path = None if self.folder is None else self.folder / KEYS_FILE
        self._keys: list[Jwk] = [_made_key()] if self._path is None else _kept_keys(self._path)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public halves."""
        return {"keys": [{name: each[name] for name in each if name != "d"} for each in self._read()]}

    def minted(
        self,
        employee_id: str,
        /,
        *,
        is_admin: bool = False,
        time_zone: str = "America/New_York",
        home_airport: str | None = "BOS",
        lifetime_s: float | None = None,
        version: Literal[1, 2] = 1,
        flaw: Flaw | None = None,
        **claims: Any,
    ) -> str:
        """A token of an employee; with a flaw, one that must be refused."""
        now = self.clock.now()
        user = f"user_{hashlib.sha256(employee_id.encode()).hexdigest()[:27]}"
        told = {
            "iss": self.issuer,
            "azp": PARTY,
            "sub": user,
            "sid": f"sess_{uuid4().hex[:27]}",
            "email": f"{employee_id}@employees.invalid",
            "employee_id": employee_id,
            **self._membership(ADMIN_ROLE if is_admin else MEMBER_ROLE, version),
            "public_metadata": {"time_zone": time_zone, "home_airport": home_airport},
            "iat": int(now),
            "nbf": int(now) - 10,
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
            "jti": str(uuid4()),
            "sandbox": True,
            **claims,
        }
        return self._signed(_flawed(told, flaw, now), flaw)

    def _membership(self, role: str, version: int) -> dict[str, Any]:
        if version == 1:
            return {"aud": self.audience, "org_id": self.organisation, "org_role": role}
        nested = {"id": self.organisation, "slg": "sandbox", "rol": role.removeprefix(ROLE_PREFIX)}
        return {"v": version, "o": nested, "fva": [1, -1], "sts": "active"}

    def rotate(self, *, withdraw: bool = False) -> str:
        """A new key signs from now on; `withdraw` takes the others back, and with them what they signed."""
        made = _made_key()
        self._write([made] if withdraw else [*self._read(), made])
        return str(made["kid"])

    def _signed(self, claims: dict[str, Any], flaw: Flaw | None) -> str:
        key = self._read()[-1]
        kid = key["kid"]
        if flaw in ("forged", "unknown_key"):
            # By somebody else's key: under the name of ours, or under its own.
            key = _made_key()
            kid = kid if flaw == "forged" else key["kid"]
        return jwt.encode(claims, jwt.PyJWK(key).key, algorithm=ALGORITHM, headers={"kid": kid})

    def _read(self) -> list[Jwk]:
        """Another process may have rotated them."""
        return self._keys if self._path is None else _keys_in(self._path)

    def _write(self, keys: list[Jwk]) -> None:
        self._keys = keys
        if self._path is not None:
            _fresh_file(self._path, keys).replace(self._path)

    # --- as the party ----------------------------------------------------------------------------------------

    async def get_jwks(self, request: Request) -> Response:
        return JSONResponse(self.jwks, headers=HEADERS)

    # --- how it is driven ------------------------------------------------------------------------------------

    async def mint(self, request: Request) -> Response:
        """`{"employee_id": …, "is_admin": …, "flaw": …}`: any token, also one that must be refused."""
        asked: dict[str, Any] = await request.json()
        employee_id = str(asked.pop("employee_id", ""))
        if not EMPLOYEE.fullmatch(employee_id):
            return JSONResponse({"error": "name an employee_id", "sandbox": True}, 400, headers=HEADERS)
        return JSONResponse({"token": self.minted(employee_id, **asked), "sandbox": True}, headers=HEADERS)

    async def rotate_key(self, request: Request) -> Response:
        asked = json.loads(await request.body() or b"{}")
        return JSONResponse({"kid": self.rotate(withdraw=bool(asked.get("withdraw"))), "sandbox": True})

    async def set_faults(self, request: Request) -> Response:
        self.faults = Faults(**await request.json())
        return JSONResponse({})

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            return await faulted(self.faults, self.clock.now(), True, lambda: endpoint(request))

        return answered


def issuer_app(sandbox: IssuerSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/.well-known/jwks.json", sandbox.party(sandbox.get_jwks)),
            Route("/sandbox/tokens", sandbox.mint, methods=["POST"]),
            Route("/sandbox/rotate", sandbox.rotate_key, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
        ],
        exception_handlers=WHO_DIED,
    )


def variables(url: str) -> dict[str, str]:
    """What Trip Cortex has to know of an issuer at this address."""
    return {
        "TRIPCORTEX_JWKS_URL": f"{url}/.well-known/jwks.json",
        "TRIPCORTEX_TOKEN_ISSUER": ISSUER,
        "TRIPCORTEX_TOKEN_AUDIENCE": AUDIENCE,
        "TRIPCORTEX_AUTHORIZED_PARTIES": PARTY,
        "TRIPCORTEX_ORGANISATION": ORGANISATION,
    }


def _flawed(claims: dict[str, Any], flaw: Flaw | None, now: float) -> dict[str, Any]:
    another: dict[str, Any] = {"org_id": "org_another"}
    if "o" in claims:
        another = {"o": {"id": "org_another", "slg": "another", "rol": "admin"}}
    changes: dict[Flaw, dict[str, Any]] = {
        "expired": {"iat": int(now) - 7200, "exp": int(now) - 3600},
        "early": {"nbf": int(now) + 3600},
        "other_issuer": {"iss": "https://another-issuer.invalid"},
        "other_audience": {"aud": "another-service"},
        "other_party": {"azp": "https://another-page.invalid"},
        "other_organisation": another,
        "no_employee": {"employee_id": "", "sub": "not one: it has spaces"},
    }
    return {**claims, **(changes.get(flaw, {}) if flaw else {})}


# --- keys in a file -----------------------------------------------------------------------------------------


def _made_key() -> Jwk:
    private = ec.generate_private_key(ec.SECP256R1())
    told: Jwk = ECAlgorithm.to_jwk(private, as_dict=True)
    return {**told, "kid": f"ins_sandbox{uuid4().hex}", "alg": ALGORITHM, "use": "sig"}


def _kept_keys(path: Path) -> list[Jwk]:
    """Those of the file; the first process on a folder makes one, and of several that are the first, one does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = _fresh_file(path, [_made_key()])
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return _keys_in(path)


def _keys_in(path: Path) -> list[Jwk]:
    keys: list[Jwk] = json.loads(path.read_text(encoding="utf-8"))["keys"]
    return keys


def _fresh_file(path: Path, keys: list[Jwk]) -> Path:
    """Whole and only its owner's before it has its name."""
    fresh = path.with_name(f"{path.name}.{uuid4()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as file:
        json.dump({"keys": keys}, file)
    return fresh
