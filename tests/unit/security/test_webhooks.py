"""Webhook signatures and shared secrets: accepted calls, and rejected calls with their error codes."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import AccessRefused, SettingsError
from holdfast.security.webhooks import sign, verify, verify_shared_secret
from tests.cases import all_cases

SECRET = "a secret of the office"
OLDER = "the secret before that"
NOW = 1_800_000_000.0
BODY = b'{"id": 1}'


def verify_and_get_code(header: str | None, *, body: bytes = BODY, now: float = NOW) -> str:
    """Verify an invalid call and return the code of its error."""
    with pytest.raises(AccessRefused) as refusal:
        verify(header, body, (SECRET, OLDER), now=now)
    return str(refusal.value.code)


def test_the_signature_is_hmac_sha256_over_the_timestamp_a_dot_and_the_body() -> None:
    expected = hmac.new(SECRET.encode(), b'1800000000.{"id": 1}', hashlib.sha256).hexdigest()

    assert sign(SECRET, BODY, NOW) == f"t=1800000000,v1={expected}"


@given(st.binary(), st.integers(0, 10**11))
def test_accepts_signed_calls(body: bytes, moment: int) -> None:
    assert verify(sign(SECRET, body, moment), body, (SECRET,), now=moment) == moment


@pytest.mark.parametrize("secret", [SECRET, OLDER])
def test_accepts_two_live_secrets(secret: str) -> None:
    assert verify(sign(secret, BODY, NOW), BODY, (SECRET, OLDER), now=NOW) == NOW


def test_accepts_one_valid_signature_of_several() -> None:
    right = sign(OLDER, BODY, NOW).partition("v1=")[2]

    assert verify(f"t=1800000000, v1={'0' * 64}, v1={right}, v0=old", BODY, (SECRET, OLDER), now=NOW) == NOW


def test_rejects_another_body_time_or_secret() -> None:
    header = sign(SECRET, BODY, NOW)

    assert verify_and_get_code(header, body=BODY + b" ") == "SignatureWrong"
    assert verify_and_get_code(header.replace("t=1800000000", "t=1800000001")) == "SignatureWrong"
    assert verify_and_get_code(sign("a secret of another office", BODY, NOW)) == "SignatureWrong"


@pytest.mark.parametrize(("away", "is_in"), [(300, True), (301, False), (-300, True), (-301, False)])
def test_time_window_is_symmetric(away: float, is_in: bool) -> None:
    header = sign(SECRET, BODY, NOW)

    if is_in:
        assert verify(header, BODY, (SECRET,), now=NOW + away) == NOW
    else:
        assert verify_and_get_code(header, now=NOW + away) == "SignatureExpired"


def test_rejects_a_missing_signature() -> None:
    assert verify_and_get_code(None) == "SignatureMissing"
    assert verify_and_get_code("") == "SignatureMissing"


@all_cases(
    "header",
    [
        "nonsense",
        "t=1800000000",
        "v1=abc",
        "t=-5,v1=abc",
        "t=1e9,v1=abc",
        "t=١٨٠٠,v1=abc",
        "t=1,t=2,v1=abc",
        "t=1800000000," + "v1=a," * 9,
        "t=1800000000,v1=" + "a" * 5000,
    ],
)
def test_rejects_a_malformed_header(header: str) -> None:
    assert verify_and_get_code(header) == "SignatureMalformed"


def test_treats_non_ascii_signatures_as_wrong() -> None:
    assert verify_and_get_code("t=1800000000,v1=ü\udcff") == "SignatureWrong"


@pytest.mark.parametrize("secrets", [(), ("",), ("short",), (SECRET, "")])
def test_rejects_a_guessable_secret_as_a_settings_error(secrets: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="at least 16 characters"):
        verify(sign(SECRET, BODY, NOW), BODY, secrets, now=NOW)
    with pytest.raises(SettingsError, match="at least 16 characters"):
        verify_shared_secret(SECRET, secrets)


def test_compares_every_live_secret_even_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def count(given: bytes, expected: bytes) -> bool:
        compared.append(expected)
        return real(given, expected)

    monkeypatch.setattr("holdfast.security.webhooks.hmac.compare_digest", count)
    verify(sign(SECRET, BODY, NOW), BODY, (SECRET, OLDER), now=NOW)
    verify_shared_secret(SECRET, (SECRET, OLDER))

    # The first secret matches, and the others are still compared.
    assert len(set(compared)) == 4


@pytest.mark.parametrize("given", [SECRET, OLDER])
def test_accepts_a_fixed_header_with_a_live_secret(given: str) -> None:
    verify_shared_secret(given, (SECRET, OLDER))


@pytest.mark.parametrize(
    ("given", "code"), [(None, "SecretMissing"), ("", "SecretMissing"), ("guess", "SecretWrong")]
)
def test_rejects_a_fixed_header_without_a_live_secret(given: str | None, code: str) -> None:
    with pytest.raises(AccessRefused) as refusal:
        verify_shared_secret(given, (SECRET, OLDER))

    assert refusal.value.code == code
