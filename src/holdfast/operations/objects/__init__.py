"""The operations of an objects store, as frozen values: bytes under keys, in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)

# None: as the bucket has it. "kms" and "s3" are SSE-KMS and SSE-S3; a local store encrypts by its cipher for
# both.
Encryption = Literal["kms", "s3"]
# How long a former version stays: where versions are wanted, and where they are there for legal holds alone.
FORMER_VERSION_DAYS: Final = 30
UNWANTED_VERSION_DAYS: Final = 1


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One thing to do in one bucket; `R_co` is what running it gives. `pattern` is who made it."""

    pattern: str | None = None


class LifecycleRule(msgspec.Struct, frozen=True, kw_only=True):
    """Objects whose key begins with `prefix` end so many days after they were put."""

    prefix: str
    days: int


class BucketDefinition(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    encryption: Encryption = "s3"
    # The key of the key service; None takes the service's own.
    kms_key: str | None = None
    lifecycle: tuple[LifecycleRule, ...] = ()
    # Objects may be put under a legal hold. On S3 that is Object Lock, which needs versions.
    holds: bool = False
    # What is overwritten or deleted past Holdfast stays for a while, on S3; a folder keeps no former
    # versions.
    versions: bool = False

    @property
    def former_version_days(self) -> int | None:
        """How long a version stays that is no longer the object; None where there are no versions."""
        if self.versions:
            return FORMER_VERSION_DAYS
        return UNWANTED_VERSION_DAYS if self.holds else None


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    bytes: int
    sha256: str
    content_type: str
    put_at: float
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    etag: str = ""
    held: bool = False


class ObjectSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing tells; `bytes` as stored, which with encryption at rest may be more than the
    object's.
    """

    key: str
    bytes: int
    put_at: float


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    info: ObjectInfo
    body: bytes


class ObjectPage(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` is where the next page begins; None at the end."""

    objects: tuple[ObjectSummary, ...]
    cursor: str | None = None


class CreateBucket(Operation[None], frozen=True):
    """Makes the bucket; one that is there gets the lifecycle and encryption of the definition."""

    definition: BucketDefinition


class DescribeBucket(Operation[BucketDefinition], frozen=True):
    bucket: str


class SweepBucket(Operation[int], frozen=True):
    """Removes what is past its lifecycle, and gives how many; what is held stays. S3 does so by itself, and
    gives 0.
    """

    bucket: str


class PutObject(Operation[ObjectInfo], frozen=True):
    """`create_only` refuses a key that exists with `AlreadyExists`, and of two at once lets one through."""

    bucket: str
    key: str
    body: bytes
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    create_only: bool = False
    encryption: Encryption | None = None
    # By which key of the key service; S3 would take its own one where "kms" is said without.
    kms_key: str | None = None


class AdoptedObject(msgspec.Struct, frozen=True, kw_only=True):
    """The object under a key, whoever put it there: `is_adopted` if somebody had done so before, with
    whatever bytes.
    """

    info: ObjectInfo
    body: bytes
    is_adopted: bool


class AdoptObject(Operation[AdoptedObject], frozen=True):
    """Puts an object that is not there; one that is there stays, and is given in place of that which was to
    be put.
    """

    put: PutObject


class GetObject(Operation[StoredObject], frozen=True):
    """The body is checked against its hash: `ObjectDamaged` if it is not what was put. `NotFound` if there is
    none.
    """

    bucket: str
    key: str


class HeadObject(Operation[ObjectInfo], frozen=True):
    bucket: str
    key: str


class DeleteObject(Operation[None], frozen=True):
    """One that is not there is no error; one under a legal hold is `ObjectHeld`."""

    bucket: str
    key: str


class ListObjects(Operation[ObjectPage], frozen=True):
    """In the order of their keys."""

    bucket: str
    prefix: str = ""
    count: int = 1000
    cursor: str | None = None


class SetLegalHold(Operation[None], frozen=True):
    bucket: str
    key: str
    held: bool
