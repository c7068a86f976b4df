"""Read the access keys and secrets of the DynamoDB endpoint from a file and the environment.

A file has one `KEY SECRET` per line (`#` starts a comment), or is TOML with `KEY = "SECRET"` if its name ends
in `.toml`. Without credentials the server listens on loopback only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.errors import SettingsError

KEY_VARIABLE = "HOLDFAST_ACCESS_KEY_ID"
SECRET_VARIABLE = "HOLDFAST_SECRET_ACCESS_KEY"


def read_credentials(file: Path | None, environ: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Return the secrets by access key, from the environment and the file; None if there are none.

    The file wins if both have the same key. Raise `SettingsError` if either is invalid.
    """
    credentials = _read_environment(os.environ if environ is None else environ)
    if file is not None:
        credentials |= _read_file(file)
    return credentials or None


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the key and secret of the environment; empty if neither is set. Raise if only one is set."""
    key, secret = environ.get(KEY_VARIABLE, ""), environ.get(SECRET_VARIABLE, "")
    if bool(key) != bool(secret):
        missing = SECRET_VARIABLE if key else KEY_VARIABLE
        raise SettingsError(
            f"{missing} is not set: set both {KEY_VARIABLE} and {SECRET_VARIABLE}, or neither."
        )
    return {key: secret} if key else {}


def _read_file(file: Path) -> dict[str, str]:
    """Return the credentials of a file. Raise `SettingsError` if it is unreadable, invalid or has none."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"Failed to read the credentials file {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The credentials file {file} is not UTF-8 text.") from error
    credentials = _parse_toml(file, text) if file.suffix == ".toml" else _parse_lines(file, text)
    if not credentials:
        raise SettingsError(f"The credentials file {file} has no credentials: write one KEY SECRET per line.")
    return credentials


def _parse_lines(file: Path, text: str) -> dict[str, str]:
    """Parse `KEY SECRET` lines; comments and blank lines are skipped. Raise `SettingsError` for any other
    line.
    """
    credentials: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        # The message does not quote the line: it may contain a secret.
        if len(words) != 2:
            raise SettingsError(f"Invalid line {number} of {file}: expected KEY SECRET.")
        credentials[words[0]] = words[1]
    return credentials


def _parse_toml(file: Path, text: str) -> dict[str, str]:
    """Parse `KEY = "SECRET"` pairs. Raise `SettingsError` if the text is not TOML or a secret is not a
    string.
    """
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The credentials file {file} is not valid TOML: {error}.") from error
    for key, secret in parsed.items():
        if not isinstance(secret, str) or not secret:
            raise SettingsError(f'Invalid {key} in {file}: expected a string, {key} = "SECRET".')
    return parsed
