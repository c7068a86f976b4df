"""The objects engine on S3: each operation is one or a few requests.

The hash of a body travels as metadata and is checked when the body is read. The engine checks for a hold
before an overwrite or a delete; if a hold is set in between, S3 keeps the held version.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeVar, cast

import obstore

from holdfast.config.aws_clients import ServiceAddress, Timeouts
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import (
    AccessRefused,
    InternalError,
    NotFound,
    ObjectDamaged,
    ObjectHeld,
    StoreClosed,
)
from holdfast.operations import objects as requests
from holdfast.operations.objects import ObjectInfo, ObjectPage, ObjectSummary, StoredObject
from holdfast.stores.objects.adopting import adopted
from holdfast.stores.objects.checks import DIGEST, check
from holdfast.stores.objects.s3.buckets import create_bucket, describe_bucket
from holdfast.stores.objects.s3.failures import mapped
from holdfast.stores.objects.s3.service import Service

R = TypeVar("R")

CONTENT_TYPE: Final = "Content-Type"
ON: Final = "ON"
MARKED: Final = "x-amz-delete-marker"


def open_s3(address: str, *, timeouts: Timeouts | None = None, clock: Clock = SYSTEM_CLOCK) -> S3Objects:
    """Open objects at AWS (`s3://us-east-1`) or at an endpoint (`s3+http://127.0.0.1:5000`)."""
    return S3Objects(Service(ServiceAddress.parse(address), timeouts or Timeouts()), clock=clock)


class S3Objects:
    def __init__(self, service: Service, *, clock: Clock) -> None:
        self._service, self._client, self._clock = service, service.client, clock
        self._is_closed = False

    async def run(self, operation: requests.Operation[R]) -> R:
        if self._is_closed:
            raise StoreClosed("The objects store was closed.")
        check(operation)
        if isinstance(operation, requests.AdoptObject):
            return cast(R, await adopted(self.run, operation.put))
        return cast(R, await self._do(operation))

    def close(self) -> None:
        self._is_closed = True
        self._client.close()

    async def _do(self, operation: requests.Operation[Any]) -> Any:
        match operation:
            case requests.PutObject():
                return await self._put(operation)
            case requests.GetObject():
                return await self._get(operation)
            case requests.HeadObject():
                return await self._head(operation.bucket, operation.key)
            case requests.ListObjects():
                return await self._list(operation)
            case requests.DeleteObject():
                return await self._delete(operation.bucket, operation.key)
            case requests.SetLegalHold():
                return await self._set_hold(operation)
            case requests.CreateBucket():
                return await create_bucket(self._service, operation.definition)
            case requests.DescribeBucket():
                return await describe_bucket(self._service, operation.bucket)
            case requests.SweepBucket():
                await self._service.ask("HeadBucket", self._client.head_bucket, Bucket=operation.bucket)
                return 0
        raise InternalError(f"{type(operation).__name__} is no operation of an objects store.")

    # --- objects --------------------------------------------------------------------------------------------

    async def _put(self, put: requests.PutObject) -> ObjectInfo:
        if not put.create_only:
            await self._refuse_held(put.bucket, put.key)
        digest = hashlib.sha256(put.body).hexdigest()
        store = self._service.store(put.bucket, put.encryption, put.kms_key)
        with mapped(put.bucket, put.key, self._service.where, writes=True):
            done = await obstore.put_async(
                store,
                put.key,
                put.body,
                attributes={CONTENT_TYPE: put.content_type, **put.metadata, DIGEST: digest},
                mode="create" if put.create_only else "overwrite",
                use_multipart=False,
            )
        return ObjectInfo(
            key=put.key,
            bytes=len(put.body),
            sha256=digest,
            content_type=put.content_type,
            put_at=self._clock.now(),
            metadata=dict(put.metadata),
            etag=_plain(done["e_tag"]),
        )

    async def _get(self, get: requests.GetObject) -> StoredObject:
        with mapped(get.bucket, get.key, self._service.where, writes=False):
            answer = await obstore.get_async(self._service.store(get.bucket), get.key)
            body = bytes(await answer.bytes_async())
        attributes = {str(name): str(value) for name, value in answer.attributes.items()}
        digest = hashlib.sha256(body).hexdigest()
        known = attributes.pop(DIGEST, None)
        if known is None:
            raise ObjectDamaged(get.bucket, get.key, "it has no hash of ours: something else put it there")
        if known != digest:
            raise ObjectDamaged(
                get.bucket, get.key, "its bytes do not have the hash they had when they were put"
            )
        return StoredObject(
            info=ObjectInfo(
                key=get.key,
                bytes=len(body),
                sha256=digest,
                content_type=attributes.pop(CONTENT_TYPE, ""),
                put_at=answer.meta["last_modified"].timestamp(),
                metadata=attributes,
                etag=_plain(answer.meta["e_tag"]),
                # Only objects with versions can be held.
                held=answer.meta["version"] is not None and await self._is_held(get.bucket, get.key),
            ),
            body=body,
        )

    async def _head(self, bucket: str, key: str) -> ObjectInfo:
        told = await self._told(bucket, key)
        metadata = dict(told["Metadata"])
        return ObjectInfo(
            key=key,
            bytes=told["ContentLength"],
            sha256=metadata.pop(DIGEST, ""),
            content_type=told["ContentType"],
            put_at=told["LastModified"].timestamp(),
            metadata=metadata,
            etag=_plain(told["ETag"]),
            held=told.get("ObjectLockLegalHoldStatus") == ON,
        )

    async def _list(self, listing: requests.ListObjects) -> ObjectPage:
        after: dict[str, Any] = {} if listing.cursor is None else {"StartAfter": listing.cursor}
        page = await self._service.ask(
            "ListObjectsV2",
            self._client.list_objects_v2,
            Bucket=listing.bucket,
            Prefix=listing.prefix,
            MaxKeys=listing.count,
            **after,
        )
        found = tuple(
            ObjectSummary(key=each["Key"], bytes=each["Size"], put_at=each["LastModified"].timestamp())
            for each in page.get("Contents", ())
        )
        return ObjectPage(objects=found, cursor=found[-1].key if page["IsTruncated"] and found else None)

    async def _delete(self, bucket: str, key: str) -> None:
        try:
            told = await self._told(bucket, key)
        except NotFound as error:
            if not _is_marked_deleted(error):
                await self._service.ask("HeadBucket", self._client.head_bucket, Bucket=bucket)
                return
        else:
            if told.get("ObjectLockLegalHoldStatus") == ON:
                raise ObjectHeld(bucket, key)
            if "VersionId" not in told:
                await self._remove(bucket, key)
                return
        # Deleting only the current version would restore the previous one; a delete marker would leave all of
        # them.
        for version in await self._versions(bucket, key):
            await self._remove(bucket, key, VersionId=version)

    async def _versions(self, bucket: str, key: str) -> list[str]:
        """Return the versions, the current one last: deleting them in order never restores an older one."""
        found: list[tuple[bool, str]] = []
        after: dict[str, Any] = {}
        while True:
            page = await self._service.ask(
                "ListObjectVersions", self._client.list_object_versions, Bucket=bucket, Prefix=key, **after
            )
            every = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            found += [(each["IsLatest"], each["VersionId"]) for each in every if each["Key"] == key]
            # Longer keys with this prefix come after this key.
            if not page["IsTruncated"] or page["NextKeyMarker"] != key:
                return [version for _, version in sorted(found)]
            after = {"KeyMarker": key, "VersionIdMarker": page["NextVersionIdMarker"]}

    async def _remove(self, bucket: str, key: str, **version: Any) -> None:
        try:
            await self._service.ask(
                "DeleteObject", self._client.delete_object, writes=True, Bucket=bucket, Key=key, **version
            )
        except AccessRefused as error:
            if version and await self._is_held(bucket, key, **version):
                raise ObjectHeld(bucket, key) from error
            raise

    # --- holds ----------------------------------------------------------------------------------------------

    async def _set_hold(self, hold: requests.SetLegalHold) -> None:
        await self._service.ask(
            "PutObjectLegalHold",
            self._client.put_object_legal_hold,
            writes=True,
            Bucket=hold.bucket,
            Key=hold.key,
            LegalHold={"Status": ON if hold.held else "OFF"},
        )

    async def _refuse_held(self, bucket: str, key: str) -> None:
        try:
            told = await self._told(bucket, key)
        except NotFound:
            return
        if told.get("ObjectLockLegalHoldStatus") == ON:
            raise ObjectHeld(bucket, key)

    async def _is_held(self, bucket: str, key: str, **version: Any) -> bool:
        told = await self._told(bucket, key, **version)
        return bool(told.get("ObjectLockLegalHoldStatus") == ON)

    async def _told(self, bucket: str, key: str, **version: Any) -> Any:
        return await self._service.ask(
            "HeadObject", self._client.head_object, Bucket=bucket, Key=key, **version
        )


def _is_marked_deleted(error: NotFound) -> bool:
    """Return whether the object is missing because a delete marker hides its versions."""
    answer: Any = getattr(error.__cause__, "response", {})
    return bool(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get(MARKED) == "true")


def _plain(etag: str | None) -> str:
    return (etag or "").strip('"')
