"""Bearer tokens: what is believed, what is refused and by which name, and how often the issuer is asked for its keys."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError, SettingsError, TokenKeysUnreachable, TokenRefused
from holdfast.security.tokens import KEYS_BYTES_MAX, TokenKeys, TokenVerifier, VerifiedToken
from holdfast.web import serve_in_thread

NOW = 1_700_000_000.0
ISSUER, AUDIENCE = "https://issuer.test", "https://api.test"
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)
SHORT_RSA_KEY = rsa.generate_private_key(65537, 1024)


class HandClock:
    """Moved by hand: `moment` is the clock's, and passes for the real time of pauses too."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> float:
        return self.moment


def public(kid: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, **members: Any) -> dict[str, Any]:
    told = (
        ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    )
    return {**told, "kid": kid, "use": "sig", **members}


def private(kid: str, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(key, as_dict=True), "kid": kid}


KEYS = [
    public("ec", EC_KEY),
    public("rsa", RSA_KEY),
    public("short", SHORT_RSA_KEY),
    public("for-encryption", OTHER_EC_KEY, use="enc"),
    private("leaked", OTHER_EC_KEY),
    {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ", "kid": "shared"},
    {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "AA", "y": "AA"},
    "no key at all",
]


def token(
    key: Any = EC_KEY,
    *,
    algorithm: str = "ES256",
    kid: str | None = "ec",
    headers: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    told = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "acme-client",
        "iat": NOW - 10,
        "exp": NOW + 300,
        "scope": "system/Claim.write system/Claim.read",
        "tenant": "acme",
        **claims,
    }
    kept = {name: value for name, value in told.items() if value is not None}
    head = ({} if kid is None else {"kid": kid}) | (headers or {})
    return jwt.encode(kept, key, algorithm=algorithm, headers=head)


def raw_token(header: object, payload: bytes, *, signed: bool = True) -> str:
    """What a library would not make: any header and any payload, signed rightly all the same."""
    parts = [_encoded(json.dumps(header).encode()), _encoded(payload)]
    signing_input = ".".join(parts).encode()
    algorithm = ECAlgorithm(ECAlgorithm.SHA256, ec.SECP256R1)
    signature = algorithm.sign(signing_input, EC_KEY) if signed else b""
    return ".".join([*parts, _encoded(signature)])


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def key_file(folder: Path, keys: object = KEYS) -> Path:
    path = folder / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return path


def verified(folder: Path, given: str, *, clock: HandClock | None = None, **options: Any) -> VerifiedToken:
    moment = clock or HandClock()
    keys = TokenKeys(key_file(folder), moment)
    verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=moment, **options)
    return asyncio.run(verifier.verify(given))


# --- what is believed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "kid", "algorithm"), [(EC_KEY, "ec", "ES256"), (RSA_KEY, "rsa", "RS256")])
def test_believes_a_token_that_its_issuer_signed(tmp_path: Path, key: Any, kid: str, algorithm: str) -> None:
    found = verified(tmp_path, token(key, kid=kid, algorithm=algorithm, client_id="c-1"))

    assert (found.subject, found.client_id, found.expires_at) == ("acme-client", "c-1", NOW + 300)
    assert found.scopes == {"system/Claim.write", "system/Claim.read"}
    assert found.claims["tenant"] == "acme"


def test_a_token_may_be_for_several_audiences_and_list_its_scopes(tmp_path: Path) -> None:
    found = verified(tmp_path, token(aud=["https://else.test", AUDIENCE], scope=["a", "b", 3]))

    assert found.scopes == {"a", "b"}
    assert found.client_id == "acme-client"


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"nbf": None, "iat": None}],
    ids=["just expired", "just not begun", "just not issued", "neither told"],
)
def test_clocks_may_differ_a_little(tmp_path: Path, claims: dict[str, Any]) -> None:
    assert verified(tmp_path, token(**claims)).subject == "acme-client"


