"""Ciphers that encrypt data at rest and bind it to its context, with keys in a file or in KMS.

Envelope encryption: each message has its own data key (AES-256-GCM), wrapped by a key that is stored in a
file (`open_file_cipher`, here) or in KMS (`kms.py`). The context, such as the bucket and key of an object, is
authenticated with the message: a message that was moved elsewhere does not decrypt. A message names its
wrapping key, so that keys can be rotated while old messages stay readable.

    "HFC1" | length, id of the wrapping key | length, wrapped data key | nonce | encrypted body and tag
"""

from __future__ import annotations

import hmac
import importlib.util
import json
import os
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast.core.disk import lock, open_private, require_posix, sync, sync_path
from holdfast.core.distribution import format_install_command
from holdfast.core.errors import InvalidRequest, KeyUnavailable, SettingsError
from holdfast.core.rng import draw_bytes, make_hex_token
from holdfast.core.store_marker import mark_store, refuse_lost_store

__all__ = [
    "Cipher",
    "Context",
    "Envelope",
    "FileCipher",
    "KeyFile",
    "encode_context",
    "is_encrypted",
    "open_file_cipher",
    "require_cryptography",
    "require_owner_only",
    "seal",
    "unseal",
]

MAGIC: Final = b"HFC1"
DATA_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FILE_VERSION: Final = 1
# Only the owner may read keys.
OTHERS_MASK: Final = 0o077
CHECK_LABEL: Final = b"holdfast key check "
CHECK_BYTES: Final = 8
_LENGTH: Final = struct.Struct(">H")
# How base64 begins for the mark and the first byte of a length below 4,096.
_MAGIC_TEXT: Final = b64encode(MAGIC + b"\0")[:6].decode()

Context = Mapping[str, str]
"""What an encrypted text belongs to. It decrypts only under the same context."""


class Cipher(Protocol):
    """A cipher with authenticated context and key rotation."""

    def encrypt(self, plaintext: bytes, context: Context) -> bytes: ...

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        """Return the plaintext. Raise `InvalidRequest` for bytes that are damaged or belong to another
        context, `KeyUnavailable` if the key is missing.
        """
        ...

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        """Return the same message under the current key; the encrypted body stays the same."""
        ...


def is_encrypted(value: object) -> bool:
    """Return whether a stored value is a message of a cipher, as bytes or as base64 text."""
    if isinstance(value, str):
        return value.startswith(_MAGIC_TEXT)
    return isinstance(value, bytes) and value.startswith(MAGIC)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed message. `sealed` is nonce, body and tag."""

    key_id: str
    wrapped: bytes
    sealed: bytes

    def __bytes__(self) -> bytes:
        """Return the message in the format that the module describes."""
        id = self.key_id.encode()
        return b"".join(
            (MAGIC, _LENGTH.pack(len(id)), id, _LENGTH.pack(len(self.wrapped)), self.wrapped, self.sealed)
        )

    @classmethod
    def parse(cls, ciphertext: bytes) -> Envelope:
        """Parse a message. Raise `InvalidRequest` if its header is damaged."""
        if not ciphertext.startswith(MAGIC):
            raise InvalidRequest("Invalid message: expected it to begin with the header HFC1.")
        try:
            id, at = _read_field(ciphertext, len(MAGIC))
            wrapped, at = _read_field(ciphertext, at)
            return cls(key_id=id.decode(), wrapped=wrapped, sealed=ciphertext[at:])
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidRequest("The message is damaged: its header is truncated.") from error


def seal(data_key: bytes, plaintext: bytes, context: Context) -> bytes:
    """Encrypt the plaintext with the data key, bound to the context."""
    return _gcm_encrypt(data_key, plaintext, MAGIC + encode_context(context))


def unseal(data_key: bytes, body: bytes, context: Context) -> bytes:
    """Decrypt a body with the data key. Raise `InvalidRequest` if it is damaged or belongs to another
    context.
    """
    return _gcm_decrypt(data_key, body, MAGIC + encode_context(context))


def encode_context(context: Context) -> bytes:
    """Return the canonical bytes of a context, independent of its order."""
    return json.dumps(dict(context), sort_keys=True, separators=(",", ":")).encode()


# --- keys in a file -----------------------------------------------------------------------------------------


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a key file. Keys are never removed: data may still be encrypted with them."""

    version: int
    current: str
    keys: dict[str, str]
    # A check value for each key; older versions wrote none, and drop them when they add a key.
    checks: dict[str, str] = {}


