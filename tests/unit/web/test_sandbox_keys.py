"""The keys of a stand-in for an issuer: shared by its processes, and never published whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest

from holdfast.web.sandbox_keys import ALGORITHM, SandboxKeys

FILE = "keys.json"
CLAIMS = {"sub": "somebody"}


def read(keys: SandboxKeys, token: str) -> dict[str, Any]:
    """By the published key of the name that the token says; a `KeyError` where there is none."""
    published = {each["kid"]: each for each in keys.jwks["keys"]}
    key = published[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, jwt.PyJWK(key).key, algorithms=[ALGORITHM])


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_old_key_holds_until_it_is_withdrawn(tmp_path: Path, is_kept: bool) -> None:
    keys = SandboxKeys(tmp_path / "new" if is_kept else None, FILE)
    old = keys.sign(CLAIMS)
    kid = keys.rotate()
    new = keys.sign(CLAIMS)
    assert jwt.get_unverified_header(new)["kid"] == kid
    assert read(keys, old) == read(keys, new) == CLAIMS

    last = keys.rotate(withdraw=True)
    assert [each["kid"] for each in keys.jwks["keys"]] == [last]


def test_processes_on_one_folder_share_its_keys_which_are_their_owners_alone(tmp_path: Path) -> None:
    first, second = SandboxKeys(tmp_path, FILE), SandboxKeys(tmp_path, FILE)
    first.rotate()

    assert read(first, second.sign(CLAIMS)) == CLAIMS
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    assert not any("d" in each for each in first.jwks["keys"])


def test_a_forged_token_has_the_name_of_our_key_and_another_has_one_that_nobody_knows() -> None:
    keys = SandboxKeys(None, FILE, iter(("ours", "forger's", "stranger's")).__next__)

    with pytest.raises(jwt.InvalidSignatureError):
        read(keys, keys.sign(CLAIMS, "forged"))
    with pytest.raises(KeyError, match="stranger's"):
        read(keys, keys.sign(CLAIMS, "unknown_key"))
    assert read(keys, keys.sign(CLAIMS, "expired")) == CLAIMS