def test_the_time_is_that_of_the_clock_and_not_of_the_machine(tmp_path: Path) -> None:
    clock = HandClock()
    clock.moment = NOW + 20 * 365 * 86_400

    with pytest.raises(TokenRefused, match="expired"):
        verified(tmp_path, token(), clock=clock)
    assert verified(tmp_path, token(iat=clock.moment, exp=clock.moment + 60), clock=clock).subject


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[], str], str]] = [
    ("expired", lambda: token(exp=NOW - 31), "TokenExpired"),
    ("not begun", lambda: token(nbf=NOW + 31), "TokenEarly"),
    ("issued in the future", lambda: token(iat=NOW + 31), "TokenEarly"),
    ("by another issuer", lambda: token(iss="https://evil.test"), "IssuerWrong"),
    ("by no issuer", lambda: token(iss=None), "IssuerWrong"),
    ("for another service", lambda: token(aud="https://else.test"), "AudienceWrong"),
    ("for a service of a longer name", lambda: token(aud=AUDIENCE + ".evil"), "AudienceWrong"),
    ("for nobody", lambda: token(aud=None), "AudienceWrong"),
    ("for an object", lambda: raw_claims(aud={AUDIENCE: 1}), "AudienceWrong"),
    ("that never ends", lambda: token(exp=None), "ClaimMissing"),
    ("of nobody", lambda: token(sub=None), "ClaimMissing"),
    ("of nobody by name", lambda: raw_claims(sub=""), "ClaimMissing"),
    ("of a number", lambda: raw_claims(sub=7), "TokenMalformed"),
    ("that ends at no moment", lambda: raw_claims(exp="tomorrow"), "TokenMalformed"),
    ("that ends at not a number", lambda: raw_claims(exp=float("nan")), "TokenMalformed"),
    ("that ends beyond all dates", lambda: raw_claims(exp=10**400), "TokenMalformed"),
    ("that ends at yes", lambda: raw_claims(exp=True), "TokenMalformed"),
    ("by another key under this name", lambda: token(OTHER_EC_KEY), "TokenForged"),
    ("by an unknown key", lambda: token(OTHER_EC_KEY, kid="unknown"), "TokenForged"),
    ("by a key that names no algorithm of its kind", lambda: token(EC_KEY, kid="rsa"), "TokenForged"),
    ("by a short key", lambda: token_by_short_key(), "TokenForged"),
    ("by a key for encryption", lambda: token(OTHER_EC_KEY, kid="for-encryption"), "TokenForged"),
    ("by a key whose private half is published", lambda: token(OTHER_EC_KEY, kid="leaked"), "TokenForged"),
    ("by a shared secret", lambda: token_by_shared_secret(), "TokenForged"),
    ("by nobody", lambda: token(None, algorithm="none"), "TokenForged"),
    (
        "by nobody, spelt otherwise",
        lambda: raw_token({"alg": "nOnE", "kid": "ec"}, b"{}", signed=False),
        "TokenForged",
    ),
    ("with another payload", lambda: tampered(token()), "TokenForged"),
    ("without its signature", lambda: token().rpartition(".")[0] + ".", "TokenForged"),
    ("that names no key", lambda: token(kid=None), "TokenMalformed"),
    ("that names a number as key", lambda: raw_token({"alg": "ES256", "kid": 1}, b"{}"), "TokenMalformed"),
    (
        "that demands more",
        lambda: raw_token({"alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1}, b"{}"),
        "TokenMalformed",
    ),
    ("with claims that are no JSON", lambda: raw_token({"alg": "ES256", "kid": "ec"}, b"{"), "TokenMalformed"),
    (
        "with claims in a list",
        lambda: raw_token({"alg": "ES256", "kid": "ec"}, b"[]"),
        "TokenMalformed",
    ),
    ("with claims nested too deep", lambda: raw_token({"alg": "ES256", "kid": "ec"}, b"[" * 9_000), "TokenMalformed"),
    ("of two parts", lambda: "a.b", "TokenMalformed"),
    ("of no parts", lambda: "opaque", "TokenMalformed"),
    ("beyond ASCII", lambda: "schlüssel.ü.ü", "TokenMalformed"),
    ("too long", lambda: "a" * 20_000, "TokenMalformed"),
]  # fmt: skip


def raw_claims(**claims: Any) -> str:
    told = {"iss": ISSUER, "aud": AUDIENCE, "sub": "acme-client", "exp": NOW + 300, **claims}
    return raw_token({"alg": "ES256", "kid": "ec"}, json.dumps(told).encode())


def token_by_short_key() -> str:
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        return token(SHORT_RSA_KEY, kid="short", algorithm="RS256")


def token_by_shared_secret() -> str:
    """The confusion of old: the public key, which everybody has, used as the secret of an HMAC."""
    return token(base64.urlsafe_b64decode("c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="), algorithm="HS256")


def tampered(given: str) -> str:
    header, _, signature = given.split(".")
    claims = json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": NOW + 9e6}).encode()
    return ".".join([header, _encoded(claims), signature])


@pytest.mark.parametrize(("make", "code"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_refuses_a_token(tmp_path: Path, make: Callable[[], str], code: str) -> None:
    given = make()
    with pytest.raises(TokenRefused) as raised:
        verified(tmp_path, given)

    assert raised.value.code == code
    assert (raised.value.http_status, raised.value.challenge) == (401, 'Bearer error="invalid_token"')
    _tells_nothing_of(given, raised.value)


def _tells_nothing_of(given: str, error: HoldfastError) -> None:
    shown = "".join(traceback.format_exception(error)) + repr(error.__dict__)
    assert not [part for part in given.split(".") if len(part) > 6 and part in shown]


def test_a_claim_that_the_service_asks_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(TokenRefused, match="lacks the claim jti"):
        verified(tmp_path, token(), required=("jti",))
    with pytest.raises(TokenRefused, match="lacks the claim exp"):
        verified(tmp_path, token(exp=None, jti="1"), required=("jti",))


def test_what_is_verified_is_not_shown_by_accident(tmp_path: Path) -> None:
    assert "acme-tenant" not in repr(verified(tmp_path, token(tenant="acme-tenant")))


@pytest.mark.parametrize("algorithms", [(), ("none",), ("HS256",), ("ES256", "HS512")])
def test_refuses_to_be_set_up_with_algorithms_that_prove_nothing(
    tmp_path: Path, algorithms: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError, match="signed by RS256 or ES256"):
        verified(tmp_path, token(), algorithms=algorithms)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.test/jwks",
        "ftp://issuer.test/jwks",
        "jwks.json",
        "",
        "http://[bad",
        "file:///jwks.json",
    ],
)
def test_refuses_keys_that_come_over_a_line_others_can_write_to(url: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        TokenKeys(url, HandClock())


@pytest.mark.parametrize(("issuer", "audience"), [("", AUDIENCE), (ISSUER, "")])
def test_refuses_to_be_set_up_for_nobody(tmp_path: Path, issuer: str, audience: str) -> None:
    keys = TokenKeys(key_file(tmp_path), HandClock())
    with pytest.raises(SettingsError, match="both the issuer and the audience"):
        TokenVerifier(keys, issuer=issuer, audience=audience, clock=HandClock())


def test_where_no_audience_is_asked_for_a_token_that_names_one_is_for_somebody_else(tmp_path: Path) -> None:
    verifier = TokenVerifier(
        TokenKeys(key_file(tmp_path), HandClock()), issuer=ISSUER, audience=None, clock=HandClock()
    )
    assert asyncio.run(verifier.verify(token(aud=None))).subject
    for named in (AUDIENCE, [AUDIENCE], [], ""):
        with pytest.raises(TokenRefused, match="another service"):
            asyncio.run(verifier.verify(token(aud=named)))


# --- how often the issuer is asked --------------------------------------------------------------------------


class KeyService:
    """An issuer's key set over HTTP, with a count of the fetches; `answer` is what it gives."""

    def __init__(self) -> None:
        self.fetches = 0
        self.keys: list[Any] = list(KEYS)
        self.answer: Response | None = None
        self.clock = HandClock()

    async def jwks(self, _: Request) -> Response:
        self.fetches += 1
        return self.answer or JSONResponse({"keys": self.keys})

    @contextmanager
    def verifying(self, **options: Any) -> Iterator[TokenVerifier]:
        with serve_in_thread(Starlette(routes=[Route("/jwks", self.jwks)])) as url:
            keys = TokenKeys(f"{url}/jwks", self.clock, **{"elapsed": self.clock.now, **options})
            yield TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=self.clock)

    def fresh_token(self, key: Any = EC_KEY, **options: Any) -> str:
        return token(key, iat=self.clock.now(), exp=self.clock.now() + 300, **options)


def test_keys_are_fetched_once_and_again_when_they_are_old() -> None:
    service = KeyService()
    with service.verifying() as verifier:
        for _ in range(5):
            asyncio.run(verifier.verify(service.fresh_token()))
        assert service.fetches == 1

        service.clock.moment += 301
        asyncio.run(verifier.verify(service.fresh_token()))
        assert service.fetches == 2


def test_many_callers_at_once_cause_one_fetch() -> None:
    service = KeyService()

    async def many(verifier: TokenVerifier) -> None:
        await asyncio.gather(*(verifier.verify(service.fresh_token()) for _ in range(20)))

    with service.verifying() as verifier:
        asyncio.run(many(verifier))
    assert service.fetches == 1


def test_a_new_key_of_the_issuer_is_found_by_one_more_fetch() -> None:
    service = KeyService()
    with service.verifying() as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.keys.append(public("new", OTHER_EC_KEY))
        service.clock.moment += 11

        asyncio.run(verifier.verify(service.fresh_token(OTHER_EC_KEY, kid="new")))
        assert service.fetches == 2


def test_forged_tokens_do_not_cause_a_fetch_each() -> None:
    service = KeyService()

    async def storm(verifier: TokenVerifier) -> list[Any]:
        forged = [service.fresh_token(OTHER_EC_KEY, kid=f"made-up-{number}") for number in range(30)]
        return await asyncio.gather(*map(verifier.verify, forged), return_exceptions=True)

    with service.verifying() as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.clock.moment += 11
        refused = asyncio.run(storm(verifier))

    assert {each.code for each in refused} == {"TokenForged"}
    assert service.fetches == 2


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({}, status_code=503),
        JSONResponse({"keys": KEYS}, status_code=206),
        RedirectResponse("/elsewhere"),
        Response("no JSON"),
        JSONResponse([1]),
        Response(b" " * (KEYS_BYTES_MAX + 1)),
    ],
    ids=["it failed", "half", "a redirect", "no JSON", "no key set", "too large"],
)
def test_while_the_issuer_is_down_the_last_known_keys_are_used(
    answer: Response, caplog: pytest.LogCaptureFixture
) -> None:
    service = KeyService()
    with service.verifying() as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.answer = answer
        service.clock.moment += 301
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert asyncio.run(verifier.verify(service.fresh_token())).subject == "acme-client"

    assert service.fetches == 2
    assert "using the previous keys" in caplog.text
    assert "127.0.0.1" not in "".join(
        each.message for each in caplog.records if each.name.startswith("holdfast")
    )


