"""Secrets: what a system shares with outside parties, and must neither keep in its code nor show.

    secrets = open_secrets("env:", Path())
    secret = secrets.get("webhook")          # HOLDFAST_SECRET_WEBHOOK, HOLDFAST_SECRET_WEBHOOK_PREVIOUS
    any(hmac.compare_digest(given, each) for each in secret.live)

A secret that is being rotated has two live values: the current one, which is sent, and the previous one, which is
still taken. The values come from variables of the environment, a TOML file that nobody else may read, or Secrets
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

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import InvalidRequest, SecretMissing, SettingsError
from holdfast.security.ciphers import refuse_what_others_may_read
from holdfast.settings import ENVIRONMENT_SECRETS, FILE_SCHEME, SECRET_VARIABLE_PREFIX

PREVIOUS: Final = "_PREVIOUS"
# How long a value is used before its place is looked at again.
KEPT_S: Final = 300.0
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_/-][a-z0-9]+)*")
# `access_key` would be HOLDFAST_SECRET_ACCESS_KEY, the secret of the DynamoDB endpoint.
_TAKEN: Final = "HOLDFAST_SECRET_ACCESS_KEY"


class Secret:
    """The values of one secret. It shows itself nowhere: not in a log, a traceback or a debugger's list."""

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
        raise TypeError("a secret is not pickled: fetch it where it is needed")


class SecretSource(Protocol):
    """Where secrets are: looked at each time it is asked."""

    def fetch(self, name: str) -> Secret:
        """Raises `SecretMissing`, with where to put it."""
        ...


class Secrets:
    """Secrets by name, each kept for `kept_s` seconds by the clock; `refresh` looks again at once."""

    def __init__(self, source: SecretSource, *, clock: Clock = SYSTEM_CLOCK, kept_s: float = KEPT_S) -> None:
        self._source, self._clock, self._kept_s = source, clock, kept_s
        self._kept: dict[str, tuple[float, Secret]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Secret:
        _check_name(name)
        with self._lock:
            fetched_at, secret = self._kept.get(name, (0.0, None))
        if secret is not None and self._clock.now() - fetched_at < self._kept_s:
            return secret
        return self.refresh(name)

    def refresh(self, name: str) -> Secret:
        """Looks again, as when a value that should be valid is refused."""
        _check_name(name)
        secret = self._source.fetch(name)
        with self._lock:
            self._kept[name] = (self._clock.now(), secret)
        return secret


def open_secrets(address: str, file: Path, *, clock: Clock = SYSTEM_CLOCK, kept_s: float = KEPT_S) -> Secrets:
    """`env:`, `file:secrets.toml` (`file` is where that is), or `secretsmanager://us-east-1/prefix`."""
    source: SecretSource
    if address.startswith(ENVIRONMENT_SECRETS):
        source = EnvironmentSecrets()
    elif address.startswith(FILE_SCHEME):
        source = FileSecrets(file)
    else:
        from holdfast.security.secrets_manager import open_secrets_manager

        source = open_secrets_manager(address)
    return Secrets(source, clock=clock, kept_s=kept_s)


class EnvironmentSecrets:
    """`webhook` is HOLDFAST_SECRET_WEBHOOK; while it is rotated, HOLDFAST_SECRET_WEBHOOK_PREVIOUS is valid too."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def fetch(self, name: str) -> Secret:
        variable = SECRET_VARIABLE_PREFIX + re.sub(r"[/-]", "_", name).upper()
        if variable.startswith(_TAKEN):
            raise InvalidRequest(
                f"The secret {name!r} cannot come from {variable}: that is the endpoint's own. Call it something else."
            )
        current = self._environ.get(variable)
        if not current:
            raise SecretMissing(f"There is no secret {name!r}: set the variable {variable}.")
        return Secret(name, current, self._environ.get(variable + PREVIOUS) or None)


class FileSecrets:
    """`webhook = "…"`, or while it is rotated `[webhook]` with `current` and `previous`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch(self, name: str) -> Secret:
        value = self._values().get(name)
        if isinstance(value, str):
            value = {"current": value}
        if value is None:
            raise SecretMissing(f'There is no secret {name!r}: add {name} = "…" to {self._path}.')
        if not isinstance(value, dict) or not set(value) <= {"current", "previous"} or not _are_texts(value):
            raise SettingsError(
                f"The secret {name!r} in {self._path} must be a text, or a table with current and previous."
            )
        return Secret(name, value["current"], value.get("previous"))

    def _values(self) -> dict[str, Any]:
        try:
            refuse_what_others_may_read(self._path, "secrets")
            return tomllib.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SecretMissing(
                f"There is no file {self._path} with secrets: make it, with chmod 600, or change the setting `secrets`."
            ) from error
        except OSError as error:
            raise SettingsError(f"The secrets in {self._path} cannot be read: {error.strerror}.") from error
        except ValueError:
            # What the parser says may quote the line, and with it a secret.
            raise SettingsError(f"{self._path} is not TOML: check its quotes and brackets.") from None


def _are_texts(value: Mapping[str, Any]) -> bool:
    return bool(value.get("current")) and all(isinstance(each, str) and each for each in value.values())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"No secret can be called {name!r}: use lower-case letters and digits, in words joined by '_', '-' or '/'."
        )
