"""Verification of bearer tokens: JSON Web Tokens, checked with the keys that their issuer publishes.

    keys = TokenKeys("https://issuer.example.org/.well-known/jwks.json", clock)
    issuer, audience = "https://issuer.example.org", "https://api.example.org"
    verifier = TokenVerifier(keys, issuer=issuer, audience=audience, clock=clock)
    verified = await verifier.verify(token)          # VerifiedToken, or TokenRefused

Order of the checks: header (untrusted) → the key it names → signature → claims. Nothing in a token is trusted
before its signature is verified, and no error quotes any part of it. `web/tokens.py` applies this to routes.
A verified token is cached by its hash until the keys are fetched again; its expiry is checked every time.

Keys are fetched when they are first needed and again when they are old, by the clock. An unknown key causes
one more fetch, with a pause after each fetch, so that neither forged tokens nor an unavailable issuer cause
many fetches. The pause is in real time, because the issuer is real: it also passes where a run clock does not
advance. While the issuer is unavailable, the known keys stay in use for at most a day.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.core.clock import Clock
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import SettingsError, TokenKeysUnreachable, TokenRefused
from holdfast.security.issuer_requests import request_issuer, require_secure_address

with explain_missing(__name__, "tokens"):
    import httpx2
    import jwt

# Asymmetric algorithms only. Never `none`, and never HS…, whose key both sides know.
ALGORITHMS: Final = ("RS256", "ES256")
KEYS_LIFETIME_S: Final = 300.0
MAX_STALE_KEYS_S: Final = 86_400.0
FETCH_PAUSE_S: Final = 10.0
FETCH_TIMEOUT_S: Final = 5.0
MAX_KEYS: Final = 100
LEEWAY_S: Final = 30.0
MAX_TOKEN_CHARS: Final = 16_384
# A client sends the same token many times: its signature is verified once while it is cached.
MAX_CACHED_TOKENS: Final = 1000
# In addition to the issuer and the audience, which are always checked.
REQUIRED_CLAIMS: Final = ("exp", "sub")
OK: Final = 200
# The largest accepted time claim, far beyond any date, so that arithmetic with it is safe.
MAX_TIMESTAMP: Final = 1e11

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The content of a verified token. `claims` has all of it."""

    subject: str
    client_id: str
    scopes: frozenset[str]
    expires_at: float
    claims: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _CachedToken:
    """A token with a verified signature, and the key that verified it; its times are checked on every use."""

    key_name: tuple[str, str]
    key: jwt.PyJWK
    verified: VerifiedToken