def open_file_cipher(path: Path) -> FileCipher:
    """Open a cipher with the keys in this file, and create the file with a new key if it is missing.

    Raise `SettingsError` if the file is invalid, or readable by other users, `KeyUnavailable` if a key in it
    was changed, `StoreFileError` if it was lost.
    """
    require_cryptography()
    require_posix("A key file", "a KMS key in the setting `keys`")
    refuse_lost_store(path, path.exists)
    if not path.exists():
        _create_key_file(path)
    mark_store(path)
    cipher = FileCipher(path)
    cipher.current_key_id  # noqa: B018  refuses an invalid file here, not at the first message
    return cipher


class FileCipher:
    """A cipher with keys in a file. It reads the file again after a change, so that a rotation reaches every
    process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int], KeyFile] | None = None

    @property
    def current_key_id(self) -> str:
        return self._load_keys().current

    def has_key(self, id: str) -> bool:
        """Return whether the file has this key."""
        return id in self._load_keys().keys

    def encrypt(self, plaintext: bytes, context: Context) -> bytes:
        """Encrypt with a new random data key, wrapped with the current key."""
        data_key = draw_bytes(DATA_KEY_BYTES)
        return bytes(self._wrap(data_key, seal(data_key, plaintext, context)))

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        envelope = Envelope.parse(ciphertext)
        return unseal(self._unwrap(envelope), envelope.sealed, context)

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        """Return the same message under the current key, or unchanged if it is under that key already."""
        envelope = Envelope.parse(ciphertext)
        if envelope.key_id == self.current_key_id:
            return ciphertext
        return bytes(self._wrap(self._unwrap(envelope), envelope.sealed))

    def rotate(self) -> str:
        """Add a key, make it the current one and return its id. The older keys still decrypt."""
        with _lock_key_file(self._path):
            keys = self._load_keys()
            id, key = _generate_key()
            _write_key_file(self._path, _build_key_file(id, {**keys.keys, id: key}), replace=True)
        return id

    def _wrap(self, data_key: bytes, body: bytes) -> Envelope:
        """Return a message whose data key is wrapped with the current key. `body` is already encrypted."""
        id = self.current_key_id
        return Envelope(
            key_id=id, wrapped=_gcm_encrypt(self._get_key(id), data_key, MAGIC + id.encode()), sealed=body
        )

    def _unwrap(self, envelope: Envelope) -> bytes:
        """Return the data key of a message. Raise `KeyUnavailable` if its wrapping key is not in the file."""
        return _gcm_decrypt(
            self._get_key(envelope.key_id), envelope.wrapped, MAGIC + envelope.key_id.encode()
        )

    def _get_key(self, id: str) -> bytes:
        """Return a wrapping key. Raise `KeyUnavailable` if the file does not have it."""
        key = self._load_keys().keys.get(id)
        if key is None:
            raise KeyUnavailable(
                f"Missing key {id!r} in {self._path}: the message was encrypted with it. Restore the "
                "key file that has it, or add the key to this one."
            )
        return b64decode(key)

    def _load_keys(self) -> KeyFile:
        """Return the keys, read again if the file has changed. Raise `KeyUnavailable` if it cannot be
        read.
        """
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns)
            with self._lock:
                if self._cached is None or self._cached[0] != seen:
                    require_owner_only(self._path, "keys")
                    self._cached = (seen, _parse_key_file(self._path))
                return self._cached[1]
        except OSError as error:
            raise KeyUnavailable(f"Failed to read the key file {self._path}: {error.strerror}.") from error


def require_cryptography() -> None:
    """Raise `SettingsError` if the package cryptography is not installed."""
    if importlib.util.find_spec("cryptography") is None:
        raise SettingsError(
            f"A cipher needs cryptography, which is not installed. Run {format_install_command('objects')}."
        )


def require_owner_only(path: Path, contents: str) -> None:
    """Raise `SettingsError` if group or others have access to the file. `contents` names what it holds."""
    if path.stat().st_mode & OTHERS_MASK:
        raise SettingsError(
            f"Other users may read the {contents} in {path}. Run chmod 600 {path}, and replace them if they "
            "leaked."
        )


def _create_key_file(path: Path) -> None:
    """Create the file with one new key. Raise `SettingsError` if that fails."""
    id, key = _generate_key()
    try:
        _write_key_file(path, _build_key_file(id, {id: key}), replace=False)
    except OSError as error:
        raise SettingsError(
            f"Failed to create the key file {path} ({error.strerror}). Use another path in the setting "
            "`keys`."
        ) from error


def _generate_key() -> tuple[str, str]:
    """Return a new key's id and its 32 random bytes in base64."""
    return f"key-{make_hex_token(8)}", b64encode(draw_bytes(DATA_KEY_BYTES)).decode()


