"""Sign-in at an identity provider: OpenID Connect with the authorization code flow, PKCE, state and nonce.

    browser → the provider's sign-in page → back with a code → the console trades it for an ID token

The ID token is verified as every token of an issuer (`security/tokens.py`): signature, issuer, audience and
times, with keys that the provider may rotate. On top, it must carry the nonce of this sign-in and be issued
to this client. The state is known only to the browser that began.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from holdfast.console.model import PENDING, PendingSignIn
from holdfast.console.users import is_role
from holdfast.core.clock import Clock
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import RetryLater, TokenRefused
from holdfast.core.rng import make_url_token
from holdfast.runtime.stores import Stores
from holdfast.security.issuer_requests import is_secure_address, request_issuer, require_secure_address
from holdfast.security.secrets import Secret
from holdfast.security.tokens import TokenKeys, TokenVerifier, VerifiedToken

with explain_missing(__name__, "tokens"):
    import httpx2

__all__ = ["Identity", "Provider", "SignInRefused"]

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
DISCOVERY_LIFETIME_S: Final = 3600.0
TIMEOUT_S: Final = 10.0
TOKEN_BYTES: Final = 32
STAMP_CHARS: Final = 32
MAX_NAME_CHARS: Final = 100
SCOPES: Final = "openid profile"
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
BASIC: Final = "client_secret_basic"
REQUIRED_CLAIMS: Final = ("exp", "iat", "sub", "nonce")
OK: Final = 200
# The claims that may name a user to people, best first.
NAME_CLAIMS: Final = ("preferred_username", "email", "sub")
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")


class SignInRefused(Exception):
    """A sign-in at the provider that is not valid. `reason` is for the audit, `message` for the user."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True)
class Identity:
    """A user whom the provider has authenticated."""

    subject: str
    name: str
    roles: tuple[str, ...]


@dataclass(frozen=True)
class _Endpoints:
    """What the provider publishes about itself, and until when to believe it."""

    authorization: str
    token: str
    keys: str
    may_use_basic: bool
    verifier: TokenVerifier
    fresh_until: float


