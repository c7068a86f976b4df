"""Bearer tokens: accepted and rejected tokens, and fetches of the issuer's keys over HTTP."""

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
from holdfast.security.issuer_requests import MAX_ANSWER_BYTES
from holdfast.security.tokens import TokenKeys, TokenVerifier, VerifiedToken
from holdfast.web import serve_in_thread
from tests.cases import all_cases

NOW = 1_700_000_000.0
ISSUER, AUDIENCE = "https://issuer.test", "https://api.test"
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)
SHORT_RSA_KEY = rsa.generate_private_key(65537, 1024)


class ManualClock:
    """A clock that moves only when the test sets `moment`; it also serves as the elapsed real time."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> float:
        return self.moment


def public_jwk(
    kid: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, **members: Any
) -> dict[str, Any]:
    """Return the public part of a key as a JWK with this id and these members."""
    jwk = (
        ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    )
    return {**jwk, "kid": kid, "use": "sig", **members}


def private_jwk(kid: str, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(key, as_dict=True), "kid": kid}


KEYS = [
    public_jwk("ec", EC_KEY),
    public_jwk("rsa", RSA_KEY),
    public_jwk("short", SHORT_RSA_KEY),
    public_jwk("for-encryption", OTHER_EC_KEY, use="enc"),
    private_jwk("leaked", OTHER_EC_KEY),
    {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ", "kid": "shared"},
    {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "AA", "y": "AA"},
    "no key at all",
]


def make_token(
    key: Any = EC_KEY,
    *,
    algorithm: str = "ES256",
    kid: str | None = "ec",
    headers: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Return a signed token with valid default claims; a claim that is None is left out."""
    all_claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "acme-client",
        "iat": NOW - 10,
        "exp": NOW + 300,
        "scope": "system/Claim.write system/Claim.read",
        "tenant": "acme",
        **claims,
    }
    kept = {name: value for name, value in all_claims.items() if value is not None}
    head = ({} if kid is None else {"kid": kid}) | (headers or {})
    return jwt.encode(kept, key, algorithm=algorithm, headers=head)


def make_raw_token(header: object, payload: bytes, *, signed: bool = True) -> str:
    """Sign any header and any payload, as no JWT library would."""
    parts = [_encode(json.dumps(header).encode()), _encode(payload)]
    signing_input = ".".join(parts).encode()
    algorithm = ECAlgorithm(ECAlgorithm.SHA256, ec.SECP256R1)
    signature = algorithm.sign(signing_input, EC_KEY) if signed else b""
    return ".".join([*parts, _encode(signature)])


def _encode(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def write_key_file(folder: Path, keys: object = KEYS) -> Path:
    path = folder / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return path


async def verify(
    folder: Path, given: str, *, clock: ManualClock | None = None, **options: Any
) -> VerifiedToken:
    """Verify a token with the keys in a file and return it."""
    moment = clock or ManualClock()
    keys = TokenKeys(write_key_file(folder), moment)
    verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=moment, **options)
    return await verifier.verify(given)


# --- accepted tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "kid", "algorithm"), [(EC_KEY, "ec", "ES256"), (RSA_KEY, "rsa", "RS256")])
async def test_accepts_a_token_that_its_issuer_signed(
    tmp_path: Path, key: Any, kid: str, algorithm: str
) -> None:
    found = await verify(tmp_path, make_token(key, kid=kid, algorithm=algorithm, client_id="c-1"))

    assert (found.subject, found.client_id, found.expires_at) == ("acme-client", "c-1", NOW + 300)
    assert found.scopes == {"system/Claim.write", "system/Claim.read"}
    assert found.claims["tenant"] == "acme"


async def test_a_token_may_be_for_several_audiences_and_list_its_scopes(tmp_path: Path) -> None:
    found = await verify(tmp_path, make_token(aud=["https://else.test", AUDIENCE], scope=["a", "b", 3]))

    assert found.scopes == {"a", "b"}
    assert found.client_id == "acme-client"


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"nbf": None, "iat": None}],
    ids=["just expired", "just not begun", "just not issued", "neither given"],
)
async def test_tolerates_small_clock_differences(tmp_path: Path, claims: dict[str, Any]) -> None:
    assert (await verify(tmp_path, make_token(**claims))).subject == "acme-client"


