"""An object as one self-describing file: attributes and body, written and replaced together.

    "HFOB1\\n\\0\\0" | length, checksum of the attributes | attributes as JSON | body

The attributes are readable, as they are on S3; the body is encrypted, and bound to bucket, key and
attributes: a file that was moved, swapped or edited can no longer be opened. A legal hold is the one
attribute that changes, and is not bound.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Final

import msgspec

from holdfast.core.errors import InvalidRequest, ObjectDamaged
from holdfast.operations.objects import ObjectInfo
from holdfast.security.ciphers import Cipher

MAGIC: Final = b"HFOB1\n\0\0"
_HEADER: Final = struct.Struct(">II")
HEADER_BYTES: Final = len(MAGIC) + _HEADER.size
# Metadata, a key and the JSON around them fit, even if JSON escapes every character.
MAX_START_BYTES: Final = 32 * 1024


class ObjectFile(msgspec.Struct, frozen=True, kw_only=True):
    """An object's file: `info` has the attributes, `stored_body` the body as stored, encrypted if there is a
    cipher.

    If only the beginning of the file was read, `stored_body` is incomplete and must not be used.
    """

    info: ObjectInfo
    stored_body: bytes

    def __bytes__(self) -> bytes:
        attributes = msgspec.json.encode(self.info)
        head = MAGIC + _HEADER.pack(len(attributes), zlib.crc32(attributes))
        return b"".join((head, attributes, self.stored_body))

    def with_hold(self, held: bool) -> ObjectFile:
        """Return a copy with the legal hold set or removed."""
        return ObjectFile(info=msgspec.structs.replace(self.info, held=held), stored_body=self.stored_body)


def build_file(info: ObjectInfo, body: bytes, bucket: str, cipher: Cipher | None) -> ObjectFile:
    """Encrypt the body, if there is a cipher, and return the file."""
    stored = body if cipher is None else cipher.encrypt(body, _build_context(bucket, info))
    return ObjectFile(info=info, stored_body=stored)


def parse_file(file: bytes, bucket: str, key: str) -> ObjectFile:
    """Parse a whole file, or its first `MAX_START_BYTES` bytes if the attributes are enough.

    Raise `ObjectDamaged` if the header or the attributes are damaged, or if the file belongs to another key.
    """
    if not file.startswith(MAGIC) or len(file) < HEADER_BYTES:
        raise ObjectDamaged(bucket, key, "its file does not begin with Holdfast's header")
    length, checksum = _HEADER.unpack_from(file, len(MAGIC))
    attributes = file[HEADER_BYTES : HEADER_BYTES + length]
    if len(attributes) < length or zlib.crc32(attributes) != checksum:
        raise ObjectDamaged(bucket, key, "its attributes were changed or truncated")
    try:
        info = msgspec.json.decode(attributes, type=ObjectInfo)
    except msgspec.MsgspecError as error:
        raise ObjectDamaged(bucket, key, f"its attributes are unreadable ({error})") from error
    if info.key != key:
        raise ObjectDamaged(bucket, key, f"its file belongs to the key {info.key}")
    return ObjectFile(info=info, stored_body=file[HEADER_BYTES + length :])


def decrypt_body(file: ObjectFile, bucket: str, cipher: Cipher | None) -> bytes:
    """Return the decrypted body.

    Raise `ObjectDamaged` if it does not match the hash taken when it was put.
    """
    key = file.info.key
    try:
        body = (
            file.stored_body
            if cipher is None
            else cipher.decrypt(file.stored_body, _build_context(bucket, file.info))
        )
    except InvalidRequest as error:
        raise ObjectDamaged(bucket, key, error.message.rstrip(".")) from error
    if hashlib.sha256(body).hexdigest() != file.info.sha256:
        raise ObjectDamaged(bucket, key, "its bytes do not match the hash taken when they were put")
    return body


def _build_context(bucket: str, info: ObjectInfo) -> dict[str, str]:
    """Return the encryption context that binds a body to its bucket, key and attributes."""
    bound = msgspec.json.encode(msgspec.structs.replace(info, held=False))
    return {"bucket": bucket, "key": info.key, "attributes": hashlib.sha256(bound).hexdigest()}
