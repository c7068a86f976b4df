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
_LENGTHS: Final = struct.Struct(">II")
HEAD_BYTES: Final = len(MAGIC) + _LENGTHS.size
# Metadata, a key and the JSON around them fit, even if JSON escapes every character.
START_BYTES_MAX: Final = 32 * 1024


class ObjectFile(msgspec.Struct, frozen=True, kw_only=True):
    """An object's file. `stored` is the body as stored; empty if only the beginning of the file was read."""

    info: ObjectInfo
    stored: bytes

    def __bytes__(self) -> bytes:
        attributes = msgspec.json.encode(self.info)
        head = MAGIC + _LENGTHS.pack(len(attributes), zlib.crc32(attributes))
        return b"".join((head, attributes, self.stored))

    def with_hold(self, held: bool) -> ObjectFile:
        return ObjectFile(info=msgspec.structs.replace(self.info, held=held), stored=self.stored)


def made(info: ObjectInfo, body: bytes, bucket: str, cipher: Cipher | None) -> ObjectFile:
    stored = body if cipher is None else cipher.encrypt(body, _context(bucket, info))
    return ObjectFile(info=info, stored=stored)


def read(file: bytes, bucket: str, key: str) -> ObjectFile:
    """Parse a whole file, or its first `START_BYTES_MAX` bytes if the attributes are enough."""
    if not file.startswith(MAGIC) or len(file) < HEAD_BYTES:
        raise ObjectDamaged(bucket, key, "its file does not begin as one of ours")
    length, checksum = _LENGTHS.unpack_from(file, len(MAGIC))
    attributes = file[HEAD_BYTES : HEAD_BYTES + length]
    if len(attributes) < length or zlib.crc32(attributes) != checksum:
        raise ObjectDamaged(bucket, key, "its attributes were changed or cut off")
    try:
        info = msgspec.json.decode(attributes, type=ObjectInfo)
    except msgspec.MsgspecError as error:
        raise ObjectDamaged(bucket, key, f"its attributes cannot be read ({error})") from error
    if info.key != key:
        raise ObjectDamaged(bucket, key, f"its file is that of {info.key}")
    return ObjectFile(info=info, stored=file[HEAD_BYTES + length :])


def body_of(file: ObjectFile, bucket: str, cipher: Cipher | None) -> bytes:
    """Return the decrypted body, checked against the hash that was taken when it was put."""
    key = file.info.key
    try:
        body = file.stored if cipher is None else cipher.decrypt(file.stored, _context(bucket, file.info))
    except InvalidRequest as error:
        raise ObjectDamaged(bucket, key, error.message.rstrip(".")) from error
    if hashlib.sha256(body).hexdigest() != file.info.sha256:
        raise ObjectDamaged(bucket, key, "its bytes do not have the hash they had when they were put")
    return body


def _context(bucket: str, info: ObjectInfo) -> dict[str, str]:
    bound = msgspec.json.encode(msgspec.structs.replace(info, held=False))
    return {"bucket": bucket, "key": info.key, "attributes": hashlib.sha256(bound).hexdigest()}
