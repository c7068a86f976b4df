"""The cipher whose wrapping key is in KMS and never leaves it.

KMS makes and unwraps the data key of each message, with the context as its encryption context: who may decrypt, and
what was decrypted when, is KMS's to say. Bodies are encrypted here, in the form that `ciphers.py` describes.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import HoldfastError, InvalidRequest, KeyUnavailable, SettingsError
from holdfast.sdk import Place, Timeouts, make_clients, require_sdk
from holdfast.security.ciphers import Context, Envelope, require_cryptography, sealed, unsealed
from holdfast.security.services import code_of, error_of

CONNECTIONS: Final = 16
UNAVAILABLE_CODES: Final = frozenset(
    {
        "DisabledException", "InvalidKeyUsageException", "KeyUnavailableException", "KMSInvalidStateException",
        "NotFoundException",
    }
)  # fmt: skip
# The wrapped key was changed, or belongs to another key or context: KMS does not say which.
DAMAGED_CODES: Final = frozenset({"IncorrectKeyException", "InvalidCiphertextException"})


def open_kms_cipher(address: str, *, timeouts: Timeouts | None = None) -> KmsCipher:
    """`kms://us-east-1/alias/holdfast`, a key's id or ARN in place of the alias, or `kms+http://host:port/alias/x`."""
    require_sdk("KMS")
    require_cryptography()
    place = Place.of(address)
    if not place.rest:
        raise SettingsError(
            f"keys = {address!r} names no key: write 'kms://us-east-1/alias/holdfast', or the key's id."
        )
    try:
        (client,) = make_clients(("kms",), place, timeouts or Timeouts(), CONNECTIONS)
    except Exception as error:
        raise error_of(error, "opening KMS", place.shown) from error
    return KmsCipher(client, place.rest, place.shown)


class KmsCipher:
    def __init__(self, client: Any, key: str, where: str) -> None:
        self._client, self._key, self._where = client, key, where

    def encrypt(self, plaintext: bytes, context: Context) -> bytes:
        made = self._ask(
            "GenerateDataKey",
            self._client.generate_data_key,
            KeyId=self._key,
            KeySpec="AES_256",
            EncryptionContext=dict(context),
        )
        body = sealed(made["Plaintext"], plaintext, context)
        return bytes(Envelope(key_id=made["KeyId"], wrapped=made["CiphertextBlob"], sealed=body))

    def decrypt(self, ciphertext: bytes, context: Context) -> bytes:
        envelope = Envelope.of(ciphertext)
        opened = self._ask(
            "Decrypt",
            self._client.decrypt,
            KeyId=envelope.key_id,
            CiphertextBlob=envelope.wrapped,
            EncryptionContext=dict(context),
        )
        return unsealed(opened["Plaintext"], envelope.sealed, context)

    def rewrap(self, ciphertext: bytes, context: Context) -> bytes:
        envelope = Envelope.of(ciphertext)
        moved = self._ask(
            "ReEncrypt",
            self._client.re_encrypt,
            CiphertextBlob=envelope.wrapped,
            SourceKeyId=envelope.key_id,
            SourceEncryptionContext=dict(context),
            DestinationKeyId=self._key,
            DestinationEncryptionContext=dict(context),
        )
        return bytes(Envelope(key_id=moved["KeyId"], wrapped=moved["CiphertextBlob"], sealed=envelope.sealed))

    def _ask(self, action: str, call: Any, **request: Any) -> Any:
        try:
            return call(**request)
        except Exception as error:
            raise self._error(error, action) from error

    def _error(self, cause: Exception, action: str) -> HoldfastError:
        code = code_of(cause)
        if code in UNAVAILABLE_CODES:
            return KeyUnavailable(
                f"KMS at {self._where} does not give the key for {action} ({code}): {cause}. Is it deleted, disabled, "
                "or in another region?"
            )
        if code in DAMAGED_CODES:
            return InvalidRequest(
                "The message is damaged, or was encrypted for another context or by another key: KMS refused its data key."
            )
        return error_of(cause, action, self._where)
