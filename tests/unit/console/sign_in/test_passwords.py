"""Hashes of passwords: what is verified, in which threads, and that unknown users cost as much."""

from __future__ import annotations

import asyncio
import threading

import pytest
from argon2 import PasswordHasher, extract_parameters

from holdfast.console.sign_in import passwords
from holdfast.console.sign_in.passwords import hash_password, is_password_hash, verify_password
from holdfast.core.errors import InvalidRequest

PASSWORD = "correct horse battery staple"


async def test_a_password_matches_its_own_hash_only() -> None:
    hash = hash_password(PASSWORD)

    assert await verify_password(hash, PASSWORD)
    assert not await verify_password(hash, PASSWORD + " ")
    assert not await verify_password(hash_password(PASSWORD + "!"), PASSWORD)


def test_two_hashes_of_a_password_differ() -> None:
    assert hash_password(PASSWORD) != hash_password(PASSWORD)


@pytest.mark.parametrize("password", ["", "elevenchars", "x" * 1001])
def test_refuses_short_and_endless_passwords(password: str) -> None:
    with pytest.raises(InvalidRequest, match="expected 12 to 1000"):
        hash_password(password)


async def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash that nobody has is verified in full, with the parameters of a new hash."""
    verified: list[str] = []
    verify = passwords._verify

    def note(hash: str, given: str) -> bool:
        verified.append(hash)
        return verify(hash, given)

    monkeypatch.setattr(passwords, "_verify", note)

    assert not await verify_password(None, PASSWORD)

    [hash] = verified
    assert extract_parameters(hash) == extract_parameters(hash_password(PASSWORD))


async def test_an_endless_password_is_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_verify", None)

    assert not await verify_password(hash_password(PASSWORD), "x" * 10_000)


async def test_only_a_few_hashes_are_computed_at_once_and_none_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running, most, threads = 0, 0, set[int]()
    lock = threading.Lock()
    verify = passwords._verify

    def count(hash: str, given: str) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            threads.add(threading.get_ident())
        try:
            return verify(hash, given)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(passwords, "_verify", count)
    hash = PasswordHasher(time_cost=1, memory_cost=1024).hash(PASSWORD)

    assert all(await asyncio.gather(*(verify_password(hash, PASSWORD) for _ in range(12))))

    assert 1 <= most <= passwords.MAX_HASHES_AT_ONCE
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("text", ["", "x", "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", "$2b$12$abc"])
def test_other_hashes_are_not_understood(text: str) -> None:
    assert not is_password_hash(text)
