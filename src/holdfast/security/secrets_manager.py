"""Secrets in AWS Secrets Manager: stage AWSCURRENT is the current value, AWSPREVIOUS the one before."""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import KeyUnavailable, SecretMissing, SettingsError
from holdfast.security.aws_errors import get_error_code, to_holdfast_error
from holdfast.security.secrets import Secret

CONNECTIONS: Final = 4
CURRENT_STAGE: Final = "AWSCURRENT"
PREVIOUS_STAGE: Final = "AWSPREVIOUS"


def open_secrets_manager(address: str, *, timeouts: Timeouts | None = None) -> ManagedSecrets:
    """Open Secrets Manager: `secretsmanager://us-east-1`, or with a prefix of the names
    `secretsmanager://us-east-1/prod`.
    """
    require_sdk("Secrets Manager")
    place = ServiceAddress.parse(address)
    try:
        (client,) = make_clients(("secretsmanager",), place, timeouts or Timeouts(), CONNECTIONS)
    except Exception as error:
        raise to_holdfast_error(error, "opening Secrets Manager", place.display_name) from error
    return ManagedSecrets(client, place.rest.strip("/"), place.display_name)


class ManagedSecrets:
    """The secrets in one region of Secrets Manager, below an optional prefix."""

    def __init__(self, client: Any, prefix: str, where: str) -> None:
        self._client, self._prefix, self._where = client, prefix, where

    def fetch(self, name: str) -> Secret:
        """Return the secret with both stages. Raise `SecretMissing` if it has no current value."""
        id = f"{self._prefix}/{name}" if self._prefix else name
        current = self._fetch_value(id, CURRENT_STAGE)
        if current is None:
            raise SecretMissing(
                f"Missing secret {name!r}: create {id!r} in Secrets Manager at {self._where}."
            )
        previous = self._fetch_value(id, PREVIOUS_STAGE)
        return Secret(name, current, previous)

    def _fetch_value(self, id: str, stage: str) -> str | None:
        """Return the value of a stage, or None if there is none. Raise `SettingsError` if it is binary."""
        try:
            found = self._client.get_secret_value(SecretId=id, VersionStage=stage)
        except Exception as error:
            if get_error_code(error) == "ResourceNotFoundException":
                return None
            if get_error_code(error) == "DecryptionFailure":
                raise KeyUnavailable(
                    f"Secrets Manager at {self._where} failed to decrypt {id!r}: {error}"
                ) from error
            raise to_holdfast_error(error, "GetSecretValue", self._where) from error
        text = found.get("SecretString")
        if not isinstance(text, str):
            raise SettingsError(
                f"Invalid secret {id!r} at {self._where}: it is binary. Store it as a string."
            )
        return text