def test_keys_that_are_known_from_long_ago_are_not_believed_for_ever() -> None:
    service = KeyService()
    with service.verifying() as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.answer = JSONResponse({}, status_code=503)
        service.clock.moment += 86_401
        with pytest.raises(TokenKeysUnreachable):
            asyncio.run(verifier.verify(service.fresh_token()))


def test_without_any_keys_the_caller_is_told_to_come_again_and_the_issuer_is_spared() -> None:
    service = KeyService()
    service.answer = JSONResponse({}, status_code=503)
    with service.verifying() as verifier:
        for _ in range(4):
            with pytest.raises(TokenKeysUnreachable) as raised:
                asyncio.run(verifier.verify(service.fresh_token()))
            assert (raised.value.http_status, raised.value.retry_after_s) == (503, 10.0)
        assert service.fetches == 1

        service.answer = None
        service.clock.moment += 11
        assert asyncio.run(verifier.verify(service.fresh_token())).subject == "acme-client"


def test_keys_that_the_issuer_withdraws_are_believed_no_more() -> None:
    service = KeyService()
    with service.verifying() as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.keys.clear()
        service.clock.moment += 301
        with pytest.raises(TokenRefused) as raised:
            asyncio.run(verifier.verify(service.fresh_token()))
        assert raised.value.code == "TokenForged"


