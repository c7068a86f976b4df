"""The objects engine of a folder or of memory: each operation is a function over a medium.

An operation runs in a thread, since disks and key services block. A change to an existing object (an
overwrite, a delete, a hold, the sweep) holds the bucket's lock, which works across processes; a new object
needs no lock.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import (
    AlreadyExists,
    InternalError,
    InvalidRequest,
    NotFound,
    ObjectDamaged,
    ObjectHeld,
    StoreClosed,
)
from holdfast.operations import objects as requests
from holdfast.operations.objects import (
    BucketDefinition,
    ObjectInfo,
    ObjectPage,
    ObjectSummary,
    StoredObject,
)
from holdfast.security.ciphers import Cipher
from holdfast.stores.objects.adopting import adopted
from holdfast.stores.objects.checks import check
from holdfast.stores.objects.local import files
from holdfast.stores.objects.local.files import START_BYTES_MAX, ObjectFile
from holdfast.stores.objects.local.media import FolderMedium, Medium, MemoryMedium
from holdfast.stores.objects.local.paths import DEFINITION, folder_of, key_of, path_of

R = TypeVar("R")

DAY_S: Final = 86_400.0


def open_local_objects(folder: Path, cipher: Cipher, *, clock: Clock = SYSTEM_CLOCK) -> LocalObjects:
    """Open objects in a folder, encrypted by `cipher`. A put is durable when it returns."""
    return LocalObjects(FolderMedium(folder, clock=clock), cipher, clock=clock)


def open_memory_objects(*, clock: Clock = SYSTEM_CLOCK) -> LocalObjects:
    """Open objects in memory, which end with the process."""
    return LocalObjects(MemoryMedium(), None, clock=clock)


class LocalObjects:
    def __init__(self, medium: Medium, cipher: Cipher | None, *, clock: Clock) -> None:
        self._medium, self._cipher, self._clock = medium, cipher, clock
        self._is_closed = False

    async def run(self, operation: requests.Operation[R]) -> R:
        if self._is_closed:
            raise StoreClosed("The objects store was closed.")
        check(operation)
        if isinstance(operation, requests.AdoptObject):
            return cast(R, await adopted(self.run, operation.put))
        return cast(R, await asyncio.to_thread(self._do, operation))

    def close(self) -> None:
        self._is_closed = True

    def _do(self, operation: requests.Operation[Any]) -> Any:
        match operation:
            case requests.PutObject():
                return self._put(operation)
            case requests.GetObject():
                return self._get(operation)
            case requests.HeadObject():
                return self._start(operation.bucket, operation.key).info
            case requests.ListObjects():
                return self._list(operation)
            case requests.DeleteObject():
                return self._delete(operation)
            case requests.SetLegalHold():
                return self._set_hold(operation)
            case requests.CreateBucket():
                return self._create_bucket(operation.definition)
            case requests.DescribeBucket():
                return self._definition(operation.bucket)
            case requests.SweepBucket():
                return self._sweep(operation.bucket)
        raise InternalError(f"{type(operation).__name__} is no operation of an objects store.")

    # --- objects --------------------------------------------------------------------------------------------

    def _put(self, put: requests.PutObject) -> ObjectInfo:
        self._definition(put.bucket)
        digest = hashlib.sha256(put.body).hexdigest()
        info = ObjectInfo(
            key=put.key,
            bytes=len(put.body),
            sha256=digest,
            content_type=put.content_type,
            put_at=self._clock.now(),
            metadata=dict(put.metadata),
            etag=digest,
        )
        file = files.made(info, put.body, put.bucket, self._cipher)
        if put.create_only:
            self._create(put, file)
            return info
        with self._medium.alone(put.bucket):
            self._refuse_held(put.bucket, put.key)
            self._write(put.bucket, file)
        return info

    def _create(self, put: requests.PutObject, file: ObjectFile) -> None:
        try:
            self._medium.put(path_of(put.bucket, put.key), bytes(file), create_only=True)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"There is already an object {put.key} in {put.bucket}, and it was to be created."
            ) from error

    def _get(self, get: requests.GetObject) -> StoredObject:
        file = self._whole(get.bucket, get.key)
        return StoredObject(info=file.info, body=files.body_of(file, get.bucket, self._cipher))

    def _list(self, listing: requests.ListObjects) -> ObjectPage:
        self._definition(listing.bucket)
        keys = self._keys(listing.bucket, listing.prefix)
        if listing.cursor is not None:
            after = listing.cursor.encode()
            keys = [key for key in keys if key.encode() > after]
        found = [self._summary(listing.bucket, key) for key in keys[: listing.count]]
        return ObjectPage(
            objects=tuple(each for each in found if each is not None),
            cursor=keys[listing.count - 1] if len(keys) > listing.count else None,
        )

    def _keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys in the order of their bytes, as S3 does."""
        paths = self._medium.paths(folder_of(bucket, prefix))
        keys = [key for path in paths if (key := key_of(bucket, path)) is not None]
        return sorted((key for key in keys if key.startswith(prefix)), key=str.encode)

    def _summary(self, bucket: str, key: str) -> ObjectSummary | None:
        try:
            info = self._start(bucket, key).info
        except NotFound:
            # The object was deleted after the folder was listed.
            return None
        return ObjectSummary(key=key, bytes=info.bytes, put_at=info.put_at)

    def _delete(self, delete: requests.DeleteObject) -> None:
        self._definition(delete.bucket)
        with self._medium.alone(delete.bucket):
            self._refuse_held(delete.bucket, delete.key)
            try:
                self._medium.remove(path_of(delete.bucket, delete.key))
            except NotFound:
                pass

    def _set_hold(self, hold: requests.SetLegalHold) -> None:
        if not self._definition(hold.bucket).holds:
            raise InvalidRequest(
                f"The bucket {hold.bucket} has no legal holds: declare it with holds=True and create it "
                "again."
            )
        with self._medium.alone(hold.bucket):
            self._write(hold.bucket, self._whole(hold.bucket, hold.key).with_hold(hold.held))

    def _refuse_held(self, bucket: str, key: str) -> None:
        try:
            info = self._start(bucket, key).info
        except NotFound:
            return
        except ObjectDamaged:
            # A damaged file does not show whether it is held: in a bucket with holds, it may not be removed.
            if self._definition(bucket).holds:
                raise
            return
        if info.held:
            raise ObjectHeld(bucket, key)

    # --- files ----------------------------------------------------------------------------------------------

    def _start(self, bucket: str, key: str) -> ObjectFile:
        """Read the object's attributes alone."""
        try:
            return files.read(self._medium.get_start(path_of(bucket, key), START_BYTES_MAX), bucket, key)
        except NotFound as error:
            raise self._missing(bucket, key) from error

    def _whole(self, bucket: str, key: str) -> ObjectFile:
        try:
            return files.read(self._medium.get(path_of(bucket, key)), bucket, key)
        except NotFound as error:
            raise self._missing(bucket, key) from error

    def _missing(self, bucket: str, key: str) -> NotFound:
        self._definition(bucket)
        return NotFound(f"There is no object {key} in {bucket}.")

    def _write(self, bucket: str, file: ObjectFile) -> None:
        self._medium.put(path_of(bucket, file.info.key), bytes(file), create_only=False)

    # --- buckets --------------------------------------------------------------------------------------------

    def _create_bucket(self, definition: BucketDefinition) -> None:
        with self._medium.alone(definition.name):
            try:
                had_holds = self._definition(definition.name).holds
            except NotFound:
                had_holds = False
            if had_holds and not definition.holds:
                raise AlreadyExists(
                    f"The bucket {definition.name} was made with legal holds, which cannot be taken from it: "
                    "declare it "
                    "with holds=True."
                )
            self._medium.put(
                f"{definition.name}/{DEFINITION}", msgspec.json.encode(definition), create_only=False
            )

    def _definition(self, bucket: str) -> BucketDefinition:
        try:
            return msgspec.json.decode(self._medium.get(f"{bucket}/{DEFINITION}"), type=BucketDefinition)
        except NotFound as error:
            raise NotFound(f"There is no bucket {bucket}: create it first.") from error

    def _sweep(self, bucket: str) -> int:
        definition = self._definition(bucket)
        self._medium.remove_strays(bucket)
        return sum(
            self._end(bucket, key, rule.days)
            for rule in definition.lifecycle
            for key in self._keys(bucket, rule.prefix)
        )

    def _end(self, bucket: str, key: str, days: int) -> bool:
        with self._medium.alone(bucket):
            try:
                info = self._start(bucket, key).info
            except (NotFound, ObjectDamaged):
                return False
            if info.held or self._clock.now() < info.put_at + days * DAY_S:
                return False
            self._medium.remove(path_of(bucket, key))
            return True
