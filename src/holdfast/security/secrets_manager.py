"""Secrets in AWS Secrets Manager: stage AWSCURRENT is the current value, AWSPREVIOUS the one before."""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import HoldfastError, KeyUnavailable, SecretMissing, SettingsError
from holdfast.security.aws_errors import get_error_code, get_error_text, to_holdfast_error
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
        current = self._fetch_value(name, CURRENT_STAGE)
        try:
            return Secret(name, current, self._fetch_value(name, PREVIOUS_STAGE))
        except SecretMissing:
            return Secret(name, current)

    def _fetch_value(self, name: str, stage: str) -> str:
        """Return the value of a stage. Raise `SecretMissing` if there is none, `SettingsError` if it is
        binary.
        """
        id = f"{self._prefix}/{name}" if self._prefix else name
        try:
            found = self._client.get_secret_value(SecretId=id, VersionStage=stage)
        except Exception as error:
            raise self._to_error(error, name, id) from error
        text = found.get("SecretString")
        if not isinstance(text, str):
            raise SettingsError(
                f"Invalid secret {id!r} at {self._where}: it is binary. Store it as a string."
            )
        return text

    def _to_error(self, cause: Exception, name: str, id: str) -> HoldfastError:
        """Map an error of Secrets Manager: missing, not to be decrypted, or a general error of AWS."""
        code = get_error_code(cause)
        if code == "ResourceNotFoundException":
            return SecretMissing(
                f"Missing secret {name!r}: create {id!r} in Secrets Manager at {self._where}. "
                f"{get_error_text(cause)}".rstrip()
            ).with_code(code)
        if code == "DecryptionFailure":
            return KeyUnavailable(
                f"Secrets Manager at {self._where} failed to decrypt {id!r}: {cause}"
            ).with_code(code)
        return to_holdfast_error(cause, "GetSecretValue", self._where)
