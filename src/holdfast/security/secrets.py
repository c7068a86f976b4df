"""Secrets that a system shares with external services; they are neither in the code nor in its output.

    secrets = open_secret_source("env:", Path())
    secret = secrets.get("webhook")          # HOLDFAST_SECRET_WEBHOOK, HOLDFAST_SECRET_WEBHOOK_PREVIOUS
    any(hmac.compare_digest(given, each) for each in secret.live)

During a rotation a secret has two live values: the current one, which we send, and the previous one, which we
still accept. The values come from environment variables, a TOML file that only its owner may read, or Secrets
Manager (`secrets_manager.py`).
"""

from __future__ import annotations

import os
import re
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.config.settings import ENVIRONMENT_SECRETS, FILE_SCHEME, SECRET_VARIABLE_PREFIX
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidRequest, SecretMissing, SettingsError
from holdfast.security.ciphers import require_owner_only

__all__ = [
    "EnvironmentSecrets",
    "FileSecrets",
    "Secret",
    "SecretSource",
    "Secrets",
    "open_secret_source",
]

PREVIOUS_SUFFIX: Final = "_PREVIOUS"
# How long a value is cached before it is fetched again.
CACHE_S: Final = 300.0
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_/-][a-z0-9]+)*")
# `access_key` would be HOLDFAST_SECRET_ACCESS_KEY, the secret of the DynamoDB endpoint.
_RESERVED_VARIABLE: Final = "HOLDFAST_SECRET_ACCESS_KEY"


class Secret:
    """The values of one secret. Its repr hides them, so that no log, traceback or debugger shows them."""

    __slots__ = ("_current", "_previous", "name")

    def __init__(self, name: str, current: str, previous: str | None = None) -> None:
        self.name, self._current, self._previous = name, current, previous

    @property
    def current(self) -> str:
        return self._current

    @property
    def previous(self) -> str | None:
        return self._previous

    @property
    def live(self) -> tuple[str, ...]:
        """Every value that is valid now, the current one first."""
        return (self._current,) if self._previous is None else (self._current, self._previous)

    def __repr__(self) -> str:
        return f"Secret({self.name!r}, …)"

    def __reduce__(self) -> str:
        """Raise `TypeError`: a secret must not be pickled."""
        raise TypeError("a secret is not pickled: fetch it where it is needed")


class SecretSource(Protocol):
    """A source of secrets, without a cache."""

    def fetch(self, name: str) -> Secret:
        """Return the secret. Raise `SecretMissing`, whose message says where to put it."""
        ...


class Secrets:
    """Secrets by name, each cached for `cache_s` seconds by the clock. `refresh` fetches at once."""

    def __init__(
        self, source: SecretSource, *, clock: Clock = SYSTEM_CLOCK, cache_s: float = CACHE_S
    ) -> None:
        self._source, self._clock, self._cache_s = source, clock, cache_s
        self._cache: dict[str, tuple[float, Secret]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Secret:
        """Return the secret, from the cache if it is recent enough. Raise `SecretMissing` if there is
        none.
        """
        _check_name(name)
        with self._lock:
            fetched_at, secret = self._cache.get(name, (0.0, None))
        # A value fetched in the future was fetched while the clock was ahead: its age is unknown.
        if secret is not None and 0 <= self._clock.now() - fetched_at < self._cache_s:
            return secret
        return self.refresh(name)

    def refresh(self, name: str) -> Secret:
        """Fetch the secret again, for example when a value that should be valid is refused."""
        _check_name(name)
        secret = self._source.fetch(name)
        with self._lock:
            self._cache[name] = (self._clock.now(), secret)
        return secret


def open_secret_source(
    address: str, file: Path, *, clock: Clock = SYSTEM_CLOCK, cache_s: float = CACHE_S
) -> Secrets:
    """Open the secrets at an address: `env:`, `file:secrets.toml` (`file` is its path), or
    `secretsmanager://us-east-1/prefix`. A value is cached for `cache_s` seconds.
    """
    source: SecretSource
    if address.startswith(ENVIRONMENT_SECRETS):
        source = EnvironmentSecrets()
    elif address.startswith(FILE_SCHEME):
        source = FileSecrets(file)
    else:
        from holdfast.security.secrets_manager import open_secrets_manager

        source = open_secrets_manager(address)
    return Secrets(source, clock=clock, cache_s=cache_s)


class EnvironmentSecrets:
    """Secrets in environment variables: `webhook` is HOLDFAST_SECRET_WEBHOOK. During a rotation
    HOLDFAST_SECRET_WEBHOOK_PREVIOUS is valid too.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def fetch(self, name: str) -> Secret:
        """Return the secret. Raise `SecretMissing` if its variable is not set, `InvalidRequest` for a
        reserved name.
        """
        variable = SECRET_VARIABLE_PREFIX + re.sub(r"[/-]", "_", name).upper()
        if variable.startswith(_RESERVED_VARIABLE):
            raise InvalidRequest(
                f"Invalid secret name {name!r}: {variable} is the DynamoDB endpoint's own variable. Use "
                "another name."
            )
        current = self._environ.get(variable)
        if not current:
            raise SecretMissing(f"Missing secret {name!r}: set the variable {variable}.")
        return Secret(name, current, self._environ.get(variable + PREVIOUS_SUFFIX) or None)


class FileSecrets:
    """Secrets in a TOML file: `webhook = "…"`, or during a rotation `[webhook]` with `current` and
    `previous`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch(self, name: str) -> Secret:
        """Read the file and return the secret. Raise `SecretMissing` if absent, `SettingsError` if it is
        invalid.
        """
        value = self._load_file().get(name)
        if isinstance(value, str):
            value = {"current": value}
        if value is None:
            raise SecretMissing(f'Missing secret {name!r}: add {name} = "…" to {self._path}.')
        if (
            not isinstance(value, dict)
            or not set(value) <= {"current", "previous"}
            or not _are_strings(value)
        ):
            raise SettingsError(
                f"Invalid secret {name!r} in {self._path}: expected a string, or a table with current and "
                "previous."
            )
        return Secret(name, value["current"], value.get("previous"))

    def _load_file(self) -> dict[str, Any]:
        """Read the file, which only its owner may read. Raise `SecretMissing` if it does not exist."""
        try:
            require_owner_only(self._path, "secrets")
            return tomllib.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SecretMissing(
                f"Missing secrets file {self._path}: create it with chmod 600, or change the setting "
                "`secrets`."
            ) from error
        except OSError as error:
            raise SettingsError(f"Failed to read the secrets in {self._path}: {error.strerror}.") from error
        except ValueError:
            # Drop the parser's message: it may quote a line with a secret.
            raise SettingsError(f"{self._path} is not TOML: check its quotes and brackets.") from None


def _are_strings(value: Mapping[str, Any]) -> bool:
    """Return whether `current` exists and every value is a non-empty string."""
    return bool(value.get("current")) and all(isinstance(each, str) and each for each in value.values())


def _check_name(name: str) -> None:
    """Raise `InvalidRequest` unless the name is lower-case words joined by `_`, `-` or `/`."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"Invalid secret name {name!r}: use lower-case letters and digits, in words joined by '_', '-' "
            "or '/'."
        )
