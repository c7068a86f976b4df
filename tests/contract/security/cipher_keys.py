"""The ciphers under test, each with operations that rotate and lose its keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from holdfast.security.ciphers import Cipher, FileCipher
from holdfast.security.kms import KmsCipher


class Keys(Protocol):
    """A cipher under test and its keys."""

    @property
    def cipher(self) -> Cipher: ...

    def rotate(self) -> None: ...

    def lose_current(self) -> None:
        """Delete the key that encrypted the last message."""
        ...


class FileKeys:
    """A cipher whose keys are in a file."""

    def __init__(self, cipher: FileCipher) -> None:
        self.cipher, self._path = cipher, cipher._path

    def rotate(self) -> None:
        self.cipher.rotate()

    def lose_current(self) -> None:
        """Rotate, then remove the former key from the file."""
        lost = self.cipher.current_key_id
        self.cipher.rotate()
        _rewrite(self._path, lost)


class KmsKeys:
    """A KMS cipher whose alias moves to another key, like a manual rotation."""

    def __init__(self, cipher: KmsCipher) -> None:
        self.cipher, self._client = cipher, cipher._client
        self._key = self._new()
        self._client.create_alias(AliasName=cipher._key, TargetKeyId=self._key)

    def rotate(self) -> None:
        """Point the alias to a new key."""
        self._key = self._new()
        self._client.update_alias(AliasName=self.cipher._key, TargetKeyId=self._key)

    def lose_current(self) -> None:
        """Disable the current key."""
        self._client.disable_key(KeyId=self._key)

    def _new(self) -> Any:
        return self._client.create_key()["KeyMetadata"]["KeyId"]


def _rewrite(path: Path, without: str) -> None:
    """Write the key file again, without the key `without`."""
    held = json.loads(path.read_text())
    del held["keys"][without]
    fresh = path.with_suffix(".fresh")
    fresh.write_text(json.dumps(held))
    fresh.chmod(0o600)
    fresh.replace(path)
