"""The tokens by which waits are answered: a keyed hash of the flow, the item, the state and its version.

Nothing but the SHA-256 of a token is kept, on the item. Whoever knows the secret can make the token again, so that it
can be told to a person as often as it must be; nobody else can make one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Final

from holdfast.security.secrets import Secret

# How many versions back a token is still known as that of a former wait, or of this one under others' writes.
VERSIONS_BACK_MAX: Final = 100


def token_of(secret: str, flow: str, key: str, state: str, version: int) -> str:
    """Of one wait of one item: 43 characters that may stand in a link."""
    said = json.dumps([flow, key, state, version], separators=(",", ":")).encode()
    made = hmac.new(secret.encode(), said, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).decode().rstrip("=")


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(token: str, kept: str | None) -> bool:
    """Whether this is the token whose hash is kept, in a time that tells nothing."""
    return kept is not None and hmac.compare_digest(hash_of(token), kept)


def tokens_of(secret: Secret, flow: str, key: str, state: str, newest: int) -> Iterator[str]:
    """Those of a state, from the version that it has now back, under each value of a secret that is being rotated."""
    for version in range(newest, max(0, newest - VERSIONS_BACK_MAX), -1):
        for each in secret.live:
            yield token_of(each, flow, key, state, version)
