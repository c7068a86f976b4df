"""The local objects engine: runs each operation on files in a folder or in memory.

An operation runs in a thread, since disks and key services block. A change to an existing object (an
overwrite, a delete, a hold, the sweep) holds the bucket's lock, which works across processes; a new object
needs no lock.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Final, TypeVar, cast

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
from holdfast.stores.objects.adoption import adopt_object
from holdfast.stores.objects.checks import check
from holdfast.stores.objects.local import object_file
from holdfast.stores.objects.local.bucket_file import decode_definition, encode_definition
from holdfast.stores.objects.local.file_storage import FileStorage, FolderFileStorage, MemoryFileStorage
from holdfast.stores.objects.local.object_file import MAX_START_BYTES, ObjectFile
from holdfast.stores.objects.local.paths import (
    DEFINITION_FILE,
    parse_key,
    to_folders,
    to_former_path,
    to_path,
)

R = TypeVar("R")

DAY_S: Final = 86_400.0


def open_local_objects(folder: Path, cipher: Cipher, *, clock: Clock = SYSTEM_CLOCK) -> LocalObjects:
    """Open objects in a folder, encrypted by `cipher`. A put is durable when it returns."""
    return LocalObjects(FolderFileStorage(folder, clock=clock), cipher, clock=clock)


def open_memory_objects(*, clock: Clock = SYSTEM_CLOCK) -> LocalObjects:
    """Open objects in memory, which end with the process."""
    return LocalObjects(MemoryFileStorage(), None, clock=clock)


class LocalObjects:
    """The local objects engine, opened by `open_local_objects` or `open_memory_objects`."""

    def __init__(self, storage: FileStorage, cipher: Cipher | None, *, clock: Clock) -> None:
        self._storage, self._cipher, self._clock = storage, cipher, clock
        self._is_closed = False
        # Definitions by bucket, with the version of the file that they were read from.
        self._definitions: dict[str, tuple[object, BucketDefinition]] = {}

    async def run(self, operation: requests.Operation[R]) -> R:
        """Check one operation and run it in a thread. Raise `StoreClosed` after `close`."""
        if self._is_closed:
            raise StoreClosed("The objects store was closed.")
        check(operation)
        if isinstance(operation, requests.AdoptObject):
            return cast(R, await adopt_object(self.run, operation.put))
        return cast(R, await asyncio.to_thread(self._execute, operation))

    def close(self) -> None:
        """Refuse further operations; operations in progress continue."""
        self._is_closed = True

    def _execute(self, operation: requests.Operation[Any]) -> Any:
        """Run the operation in this thread."""
        match operation:
            case requests.PutObject():
                return self._put(operation)
            case requests.GetObject():
                return self._get(operation)
            case requests.HeadObject():
                return self._read_attributes(operation.bucket, operation.key).info
            case requests.ListObjects():
                return self._list(operation)
            case requests.DeleteObject():
                return self._delete(operation)
            case requests.SetLegalHold():
                return self._set_hold(operation)
            case requests.CreateBucket():
                return self._create_bucket(operation.definition)
            case requests.DescribeBucket():
                return self._load_definition(operation.bucket)
            case requests.SweepBucket():
                return self._sweep(operation.bucket)
        raise InternalError(f"Invalid operation {type(operation).__name__}: expected an objects operation.")

    # --- objects --------------------------------------------------------------------------------------------

    def _put(self, put: requests.PutObject) -> ObjectInfo:
        """Write the object's file. Raise `NotFound` without the bucket, `AlreadyExists` or `ObjectHeld`."""
        self._load_definition(put.bucket)
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
        file = object_file.build_file(info, put.body, put.bucket, self._cipher)
        if put.create_only:
            self._create(put, file)
            return info
        with self._storage.lock_bucket(put.bucket):
            self._refuse_held(put.bucket, put.key)
            self._write_file(put.bucket, file)
        return info

    def _create(self, put: requests.PutObject, file: ObjectFile) -> None:
        """Write the file if the key is free; raise `AlreadyExists` otherwise."""
        try:
            path = self._find_path(put.bucket, put.key)
            if path == to_former_path(put.bucket, put.key):
                raise AlreadyExists("An earlier version stored it.")
            self._storage.put(path, bytes(file), create_only=True)
        except AlreadyExists as error:
            raise AlreadyExists(f"The object {put.key} in {put.bucket} already exists.") from error

    def _get(self, get: requests.GetObject) -> StoredObject:
        """Return the object with its decrypted body.

        Raise `NotFound`, or `ObjectDamaged` if the hash differs.
        """
        file = self._read_file(get.bucket, get.key)
        return StoredObject(info=file.info, body=object_file.decrypt_body(file, get.bucket, self._cipher))

    def _list(self, listing: requests.ListObjects) -> ObjectPage:
        """Return the objects after the cursor in key order; the next cursor is the last key, or None at the
        end.
        """
        self._load_definition(listing.bucket)
        keys = self._list_keys(listing.bucket, listing.prefix)
        if listing.cursor is not None:
            after = listing.cursor.encode()
            keys = [key for key in keys if key.encode() > after]
        found = [self._summarize(listing.bucket, key) for key in keys[: listing.count]]
        return ObjectPage(
            objects=tuple(each for each in found if each is not None),
            cursor=keys[listing.count - 1] if len(keys) > listing.count else None,
        )

    def _list_keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, in the order of their bytes, as S3 does.

        Raise `StoreFileError` if all objects of the bucket are lost.
        """
        paths = [path for folder in to_folders(bucket, prefix) for path in self._storage.list_paths(folder)]
        if not paths:
            self._storage.refuse_lost_files(bucket)
        keys = [key for path in paths if (key := parse_key(bucket, path)) is not None]
        return sorted((key for key in keys if key.startswith(prefix)), key=str.encode)

    def _summarize(self, bucket: str, key: str) -> ObjectSummary | None:
        """Return key, size and put time, or None if the object has just been deleted."""
        try:
            info = self._read_attributes(bucket, key).info
        except NotFound:
            # The object was deleted after the folder was listed.
            return None
        return ObjectSummary(key=key, bytes=info.bytes, put_at=info.put_at)

    def _delete(self, delete: requests.DeleteObject) -> None:
        """Delete the object; do nothing if there is none. Raise `ObjectHeld` under a legal hold."""
        self._load_definition(delete.bucket)
        with self._storage.lock_bucket(delete.bucket):
            self._refuse_held(delete.bucket, delete.key)
            try:
                self._storage.remove(self._find_path(delete.bucket, delete.key))
            except NotFound:
                pass

    def _set_hold(self, hold: requests.SetLegalHold) -> None:
        """Set or remove the object's legal hold.

        Raise `InvalidRequest` if the bucket does not allow holds.
        """
        if not self._load_definition(hold.bucket).holds:
            raise InvalidRequest(
                f"The bucket {hold.bucket} does not allow legal holds. Declare it with "
                "legal_holds=True and create it again."
            )
        with self._storage.lock_bucket(hold.bucket):
            self._write_file(hold.bucket, self._read_file(hold.bucket, hold.key).with_hold(hold.held))

    def _refuse_held(self, bucket: str, key: str) -> None:
        """Raise `ObjectHeld` if the object exists and is under a legal hold."""
        try:
            info = self._read_attributes(bucket, key).info
        except NotFound:
            return
        except ObjectDamaged:
            # A damaged file does not show whether it is held: in a bucket with holds, it may not be removed.
            if self._load_definition(bucket).holds:
                raise
            return
        if info.held:
            raise ObjectHeld(bucket, key)

    # --- files ----------------------------------------------------------------------------------------------

    def _read_attributes(self, bucket: str, key: str) -> ObjectFile:
        """Read the beginning of the object's file: all its attributes, and a body that may be incomplete."""
        try:
            return object_file.parse_file(
                self._storage.get_start(self._find_path(bucket, key), MAX_START_BYTES), bucket, key
            )
        except NotFound as error:
            raise self._build_not_found(bucket, key) from error

    def _read_file(self, bucket: str, key: str) -> ObjectFile:
        """Read the object's whole file. Raise `NotFound` without it."""
        try:
            return object_file.parse_file(self._storage.get(self._find_path(bucket, key)), bucket, key)
        except NotFound as error:
            raise self._build_not_found(bucket, key) from error

    def _find_path(self, bucket: str, key: str) -> str:
        """Return the path of the object's file: where an earlier version stored it, or where a new one is."""
        former = to_former_path(bucket, key)
        return former if former is not None and self._storage.exists(former) else to_path(bucket, key)

    def _build_not_found(self, bucket: str, key: str) -> NotFound:
        """Return the error for a missing object, or raise the one for a missing or lost bucket."""
        self._load_definition(bucket)
        self._storage.refuse_lost_files(bucket)
        return NotFound(f"There is no object {key} in {bucket}.")

    def _write_file(self, bucket: str, file: ObjectFile) -> None:
        """Write the object's file, replacing an existing one."""
        self._storage.put(self._find_path(bucket, file.info.key), bytes(file), create_only=False)

    # --- buckets --------------------------------------------------------------------------------------------

    def _create_bucket(self, definition: BucketDefinition) -> None:
        """Create the bucket or replace its definition. Raise `AlreadyExists` if that disables legal holds."""
        with self._storage.lock_bucket(definition.name):
            try:
                had_holds = self._load_definition(definition.name).holds
            except NotFound:
                had_holds = False
            if had_holds and not definition.holds:
                raise AlreadyExists(
                    f"The bucket {definition.name} was created with legal holds, which cannot be disabled. "
                    "Declare it with legal_holds=True."
                )
            self._storage.put(
                f"{definition.name}/{DEFINITION_FILE}", encode_definition(definition), create_only=False
            )
            self._storage.mark_bucket(definition.name)

    def _load_definition(self, bucket: str) -> BucketDefinition:
        """Read the bucket's definition from its file. Raise `NotFound` without it, `StoreFileError` if it was
        lost or changed.
        """
        path = f"{bucket}/{DEFINITION_FILE}"
        try:
            version = self._storage.get_version(path)
            known = self._definitions.get(bucket)
            if known is None or known[0] != version:
                # Read after its version: a definition replaced in between is read again the next time.
                known = version, decode_definition(self._storage.get(path), path)
                self._definitions[bucket] = known
            return known[1]
        except NotFound as error:
            self._storage.refuse_lost_files(bucket)
            raise NotFound(f"There is no bucket {bucket}. Create it first.") from error

    def _sweep(self, bucket: str) -> int:
        """Delete objects past their lifecycle and stale temporary files; return how many objects were
        deleted.
        """
        definition = self._load_definition(bucket)
        self._storage.remove_stale_files(bucket)
        return sum(
            self._expire(bucket, key, rule.days)
            for rule in definition.lifecycle
            for key in self._list_keys(bucket, rule.prefix)
        )

    def _expire(self, bucket: str, key: str, days: int) -> bool:
        """Delete the object if it is past its lifetime and not held. Return whether it was deleted."""
        with self._storage.lock_bucket(bucket):
            try:
                info = self._read_attributes(bucket, key).info
            except (NotFound, ObjectDamaged):
                return False
            if info.held or self._clock.now() < info.put_at + days * DAY_S:
                return False
            self._storage.remove(self._find_path(bucket, key))
            return True
