"""Webhook signatures: HMAC with a shared secret over timestamp and body, valid for a limited time.

    header = sign(secret, body, timestamp)                                   # t=1700000000,v1=5257a869…
    verify(header, body, (current, previous), now=clock.now(), window_s=300)

The signature covers `timestamp.body` with HMAC-SHA-256: neither can be changed, and a call cannot be replayed
after the window. Two secrets may be live, so that one can be replaced without losing calls. All of them are
tried, and each comparison takes constant time, so that the duration of a refusal reveals nothing.

Use `verify_shared_secret` for a sender that cannot sign but sends a fixed header. It authenticates the
sender, not the body or the time: a call can be replayed as long as the secret is live.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final

from holdfast.core.errors import CallerRefused, SettingsError

WINDOW_S: Final = 300.0
MAX_HEADER_CHARS: Final = 4096
MAX_SIGNATURES: Final = 8
# Shorter secrets can be guessed.
MIN_SECRET_CHARS: Final = 16

_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")


def sign(secret: str, body: bytes, timestamp: float) -> str:
    """Return the header's value for a call made at `timestamp`."""
    moment = int(timestamp)
    return f"t={moment},v1={_compute_signature(secret, body, str(moment))}"


def verify(
    header: str | None, body: bytes, secrets: Sequence[str], *, now: float, window_s: float = WINDOW_S
) -> int:
    """Return the time of the signature. Raise `CallerRefused`, whose code names the problem.

    `secrets` are all that are live; a signature with any of them is valid.
    """
    _check_secrets(secrets)
    if not header:
        raise CallerRefused("SignatureMissing", "The call is not signed: send t=TIMESTAMP,v1=SIGNATURE.")
    timestamp, given = _parse_header(header)
    is_signed = False
    for secret in secrets:
        expected = _compute_signature(secret, body, timestamp).encode()
        for each in given:
            is_signed |= hmac.compare_digest(each.encode("utf-8", "surrogatepass"), expected)
    if not is_signed:
        raise CallerRefused(
            "SignatureWrong",
            "The signature does not match the body. Sign the exact bytes sent, with the current secret.",
        )
    if abs(now - int(timestamp)) > window_s:
        raise CallerRefused(
            "SignatureExpired",
            f"The call was signed at {timestamp}, more than {window_s:g} s from now. Sign it when it is "
            "sent, and synchronise the clocks of both sides.",
        )
    return int(timestamp)


def verify_shared_secret(given: str | None, secrets: Sequence[str]) -> None:
    """Raise `CallerRefused` unless the header's value is one of the secrets."""
    _check_secrets(secrets)
    if not given:
        raise CallerRefused("SecretMissing", "The call has no secret: send it in the agreed header.")
    is_right = False
    for secret in secrets:
        # Digests have equal length, so that the comparison does not reveal the secret's length.
        is_right |= hmac.compare_digest(_compute_digest(given), _compute_digest(secret))
    if not is_right:
        raise CallerRefused("SecretWrong", "Invalid secret: send the current one.")


def _parse_header(header: str) -> tuple[str, list[str]]:
    """Return the timestamp and the signatures. A sender that is replacing its secret may send several.

    Raise `CallerRefused` if the header is malformed.
    """
    refused = CallerRefused(
        "SignatureMalformed", "Invalid signature header: expected t=TIMESTAMP,v1=SIGNATURE."
    )
    if len(header) > MAX_HEADER_CHARS:
        raise refused
    pairs = [part.strip().partition("=") for part in header.split(",")]
    moments = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(moments) != 1 or not _TIMESTAMP.fullmatch(moments[0]) or not 0 < len(given) <= MAX_SIGNATURES:
        raise refused
    return moments[0], given


def _compute_signature(secret: str, body: bytes, timestamp: str) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _compute_digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _check_secrets(secrets: Sequence[str]) -> None:
    """Raise `SettingsError` for a missing or short secret: with an empty secret anyone could sign."""
    if not secrets or any(len(each) < MIN_SECRET_CHARS for each in secrets):
        raise SettingsError(
            f"A webhook needs a secret of at least {MIN_SECRET_CHARS} characters: set one on both "
            "sides, for example from `python -c 'import secrets; print(secrets.token_urlsafe())'`."
        )
