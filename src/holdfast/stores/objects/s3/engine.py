"""The S3 objects engine: runs each operation as one or a few requests to S3.

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
from holdfast.stores.objects.adoption import adopt_object
from holdfast.stores.objects.checks import DIGEST_NAME, check
from holdfast.stores.objects.s3.buckets import create_bucket, describe_bucket
from holdfast.stores.objects.s3.errors import map_obstore_errors
from holdfast.stores.objects.s3.service import Service

R = TypeVar("R")

CONTENT_TYPE: Final = "Content-Type"
ON: Final = "ON"
DELETE_MARKER_HEADER: Final = "x-amz-delete-marker"


def open_s3(address: str, *, timeouts: Timeouts | None = None, clock: Clock = SYSTEM_CLOCK) -> S3Objects:
    """Open objects at AWS (`s3://us-east-1`) or at an endpoint (`s3+http://127.0.0.1:5000`)."""
    return S3Objects(Service(ServiceAddress.parse(address), timeouts or Timeouts()), clock=clock)


class S3Objects:
    """The S3 objects engine, opened by `open_s3`."""

    def __init__(self, service: Service, *, clock: Clock) -> None:
        self._service, self._client, self._clock = service, service.client, clock
        self._is_closed = False

    async def run(self, operation: requests.Operation[R]) -> R:
        """Check one operation and run it. Raise `StoreClosed` after `close`."""
        if self._is_closed:
            raise StoreClosed("The objects store was closed.")
        check(operation)
        if isinstance(operation, requests.AdoptObject):
            return cast(R, await adopt_object(self.run, operation.put))
        return cast(R, await self._execute(operation))

    def close(self) -> None:
        """Close the client and refuse further operations."""
        self._is_closed = True
        self._client.close()

    async def _execute(self, operation: requests.Operation[Any]) -> Any:
        """Run the operation.

        A sweep only checks that the bucket exists, because S3 applies lifecycles itself.
        """
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
                await self._service.send("HeadBucket", self._client.head_bucket, Bucket=operation.bucket)
                return 0
        raise InternalError(f"Invalid operation {type(operation).__name__}: expected an objects operation.")

    # --- objects --------------------------------------------------------------------------------------------

    async def _put(self, put: requests.PutObject) -> ObjectInfo:
        """Put the object with its hash as metadata.

        Raise `AlreadyExists` if `create_only`, `ObjectHeld` under a hold.
        """
        if not put.create_only:
            await self._refuse_held(put.bucket, put.key)
        digest = hashlib.sha256(put.body).hexdigest()
        store = self._service.get_store(put.bucket, put.encryption, put.kms_key)
        with map_obstore_errors(put.bucket, put.key, self._service.where, writes=True):
            done = await obstore.put_async(
                store,
                put.key,
                put.body,
                attributes={CONTENT_TYPE: put.content_type, **put.metadata, DIGEST_NAME: digest},
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
            etag=_unquote_etag(done["e_tag"]),
        )

    async def _get(self, get: requests.GetObject) -> StoredObject:
        """Return the object.

        Raise `ObjectDamaged` if its hash differs or is missing, as after a put by another program.
        """
        with map_obstore_errors(get.bucket, get.key, self._service.where, writes=False):
            response = await obstore.get_async(self._service.get_store(get.bucket), get.key)
            body = bytes(await response.bytes_async())
        attributes = {str(name): str(value) for name, value in response.attributes.items()}
        digest = hashlib.sha256(body).hexdigest()
        expected = attributes.pop(DIGEST_NAME, None)
        if expected is None:
            raise ObjectDamaged(
                get.bucket, get.key, "it has no hash of Holdfast: another program put it there"
            )
        if expected != digest:
            raise ObjectDamaged(
                get.bucket, get.key, "its bytes do not match the hash taken when they were put"
            )
        return StoredObject(
            info=ObjectInfo(
                key=get.key,
                bytes=len(body),
                sha256=digest,
                content_type=attributes.pop(CONTENT_TYPE, ""),
                put_at=response.meta["last_modified"].timestamp(),
                metadata=attributes,
                etag=_unquote_etag(response.meta["e_tag"]),
                # Only objects with versions can be held.
                held=response.meta["version"] is not None and await self._is_held(get.bucket, get.key),
            ),
            body=body,
        )

    async def _head(self, bucket: str, key: str) -> ObjectInfo:
        """Return the object's attributes; `sha256` is empty if another program put it."""
        head = await self._head_object(bucket, key)
        metadata = dict(head["Metadata"])
        return ObjectInfo(
            key=key,
            bytes=head["ContentLength"],
            sha256=metadata.pop(DIGEST_NAME, ""),
            content_type=head["ContentType"],
            put_at=head["LastModified"].timestamp(),
            metadata=metadata,
            etag=_unquote_etag(head["ETag"]),
            held=head.get("ObjectLockLegalHoldStatus") == ON,
        )

    async def _list(self, listing: requests.ListObjects) -> ObjectPage:
        """Return one page in key order; the next cursor is the last key, or None at the end."""
        after: dict[str, Any] = {} if listing.cursor is None else {"StartAfter": listing.cursor}
        page = await self._service.send(
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
        """Delete the object and all its versions; do nothing if there is none.

        Raise `ObjectHeld` under a legal hold.
        """
        try:
            head = await self._head_object(bucket, key)
        except NotFound as error:
            if not _has_delete_marker(error):
                await self._service.send("HeadBucket", self._client.head_bucket, Bucket=bucket)
                return
        else:
            if head.get("ObjectLockLegalHoldStatus") == ON:
                raise ObjectHeld(bucket, key)
            if "VersionId" not in head:
                await self._delete_version(bucket, key)
                return
        # Deleting only the current version would restore the previous one; a delete marker would leave all of
        # them.
        for version in await self._list_versions(bucket, key):
            await self._delete_version(bucket, key, VersionId=version)

    async def _list_versions(self, bucket: str, key: str) -> list[str]:
        """Return the ids of all versions and delete markers, the current one last.

        Deleting them in this order never restores an older version.
        """
        found: list[tuple[bool, str]] = []
        after: dict[str, Any] = {}
        while True:
            page = await self._service.send(
                "ListObjectVersions", self._client.list_object_versions, Bucket=bucket, Prefix=key, **after
            )
            every = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            found += [(each["IsLatest"], each["VersionId"]) for each in every if each["Key"] == key]
            # Longer keys with this prefix come after this key.
            if not page["IsTruncated"] or page["NextKeyMarker"] != key:
                return [version for _, version in sorted(found)]
            after = {"KeyMarker": key, "VersionIdMarker": page["NextVersionIdMarker"]}

    async def _delete_version(self, bucket: str, key: str, **version: Any) -> None:
        """Delete one version (`VersionId`), or the object of a bucket without versions.

        Raise `ObjectHeld` if S3 refuses a held version.
        """
        try:
            await self._service.send(
                "DeleteObject", self._client.delete_object, writes=True, Bucket=bucket, Key=key, **version
            )
        except AccessRefused as error:
            if version and await self._is_held(bucket, key, **version):
                raise ObjectHeld(bucket, key) from error
            raise

    # --- holds ----------------------------------------------------------------------------------------------

    async def _set_hold(self, hold: requests.SetLegalHold) -> None:
        """Set or remove the object's legal hold."""
        await self._service.send(
            "PutObjectLegalHold",
            self._client.put_object_legal_hold,
            writes=True,
            Bucket=hold.bucket,
            Key=hold.key,
            LegalHold={"Status": ON if hold.held else "OFF"},
        )

    async def _refuse_held(self, bucket: str, key: str) -> None:
        """Raise `ObjectHeld` if the object exists and is under a legal hold."""
        try:
            head = await self._head_object(bucket, key)
        except NotFound:
            return
        if head.get("ObjectLockLegalHoldStatus") == ON:
            raise ObjectHeld(bucket, key)

    async def _is_held(self, bucket: str, key: str, **version: Any) -> bool:
        """Return whether the object, or one version of it, is under a legal hold."""
        head = await self._head_object(bucket, key, **version)
        return bool(head.get("ObjectLockLegalHoldStatus") == ON)

    async def _head_object(self, bucket: str, key: str, **version: Any) -> Any:
        """Return S3's response to HeadObject, for the object or one version of it."""
        return await self._service.send(
            "HeadObject", self._client.head_object, Bucket=bucket, Key=key, **version
        )


def _has_delete_marker(error: NotFound) -> bool:
    """Return whether the object is missing because a delete marker hides its versions."""
    response: Any = getattr(error.__cause__, "response", {})
    return bool(
        response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get(DELETE_MARKER_HEADER) == "true"
    )


def _unquote_etag(etag: str | None) -> str:
    """Return the ETag without its quotes; empty for None."""
    return (etag or "").strip('"')
