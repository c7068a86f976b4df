"""`holdfast console users`: add, list, set a password, remove; the password is never an argument."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands.console import _open_view
from holdfast.cli.processes.production import list_console_problems
from holdfast.config.settings import Settings
from holdfast.console.sign_in.passwords import verify_password
from holdfast.console.sign_in.user_file import UserFile
from holdfast.model.system import load_system
from holdfast.runtime import open_stores

PASSWORD = "correct horse battery staple"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder whose settings name a file of users."""
    monkeypatch.chdir(tmp_path)
    Path("holdfast.toml").write_text('console_users = "users.toml"\n', encoding="utf-8")
    return tmp_path / "users.toml"


def run(monkeypatch: pytest.MonkeyPatch, *words: str, typed: str = f"{PASSWORD}\n", code: int = 0) -> None:
    """Run the command with this standard input; it must exit with the code."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    with pytest.raises(SystemExit) as exited:
        main(["console", "users", *words])
    assert exited.value.code == code


async def test_adds_a_user_with_a_password_from_standard_input(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "add", "ada", "--role", "operator", "--role", "pagw:personal")
    run(monkeypatch)

    added = UserFile(users).load()["ada"]
    assert added.roles == {"operator", "pagw:personal"}
    assert await verify_password(added.password, PASSWORD)
    printed = capsys.readouterr().out
    assert "ada: operator, pagw:personal" in printed
    assert PASSWORD not in printed and "argon2" not in printed


async def test_sets_another_password_and_keeps_the_roles(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, "add", "ada", "--role", "operator")
    run(monkeypatch, "password", "ada", typed="another horse and battery\n")

    changed = UserFile(users).load()["ada"]
    assert changed.roles == {"operator"}
    assert await verify_password(changed.password, "another horse and battery")
    assert not await verify_password(changed.password, PASSWORD)


def test_removes_a_user(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "add", "ada", "--role", "operator")
    run(monkeypatch, "add", "otto", "--role", "viewer")
    run(monkeypatch, "remove", "ada")

    assert set(UserFile(users).load()) == {"otto"}


@pytest.mark.parametrize(
    ("words", "typed", "code", "says"),
    [
        (["add", "ada", "--role", "viewer"], "short\n", 1, "expected 12 to 1000"),
        (["add", "ada", "--role", "viewer"], "", 1, "expected 12 to 1000"),
        (["add", "Ada", "--role", "viewer"], f"{PASSWORD}\n", 1, "Invalid user name 'Ada'"),
        (["add", "ada", "--role", "no role"], f"{PASSWORD}\n", 1, "Invalid role 'no role'"),
        (["add", "ada"], f"{PASSWORD}\n", 2, "A user needs a role"),
        (["add"], f"{PASSWORD}\n", 2, "needs NAME"),
        (["password", "ada"], f"{PASSWORD}\n", 1, "Missing file of the console's users"),
        (["list", "--role", "viewer"], "", 2, "--role is of `holdfast console users add`"),
        (["list", "--port", "1"], "", 2, "--host and --port are of `holdfast console`"),
        ([], "", 1, "Missing file of the console's users"),
    ],
)
def test_refuses_what_is_invalid_and_writes_nothing(
    users: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    typed: str,
    code: int,
    says: str,
) -> None:
    run(monkeypatch, *words, typed=typed, code=code)

    assert says in capsys.readouterr().err
    assert not users.exists()


def test_does_not_add_a_user_twice(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "add", "ada", "--role", "viewer")
    before = users.read_bytes()
    run(monkeypatch, "add", "ada", "--role", "admin", code=1)

    assert "The user 'ada' exists" in capsys.readouterr().err
    assert users.read_bytes() == before


def test_an_unknown_role_for_every_system_is_refused(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "add", "ada", "--role", "operatr", code=1)

    assert "did you mean operator?" in capsys.readouterr().err
    assert not users.exists()


def test_an_unknown_role_of_a_system_is_added_with_a_note(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "add", "ada", "--role", "pagw:auditor")

    assert "has no role 'auditor'" in capsys.readouterr().err


def test_a_role_of_a_system_that_is_not_installed_is_added_with_a_note(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machines may share the file, and have other systems."""
    run(monkeypatch, "add", "ada", "--role", "pawg:viewer")

    assert "no system 'pawg' is installed here; there are" in capsys.readouterr().err
    assert "pawg:viewer" in users.read_text()


def test_without_the_setting_it_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, code=1)

    assert 'console_users = "users.toml"' in capsys.readouterr().err


def test_systems_that_need_an_environment_are_shown_as_up_runs_them(tmp_path: Path) -> None:
    """The others are shown without one, so that both are found."""
    stores = open_stores(settings=Settings().in_folder(tmp_path))
    named = open_stores(settings=Settings(environment="staging").in_folder(tmp_path))

    assert _open_view(stores, load_system("pagw")).environment == "dev"
    assert _open_view(stores, load_system("skymarshal")).environment == ""
    assert _open_view(named, load_system("pagw")).environment == "staging"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "The console has no users"),
        ({"console_users": "u.toml"}, "HOLDFAST_CONSOLE_URL is missing"),
        (
            {"console_users": "u.toml", "console_url": "http://c.example.org"},
            "HOLDFAST_CONSOLE_URL is missing",
        ),
        ({"console_oidc_issuer": "http://127.0.0.1:9", "console_url": "https://c.example.org"}, "not a real"),
        (
            {"run_clock": "clock", "console_users": "u.toml", "console_url": "https://c.example.org"},
            "by hand",
        ),
    ],
)
def test_production_names_what_the_console_lacks(settings: dict[str, str], says: str) -> None:
    problems = list(list_console_problems(Settings(**settings), [load_system("skymarshal")]))  # type: ignore[arg-type]

    assert any(says in each for each in problems)


def test_production_accepts_users_over_tls() -> None:
    settings = Settings(console_users="users.toml", console_url="https://console.example.org")

    assert list(list_console_problems(settings, [load_system("skymarshal")])) == []