def test_a_token_that_was_proved_is_believed_no_more_once_its_key_is_withdrawn_or_changed() -> None:
    service = KeyService()
    with service.verifying() as verifier:
        first = token(exp=NOW + 3600)
        second = token(RSA_KEY, kid="rsa", algorithm="RS256", exp=NOW + 3600)
        for each in (first, second, first, second):
            asyncio.run(verifier.verify(each))
        # The one is withdrawn, in place of the other stands another of the same name.
        service.keys = [public("ec", OTHER_EC_KEY)]
        service.clock.moment += 301
        for each in (first, second):
            with pytest.raises(TokenRefused) as raised:
                asyncio.run(verifier.verify(each))
            assert raised.value.code == "TokenForged"


def test_a_token_that_was_proved_ends_when_it_says(tmp_path: Path) -> None:
    clock, given = HandClock(), token()
    verifier = TokenVerifier(
        TokenKeys(key_file(tmp_path), clock), issuer=ISSUER, audience=AUDIENCE, clock=clock
    )
    assert asyncio.run(verifier.verify(given)) is asyncio.run(verifier.verify(given))
    clock.moment += 331
    with pytest.raises(TokenRefused) as raised:
        asyncio.run(verifier.verify(given))
    assert raised.value.code == "TokenExpired"


