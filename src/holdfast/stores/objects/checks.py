"""Checks that every engine makes of a request: a request valid on one engine is valid on the others.

The limits are S3's. Keys that S3 takes and other engines would not (with a part that is empty, `.` or `..`)
are refused here too.
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

KEY_BYTES_MAX: Final = 1024
METADATA_BYTES_MAX: Final = 2048
PAGE_MAX: Final = 1000
# The limit of one request to S3; larger objects are sent in parts.
BODY_BYTES_MAX: Final = 5 * 1024**3
DIGEST: Final = "sha256"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_METADATA_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]*")


def check(operation: Operation[object]) -> None:
    """Raise for an operation that no engine can run."""
    if isinstance(operation, CreateBucket):
        check_definition(operation.definition)
        return
    if isinstance(operation, AdoptObject):
        check(operation.put)
        return
    check_bucket(getattr(operation, "bucket", ""))
    if isinstance(operation, ListObjects):
        if not 1 <= operation.count <= PAGE_MAX:
            raise InvalidRequest(f"A page has 1 to {PAGE_MAX} objects, not {operation.count}.")
    elif not isinstance(operation, (DescribeBucket, SweepBucket)):
        check_key(getattr(operation, "key", ""))
    if isinstance(operation, PutObject):
        _check_put(operation)


def check_definition(definition: BucketDefinition) -> None:
    check_bucket(definition.name)
    if any(rule.days < 1 for rule in definition.lifecycle):
        raise InvalidRequest(f"A lifecycle of {definition.name} has less than a day: give it 1 or more.")
    prefixes = [rule.prefix for rule in definition.lifecycle]
    if len(set(prefixes)) < len(prefixes):
        raise InvalidRequest(f"{definition.name} has two lifecycles for one beginning of a key: keep one.")


def check_bucket(name: str) -> None:
    if not _BUCKET.fullmatch(name):
        raise InvalidRequest(
            f"No bucket can be called {name!r}: a name has 3 to 63 lower-case letters, digits and hyphens."
        )


def check_key(key: str) -> None:
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"The key {key!r} is no text.") from error
    if not 1 <= size <= KEY_BYTES_MAX:
        raise InvalidRequest(f"A key has 1 to {KEY_BYTES_MAX} bytes, and {key[:40]!r}… has {size}.")
    if any(step in ("", ".", "..") for step in key.split("/")) or not key.isprintable():
        raise InvalidRequest(
            f"{key!r} is no key: it must not begin or end with '/', have an empty step, '.' or '..' in it, "
            "or characters "
            "that do not print. Percent-encode what comes from outside."
        )


def _check_put(put: PutObject) -> None:
    if len(put.body) > BODY_BYTES_MAX:
        raise InvalidRequest(
            f"The object {put.key} has {len(put.body)} bytes: put it in parts under several keys."
        )
    if not put.content_type or not _HEADER_TEXT.fullmatch(put.content_type):
        raise InvalidRequest(f"{put.content_type!r} is no content type: write one such as application/json.")
    _check_metadata(put.metadata)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    for name, value in metadata.items():
        if not _METADATA_NAME.fullmatch(name) or name == DIGEST:
            raise InvalidRequest(
                f"Metadata cannot be called {name!r}: use lower-case letters, digits and hyphens, and not "
                f"{DIGEST!r}."
            )
        if not _HEADER_TEXT.fullmatch(value) or value != value.strip():
            raise InvalidRequest(
                f"The metadata {name} is {value!r}: it travels as a header, in printable ASCII without "
                "spaces around it."
            )
    if sum(len(name) + len(value) for name, value in metadata.items()) > METADATA_BYTES_MAX:
        raise InvalidRequest(f"Metadata has at most {METADATA_BYTES_MAX} bytes: put the rest into the body.")
