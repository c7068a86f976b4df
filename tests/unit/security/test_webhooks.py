"""Signed webhooks: what is let in, what is refused and by which code."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import AccessRefused, SettingsError
from holdfast.security.webhooks import sign, verify, verify_shared_secret

SECRET = "a secret of the office"
OLDER = "the secret before that"
NOW = 1_800_000_000.0
BODY = b'{"id": 1}'


def refused(header: str | None, *, body: bytes = BODY, now: float = NOW) -> str:
    with pytest.raises(AccessRefused) as refusal:
        verify(header, body, (SECRET, OLDER), now=now)
    return str(refusal.value.code)


def test_the_signature_is_hmac_sha256_over_the_timestamp_a_dot_and_the_body() -> None:
    expected = hmac.new(SECRET.encode(), b'1800000000.{"id": 1}', hashlib.sha256).hexdigest()

    assert sign(SECRET, BODY, NOW) == f"t=1800000000,v1={expected}"


@given(st.binary(), st.integers(0, 10**11))
def test_what_is_signed_is_let_in(body: bytes, moment: int) -> None:
    assert verify(sign(SECRET, body, moment), body, (SECRET,), now=moment) == moment


@pytest.mark.parametrize("secret", [SECRET, OLDER])
def test_two_secrets_may_be_live(secret: str) -> None:
    assert verify(sign(secret, BODY, NOW), BODY, (SECRET, OLDER), now=NOW) == NOW


def test_of_several_signatures_one_that_is_right_is_enough() -> None:
    right = sign(OLDER, BODY, NOW).partition("v1=")[2]

    assert verify(f"t=1800000000, v1={'0' * 64}, v1={right}, v0=old", BODY, (SECRET, OLDER), now=NOW) == NOW


def test_another_body_another_time_and_another_secret_are_refused() -> None:
    header = sign(SECRET, BODY, NOW)

    assert refused(header, body=BODY + b" ") == "SignatureWrong"
    assert refused(header.replace("t=1800000000", "t=1800000001")) == "SignatureWrong"
    assert refused(sign("a secret of another office", BODY, NOW)) == "SignatureWrong"


@pytest.mark.parametrize(("away", "is_in"), [(300, True), (301, False), (-300, True), (-301, False)])
def test_the_window_is_open_as_far_to_the_future_as_to_the_past(away: float, is_in: bool) -> None:
    header = sign(SECRET, BODY, NOW)

    if is_in:
        assert verify(header, BODY, (SECRET,), now=NOW + away) == NOW
    else:
        assert refused(header, now=NOW + away) == "SignatureExpired"


def test_a_call_without_a_signature_is_told_what_to_send() -> None:
    assert refused(None) == "SignatureMissing"
    assert refused("") == "SignatureMissing"


@pytest.mark.parametrize(
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
def test_what_is_not_of_the_form_is_refused_as_such(header: str) -> None:
    assert refused(header) == "SignatureMalformed"


def test_signatures_that_are_no_ascii_are_wrong_and_no_failure() -> None:
    assert refused("t=1800000000,v1=ü\udcff") == "SignatureWrong"


@pytest.mark.parametrize("secrets", [(), ("",), ("short",), (SECRET, "")])
def test_a_secret_that_anybody_could_guess_is_a_mistake_in_the_settings(secrets: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="at least 16 characters"):
        verify(sign(SECRET, BODY, NOW), BODY, secrets, now=NOW)
    with pytest.raises(SettingsError, match="at least 16 characters"):
        verify_shared_secret(SECRET, secrets)


def test_every_live_secret_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def counted(given: bytes, expected: bytes) -> bool:
        compared.append(expected)
        return real(given, expected)

    monkeypatch.setattr("holdfast.security.webhooks.hmac.compare_digest", counted)
    verify(sign(SECRET, BODY, NOW), BODY, (SECRET, OLDER), now=NOW)
    verify_shared_secret(SECRET, (SECRET, OLDER))

    # The first is right, and the others are compared all the same.
    assert len(set(compared)) == 4


@pytest.mark.parametrize("given", [SECRET, OLDER])
def test_a_fixed_header_with_a_live_secret_is_let_in(given: str) -> None:
    verify_shared_secret(given, (SECRET, OLDER))


@pytest.mark.parametrize(
    ("given", "code"), [(None, "SecretMissing"), ("", "SecretMissing"), ("guess", "SecretWrong")]
)
def test_a_fixed_header_without_one_is_refused(given: str | None, code: str) -> None:
    with pytest.raises(AccessRefused) as refusal:
        verify_shared_secret(given, (SECRET, OLDER))

    assert refusal.value.code == code
