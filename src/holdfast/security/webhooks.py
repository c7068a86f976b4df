"""Webhooks that prove where they come from: signed with a secret that both sides have, and not long ago.

    header = sign(secret, body, timestamp)                                   # t=1700000000,v1=5257a869…
    verify(header, body, (current, previous), now=clock.now(), window_s=300)

What is signed is `timestamp.body`, by HMAC with SHA-256: neither can be changed, and an old call cannot be sent again
once the window is over. Two secrets may be live, so that one can be replaced while calls are under way. All of them
are tried, and each comparison takes the same time whatever is given: how long a refusal takes tells nothing.

A sender that cannot sign but sends a fixed header is checked with `verify_shared_secret`. That proves who calls and
not what was said or when: the window of replay is then as long as the secret lives.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final

from holdfast.errors import CallerRefused, SettingsError

WINDOW_S: Final = 300.0
HEADER_CHARS_MAX: Final = 4096
SIGNATURES_MAX: Final = 8
# Shorter ones can be guessed.
SECRET_CHARS_MIN: Final = 16

_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")


def sign(secret: str, body: bytes, timestamp: float) -> str:
    """The header's value for a call that is made at `timestamp`."""
    moment = int(timestamp)
    return f"t={moment},v1={_signature(secret, body, str(moment))}"


def verify(
    header: str | None, body: bytes, secrets: Sequence[str], *, now: float, window_s: float = WINDOW_S
) -> int:
    """Gives when it was signed. `CallerRefused` says by its code what is wrong with it."""
    _refuse_no_secret(secrets)
    if not header:
        raise CallerRefused("SignatureMissing", "The call is not signed: send t=TIMESTAMP,v1=SIGNATURE.")
    timestamp, given = _parts(header)
    is_signed = False
    for secret in secrets:
        expected = _signature(secret, body, timestamp).encode()
        for each in given:
            is_signed |= hmac.compare_digest(each.encode("utf-8", "surrogatepass"), expected)
    if not is_signed:
        raise CallerRefused(
            "SignatureWrong", "The signature is not that of this body by a secret that is live here."
        )
    if abs(now - int(timestamp)) > window_s:
        raise CallerRefused(
            "SignatureExpired",
            f"The call was signed at {timestamp}, more than {window_s:g} s from now: sign it when it is sent, and "
            "set the clocks of both sides.",
        )
    return int(timestamp)


def verify_shared_secret(given: str | None, secrets: Sequence[str]) -> None:
    """That a header has one of the secrets."""
    _refuse_no_secret(secrets)
    if not given:
        raise CallerRefused("SecretMissing", "The call brings no secret: send it in the agreed header.")
    is_right = False
    for secret in secrets:
        # Of equal length whatever is given, so that not even the length of the secret can be found out.
        is_right |= hmac.compare_digest(_digest(given), _digest(secret))
    if not is_right:
        raise CallerRefused("SecretWrong", "The call brings a secret that is not live here.")


def _parts(header: str) -> tuple[str, list[str]]:
    """The timestamp and the signatures. A sender that replaces its secret may send several."""
    refused = CallerRefused(
        "SignatureMalformed", "The signature is not of the form t=TIMESTAMP,v1=SIGNATURE."
    )
    if len(header) > HEADER_CHARS_MAX:
        raise refused
    pairs = [part.strip().partition("=") for part in header.split(",")]
    moments = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(moments) != 1 or not _TIMESTAMP.fullmatch(moments[0]) or not 0 < len(given) <= SIGNATURES_MAX:
        raise refused
    return moments[0], given


def _signature(secret: str, body: bytes, timestamp: str) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _refuse_no_secret(secrets: Sequence[str]) -> None:
    """An empty secret would let anybody sign."""
    if not secrets or any(len(each) < SECRET_CHARS_MIN for each in secrets):
        raise SettingsError(
            f"A webhook needs a secret of at least {SECRET_CHARS_MIN} characters: set one on both sides, for example "
            "from `python -c 'import secrets; print(secrets.token_urlsafe())'`."
        )
