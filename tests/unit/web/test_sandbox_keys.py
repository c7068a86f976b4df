"""Signing keys of a sandbox issuer: shared by its processes, with only the public part published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest

from holdfast.web.sandbox_keys import ALGORITHM, SandboxKeys

FILE = "keys.json"
CLAIMS = {"sub": "somebody"}


def verify(keys: SandboxKeys, token: str) -> dict[str, Any]:
    """Verify the token with the published key that it names. Raise `KeyError` if there is none."""
    published = {each["kid"]: each for each in keys.jwks["keys"]}
    key = published[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, jwt.PyJWK(key).key, algorithms=[ALGORITHM])


@pytest.mark.parametrize("is_kept", [False, True])
def test_old_key_stays_valid_until_it_is_withdrawn(tmp_path: Path, is_kept: bool) -> None:
    keys = SandboxKeys(tmp_path / "new" if is_kept else None, FILE)
    old = keys.sign(CLAIMS)
    kid = keys.rotate()
    new = keys.sign(CLAIMS)
    assert jwt.get_unverified_header(new)["kid"] == kid
    assert verify(keys, old) == verify(keys, new) == CLAIMS

    last = keys.rotate(withdraw=True)
    assert [each["kid"] for each in keys.jwks["keys"]] == [last]


def test_processes_share_the_keys_of_a_folder_readable_only_by_the_owner(tmp_path: Path) -> None:
    first, second = SandboxKeys(tmp_path, FILE), SandboxKeys(tmp_path, FILE)
    first.rotate()

    assert verify(first, second.sign(CLAIMS)) == CLAIMS
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    assert not any("d" in each for each in first.jwks["keys"])


def test_forged_token_names_our_key_and_another_token_an_unknown_key() -> None:
    keys = SandboxKeys(None, FILE, iter(("ours", "forger's", "stranger's")).__next__)

    with pytest.raises(jwt.InvalidSignatureError):
        verify(keys, keys.sign(CLAIMS, "forged"))
    with pytest.raises(KeyError, match="stranger's"):
        verify(keys, keys.sign(CLAIMS, "unknown_key"))
    assert verify(keys, keys.sign(CLAIMS, "expired")) == CLAIMS
