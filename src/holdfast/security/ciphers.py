"""Ciphers: what encrypts data at rest, and binds it to where it belongs.

Envelope encryption: each message has a data key of its own (AES-256-GCM), and the data key is wrapped by a key that
is kept elsewhere: in a file (`open_file_cipher`, here) or in KMS (`kms.py`). The context, such as the bucket and key of
an object, is authenticated with the message: moved to another place it can no longer be decrypted. A message says by
which key it was wrapped, so that keys can be rotated while old messages stay readable.

    "HFC1" | length, id of the wrapping key | length, wrapped data key | nonce | encrypted body and tag
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast.errors import InvalidRequest, KeyUnavailable, SettingsError

MAGIC: Final = b"HFC1"
DATA_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FILE_VERSION: Final = 1
# Nobody but the owner may read keys.
OWNER_ONLY: Final = 0o600
OTHERS: Final = 0o077
_LENGTH: Final = struct.Struct(">H")

Context = Mapping[str, str]


class Cipher(Protocol):
    def encrypt(self, plaintext: bytes, context: Context) -> bytes: ...

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        """Raises `InvalidRequest` for bytes that are damaged or belong to another context, `KeyUnavailable` for a key
        that is not to be had."""
        ...

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        """The same message under the current key; the body is not touched."""
        ...


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A message taken apart. `sealed` is nonce, body and tag."""

    key_id: str
    wrapped: bytes
    sealed: bytes

    def __bytes__(self) -> bytes:
        id = self.key_id.encode()
        return b"".join(
            (MAGIC, _LENGTH.pack(len(id)), id, _LENGTH.pack(len(self.wrapped)), self.wrapped, self.sealed)
        )

    @classmethod
    def of(cls, ciphertext: bytes) -> Envelope:
        if not ciphertext.startswith(MAGIC):
            raise InvalidRequest("These bytes are no message of ours: they do not begin with a header.")
        try:
            id, at = _taken(ciphertext, len(MAGIC))
            wrapped, at = _taken(ciphertext, at)
            return cls(key_id=id.decode(), wrapped=wrapped, sealed=ciphertext[at:])
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidRequest("The message is damaged: its header is cut off.") from error


def sealed(data_key: bytes, plaintext: bytes, context: Context) -> bytes:
    return _gcm_encrypted(data_key, plaintext, MAGIC + spelled(context))


def unsealed(data_key: bytes, body: bytes, context: Context) -> bytes:
    return _gcm_decrypted(data_key, body, MAGIC + spelled(context))


def spelled(context: Context) -> bytes:
    """One spelling per context, whatever its order."""
    return json.dumps(dict(context), sort_keys=True, separators=(",", ":")).encode()


# --- keys in a file -----------------------------------------------------------------------------------------


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds. Keys are never taken out: something may still be encrypted by them."""

    version: int
    current: str
    keys: dict[str, str]


def open_file_cipher(path: Path) -> FileCipher:
    """By the keys in this file, which is made if there is none."""
    require_cryptography()
    if not path.exists():
        _make(path)
    cipher = FileCipher(path)
    cipher.current_key_id  # noqa: B018  a file that cannot be used is refused here, and not at the first message
    return cipher


class FileCipher:
    """Reads the file again when it was changed, so that a rotation reaches every process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int], KeyFile] | None = None

    @property
    def current_key_id(self) -> str:
        return self._keys().current

    def encrypt(self, plaintext: bytes, context: Context) -> bytes:
        data_key = secrets.token_bytes(DATA_KEY_BYTES)
        return bytes(self._wrapped(data_key, sealed(data_key, plaintext, context)))

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        envelope = Envelope.of(ciphertext)
        return unsealed(self._data_key(envelope), envelope.sealed, context)

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        envelope = Envelope.of(ciphertext)
        if envelope.key_id == self.current_key_id:
            return ciphertext
        return bytes(self._wrapped(self._data_key(envelope), envelope.sealed))

    def rotate(self) -> str:
        """Adds a key and makes it the current one; gives its id. The others still decrypt."""
        with _alone(self._path):
            keys = self._keys()
            id, key = _new_key()
            _write(
                self._path,
                KeyFile(version=FILE_VERSION, current=id, keys={**keys.keys, id: key}),
                replace=True,
            )
        return id

    def _wrapped(self, data_key: bytes, body: bytes) -> Envelope:
        id = self.current_key_id
        return Envelope(
            key_id=id, wrapped=_gcm_encrypted(self._key(id), data_key, MAGIC + id.encode()), sealed=body
        )

    def _data_key(self, envelope: Envelope) -> bytes:
        return _gcm_decrypted(self._key(envelope.key_id), envelope.wrapped, MAGIC + envelope.key_id.encode())

    def _key(self, id: str) -> bytes:
        key = self._keys().keys.get(id)
        if key is None:
            raise KeyUnavailable(
                f"The key {id!r} is not in {self._path}, and this was encrypted by it: bring back the key file that has "
                "it, or add the key to this one."
            )
        return b64decode(key)

    def _keys(self) -> KeyFile:
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns)
            with self._lock:
                if self._read is None or self._read[0] != seen:
                    refuse_what_others_may_read(self._path, "keys")
                    self._read = (seen, _parsed(self._path))
                return self._read[1]
        except OSError as error:
            raise KeyUnavailable(f"The key file {self._path} cannot be read: {error.strerror}.") from error


def require_cryptography() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise SettingsError(
            "A cipher needs cryptography, which this installation does not have: pip install '.[objects]' in the clone "
            "of Holdfast, or make setup"
        )


def refuse_what_others_may_read(path: Path, what: str) -> None:
    if path.stat().st_mode & OTHERS:
        raise SettingsError(
            f"Others may read the {what} in {path}: chmod 600 {path}, and replace them if somebody did."
        )


def _make(path: Path) -> None:
    id, key = _new_key()
    try:
        _write(path, KeyFile(version=FILE_VERSION, current=id, keys={id: key}), replace=False)
    except OSError as error:
        raise SettingsError(
            f"The key file {path} cannot be made ({error.strerror}): name another place in the setting `keys`."
        ) from error


def _new_key() -> tuple[str, str]:
    return f"key-{secrets.token_hex(8)}", b64encode(secrets.token_bytes(DATA_KEY_BYTES)).decode()


def _write(path: Path, keys: KeyFile, *, replace: bool) -> None:
    """Whole or not at all. Of two processes that make the file, one does, and the other takes what it made."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if replace:
            fresh.replace(path)
        else:
            os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time changes the file."""
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parsed(path: Path) -> KeyFile:
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=KeyFile)
        sizes = {len(b64decode(key, validate=True)) for key in keys.keys.values()}
    except ValueError as error:
        raise SettingsError(f"{path} is no key file: {error}.") from error
    if keys.version != FILE_VERSION or keys.current not in keys.keys or sizes != {DATA_KEY_BYTES}:
        raise SettingsError(
            f"{path} is no key file of version {FILE_VERSION}: it needs keys of {DATA_KEY_BYTES} bytes, one of them current."
        )
    return keys


# --- AES-256-GCM --------------------------------------------------------------------------------------------


def _gcm_encrypted(key: bytes, plaintext: bytes, bound: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, bound)


def _gcm_decrypted(key: bytes, body: bytes, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:
        raise InvalidRequest(
            "The message is damaged, or was encrypted for another context: nothing of it can be trusted."
        ) from error


def _taken(ciphertext: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(ciphertext, at)
    at += _LENGTH.size
    if at + length > len(ciphertext):
        raise struct.error("too short")
    return ciphertext[at : at + length], at + length