async def test_uses_the_given_clock_and_not_the_machines(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.moment = NOW + 20 * 365 * 86_400

    with pytest.raises(TokenRefused, match="expired"):
        await verify(tmp_path, make_token(), clock=clock)
    assert (await verify(tmp_path, make_token(iat=clock.moment, exp=clock.moment + 60), clock=clock)).subject


# --- rejected tokens ----------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[], str], str]] = [
    ("expired", lambda: make_token(exp=NOW - 31), "TokenExpired"),
    ("not begun", lambda: make_token(nbf=NOW + 31), "TokenEarly"),
    ("issued in the future", lambda: make_token(iat=NOW + 31), "TokenEarly"),
    ("by another issuer", lambda: make_token(iss="https://evil.test"), "IssuerWrong"),
    ("by no issuer", lambda: make_token(iss=None), "IssuerWrong"),
    ("for another service", lambda: make_token(aud="https://else.test"), "AudienceWrong"),
    ("for a service of a longer name", lambda: make_token(aud=AUDIENCE + ".evil"), "AudienceWrong"),
    ("for no audience", lambda: make_token(aud=None), "AudienceWrong"),
    ("for an object", lambda: make_raw_claims(aud={AUDIENCE: 1}), "AudienceWrong"),
    ("that never ends", lambda: make_token(exp=None), "ClaimMissing"),
    ("without a subject", lambda: make_token(sub=None), "ClaimMissing"),
    ("with an empty subject", lambda: make_raw_claims(sub=""), "ClaimMissing"),
    ("of a number", lambda: make_raw_claims(sub=7), "TokenMalformed"),
    ("that ends at no moment", lambda: make_raw_claims(exp="tomorrow"), "TokenMalformed"),
    ("that ends at not a number", lambda: make_raw_claims(exp=float("nan")), "TokenMalformed"),
    ("that ends beyond all dates", lambda: make_raw_claims(exp=10**400), "TokenMalformed"),
    ("that ends at yes", lambda: make_raw_claims(exp=True), "TokenMalformed"),
    ("by another key under this name", lambda: make_token(OTHER_EC_KEY), "TokenForged"),
    ("by an unknown key", lambda: make_token(OTHER_EC_KEY, kid="unknown"), "TokenForged"),
    ("by a key that names no algorithm of its kind", lambda: make_token(EC_KEY, kid="rsa"), "TokenForged"),
    ("by a short key", lambda: make_token_by_short_key(), "TokenForged"),
    ("by a key for encryption", lambda: make_token(OTHER_EC_KEY, kid="for-encryption"), "TokenForged"),
    ((
        "by a key whose private half is published"
    ), lambda: make_token(OTHER_EC_KEY, kid="leaked"), "TokenForged"),
    ("by a shared secret", lambda: make_token_by_shared_secret(), "TokenForged"),
    ("unsigned", lambda: make_token(None, algorithm="none"), "TokenForged"),
    (
        "unsigned, with another spelling of none",
        lambda: make_raw_token({"alg": "nOnE", "kid": "ec"}, b"{}", signed=False),
        "TokenForged",
    ),
    ("with another payload", lambda: tamper(make_token()), "TokenForged"),
    ("without its signature", lambda: make_token().rpartition(".")[0] + ".", "TokenForged"),
    ("that names no key", lambda: make_token(kid=None), "TokenMalformed"),
    ((
        "that names a number as key"
    ), lambda: make_raw_token({"alg": "ES256", "kid": 1}, b"{}"), "TokenMalformed"),
    (
        "that demands more",
        lambda: make_raw_token({"alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1}, b"{}"),
        "TokenMalformed",
    ),
    (
        "with claims that are no JSON",
        lambda: make_raw_token({"alg": "ES256", "kid": "ec"}, b"{"),
        "TokenMalformed",
    ),
    (
        "with claims in a list",
        lambda: make_raw_token({"alg": "ES256", "kid": "ec"}, b"[]"),
        "TokenMalformed",
    ),
    (
        "with claims nested too deep",
        lambda: make_raw_token({"alg": "ES256", "kid": "ec"}, b"[" * 9_000),
        "TokenMalformed",
    ),
    ("of two parts", lambda: "a.b", "TokenMalformed"),
    ("of no parts", lambda: "opaque", "TokenMalformed"),
    ("beyond ASCII", lambda: "schlüssel.ü.ü", "TokenMalformed"),
    ("too long", lambda: "a" * 20_000, "TokenMalformed"),
]  # fmt: skip


def make_raw_claims(**claims: Any) -> str:
    """Return a validly signed token with claims that the JWT library would refuse to write."""
    all_claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "acme-client", "exp": NOW + 300, **claims}
    return make_raw_token({"alg": "ES256", "kid": "ec"}, json.dumps(all_claims).encode())


def make_token_by_short_key() -> str:
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        return make_token(SHORT_RSA_KEY, kid="short", algorithm="RS256")


def make_token_by_shared_secret() -> str:
    """Sign with HMAC and the symmetric key in the key set, under the EC key's id: an algorithm confusion
    attack.
    """
    return make_token(
        base64.urlsafe_b64decode("c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="), algorithm="HS256"
    )


def tamper(given: str) -> str:
    """Replace the claims of a token and keep its signature."""
    header, _, signature = given.split(".")
    claims = json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": NOW + 9e6}).encode()
    return ".".join([header, _encode(claims), signature])


@pytest.mark.parametrize(("make", "code"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
async def test_refuses_a_token(tmp_path: Path, make: Callable[[], str], code: str) -> None:
    """Refuse each invalid token with its code and challenge, without quoting the token."""
    given = make()
    with pytest.raises(TokenRefused) as raised:
        await verify(tmp_path, given)

    assert raised.value.code == code
    assert (raised.value.http_status, raised.value.challenge) == (401, 'Bearer error="invalid_token"')
    _assert_error_hides_token(given, raised.value)


def _assert_error_hides_token(given: str, error: HoldfastError) -> None:
    """Assert that neither the traceback nor the fields of the error contain a part of the token."""
    shown = "".join(traceback.format_exception(error)) + repr(error.__dict__)
    assert not [part for part in given.split(".") if len(part) > 6 and part in shown]


async def test_rejects_a_token_without_a_required_claim(tmp_path: Path) -> None:
    with pytest.raises(TokenRefused, match="lacks the claim jti"):
        await verify(tmp_path, make_token(), required=("jti",))
    with pytest.raises(TokenRefused, match="lacks the claim exp"):
        await verify(tmp_path, make_token(exp=None, jti="1"), required=("jti",))


async def test_repr_of_a_verified_token_hides_its_claims(tmp_path: Path) -> None:
    assert "acme-tenant" not in repr(await verify(tmp_path, make_token(tenant="acme-tenant")))


@pytest.mark.parametrize("algorithms", [(), ("none",), ("HS256",), ("ES256", "HS512")])
async def test_rejects_insecure_algorithms(tmp_path: Path, algorithms: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="signed by RS256 or ES256"):
        await verify(tmp_path, make_token(), algorithms=algorithms)


@all_cases(
    "url",
    [
        "http://issuer.test/jwks",
        "http://dynamodb.us-east-1.amazonaws.com/jwks",
        "http://127.0.0.1@issuer.test/jwks",
        "ftp://issuer.test/jwks",
        "jwks.json",
        "",
        "http://[bad",
        "file:///jwks.json",
    ],
)
def test_rejects_key_addresses_without_https(url: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        TokenKeys(url, ManualClock())


@pytest.mark.parametrize(("issuer", "audience"), [("", AUDIENCE), (ISSUER, "")])
def test_rejects_an_empty_issuer_or_audience(tmp_path: Path, issuer: str, audience: str) -> None:
    keys = TokenKeys(write_key_file(tmp_path), ManualClock())
    with pytest.raises(SettingsError, match="both the issuer and the audience"):
        TokenVerifier(keys, issuer=issuer, audience=audience, clock=ManualClock())


async def test_verifier_without_audience_rejects_tokens_that_name_one(tmp_path: Path) -> None:
    verifier = TokenVerifier(
        TokenKeys(write_key_file(tmp_path), ManualClock()), issuer=ISSUER, audience=None, clock=ManualClock()
    )
    assert (await verifier.verify(make_token(aud=None))).subject
    for named in (AUDIENCE, [AUDIENCE], [], ""):
        with pytest.raises(TokenRefused, match="another service"):
            await verifier.verify(make_token(aud=named))


# --- fetches of the issuer's keys ---------------------------------------------------------------------------


class FakeKeyService:
    """An issuer's JWKS endpoint over HTTP, which counts fetches; `answer` overrides its response."""

    def __init__(self) -> None:
        self.fetches = 0
        self.keys: list[Any] = list(KEYS)
        self.answer: Response | None = None
        self.clock = ManualClock()

    async def jwks(self, _: Request) -> Response:
        self.fetches += 1
        return self.answer or JSONResponse({"keys": self.keys})

    @contextmanager
    def run_verifier(self, **options: Any) -> Iterator[TokenVerifier]:
        """Serve the keys and yield a verifier that fetches them, on the manual clock."""
        with serve_in_thread(Starlette(routes=[Route("/jwks", self.jwks)])) as url:
            keys = TokenKeys(f"{url}/jwks", self.clock, **{"elapsed": self.clock.now, **options})
            yield TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=self.clock)

    def make_fresh_token(self, key: Any = EC_KEY, **options: Any) -> str:
        return make_token(key, iat=self.clock.now(), exp=self.clock.now() + 300, **options)


async def test_fetches_keys_once_and_again_when_they_are_old() -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        for _ in range(5):
            await verifier.verify(service.make_fresh_token())
        assert service.fetches == 1

        service.clock.moment += 301
        await verifier.verify(service.make_fresh_token())
        assert service.fetches == 2


async def test_concurrent_callers_cause_one_fetch() -> None:
    service = FakeKeyService()

    with service.run_verifier() as verifier:
        await asyncio.gather(*(verifier.verify(service.make_fresh_token()) for _ in range(20)))
    assert service.fetches == 1


async def test_finds_a_new_key_of_the_issuer_with_one_more_fetch() -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        await verifier.verify(service.make_fresh_token())
        service.keys.append(public_jwk("new", OTHER_EC_KEY))
        service.clock.moment += 11

        await verifier.verify(service.make_fresh_token(OTHER_EC_KEY, kid="new"))
        assert service.fetches == 2


async def test_forged_tokens_do_not_cause_a_fetch_each() -> None:
    service = FakeKeyService()

    with service.run_verifier() as verifier:
        await verifier.verify(service.make_fresh_token())
        service.clock.moment += 11
        forged = [service.make_fresh_token(OTHER_EC_KEY, kid=f"made-up-{number}") for number in range(30)]
        refused: list[Any] = await asyncio.gather(*map(verifier.verify, forged), return_exceptions=True)

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
        Response(b" " * (MAX_ANSWER_BYTES + 1)),
    ],
    ids=["it failed", "half", "a redirect", "no JSON", "no key set", "too large"],
)
async def test_uses_the_last_known_keys_while_the_issuer_is_down(
    answer: Response, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        await verifier.verify(service.make_fresh_token())
        service.answer = answer
        service.clock.moment += 301
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert (await verifier.verify(service.make_fresh_token())).subject == "acme-client"

    assert service.fetches == 2
    assert "using the previous keys" in caplog.text
    assert "127.0.0.1" not in "".join(
        each.message for each in caplog.records if each.name.startswith("holdfast")
    )


async def test_rejects_last_known_keys_that_are_too_old() -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        await verifier.verify(service.make_fresh_token())
        service.answer = JSONResponse({}, status_code=503)
        service.clock.moment += 86_401
        with pytest.raises(TokenKeysUnreachable):
            await verifier.verify(service.make_fresh_token())


async def test_asks_the_caller_to_retry_without_keys_and_spares_the_issuer() -> None:
    service = FakeKeyService()
    service.answer = JSONResponse({}, status_code=503)
    with service.run_verifier() as verifier:
        for _ in range(4):
            with pytest.raises(TokenKeysUnreachable) as raised:
                await verifier.verify(service.make_fresh_token())
            assert (raised.value.http_status, raised.value.retry_after_s) == (503, 10.0)
        assert service.fetches == 1

        service.answer = None
        service.clock.moment += 11
        assert (await verifier.verify(service.make_fresh_token())).subject == "acme-client"


async def test_rejects_keys_that_the_issuer_withdrew() -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        await verifier.verify(service.make_fresh_token())
        service.keys.clear()
        service.clock.moment += 301
        with pytest.raises(TokenRefused) as raised:
            await verifier.verify(service.make_fresh_token())
        assert raised.value.code == "TokenForged"


async def test_rejects_a_cached_token_once_its_key_is_withdrawn_or_changed() -> None:
    service = FakeKeyService()
    with service.run_verifier() as verifier:
        first = make_token(exp=NOW + 3600)
        second = make_token(RSA_KEY, kid="rsa", algorithm="RS256", exp=NOW + 3600)
        for each in (first, second, first, second):
            await verifier.verify(each)
        # One key is withdrawn, and the other is replaced by a key of the same name.
        service.keys = [public_jwk("ec", OTHER_EC_KEY)]
        service.clock.moment += 301
        for each in (first, second):
            with pytest.raises(TokenRefused) as raised:
                await verifier.verify(each)
            assert raised.value.code == "TokenForged"


async def test_cached_token_expires_at_its_own_time(tmp_path: Path) -> None:
    clock, given = ManualClock(), make_token()
    verifier = TokenVerifier(
        TokenKeys(write_key_file(tmp_path), clock), issuer=ISSUER, audience=AUDIENCE, clock=clock
    )
    assert await verifier.verify(given) is await verifier.verify(given)
    clock.moment += 331
    with pytest.raises(TokenRefused) as raised:
        await verifier.verify(given)
    assert raised.value.code == "TokenExpired"


async def test_caches_a_limited_number_of_tokens_and_verifies_evicted_ones_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.security.tokens.MAX_CACHED_TOKENS", 2)
    clock, tokens = ManualClock(), [make_token(jti=str(number)) for number in range(5)]
    verifier = TokenVerifier(
        TokenKeys(write_key_file(tmp_path), clock), issuer=ISSUER, audience=AUDIENCE, clock=clock
    )
    found = [await verifier.verify(each) for each in tokens]
    assert len(verifier._cache) == 2
    again = await verifier.verify(tokens[0])
    assert again == found[0] and again is not found[0]


async def test_caller_cancelled_during_the_fetch_does_not_block_others() -> None:
    service = FakeKeyService()
    asked, is_over = asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def jwks(_: Request) -> Response:
        service.fetches += 1
        if service.fetches == 1:
            loops[0].call_soon_threadsafe(asked.set)
            await asyncio.to_thread(is_over.wait, 30)
        return JSONResponse({"keys": service.keys})

    service.jwks = jwks  # type: ignore[method-assign]
    with service.run_verifier() as verifier:
        loops.append(asyncio.get_running_loop())
        first = asyncio.create_task(verifier.verify(service.make_fresh_token()))
        await asked.wait()
        first.cancel()
        await asyncio.wait({first})
        assert (await verifier.verify(service.make_fresh_token())).subject
        is_over.set()
    assert service.fetches == 2


async def test_refetches_keys_that_were_fetched_while_the_clock_was_ahead() -> None:
    service = FakeKeyService()
    service.clock.moment += 30 * 86_400
    with service.run_verifier(pause_s=0.0, elapsed=time.monotonic) as verifier:
        await verifier.verify(service.make_fresh_token())
        service.clock.moment = NOW
        service.keys = []
        with pytest.raises(TokenRefused):
            await verifier.verify(service.make_fresh_token())
    assert service.fetches == 2


async def test_treats_a_silent_issuer_as_down() -> None:
    clock = ManualClock()
    # The operating system accepts connections, and no process reads from them.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/jwks"
        keys = TokenKeys(url, clock, timeout_s=0.05)
        verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=clock)
        with pytest.raises(TokenKeysUnreachable):
            await verifier.verify(make_token())


async def test_reads_a_key_file_once_it_exists(tmp_path: Path) -> None:
    clock = ManualClock()
    keys = TokenKeys(tmp_path / "jwks.json", clock, elapsed=clock.now)
    verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=clock)
    with pytest.raises(TokenKeysUnreachable):
        await verifier.verify(make_token())

    write_key_file(tmp_path)
    clock.moment += 11
    assert (await verifier.verify(make_token())).subject == "acme-client"