class Provider:
    """An identity provider, and this console as its client."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        *,
        roles_claim: str,
        clock: Clock,
        get_secret: Callable[[], Secret] | None = None,
    ) -> None:
        require_secure_address(issuer, "Invalid console_oidc_issuer")
        self.issuer, self.client_id = issuer, client_id
        self._roles_claim, self._clock, self._get_secret = roles_claim, clock, get_secret
        self._endpoints: _Endpoints | None = None
        self._discovery_lock = asyncio.Lock()

    @property
    def stamp(self) -> str:
        """A value that changes with the provider or the client: sessions of another one are over."""
        return hashlib.sha256(f"{self.issuer} {self.client_id}".encode()).hexdigest()[:STAMP_CHARS]

    async def begin(self, own: Stores, *, redirect_uri: str, target: str) -> tuple[str, str]:
        """Begin a sign-in. Return the provider's address for the browser, and the value of its cookie."""
        endpoints = await self._discover()
        pending = PendingSignIn(
            nonce=make_url_token(TOKEN_BYTES),
            verifier=make_url_token(TOKEN_BYTES),
            binding=make_url_token(TOKEN_BYTES),
            redirect_uri=redirect_uri,
            target=target,
        )
        state = await PENDING.begin(own, pending)
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPES,
            "state": state,
            "nonce": pending.nonce,
            "code_challenge": _hash_verifier(pending.verifier),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in endpoints.authorization else "?"
        return endpoints.authorization + separator + urlencode(parameters), pending.binding

    async def take_pending(self, own: Stores, state: str, binding: str) -> PendingSignIn:
        """Return the sign-in that this browser began, once. Raise `SignInRefused` for any other."""
        pending = await PENDING.peek(own, state)
        if pending is None or not _is_equal(pending.binding, binding):
            raise SignInRefused(
                "state", "This sign-in has expired, or began in another browser. Sign in again."
            )
        await PENDING.end(own, state)
        return pending

    async def finish(self, pending: PendingSignIn, answer: Mapping[str, str]) -> Identity:
        """Return who signed in, from the parameters that the provider sent. Raise `SignInRefused`, or
        `RetryLater` if the provider does not answer.
        """
        if answer.get("iss", self.issuer) != self.issuer:
            raise SignInRefused("issuer", "The answer is not from the identity provider. Sign in again.")
        if code := answer.get("error"):
            known = code if _ERROR_CODE.fullmatch(code) else "error"
            raise SignInRefused(known, f"The identity provider refused the sign-in ({known}). Sign in again.")
        endpoints = await self._discover()
        token = await self._redeem(endpoints, pending, answer.get("code", ""))
        try:
            verified = await endpoints.verifier.verify(token)
        except TokenRefused as error:
            raise SignInRefused(error.code, _explain_token(error)) from error
        self._check_token(verified, pending)
        return self._identify(verified)

    # --- discovery ------------------------------------------------------------------------------------------

    async def _discover(self) -> _Endpoints:
        """Return the provider's endpoints. Raise `RetryLater` if it does not answer with valid ones."""
        async with self._discovery_lock:
            if self._endpoints is None or self._clock.now() >= self._endpoints.fresh_until:
                self._endpoints = self._read_discovery(await self._fetch_discovery())
            return self._endpoints

    async def _fetch_discovery(self) -> Mapping[str, Any]:
        url = self.issuer.rstrip("/") + DISCOVERY_PATH
        status, found = await self._request("GET", url)
        if status != OK:
            raise _build_unavailable(f"its discovery answers {status}")
        if found.get("issuer") != self.issuer:
            raise _build_unavailable("its discovery names another issuer than console_oidc_issuer")
        return found

    def _read_discovery(self, found: Mapping[str, Any]) -> _Endpoints:
        addresses = [_read_address(found, each) for each in ENDPOINTS]
        methods = found.get("token_endpoint_auth_methods_supported", [BASIC])
        authorization, token, keys = addresses
        known = self._endpoints
        return _Endpoints(
            authorization,
            token,
            keys,
            may_use_basic=isinstance(methods, list) and BASIC in methods,
            # It has the fetched keys: another one only for keys elsewhere.
            verifier=known.verifier if known and known.keys == keys else self._open_verifier(keys),
            fresh_until=self._clock.now() + DISCOVERY_LIFETIME_S,
        )

    def _open_verifier(self, keys: str) -> TokenVerifier:
        return TokenVerifier(
            TokenKeys(keys, self._clock),
            issuer=self.issuer,
            audience=self.client_id,
            clock=self._clock,
            required=REQUIRED_CLAIMS,
        )

    # --- the ID token ---------------------------------------------------------------------------------------

    async def _redeem(self, endpoints: _Endpoints, pending: PendingSignIn, code: str) -> str:
        """Trade the code for the ID token."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
        }
        status, answer = await self._request(
            "POST", endpoints.token, **self._authenticate(form, may_use_basic=endpoints.may_use_basic)
        )
        token = answer.get("id_token")
        if status != OK or not isinstance(token, str):
            error = str(answer.get("error", ""))
            reason = error if _ERROR_CODE.fullmatch(error) else f"token endpoint {status}"
            raise SignInRefused(
                reason, f"The identity provider did not confirm the sign-in ({reason}). Sign in again."
            )
        return token

    def _authenticate(self, form: dict[str, str], *, may_use_basic: bool) -> dict[str, Any]:
        """Return the request's arguments with the client's credentials; a client without a secret is known by
        its id and its verifier.
        """
        if self._get_secret is None:
            return {"data": {**form, "client_id": self.client_id}}
        secret = self._get_secret().current
        if not may_use_basic:
            return {"data": {**form, "client_id": self.client_id, "client_secret": secret}}
        credentials = f"{quote_plus(self.client_id)}:{quote_plus(secret)}".encode()
        return {"data": form, "headers": {"authorization": f"Basic {b64encode(credentials).decode()}"}}

    def _check_token(self, verified: VerifiedToken, pending: PendingSignIn) -> None:
        """Raise `SignInRefused` unless the token is of this sign-in and for this client."""
        claims = verified.claims
        if not _is_equal(str(claims["nonce"]), pending.nonce):
            raise SignInRefused("nonce", "The identity provider confirmed another sign-in. Sign in again.")
        audience = claims.get("aud")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if is_shared else self.client_id) != self.client_id:
            raise SignInRefused("azp", "The identity provider confirmed the sign-in for another client.")

    def _identify(self, verified: VerifiedToken) -> Identity:
        named = (verified.claims.get(each) for each in NAME_CLAIMS)
        name = next(each for each in named if isinstance(each, str) and each.strip())
        return Identity(
            verified.subject, _clean(name), _read_roles(_find_claim(verified.claims, self._roles_claim))
        )

    async def _request(self, method: str, url: str, **request: Any) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the JSON object of an answer. Raise `RetryLater` without one."""
        try:
            status, content = await request_issuer(method, url, timeout_s=TIMEOUT_S, **request)
            answer = json.loads(content or b"{}")
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _build_unavailable(type(error).__name__) from error
        return status, answer if isinstance(answer, dict) else {}


def _read_address(found: Mapping[str, Any], name: str) -> str:
    """Return an address that the provider publishes. Raise `RetryLater` unless it is secure."""
    address = found.get(name)
    try:
        is_valid = isinstance(address, str) and is_secure_address(address)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise _build_unavailable(f"its {name} is not an https address")
    return str(address)


def _build_unavailable(why: str) -> RetryLater:
    return RetryLater(f"The identity provider cannot be used at the moment ({why}). Retry later.")


def _explain_token(error: TokenRefused) -> str:
    return f"The identity provider's confirmation is not valid: {error.message} Sign in again."


def _is_equal(first: str, second: str) -> bool:
    return hmac.compare_digest(
        first.encode("utf-8", "surrogatepass"), second.encode("utf-8", "surrogatepass")
    )


def _hash_verifier(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the path to it, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _read_roles(value: Any) -> tuple[str, ...]:
    """Return the roles in a claim: a list of texts, or one text with spaces. Other values are left out."""
    listed = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(dict.fromkeys(each for each in listed if isinstance(each, str) and is_role(each)))


def _clean(name: str) -> str:
    """Return a name without invisible characters, of bounded length."""
    return " ".join("".join(each if each.isprintable() else " " for each in name).split())[:MAX_NAME_CHARS]
