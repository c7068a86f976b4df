"""The operations of an objects store, as frozen values: bytes under keys, in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

import msgspec

__all__ = [
    "AdoptObject",
    "AdoptedObject",
    "BucketDefinition",
    "CreateBucket",
    "DeleteObject",
    "DescribeBucket",
    "Encryption",
    "GetObject",
    "HeadObject",
    "LifecycleRule",
    "ListObjects",
    "ObjectInfo",
    "ObjectPage",
    "ObjectSummary",
    "Operation",
    "PutObject",
    "SetLegalHold",
    "StoredObject",
    "SweepBucket",
]

R_co = TypeVar("R_co", covariant=True)

# None: the bucket's default. "kms" and "s3" are SSE-KMS and SSE-S3; a local store uses its cipher for both.
Encryption = Literal["kms", "s3"]
"""How objects are encrypted at rest."""
# Days to keep a noncurrent version: in a versioned bucket, and in one versioned only for legal holds.
NONCURRENT_VERSION_DAYS: Final = 30
HOLD_ONLY_VERSION_DAYS: Final = 1


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One operation on one bucket. `R_co` is the type of its result; `pattern` is the id of the access
    pattern that built it.
    """

    pattern: str | None = None


class LifecycleRule(msgspec.Struct, frozen=True, kw_only=True):
    """Expire objects whose key begins with `prefix` this many days after they were put."""

    prefix: str
    days: int


class BucketDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket's settings: encryption, lifecycle rules, legal holds and versioning."""

    name: str
    encryption: Encryption = "s3"
    # The KMS key; None uses the service's default key.
    kms_key: str | None = None
    lifecycle: tuple[LifecycleRule, ...] = ()
    # Allow legal holds on objects. On S3 this is Object Lock, which needs versioning.
    holds: bool = False
    # On S3, objects overwritten or deleted outside Holdfast stay for a while; a local folder keeps no
    # noncurrent versions.
    versions: bool = False

    @property
    def noncurrent_version_days(self) -> int | None:
        """The number of days that a noncurrent version is kept; None without versioning."""
        if self.versions:
            return NONCURRENT_VERSION_DAYS
        return HOLD_ONLY_VERSION_DAYS if self.holds else None


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An object's properties without its body. `bytes` is its size; `held` says whether it is under a legal
    hold.
    """

    key: str
    bytes: int
    sha256: str
    content_type: str
    put_at: float
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    etag: str = ""
    held: bool = False


class ObjectSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a listing. `bytes` is the stored size, which encryption at rest may make larger than the
    object.
    """

    key: str
    bytes: int
    put_at: float


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object: its description and its bytes."""

    info: ObjectInfo
    body: bytes


class ObjectPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a listing. `cursor` is the start of the next page; None at the end."""

    objects: tuple[ObjectSummary, ...]
    cursor: str | None = None


class CreateBucket(Operation[None], frozen=True):
    """Create the bucket. An existing bucket gets the definition's lifecycle and encryption."""

    definition: BucketDefinition


class DescribeBucket(Operation[BucketDefinition], frozen=True):
    """Return the definition of an existing bucket."""

    bucket: str


class SweepBucket(Operation[int], frozen=True):
    """Delete expired objects and return how many; objects under a legal hold stay. S3 expires objects by
    itself, so the result there is 0.
    """

    bucket: str


class PutObject(Operation[ObjectInfo], frozen=True):
    """Put an object. With `create_only`, an existing key raises `AlreadyExists`, and one of two concurrent
    puts succeeds.
    """

    bucket: str
    key: str
    body: bytes
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    create_only: bool = False
    encryption: Encryption | None = None
    # The KMS key; with "kms" and no key, S3 would use its default key.
    kms_key: str | None = None


class AdoptedObject(msgspec.Struct, frozen=True, kw_only=True):
    """The object under a key. `is_adopted` is True if it already existed, with any bytes."""

    info: ObjectInfo
    body: bytes
    is_adopted: bool


class AdoptObject(Operation[AdoptedObject], frozen=True):
    """Put an object if the key is absent; otherwise keep and return the existing one."""

    put: PutObject


class GetObject(Operation[StoredObject], frozen=True):
    """Return an object. Raise `ObjectDamaged` if the body does not match its hash, `NotFound` if there is
    none.
    """

    bucket: str
    key: str


class HeadObject(Operation[ObjectInfo], frozen=True):
    """Return an object's properties without its body. Raise `NotFound` if there is none."""

    bucket: str
    key: str


class DeleteObject(Operation[None], frozen=True):
    """Delete an object. An absent one is not an error; one under a legal hold raises `ObjectHeld`."""

    bucket: str
    key: str


class ListObjects(Operation[ObjectPage], frozen=True):
    """List objects whose key begins with `prefix`, in key order, at most `count` per page."""

    bucket: str
    prefix: str = ""
    count: int = 1000
    cursor: str | None = None


class SetLegalHold(Operation[None], frozen=True):
    """Put an object under a legal hold, or release it (`held` False)."""

    bucket: str
    key: str
    held: bool
