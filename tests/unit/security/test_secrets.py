"""Secrets: never shown in output, and read only from their own variables and files."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest, NotFound, SettingsError
from holdfast.security.secrets import EnvironmentSecrets, FileSecrets, Secret, open_secret_source

SECRET = Secret("webhook", "open-sesame", "before-that")


@pytest.mark.parametrize("shown", [repr(SECRET), str(SECRET), f"{SECRET}", f"{SECRET!r}", f"{[SECRET]}"])
def test_a_secret_does_not_show_its_values(shown: str) -> None:
    assert "sesame" not in shown and "before" not in shown
    assert "webhook" in shown


def test_a_logged_secret_does_not_show_its_values(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("checked with %s", SECRET)
    assert "sesame" not in caplog.text and "webhook" in caplog.text


def test_a_secret_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(SECRET)


def test_a_secret_has_no_attributes_to_dump() -> None:
    assert not hasattr(SECRET, "__dict__")


# --- environment variables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["webhook", "s", "keys", "api", "sx"])
def test_a_secret_in_a_variable_is_not_taken_for_a_misspelt_setting(name: str) -> None:
    """Load settings next to secret variables whose names resemble settings, and read the secret."""
    variable = f"HOLDFAST_SECRET_{name.upper()}"
    Settings.load(environ={variable: "value", variable + "_PREVIOUS": "old"})
    assert EnvironmentSecrets({variable: "value"}).fetch(name).current == "value"


def test_a_misspelt_setting_is_still_refused() -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_SECRETS"):
        Settings.load(environ={"HOLDFAST_SECRET": "env:"})


def test_endpoint_variable_is_not_a_secret() -> None:
    environ = {"HOLDFAST_SECRET_ACCESS_KEY": "the endpoint's"}
    with pytest.raises(InvalidRequest, match="endpoint's own"):
        EnvironmentSecrets(environ).fetch("access-key")


def test_empty_variable_is_not_a_secret() -> None:
    with pytest.raises(NotFound, match="HOLDFAST_SECRET_WEBHOOK"):
        EnvironmentSecrets({"HOLDFAST_SECRET_WEBHOOK": ""}).fetch("webhook")


# --- secrets file -------------------------------------------------------------------------------------------


def write_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_text_and_table_are_both_valid_secrets(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "secrets.toml", 'plain = "one"\n[webhook]\ncurrent = "two"\nprevious = "three"\n'
    )
    secrets = open_secret_source("file:secrets.toml", path)
    assert secrets.get("plain").live == ("one",)
    assert secrets.get("webhook").live == ("two", "three")


def test_rejects_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = write_file(tmp_path / "secrets.toml", 'webhook = "one"', mode=0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        FileSecrets(path).fetch("webhook")


def test_parse_error_does_not_show_the_file_content(tmp_path: Path) -> None:
    path = write_file(tmp_path / "secrets.toml", 'webhook = "open-sesame')
    with pytest.raises(SettingsError, match="not TOML") as raised:
        FileSecrets(path).fetch("webhook")
    assert "sesame" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    "text",
    ["webhook = 7", "webhook = ''", "[webhook]\nprevious = 'x'", "[webhook]\ncurrent = 'x'\nnext = 'y'"],
)
def test_rejects_an_invalid_secret_in_a_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="expected a string"):
        FileSecrets(write_file(tmp_path / "secrets.toml", text)).fetch("webhook")


def test_error_for_a_missing_file_says_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="chmod 600"):
        FileSecrets(tmp_path / "secrets.toml").fetch("webhook")
