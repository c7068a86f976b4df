"""Secrets in Secrets Manager: the stage AWSCURRENT is the current value, AWSPREVIOUS the one before a rotation."""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import KeyUnavailable, SecretMissing, SettingsError
from holdfast.sdk import Place, Timeouts, make_clients, require_sdk
from holdfast.security.secrets import Secret
from holdfast.security.services import code_of, error_of

CONNECTIONS: Final = 4
CURRENT: Final = "AWSCURRENT"
PREVIOUS: Final = "AWSPREVIOUS"


def open_secrets_manager(address: str, *, timeouts: Timeouts | None = None) -> ManagedSecrets:
    """`secretsmanager://us-east-1`, with a prefix of the names where there is one: `secretsmanager://us-east-1/prod`."""
    require_sdk("Secrets Manager")
    place = Place.of(address)
    try:
        (client,) = make_clients(("secretsmanager",), place, timeouts or Timeouts(), CONNECTIONS)
    except Exception as error:
        raise error_of(error, "opening Secrets Manager", place.shown) from error
    return ManagedSecrets(client, place.rest.strip("/"), place.shown)


class ManagedSecrets:
    def __init__(self, client: Any, prefix: str, where: str) -> None:
        self._client, self._prefix, self._where = client, prefix, where

    def fetch(self, name: str) -> Secret:
        id = f"{self._prefix}/{name}" if self._prefix else name
        current = self._value(id, CURRENT)
        if current is None:
            raise SecretMissing(
                f"There is no secret {name!r}: create {id!r} in Secrets Manager at {self._where}."
            )
        previous = self._value(id, PREVIOUS)
        return Secret(name, current, previous)

    def _value(self, id: str, stage: str) -> str | None:
        try:
            found = self._client.get_secret_value(SecretId=id, VersionStage=stage)
        except Exception as error:
            if code_of(error) == "ResourceNotFoundException":
                return None
            if code_of(error) == "DecryptionFailure":
                raise KeyUnavailable(
                    f"Secrets Manager at {self._where} cannot decrypt {id!r}: {error}"
                ) from error
            raise error_of(error, "GetSecretValue", self._where) from error
        text = found.get("SecretString")
        if not isinstance(text, str):
            raise SettingsError(f"The secret {id!r} at {self._where} is binary: keep it as a text.")
        return text
