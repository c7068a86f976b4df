"""The cipher with a wrapping key in KMS: KMS wraps each data key, and this process encrypts the body.

KMS generates and unwraps the data key of each message, with the context as its encryption context: KMS's
policies decide who may decrypt, and its log records each use. The wrapping key never leaves KMS. The format
of a message is that of `ciphers.py`.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import HoldfastError, InvalidRequest, KeyUnavailable, SettingsError
from holdfast.security.aws_errors import get_error_code, get_error_text, to_holdfast_error
from holdfast.security.ciphers import Context, Envelope, require_cryptography, seal, unseal

CONNECTIONS: Final = 16
UNAVAILABLE_CODES: Final = frozenset(
    {
        "DisabledException", "InvalidKeyUsageException", "KeyUnavailableException",
        "KMSInvalidStateException", "NotFoundException",
    }
)  # fmt: skip
# The wrapped key is damaged, or belongs to another key or context: KMS does not say which.
DAMAGED_CODES: Final = frozenset({"IncorrectKeyException", "InvalidCiphertextException"})


def open_kms_cipher(address: str, *, timeouts: Timeouts | None = None) -> KmsCipher:
    """Open a KMS cipher: `kms://us-east-1/alias/holdfast`, a key id or ARN instead of the alias, or
    `kms+http://host:port/alias/x`. Raise `SettingsError` if the address names no key.
    """
    require_sdk("KMS")
    require_cryptography()
    place = ServiceAddress.parse(address)
    if not place.rest:
        raise SettingsError(
            f"Invalid keys = {address!r}: it names no key. Write 'kms://us-east-1/alias/holdfast', or the "
            "key's id."
        )
    try:
        (client,) = make_clients(("kms",), place, timeouts or Timeouts(), CONNECTIONS)
    except Exception as error:
        raise to_holdfast_error(error, "opening KMS", place.display_name) from error
    return KmsCipher(client, place.rest, place.display_name)


class KmsCipher:
    """A cipher that wraps data keys with one KMS key. `where` names the service in errors.

    Each call raises `KeyUnavailable` if KMS refuses the key, and `InvalidRequest` if it refuses the wrapped
    key.
    """

    def __init__(self, client: Any, key: str, where: str) -> None:
        self._client, self._key, self._where = client, key, where

    def encrypt(self, plaintext: bytes, context: Context) -> bytes:
        """Encrypt with a new data key from KMS (GenerateDataKey)."""
        generated = self._call(
            "GenerateDataKey",
            self._client.generate_data_key,
            KeyId=self._key,
            KeySpec="AES_256",
            EncryptionContext=dict(context),
        )
        body = seal(generated["Plaintext"], plaintext, context)
        return bytes(Envelope(key_id=generated["KeyId"], wrapped=generated["CiphertextBlob"], sealed=body))

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        """Decrypt with the message's data key, which KMS unwraps (Decrypt)."""
        envelope = Envelope.parse(ciphertext)
        decrypted = self._call(
            "Decrypt",
            self._client.decrypt,
            KeyId=envelope.key_id,
            CiphertextBlob=envelope.wrapped,
            EncryptionContext=dict(context),
        )
        return unseal(decrypted["Plaintext"], envelope.sealed, context)

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        """Have KMS wrap the message's data key with the current key (ReEncrypt); the body stays the same."""
        envelope = Envelope.parse(ciphertext)
        rewrapped = self._call(
            "ReEncrypt",
            self._client.re_encrypt,
            CiphertextBlob=envelope.wrapped,
            SourceKeyId=envelope.key_id,
            SourceEncryptionContext=dict(context),
            DestinationKeyId=self._key,
            DestinationEncryptionContext=dict(context),
        )
        return bytes(
            Envelope(key_id=rewrapped["KeyId"], wrapped=rewrapped["CiphertextBlob"], sealed=envelope.sealed)
        )

    def _call(self, action: str, call: Any, **request: Any) -> Any:
        """Call the SDK and map its errors; `action` names the call in them."""
        try:
            return call(**request)
        except Exception as error:
            raise self._to_error(error, action) from error

    def _to_error(self, cause: Exception, action: str) -> HoldfastError:
        """Map an error of KMS: key unavailable, message damaged, or a general error of AWS."""
        code = get_error_code(cause)
        if code in UNAVAILABLE_CODES:
            return KeyUnavailable(
                f"KMS at {self._where} refused the key for {action}: {cause}. Check that it is enabled, not "
                "deleted, and in this region."
            ).with_code(code)
        if code in DAMAGED_CODES:
            sentence = f", {text}" if (text := get_error_text(cause)) else ""
            return InvalidRequest(
                "The message is damaged, or was encrypted for another context or with another key: KMS "
                f"refused its data key ({code}{sentence})."
            ).with_code(code)
        return to_holdfast_error(cause, action, self._where)
