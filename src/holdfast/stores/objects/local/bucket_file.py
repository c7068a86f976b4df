"""The file with a bucket's definition: JSON, with a checksum of the definition in it.

A definition decides when objects are deleted, so that a changed one is not used. Older versions wrote no
checksum.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.operations.objects import BucketDefinition

_CHECKSUM: Final = "checksum"


def encode_definition(definition: BucketDefinition) -> bytes:
    """Return the content of the file."""
    fields = msgspec.to_builtins(definition)
    return msgspec.json.encode({**fields, _CHECKSUM: _compute_checksum(fields)})


def decode_definition(content: bytes, path: str) -> BucketDefinition:
    """Return the definition in the content of the file at `path`.

    Raise `StoreFileError` if it is unreadable or was changed.
    """
    try:
        definition = msgspec.json.decode(content, type=BucketDefinition)
        # Also the fields of a newer version count.
        fields: dict[str, Any] = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreFileError(_describe_damage(path, f"is unreadable ({error})")) from error
    checksum = fields.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _compute_checksum(fields):
        raise StoreFileError(_describe_damage(path, "does not match its checksum"))
    return definition


def _compute_checksum(fields: dict[str, Any]) -> int:
    return crc32(msgspec.json.encode(fields))


def _describe_damage(path: str, state: str) -> str:
    return f"{path} is damaged: the definition of the bucket {state}. Restore the file from a backup."
