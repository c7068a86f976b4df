"""Hashes of passwords, with argon2id.

A hash takes 64 MiB and tens of milliseconds, on purpose. So hashes are computed in threads, off the event
loop, and only a few at the same time.
"""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRequest
from holdfast.core.rng import draw_bytes

with explain_missing(__name__, "console"):
    from argon2 import PasswordHasher, Type, extract_parameters
    from argon2.exceptions import InvalidHashError, VerificationError

__all__ = ["check_password", "hash_password", "is_password_hash", "verify_password"]

MIN_PASSWORD_CHARS: Final = 12
# A longer one only costs time.
MAX_PASSWORD_CHARS: Final = 1000
MAX_HASHES_AT_ONCE: Final = 2

_HASHER: Final = PasswordHasher()
_threads: Final = ThreadPoolExecutor(MAX_HASHES_AT_ONCE, thread_name_prefix="holdfast-password")


def check_password(password: str) -> None:
    """Raise `InvalidRequest` for a password that is too short or too long to be hashed."""
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise InvalidRequest(
            f"Invalid password of {len(password)} characters: expected {MIN_PASSWORD_CHARS} to "
            f"{MAX_PASSWORD_CHARS}. Use a sentence, or let a password manager make one."
        )


def hash_password(password: str) -> str:
    """Return the hash of a password, with its salt and parameters, as text."""
    check_password(password)
    return _HASHER.hash(password)


def is_password_hash(text: str) -> bool:
    """Return whether the text is a hash that `verify_password` understands."""
    try:
        return extract_parameters(text).type is Type.ID
    except InvalidHashError:
        return False


async def verify_password(hash: str | None, password: str) -> bool:
    """Return whether the password has this hash; False for None, after as long a time as for a real one."""
    if len(password) > MAX_PASSWORD_CHARS:
        return False
    loop = asyncio.get_running_loop()
    is_right = await loop.run_in_executor(_threads, _verify, _UNKNOWN if hash is None else hash, password)
    return is_right and hash is not None


def _verify(hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _build_unknown_hash() -> str:
    """Return a hash that no password has, for users who do not exist."""
    salt, digest = (
        base64.b64encode(draw_bytes(length)).decode().rstrip("=")
        for length in (_HASHER.salt_len, _HASHER.hash_len)
    )
    costs = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


_UNKNOWN: Final = _build_unknown_hash()
