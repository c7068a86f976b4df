"""The `holdfast` command itself: one line for a user's mistake, a traceback only on request, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from holdfast import __version__
from holdfast.cli import app as cli
from holdfast.core.errors import SettingsError


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without variables that a command may leave in the environment."""
    monkeypatch.chdir(tmp_path)
    # Set and deleted, so that monkeypatch removes what a command leaves in the environment.
    for variable in ("HOLDFAST_DEBUG", "HOLDFAST_SETTINGS"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the application with one more command, which fails with a user's mistake."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        error = SettingsError("Port 8000\nis taken.")
        error.add_note("Choose another with --port.")
        raise error

    app.callback()(cli._apply_global_options)
    monkeypatch.setattr(cli, "app", app)


@pytest.mark.usefixtures("failing")
def test_prints_one_line_and_exits_1_for_a_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        cli.main(["fail"])

    assert exited.value.code == 1
    assert capsys.readouterr().err == "holdfast: Port 8000 is taken. Choose another with --port.\n"


@pytest.mark.usefixtures("failing")
def test_debug_option_raises_the_error_with_its_traceback() -> None:
    with pytest.raises(SettingsError):
        cli.main(["--debug", "fail"])


@pytest.mark.usefixtures("failing")
def test_debug_variable_raises_the_error_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")

    with pytest.raises(SettingsError):
        cli.main(["fail"])


def test_unknown_command_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        cli.main(["sevre"])

    assert exited.value.code == 2
    assert "sevre" in capsys.readouterr().err


def test_interrupt_exits_130_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupt)

    with pytest.raises(SystemExit) as exited:
        cli.main([])
    assert exited.value.code == 130


def test_python_dash_m_runs_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"holdfast {__version__}\n"


def test_help_lists_the_commands_in_groups(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    words = [line.strip(" │╭─╮").split(" ")[0] for line in capsys.readouterr().out.splitlines()]
    listed = [word for word in words if word]
    for group, commands in cli.GROUPS.items():
        start = listed.index(group) + 1
        assert listed[start : start + len(commands)] == list(commands)
