"""Tokens that answer waits: a keyed hash of the flow, the item, the state and its version.

Only the SHA-256 of a token is stored, on the item. The holder of the secret can make the token again, so it
can be sent to a person as often as needed; without the secret no token can be made.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Final

from holdfast.security.secrets import Secret

# How many versions back a token is still recognised as one of an earlier wait, or of this one before other
# writes.
MAX_VERSIONS_BACK: Final = 100


def make_token(secret: str, flow: str, key: str, state: str, version: int) -> str:
    """Return the token of one wait of one item: 43 characters that are safe in a URL."""
    signed = json.dumps([flow, key, state, version], separators=(",", ":")).encode()
    made = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).decode().rstrip("=")


def hash_token(token: str) -> str:
    """Return the SHA-256 of the token in hex, as stored on the item."""
    return hashlib.sha256(token.encode()).hexdigest()


def matches_hash(token: str, kept: str | None) -> bool:
    """Return True if the token has the stored hash, compared in constant time; False if none is stored."""
    return kept is not None and hmac.compare_digest(hash_token(token), kept)


def make_recent_tokens(secret: Secret, flow: str, key: str, state: str, newest: int) -> Iterator[str]:
    """Yield a state's tokens from version `newest` back, up to 100, with each live value of a rotating
    secret.
    """
    for version in range(newest, max(0, newest - MAX_VERSIONS_BACK), -1):
        for each in secret.live:
            yield make_token(each, flow, key, state, version)