def test_only_so_many_tokens_are_known_and_those_that_are_forgotten_are_proved_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.security.tokens.CACHED_TOKENS_MAX", 2)
    clock, tokens = HandClock(), [token(jti=str(number)) for number in range(5)]
    verifier = TokenVerifier(
        TokenKeys(key_file(tmp_path), clock), issuer=ISSUER, audience=AUDIENCE, clock=clock
    )
    found = [asyncio.run(verifier.verify(each)) for each in tokens]
    assert len(verifier._cache) == 2
    again = asyncio.run(verifier.verify(tokens[0]))
    assert again == found[0] and again is not found[0]


def test_a_caller_who_leaves_during_the_fetch_keeps_nobody_else_from_asking() -> None:
    service = KeyService()
    asked, is_over = asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def jwks(_: Request) -> Response:
        service.fetches += 1
        if service.fetches == 1:
            loops[0].call_soon_threadsafe(asked.set)
            await asyncio.to_thread(is_over.wait, 30)
        return JSONResponse({"keys": service.keys})

    async def played(verifier: TokenVerifier) -> VerifiedToken:
        loops.append(asyncio.get_running_loop())
        first = asyncio.create_task(verifier.verify(service.fresh_token()))
        await asked.wait()
        first.cancel()
        await asyncio.wait({first})
        return await verifier.verify(service.fresh_token())

    service.jwks = jwks  # type: ignore[method-assign]
    with service.verifying() as verifier:
        assert asyncio.run(played(verifier)).subject
        is_over.set()
    assert service.fetches == 2


def test_keys_that_were_fetched_while_the_clock_was_ahead_are_fetched_anew() -> None:
    service = KeyService()
    service.clock.moment += 30 * 86_400
    with service.verifying(pause_s=0.0, elapsed=time.monotonic) as verifier:
        asyncio.run(verifier.verify(service.fresh_token()))
        service.clock.moment = NOW
        service.keys = []
        with pytest.raises(TokenRefused):
            asyncio.run(verifier.verify(service.fresh_token()))
    assert service.fetches == 2


def test_an_issuer_that_does_not_answer_in_time_counts_as_down() -> None:
    clock = HandClock()
    # Connections are taken by the system, and nobody ever reads from them.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/jwks"
        keys = TokenKeys(url, clock, timeout_s=0.05)
        verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=clock)
        with pytest.raises(TokenKeysUnreachable):
            asyncio.run(verifier.verify(token()))


def test_a_key_file_that_is_not_there_yet_is_read_when_it_is(tmp_path: Path) -> None:
    clock = HandClock()
    keys = TokenKeys(tmp_path / "jwks.json", clock, elapsed=clock.now)
    verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=clock)
    with pytest.raises(TokenKeysUnreachable):
        asyncio.run(verifier.verify(token()))

    key_file(tmp_path)
    clock.moment += 11
    assert asyncio.run(verifier.verify(token())).subject == "acme-client"
