"""Credentials of the DynamoDB endpoint: read from a file, from the environment, or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.arguments.credentials import read_credentials
from holdfast.core.errors import SettingsError


def write_file(tmp_path: Path, text: str, name: str = "credentials") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_returns_no_credentials_by_default() -> None:
    assert read_credentials(None, {}) is None


def test_a_key_and_its_secret_come_from_the_environment() -> None:
    environ = {"HOLDFAST_ACCESS_KEY_ID": "AKID", "HOLDFAST_SECRET_ACCESS_KEY": "s3cret"}

    assert read_credentials(None, environ) == {"AKID": "s3cret"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("HOLDFAST_ACCESS_KEY_ID", "HOLDFAST_SECRET_ACCESS_KEY"),
        ("HOLDFAST_SECRET_ACCESS_KEY", "HOLDFAST_ACCESS_KEY_ID"),
    ],
)
def test_rejects_a_key_without_its_secret(given: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=f"{missing} is not set"):
        read_credentials(None, {given: "x"})


def test_lines_of_key_and_secret_are_read_and_comments_skipped(tmp_path: Path) -> None:
    file = write_file(tmp_path, "# who may call\n\nONE  first\nTWO\tsecond\n")

    assert read_credentials(file, {}) == {"ONE": "first", "TWO": "second"}


def test_file_named_toml_is_parsed_as_toml(tmp_path: Path) -> None:
    file = write_file(tmp_path, 'ONE = "first"\n', "credentials.toml")

    assert read_credentials(file, {}) == {"ONE": "first"}


def test_credentials_of_file_and_environment_are_merged(tmp_path: Path) -> None:
    environ = {"HOLDFAST_ACCESS_KEY_ID": "AKID", "HOLDFAST_SECRET_ACCESS_KEY": "s3cret"}

    assert read_credentials(write_file(tmp_path, "ONE first"), environ) == {"AKID": "s3cret", "ONE": "first"}


def test_names_a_bad_line_by_its_number_and_hides_its_secret(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Invalid line 2 of .*: expected KEY SECRET") as refused:
        read_credentials(write_file(tmp_path, "ONE first\nTWO second hidden\n"), {})

    assert "hidden" not in refused.value.message


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("credentials", "# nobody\n", "has no credentials"),
        ("credentials.toml", "ONE = \n", "is not valid TOML"),
        ("credentials.toml", "ONE = 1\n", "expected a string"),
    ],
)
def test_rejects_a_file_without_usable_credentials(tmp_path: Path, name: str, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        read_credentials(write_file(tmp_path, text, name), {})


def test_rejects_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Failed to read the credentials file .*: No such file"):
        read_credentials(tmp_path / "nowhere", {})


def test_rejects_a_binary_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_bytes(b"\xff\xfe\xfa")

    with pytest.raises(SettingsError, match="not UTF-8"):
        read_credentials(file, {})
