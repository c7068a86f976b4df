"""Who may call the endpoint: access keys and their secrets, from a file or from the environment.

A file is lines of `KEY SECRET` (`#` begins a comment), or TOML of `KEY = "SECRET"` when its name ends in
`.toml`. Without either there are no credentials, and the server then listens on loopback only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import SettingsError

KEY_VARIABLE = "HOLDFAST_ACCESS_KEY_ID"
SECRET_VARIABLE = "HOLDFAST_SECRET_ACCESS_KEY"


def read_credentials(file: Path | None, environ: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Access key to secret; None when nobody is named anywhere."""
    credentials = _from_environment(os.environ if environ is None else environ)
    if file is not None:
        credentials |= _from_file(file)
    return credentials or None


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    key, secret = environ.get(KEY_VARIABLE, ""), environ.get(SECRET_VARIABLE, "")
    if bool(key) != bool(secret):
        missing = SECRET_VARIABLE if key else KEY_VARIABLE
        raise SettingsError(f"{missing} is not set: an access key and its secret come together.")
    return {key: secret} if key else {}


def _from_file(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"The credentials file {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The credentials file {file} is not UTF-8 text.") from error
    credentials = _parse_toml(file, text) if file.suffix == ".toml" else _parse_lines(file, text)
    if not credentials:
        raise SettingsError(f"The credentials file {file} names nobody: write one KEY SECRET per line.")
    return credentials


def _parse_lines(file: Path, text: str) -> dict[str, str]:
    credentials: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        # The line itself stays out of the message: it may hold a secret.
        if len(words) != 2:
            raise SettingsError(f"Line {number} of {file} is not KEY SECRET.")
        credentials[words[0]] = words[1]
    return credentials


def _parse_toml(file: Path, text: str) -> dict[str, str]:
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The credentials file {file} is not TOML: {error}.") from error
    for key, secret in parsed.items():
        if not isinstance(secret, str) or not secret:
            raise SettingsError(f'{key} in {file} must be a text: {key} = "SECRET".')
    return parsed