class TokenVerifier:
    """A verifier of tokens of one issuer for one audience.

    With `audience=None` it accepts only tokens without an audience, for issuers that name the recipient in
    another claim: the caller must check that claim.
    """

    def __init__(
        self,
        keys: TokenKeys,
        *,
        issuer: str,
        audience: str | None,
        clock: Clock,
        algorithms: Sequence[str] = ALGORITHMS,
        leeway_s: float = LEEWAY_S,
        required: Sequence[str] = REQUIRED_CLAIMS,
    ) -> None:
        if not algorithms or not set(algorithms) <= set(ALGORITHMS):
            raise SettingsError(
                f"Invalid algorithms {list(algorithms)}: tokens are signed by {' or '.join(ALGORITHMS)}."
            )
        if not issuer or audience == "":
            raise SettingsError(
                "Missing issuer or audience: set both the issuer and the audience of the tokens."
            )
        self._keys, self._clock = keys, clock
        self._issuer, self._audience = issuer, audience
        self._algorithms, self._leeway_s = tuple(algorithms), leeway_s
        # Always require `exp` and `sub`: every token must expire and have an owner.
        self._required = tuple(dict.fromkeys((*REQUIRED_CLAIMS, *required)))
        options: Any = {"verify_signature": True, "enforce_minimum_key_length": True}
        self._jws = jwt.PyJWS(algorithms=list(algorithms), options=options)
        # By the token's hash, oldest first.
        self._cache: dict[bytes, _CachedToken] = {}

    async def verify(self, token: str) -> VerifiedToken:
        """Return the verified token. Raise `TokenRefused`, or `TokenKeysUnreachable` if the keys are not
        available.
        """
        hash = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._cache.get(hash)
        key_name = self._parse_header(token) if known is None else known.key_name
        key = await self._keys.find_key(*key_name)
        if key is None:
            self._cache.pop(hash, None)
            raise TokenRefused(
                "TokenForged", "The token is signed by a key that its issuer does not publish."
            )
        # Keys fetched again are new objects, even if they are equal: verify the signature again.
        if known is None or known.key is not key:
            known = self._check_and_cache(hash, key_name, key, self._verify_signature(token, key))
        self._check_times(known.verified.claims)
        return known.verified

    def _check_and_cache(
        self, hash: bytes, key_name: tuple[str, str], key: jwt.PyJWK, claims: dict[str, Any]
    ) -> _CachedToken:
        """Check the claims and times of a token with a verified signature, and cache it; the oldest entry is
        dropped.
        """
        self._check_claims(claims)
        self._check_times(claims)
        proved = self._cache[hash] = _CachedToken(key_name, key, _to_verified_token(claims))
        if len(self._cache) > MAX_CACHED_TOKENS:
            del self._cache[next(iter(self._cache))]
        return proved

    def _parse_header(self, token: str) -> tuple[str, str]:
        """Return the key id and algorithm in the token's header. They are not trusted yet. Raise
        `TokenRefused` for an invalid header.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise _build_malformed_error(f"it is longer than {MAX_TOKEN_CHARS} characters")
        try:
            header = self._jws.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _build_malformed_error("it is not a signed JSON Web Token") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms:
            # The sender must not choose the algorithm: it could choose `none`.
            raise TokenRefused("TokenForged", f"The token must be signed by {' or '.join(self._algorithms)}.")
        if "crit" in header:
            raise _build_malformed_error("its header has critical extensions (crit), which are not supported")
        if not isinstance(kid, str) or not kid:
            raise _build_malformed_error("its header does not name a key (kid)")
        return kid, algorithm

    def _verify_signature(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        """Return the claims of a token whose signature the key verifies. Raise `TokenRefused` otherwise."""
        try:
            payload = self._jws.decode_complete(token, key, algorithms=[key.algorithm_name])["payload"]
        except (jwt.PyJWTError, ValueError):
            raise TokenRefused(
                "TokenForged", "The token's signature does not match the key it names."
            ) from None
        try:
            claims = json.loads(payload)
        except (ValueError, RecursionError):
            raise _build_malformed_error("its claims are not JSON") from None
        if not isinstance(claims, dict):
            raise _build_malformed_error("its claims are not a JSON object")
        return claims

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        """Raise `TokenRefused` for another issuer or audience, or a required claim that is missing."""
        if claims.get("iss") != self._issuer:
            raise TokenRefused("IssuerWrong", "The token is not from the trusted issuer.")
        audience = claims.get("aud")
        if self._audience is None:
            is_meant = audience is None
        else:
            is_meant = self._audience in (
                [audience] if isinstance(audience, str) else _filter_strings(audience)
            )
        if not is_meant:
            raise TokenRefused(
                "AudienceWrong",
                "The token is for another service: request one for this service from the issuer.",
            )
        if missing := [each for each in self._required if claims.get(each) in (None, "")]:
            raise TokenRefused("ClaimMissing", f"The token lacks the claim {missing[0]}.")
        if not isinstance(claims["sub"], str):
            raise _build_malformed_error("its claim sub is not a string")

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        """Raise `TokenRefused` for a token that has expired or is not valid yet, with the leeway."""
        now = self._clock.now()
        expires, begins, issued = (_get_timestamp(claims, each) for each in ("exp", "nbf", "iat"))
        if expires is not None and now >= expires + self._leeway_s:
            raise TokenRefused("TokenExpired", "The token has expired: request a new one from the issuer.")
        if any(each is not None and each > now + self._leeway_s for each in (begins, issued)):
            raise TokenRefused(
                "TokenEarly", "The token is not valid yet: synchronise the clocks of both sides."
            )


class TokenKeys:
    """The public keys of an issuer: a JSON Web Key Set at a URL or in a file.

    They are fetched again after `lifetime_s`, at most once per `pause_s`, and used for `stale_s_max` if that
    fails. `elapsed` returns real seconds.
    """

    def __init__(
        self,
        source: str | Path,
        clock: Clock,
        *,
        lifetime_s: float = KEYS_LIFETIME_S,
        stale_s_max: float = MAX_STALE_KEYS_S,
        pause_s: float = FETCH_PAUSE_S,
        timeout_s: float = FETCH_TIMEOUT_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(source, str):
            require_secure_address(source, "Invalid address of the issuer's keys", "Pass a file as a Path.")
        self._source, self._clock, self._elapsed = source, clock, elapsed
        self._lifetime_s, self._stale_s_max = lifetime_s, stale_s_max
        self._pause_s, self._timeout_s = pause_s, timeout_s
        self._keys: dict[tuple[str, str], jwt.PyJWK] | None = None
        self._fetched_at = self._fetched_elapsed = 0.0
        self._attempted_at: float | None = None
        self._fetch_lock = asyncio.Lock()

    async def find_key(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """Return the key, or None if the issuer has no such key. Raise `TokenKeysUnreachable` if no keys are
        available.
        """
        key_name = (kid, algorithm)
        if self._is_fresh() and key_name in (self._keys or ()):
            return self._lookup(key_name)
        if self._fetch_lock.locked() and key_name in self._get_usable_keys():
            # Another task is already fetching: do not wait if the key is known.
            return self._lookup(key_name)
        async with self._fetch_lock:
            if self._may_fetch() and not (self._is_fresh() and key_name in (self._keys or ())):
                await self._refresh()
        return self._lookup(key_name)

    def _lookup(self, key_name: tuple[str, str]) -> jwt.PyJWK | None:
        """Return a known key, or None. Raise `TokenKeysUnreachable` if there are no keys or they are too
        old.
        """
        if self._keys is None or self._compute_age_s() > self._stale_s_max:
            raise TokenKeysUnreachable(
                "The keys that verify tokens are temporarily unavailable. Retry later.",
                retry_after_s=self._pause_s,
            )
        return self._keys.get(key_name)

    def _get_usable_keys(self) -> Mapping[tuple[str, str], jwt.PyJWK]:
        """Return the known keys, or none if they are too old: a key may have been withdrawn since."""
        return self._keys if self._keys is not None and self._compute_age_s() <= self._stale_s_max else {}

    def _is_fresh(self) -> bool:
        """Return whether the keys are within their lifetime. Keys with a fetch time in the future have an
        unknown age, because the clock was ahead.
        """
        is_of_the_past = self._clock.now() >= self._fetched_at
        return self._keys is not None and is_of_the_past and self._compute_age_s() <= self._lifetime_s

    def _compute_age_s(self) -> float:
        """Return the age of the keys by the clock, at least the real time since the fetch."""
        return max(self._clock.now() - self._fetched_at, self._elapsed() - self._fetched_elapsed)

    def _may_fetch(self) -> bool:
        """Return whether the pause after the last attempt is over."""
        return self._attempted_at is None or self._elapsed() - self._attempted_at >= self._pause_s

    async def _refresh(self) -> None:
        """Fetch the keys; if that fails, log it and keep the known ones."""
        previous_attempt, self._attempted_at = self._attempted_at, self._elapsed()
        try:
            text = await (self._read_file() if isinstance(self._source, Path) else self._fetch(self._source))
            self._keys = _parse_keys(text)
            self._fetched_at, self._fetched_elapsed = self._clock.now(), self._elapsed()
        except asyncio.CancelledError:
            # The caller was cancelled, the issuer did not fail: the next caller may fetch at once.
            self._attempted_at = previous_attempt
            raise
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            # Log neither the text nor the address: the address may contain a credential.
            effect = "using the previous keys" if self._get_usable_keys() else "no previous keys are known"
            log.warning("failed to fetch the keys of the token issuer (%s): %s", type(error).__name__, effect)

    async def _read_file(self) -> bytes:
        assert isinstance(self._source, Path)
        return await asyncio.to_thread(self._source.read_bytes)

    async def _fetch(self, url: str) -> bytes:
        """Fetch the keys. Raise `ValueError` for a status other than 200 or a body that is too large."""
        status, content = await request_issuer("GET", url, timeout_s=self._timeout_s)
        if status != OK:
            raise ValueError(f"the issuer answered {status}")
        return content


def _parse_keys(text: bytes) -> dict[tuple[str, str], jwt.PyJWK]:
    """Return the usable keys by id and algorithm. An empty set is accepted too: the issuer may withdraw all
    its keys. Raise `ValueError` if the text is not a key set.
    """
    key_set = json.loads(text)
    listed = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a JSON Web Key Set")
    usable = [key for key in map(_parse_key, listed[:MAX_KEYS]) if key is not None]
    return {(str(key.key_id), key.algorithm_name): key for key in usable}


def _parse_key(jwk: Any) -> jwt.PyJWK | None:
    """Return a public signing key of an accepted algorithm and sufficient length; None for any other."""
    if not isinstance(jwk, dict) or not isinstance(jwk.get("kid"), str) or jwk.get("use", "sig") != "sig":
        return None
    if "d" in jwk:
        log.warning("the token issuer publishes a private key: that key is ignored")
        return None
    try:
        key = jwt.PyJWK(jwk)
        too_short = key.Algorithm.check_key_length(key.key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in ALGORITHMS and not too_short else None


def _to_verified_token(claims: Mapping[str, Any]) -> VerifiedToken:
    """Return the token's content; without a client id, the subject is the client."""
    scope = claims.get("scope", "")
    client = claims.get("client_id", claims.get("azp"))
    return VerifiedToken(
        subject=claims["sub"],
        client_id=client if isinstance(client, str) and client else claims["sub"],
        scopes=frozenset(scope.split() if isinstance(scope, str) else _filter_strings(scope)),
        expires_at=float(claims["exp"]),
        claims=claims,
    )


def _get_timestamp(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time claim, or None if it is absent. Raise `TokenRefused` if it is not a timestamp."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TIMESTAMP:
        raise _build_malformed_error(f"its claim {name} is not a timestamp")
    return float(value)


def _filter_strings(values: Any) -> Collection[str]:
    """Return the strings in a list; nothing for any other value."""
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else ()


def _build_malformed_error(why: str) -> TokenRefused:
    return TokenRefused("TokenMalformed", f"Invalid token: {why}.")
