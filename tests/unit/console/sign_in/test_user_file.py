"""The file of local users: who may read it, what it may contain, and that edits lose nothing."""

from __future__ import annotations

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.console.sign_in.passwords import hash_password
from holdfast.console.sign_in.user_file import LocalUser, UserFile, is_user_name
from holdfast.core.errors import SettingsError
from tests.unit.console.consoles import PASSWORD, write_users

HASH = hash_password(PASSWORD)
GOOD = f'[users."ada"]\npassword = "{HASH}"\nroles = ["operator", "pagw:personal"]\n'


def write(path: Path, text: str, mode: int = 0o600) -> UserFile:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return UserFile(path)


def test_users_are_read_with_their_roles(tmp_path: Path) -> None:
    users = write(tmp_path / "users.toml", GOOD).load()

    assert users["ada"].roles == {"operator", "pagw:personal"}
    assert users["ada"].to_user().has_role("personal", "pagw")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_have_access_to_is_refused(tmp_path: Path, mode: int) -> None:
    file = write(tmp_path / "users.toml", GOOD, mode)

    with pytest.raises(SettingsError, match="chmod 600"):
        file.load()


def test_a_file_that_becomes_readable_by_others_is_refused_without_other_change(tmp_path: Path) -> None:
    file = write(tmp_path / "users.toml", GOOD)
    file.load()
    file.path.chmod(0o644)

    with pytest.raises(SettingsError, match="chmod 600"):
        file.load()


def test_a_missing_file_says_how_to_add_the_first_user(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holdfast console users add NAME --role admin"):
        UserFile(tmp_path / "users.toml").load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[users", "is not TOML"),
        ("users = 1", "Invalid `users`"),
        ('name = "x"', "Unknown 'name'"),
        (GOOD.replace("ada", "Ada"), "Invalid user name 'Ada'"),
        (GOOD.replace("ada", ".ada"), "Invalid user name '.ada'"),
        (GOOD.replace("argon2id", "argon2i"), "Invalid password of 'ada'"),
        (GOOD.replace(HASH, PASSWORD), "Invalid password of 'ada'"),
        (GOOD.replace('"operator"', "1"), "Invalid roles of 'ada'"),
        (GOOD.replace('"operator"', '"Operator!"'), "Invalid roles of 'ada'"),
        (GOOD.replace("roles", "rules"), "expected `password` and `roles`"),
    ],
)
def test_an_invalid_file_is_refused_without_quoting_a_hash(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)) as refused:
        write(tmp_path / "users.toml", text).load()

    assert HASH not in str(refused.value) and PASSWORD not in str(refused.value)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path / "users.toml", GOOD)
    before = file.load()
    write_users(file.path, {"eve": ["viewer"]})

    assert set(before) == {"ada"}
    assert set(file.load()) == {"eve"}


def test_the_stamp_changes_with_the_password_only() -> None:
    ada = LocalUser("ada", HASH, frozenset({"viewer"}))

    assert ada.stamp == LocalUser("ada", HASH, frozenset({"admin"})).stamp
    assert ada.stamp != LocalUser("ada", hash_password(PASSWORD), frozenset({"viewer"})).stamp


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_users(tmp_path / "users.toml", {"ada": ["viewer"]})
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "users.toml").stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["users.toml"]


def test_an_edit_that_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "users.toml", GOOD)

    def fail() -> None:
        with file.edit() as users:
            users.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert file.path.read_text(encoding="utf-8") == GOOD
    assert [each.name for each in tmp_path.iterdir()] == ["users.toml"]


def test_concurrent_edits_lose_no_user(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"

    def add(number: int) -> None:
        with UserFile(path).edit() as users:
            users[f"u{number}"] = LocalUser(f"u{number}", HASH, frozenset({"viewer"}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))

    assert set(UserFile(path).load()) == {f"u{number}" for number in range(12)}


def test_the_file_behind_a_link_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "users.toml", tmp_path / "users.toml"
    real.parent.mkdir()
    write(real, GOOD)
    link.symlink_to(real)

    with UserFile(link).edit() as users:
        del users["ada"]

    assert link.is_symlink()
    assert UserFile(real).load() == {}


@pytest.mark.parametrize("name", ["ada", "a", "ada.l@example.org", "x_1-2"])
def test_accepts_names(name: str) -> None:
    assert is_user_name(name)


@pytest.mark.parametrize("name", ["", "Ada", "ada ", "ada:1", "ada\n", "a" * 65, "(ada)", "ädа"])
def test_refuses_names_that_could_be_confused(name: str) -> None:
    assert not is_user_name(name)