def _build_key_file(current: str, keys: dict[str, str]) -> KeyFile:
    """Return the content of a file with these keys, and a check value for each."""
    checks = {id: _compute_check(id, key) for id, key in keys.items()}
    return KeyFile(version=FILE_VERSION, current=current, keys=keys, checks=checks)


def _compute_check(id: str, key: str) -> str:
    """Return the check value of a key, which shows that neither the key nor its id has changed."""
    return hmac.digest(b64decode(key), CHECK_LABEL + id.encode(), "sha256")[:CHECK_BYTES].hex()


def _write_key_file(path: Path, keys: KeyFile, *, replace: bool) -> None:
    """Write the file atomically. If two processes create it at once, the first wins and the other uses its
    file.
    """
    fresh = path.with_name(f".{path.name}.{make_hex_token(8)}")
    descriptor = open_private(fresh, os.O_WRONLY | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n")
            file.flush()
            sync(file.fileno())
        if replace:
            fresh.replace(path)
        else:
            os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)
    sync_path(path.parent)


@contextmanager
def _lock_key_file(path: Path) -> Iterator[None]:
    """Hold the lock that lets one process at a time change the file."""
    descriptor = open_private(path.with_name(f".{path.name}.lock"), os.O_RDWR)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _parse_key_file(path: Path) -> KeyFile:
    """Read and validate the key file.

    Raise `SettingsError` if it is invalid, `KeyUnavailable` if a key in it was changed.
    """
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=KeyFile)
        sizes = {len(b64decode(key, validate=True)) for key in keys.keys.values()}
    except ValueError as error:
        raise SettingsError(f"Invalid key file {path}: {error}.") from error
    if keys.version != FILE_VERSION or keys.current not in keys.keys or sizes != {DATA_KEY_BYTES}:
        raise SettingsError(
            f"Invalid key file {path}: expected version {FILE_VERSION} with keys of {DATA_KEY_BYTES} "
            "bytes, one of them current."
        )
    for id, key in keys.keys.items():
        if keys.checks.get(id, check := _compute_check(id, key)) != check:
            raise KeyUnavailable(
                f"The key {id!r} in {path} was changed: it does not match its check value. The file is not "
                "used: restore it from a copy."
            )
    return keys


# --- AES-256-GCM --------------------------------------------------------------------------------------------


def _gcm_encrypt(key: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
    """Encrypt with AES-256-GCM and return nonce, body and tag."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = draw_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, associated_data)


def _gcm_decrypt(key: bytes, body: bytes, associated_data: bytes) -> bytes:
    """Decrypt nonce, body and tag. Raise `InvalidRequest` if they or the associated data do not match."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], associated_data)
    except (InvalidTag, ValueError) as error:
        raise InvalidRequest(
            "The message is damaged or was encrypted for another context: it is not decrypted."
        ) from error


def _read_field(ciphertext: bytes, at: int) -> tuple[bytes, int]:
    """Return the field at a position, which begins with its length, and the position after it."""
    (length,) = _LENGTH.unpack_from(ciphertext, at)
    at += _LENGTH.size
    if at + length > len(ciphertext):
        raise struct.error("too short")
    return ciphertext[at : at + length], at + length
