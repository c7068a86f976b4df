"""Bearer tokens that prove who calls: JSON Web Tokens, verified by the keys that their issuer publishes.

    keys = TokenKeys("https://issuer.example.org/.well-known/jwks.json", clock)
    verifier = TokenVerifier(keys, issuer="https://issuer.example.org", audience="https://api.example.org", clock=clock)
    verified = await verifier.verify(token)          # VerifiedToken, or TokenRefused

A token goes one way: its header (unproved) → the key it names → its signature → its claims. Until the signature holds,
nothing that the token says is believed, and no error ever repeats a part of it. `web/tokens.py` puts this before routes.
One that was proved is known by its hash until the keys are fetched anew; whether it has ended is looked at each time.

Keys are fetched when they are first needed and again when they are old, by the clock. A key that is not known makes one
more fetch, with a pause after each: neither forged tokens nor an issuer that is down cause a storm of fetches. The pause is
of real time (the issuer is real), so it also passes where a run clock stands still. While the issuer is down, the keys
that are known from before go on to be used, for at most a day.
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
from urllib.parse import urlsplit

import httpx2
import jwt

from holdfast.clock import Clock
from holdfast.errors import SettingsError, TokenKeysUnreachable, TokenRefused
from holdfast.security.hosts import is_name_of_this_machine

# Signed with a private key that only the issuer has. Never `none`, and never HS…, whose key both sides would know.
ALGORITHMS: Final = ("RS256", "ES256")
KEYS_LIFETIME_S: Final = 300.0
KEYS_KEPT_S_MAX: Final = 86_400.0
FETCH_PAUSE_S: Final = 10.0
FETCH_S_MAX: Final = 5.0
KEYS_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
LEEWAY_S: Final = 30.0
TOKEN_CHARS_MAX: Final = 16_384
# A client sends the same token again and again: of so many the signature is looked at once.
PROVED_MAX: Final = 1000
# Beside the issuer and the audience, which are always compared.
REQUIRED: Final = ("exp", "sub")
OK: Final = 200
# Far beyond any date: what a claim of time may be at most, so that it can be reckoned with.
MOMENT_MAX: Final = 1e11

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """What a token says, once it is proved. `claims` has all of it."""

    subject: str
    client_id: str
    scopes: frozenset[str]
    expires_at: float
    claims: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Proved:
    """A token whose signature held, under which key; its times are looked at whenever it comes."""

    named: tuple[str, str]
    key: jwt.PyJWK
    verified: VerifiedToken


class TokenVerifier:
    """Tokens of one issuer for one audience; `None` takes those that name none, for issuers that say by another claim whom
    a token is for: whoever asks for that looks at that claim."""

    def __init__(
        self,
        keys: TokenKeys,
        *,
        issuer: str,
        audience: str | None,
        clock: Clock,
        algorithms: Sequence[str] = ALGORITHMS,
        leeway_s: float = LEEWAY_S,
        required: Sequence[str] = REQUIRED,
    ) -> None:
        if not algorithms or not set(algorithms) <= set(ALGORITHMS):
            raise SettingsError(f"Tokens are signed by {' or '.join(ALGORITHMS)}: choose among these.")
        if not issuer or audience == "":
            raise SettingsError(
                "Tokens are for somebody and by somebody: name both the issuer and the audience."
            )
        self._keys, self._clock = keys, clock
        self._issuer, self._audience = issuer, audience
        self._algorithms, self._leeway_s = tuple(algorithms), leeway_s
        # `exp` and `sub` in any case: a token that never ends, or is nobody's, is not asked for by anyone.
        self._required = tuple(dict.fromkeys((*REQUIRED, *required)))
        options: Any = {"verify_signature": True, "enforce_minimum_key_length": True}
        self._signatures = jwt.PyJWS(algorithms=list(algorithms), options=options)
        # By the token's hash, oldest first.
        self._known: dict[bytes, _Proved] = {}

    async def verify(self, token: str) -> VerifiedToken:
        """Raises `TokenRefused`, or `TokenKeysUnreachable` where nobody can tell."""
        hash = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(hash)
        named = self._named_key(token) if known is None else known.named
        key = await self._keys.key(*named)
        if key is None:
            self._known.pop(hash, None)
            raise TokenRefused(
                "TokenForged", "The token is signed by a key that its issuer does not publish."
            )
        # Keys that were fetched anew are others, also where they are the same: then it is proved anew.
        if known is None or known.key is not key:
            known = self._known_now(hash, named, key, self._proved(token, key))
        self._check_times(known.verified.claims)
        return known.verified

    def _known_now(
        self, hash: bytes, named: tuple[str, str], key: jwt.PyJWK, claims: dict[str, Any]
    ) -> _Proved:
        self._check_parties(claims)
        self._check_times(claims)
        proved = self._known[hash] = _Proved(named, key, _told(claims))
        if len(self._known) > PROVED_MAX:
            del self._known[next(iter(self._known))]
        return proved

    def _named_key(self, token: str) -> tuple[str, str]:
        """By which key the token says it is signed. Nothing of this is proved yet."""
        if len(token) > TOKEN_CHARS_MAX:
            raise _malformed(f"it is longer than {TOKEN_CHARS_MAX} characters")
        try:
            header = self._signatures.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _malformed("it is no signed JSON Web Token") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms:
            # Whoever chooses the algorithm could choose none at all.
            raise TokenRefused("TokenForged", f"The token must be signed by {' or '.join(self._algorithms)}.")
        if "crit" in header:
            raise _malformed("its header demands what is not understood here")
        if not isinstance(kid, str) or not kid:
            raise _malformed("its header does not name a key (kid)")
        return kid, algorithm

    def _proved(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            payload = self._signatures.decode_complete(token, key, algorithms=[key.algorithm_name])["payload"]
        except (jwt.PyJWTError, ValueError):
            raise TokenRefused(
                "TokenForged", "The token's signature is not that of the key it names."
            ) from None
        try:
            claims = json.loads(payload)
        except (ValueError, RecursionError):
            raise _malformed("its claims are no JSON") from None
        if not isinstance(claims, dict):
            raise _malformed("its claims are no JSON object")
        return claims

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        if claims.get("iss") != self._issuer:
            raise TokenRefused("IssuerWrong", "The token is not by the issuer that is trusted here.")
        audience = claims.get("aud")
        if self._audience is None:
            is_meant = audience is None
        else:
            is_meant = self._audience in ([audience] if isinstance(audience, str) else _strings(audience))
        if not is_meant:
            raise TokenRefused(
                "AudienceWrong", "The token is for another service: ask the issuer for one for this service."
            )
        if missing := [each for each in self._required if claims.get(each) in (None, "")]:
            raise TokenRefused("ClaimMissing", f"The token lacks the claim {missing[0]}.")
        if not isinstance(claims["sub"], str):
            raise _malformed("its claim sub is no text")

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now()
        expires, begins, issued = (_moment(claims, each) for each in ("exp", "nbf", "iat"))
        if expires is not None and now >= expires + self._leeway_s:
            raise TokenRefused("TokenExpired", "The token has expired: ask the issuer for a fresh one.")
        if any(each is not None and each > now + self._leeway_s for each in (begins, issued)):
            raise TokenRefused("TokenEarly", "The token is not valid yet: set the clocks of both sides.")


class TokenKeys:
    """The public keys of an issuer: a JSON Web Key Set at an address or in a file."""

    def __init__(
        self,
        source: str | Path,
        clock: Clock,
        *,
        lifetime_s: float = KEYS_LIFETIME_S,
        kept_s_max: float = KEYS_KEPT_S_MAX,
        pause_s: float = FETCH_PAUSE_S,
        patience_s: float = FETCH_S_MAX,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(source, str):
            _refuse_open_address(source)
        self._source, self._clock, self._elapsed = source, clock, elapsed
        self._lifetime_s, self._kept_s_max = lifetime_s, kept_s_max
        self._pause_s, self._patience_s = pause_s, patience_s
        self._known: dict[tuple[str, str], jwt.PyJWK] | None = None
        self._known_at = self._known_elapsed = 0.0
        self._asked_at: float | None = None
        self._fetching = asyncio.Lock()

    async def key(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """None where the issuer has no such key. `TokenKeysUnreachable` where there are no keys to look at."""
        named = (kid, algorithm)
        if self._is_fresh() and named in (self._known or ()):
            return self._found(named)
        if self._fetching.locked() and named in self._kept():
            # Somebody asks the issuer already: nobody waits for the answer who can do without.
            return self._found(named)
        async with self._fetching:
            if self._may_ask() and not (self._is_fresh() and named in (self._known or ())):
                await self._refresh()
        return self._found(named)

    def _found(self, named: tuple[str, str]) -> jwt.PyJWK | None:
        if self._known is None or self._age_s() > self._kept_s_max:
            raise TokenKeysUnreachable(
                "The keys by which tokens are verified cannot be had. Come again after the pause.",
                retry_after_s=self._pause_s,
            )
        return self._known.get(named)

    def _kept(self) -> Mapping[tuple[str, str], jwt.PyJWK]:
        """What is known, unless it is so old that a key may have been withdrawn for long."""
        return self._known if self._known is not None and self._age_s() <= self._kept_s_max else {}

    def _is_fresh(self) -> bool:
        """Keys of a time that is still to come were fetched while the clock was ahead: how old they are nobody knows."""
        is_of_the_past = self._clock.now() >= self._known_at
        return self._known is not None and is_of_the_past and self._age_s() <= self._lifetime_s

    def _age_s(self) -> float:
        """By the clock, and not less than what has really passed."""
        return max(self._clock.now() - self._known_at, self._elapsed() - self._known_elapsed)

    def _may_ask(self) -> bool:
        return self._asked_at is None or self._elapsed() - self._asked_at >= self._pause_s

    async def _refresh(self) -> None:
        """What is known stays where nothing new can be had."""
        asked_before, self._asked_at = self._asked_at, self._elapsed()
        try:
            text = await (self._read() if isinstance(self._source, Path) else self._fetched(self._source))
            self._known = _keys_of(text)
            self._known_at, self._known_elapsed = self._clock.now(), self._elapsed()
        except asyncio.CancelledError:
            # Who asked has left, and not the issuer: the next asks at once.
            self._asked_at = asked_before
            raise
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            # Neither the text nor the address: who set the address knows it, and it may hold a credential.
            kept = "those of before are used on" if self._kept() else "and none are known from before"
            log.warning("the keys of the tokens' issuer cannot be had (%s), %s", type(error).__name__, kept)

    async def _read(self) -> bytes:
        assert isinstance(self._source, Path)
        return await asyncio.to_thread(self._source.read_bytes)

    async def _fetched(self, url: str) -> bytes:
        """One request; a redirect is not followed, so that the address of the settings stays the one that is trusted."""
        content = bytearray()
        # Made in a thread: the certificates that it reads would hold up all others here.
        client = await asyncio.to_thread(httpx2.AsyncClient, timeout=self._patience_s, follow_redirects=False)
        async with (
            client as http,
            asyncio.timeout(self._patience_s),
            http.stream("GET", url, headers={"accept": "application/json"}) as answer,
        ):
            if answer.status_code != OK:
                raise ValueError(f"it answers {answer.status_code}")
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > KEYS_BYTES_MAX:
                    raise ValueError("it is too large")
        return bytes(content)


def _refuse_open_address(url: str) -> None:
    """Keys that come over a line that others can write to prove nothing."""
    try:
        parts = urlsplit(url)
        is_local = is_name_of_this_machine(parts.netloc.encode())
    except ValueError:
        raise SettingsError("The address of the issuer's keys is no URL: give an https address.") from None
    if not parts.netloc or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise SettingsError(
            "The address of the issuer's keys must be https, or http on this machine; a file is given as a Path."
        )


def _keys_of(text: bytes) -> dict[tuple[str, str], jwt.PyJWK]:
    """By id and algorithm. An empty set is believed too: the issuer may withdraw all its keys."""
    told = json.loads(text)
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no set of keys")
    made = [key for key in map(_usable, listed[:KEYS_MAX]) if key is not None]
    return {(str(key.key_id), key.algorithm_name): key for key in made}


def _usable(told: Any) -> jwt.PyJWK | None:
    """A public key that signs, by an algorithm that we take and of a length that holds; others are passed over."""
    if not isinstance(told, dict) or not isinstance(told.get("kid"), str) or told.get("use", "sig") != "sig":
        return None
    if "d" in told:
        log.warning("the issuer of the tokens publishes a private key: it is not trusted any more")
        return None
    try:
        key = jwt.PyJWK(told)
        too_short = key.Algorithm.check_key_length(key.key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in ALGORITHMS and not too_short else None


def _told(claims: Mapping[str, Any]) -> VerifiedToken:
    scope = claims.get("scope", "")
    client = claims.get("client_id", claims.get("azp"))
    return VerifiedToken(
        subject=claims["sub"],
        client_id=client if isinstance(client, str) and client else claims["sub"],
        scopes=frozenset(scope.split() if isinstance(scope, str) else _strings(scope)),
        expires_at=float(claims["exp"]),
        claims=claims,
    )


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    told = claims.get(name)
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= MOMENT_MAX:
        raise _malformed(f"its claim {name} is no moment")
    return float(told)


def _strings(told: Any) -> Collection[str]:
    return [each for each in told if isinstance(each, str)] if isinstance(told, list) else ()


def _malformed(why: str) -> TokenRefused:
    return TokenRefused("TokenMalformed", f"The token cannot be read: {why}.")
