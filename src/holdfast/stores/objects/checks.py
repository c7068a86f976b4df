"""Request checks that every objects engine makes before it runs an operation: bucket, key, body, metadata.

A request that is valid on one engine is valid on the others. The limits are S3's. Keys that S3 takes and
other engines would not (with a part that is empty, `.` or `..`) are refused here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.objects import (
    AdoptObject,
    BucketDefinition,
    CreateBucket,
    DescribeBucket,
    ListObjects,
    Operation,
    PutObject,
    SweepBucket,
)

MAX_KEY_BYTES: Final = 1024
MAX_METADATA_BYTES: Final = 2048
MAX_PAGE: Final = 1000
# The limit of one request to S3; larger objects are sent in parts.
MAX_BODY_BYTES: Final = 5 * 1024**3
DIGEST_NAME: Final = "sha256"
_BUCKET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_METADATA_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]*")


def check(operation: Operation[object]) -> None:
    """Raise `InvalidRequest` for an operation that some engine would refuse whatever is stored."""
    if isinstance(operation, CreateBucket):
        check_definition(operation.definition)
        return
    if isinstance(operation, AdoptObject):
        check(operation.put)
        return
    check_bucket(getattr(operation, "bucket", ""))
    if isinstance(operation, ListObjects):
        if not 1 <= operation.count <= MAX_PAGE:
            raise InvalidRequest(f"Invalid page size {operation.count}: expected 1 to {MAX_PAGE} objects.")
    elif not isinstance(operation, (DescribeBucket, SweepBucket)):
        check_key(getattr(operation, "key", ""))
    if isinstance(operation, PutObject):
        _check_put(operation)


def check_definition(definition: BucketDefinition) -> None:
    """Raise `InvalidRequest` for an invalid bucket name, a lifetime under a day or two rules for one
    prefix.
    """
    check_bucket(definition.name)
    if any(rule.days < 1 for rule in definition.lifecycle):
        raise InvalidRequest(f"Invalid lifecycle of the bucket {definition.name}: expected 1 day or more.")
    prefixes = [rule.prefix for rule in definition.lifecycle]
    if len(set(prefixes)) < len(prefixes):
        raise InvalidRequest(
            f"Invalid lifecycle of the bucket {definition.name}: two rules have the same prefix. Keep one."
        )


def check_bucket(name: str) -> None:
    """Raise `InvalidRequest` unless the name is a valid bucket name."""
    if not _BUCKET_NAME.fullmatch(name):
        raise InvalidRequest(
            f"Invalid bucket name {name!r}: expected 3 to 63 lower-case letters, digits and hyphens."
        )


def check_key(key: str) -> None:
    """Raise `InvalidRequest` unless the key has 1 to 1024 bytes, only printable characters, and no part that
    is empty, '.' or '..'.
    """
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"Invalid key {key!r}: it is not valid Unicode text.") from error
    if not 1 <= size <= MAX_KEY_BYTES:
        raise InvalidRequest(f"Invalid key {key[:40]!r}…: expected 1 to {MAX_KEY_BYTES} bytes, got {size}.")
    if any(part in ("", ".", "..") for part in key.split("/")) or not key.isprintable():
        raise InvalidRequest(
            f"Invalid key {key!r}: it must not begin or end with '/', nor contain an empty part, '.' or '..' "
            "as a part, or unprintable characters. Percent-encode external text."
        )


def _check_put(put: PutObject) -> None:
    """Raise `InvalidRequest` for a body that is too large or for text that HTTP headers cannot carry."""
    if len(put.body) > MAX_BODY_BYTES:
        raise InvalidRequest(
            f"Invalid object {put.key} of {len(put.body)} bytes: expected at most {MAX_BODY_BYTES}. Split it "
            "over several keys."
        )
    if not put.content_type or not _HEADER_TEXT.fullmatch(put.content_type):
        raise InvalidRequest(
            f"Invalid content type {put.content_type!r}: expected printable ASCII such as application/json."
        )
    _check_metadata(put.metadata)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` for names or values that HTTP headers cannot carry, and for too many bytes."""
    for name, value in metadata.items():
        if not _METADATA_NAME.fullmatch(name) or name == DIGEST_NAME:
            raise InvalidRequest(
                f"Invalid metadata name {name!r}: expected lower-case letters, digits and hyphens, and not "
                f"{DIGEST_NAME!r}."
            )
        if not _HEADER_TEXT.fullmatch(value) or value != value.strip():
            raise InvalidRequest(
                f"Invalid value {value!r} of the metadata {name}: it is sent as a header. Expected printable "
                "ASCII without surrounding spaces."
            )
    if sum(len(name) + len(value) for name, value in metadata.items()) > MAX_METADATA_BYTES:
        raise InvalidRequest(
            f"Invalid metadata: expected at most {MAX_METADATA_BYTES} bytes. Put the rest into the body."
        )
