"""Buckets on S3: what a definition becomes, and what is read back of it.

A bucket with legal holds has Object Lock, and with it versions. A version that was replaced or whose object ended goes
a day later, so that what is deleted does not live on out of sight; one that is held stays.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import AlreadyThere, RequestRefused
from holdfast.operations.objects import BucketDefinition, Encryption, LifecycleRule
from holdfast.stores.objects.s3.service import ALGORITHMS, Service

# S3's region without a name of its own in a request.
FIRST_REGION: Final = "us-east-1"
OWN_BUCKET: Final = "BucketAlreadyOwnedByYou"
NO_LOCK: Final = "ObjectLockConfigurationNotFoundError"
NO_LIFECYCLE: Final = "NoSuchLifecycleConfiguration"
NO_ENCRYPTION: Final = "ServerSideEncryptionConfigurationNotFoundError"
OLD_VERSIONS: Final = "holdfast-old-versions"


async def create_bucket(service: Service, definition: BucketDefinition) -> None:
    client, name = service.client, definition.name
    await _make(service, definition)
    has_lock = await _has_lock(service, name)
    if has_lock and not definition.holds:
        raise AlreadyThere(
            f"The bucket {name} was made with legal holds, which cannot be taken from it: declare it with holds=True."
        )
    if definition.holds and not has_lock:
        await _add_lock(service, name)
    await service.ask(
        "PutBucketEncryption",
        client.put_bucket_encryption,
        writes=True,
        Bucket=name,
        ServerSideEncryptionConfiguration={"Rules": [_encryption_rule(definition)]},
    )
    if rules := _lifecycle_rules(definition):
        await service.ask(
            "PutBucketLifecycleConfiguration",
            client.put_bucket_lifecycle_configuration,
            writes=True,
            Bucket=name,
            LifecycleConfiguration={"Rules": rules},
        )
    else:
        await service.ask("DeleteBucketLifecycle", client.delete_bucket_lifecycle, writes=True, Bucket=name)


async def describe_bucket(service: Service, name: str) -> BucketDefinition:
    await service.ask("HeadBucket", service.client.head_bucket, Bucket=name)
    encryption, kms_key = await _encryption(service, name)
    return BucketDefinition(
        name=name,
        encryption=encryption,
        kms_key=kms_key,
        lifecycle=await _lifecycle(service, name),
        holds=await _has_lock(service, name),
    )


async def _make(service: Service, definition: BucketDefinition) -> None:
    region = service.client.meta.region_name
    placed = {} if region == FIRST_REGION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    locked = {"ObjectLockEnabledForBucket": True} if definition.holds else {}
    try:
        await service.ask(
            "CreateBucket",
            service.client.create_bucket,
            writes=True,
            Bucket=definition.name,
            **placed,
            **locked,
        )
    except RequestRefused as error:
        if error.code != OWN_BUCKET:
            raise


async def _add_lock(service: Service, name: str) -> None:
    await service.ask(
        "PutBucketVersioning",
        service.client.put_bucket_versioning,
        writes=True,
        Bucket=name,
        VersioningConfiguration={"Status": "Enabled"},
    )
    await service.ask(
        "PutObjectLockConfiguration",
        service.client.put_object_lock_configuration,
        writes=True,
        Bucket=name,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"},
    )


async def _has_lock(service: Service, name: str) -> bool:
    found = await _asked_or_none(
        service, "GetObjectLockConfiguration", service.client.get_object_lock_configuration, name, NO_LOCK
    )
    return found is not None and found["ObjectLockConfiguration"].get("ObjectLockEnabled") == "Enabled"


async def _encryption(service: Service, name: str) -> tuple[Encryption, str | None]:
    found = await _asked_or_none(
        service, "GetBucketEncryption", service.client.get_bucket_encryption, name, NO_ENCRYPTION
    )
    if found is None:
        return "s3", None
    rule = found["ServerSideEncryptionConfiguration"]["Rules"][0]["ApplyServerSideEncryptionByDefault"]
    return ("s3" if rule["SSEAlgorithm"] == ALGORITHMS["s3"] else "kms"), rule.get("KMSMasterKeyID")


async def _lifecycle(service: Service, name: str) -> tuple[LifecycleRule, ...]:
    found = await _asked_or_none(
        service,
        "GetBucketLifecycleConfiguration",
        service.client.get_bucket_lifecycle_configuration,
        name,
        NO_LIFECYCLE,
    )
    rules = [] if found is None else found["Rules"]
    return tuple(
        LifecycleRule(prefix=rule.get("Filter", {}).get("Prefix", ""), days=rule["Expiration"]["Days"])
        for rule in rules
        if "Days" in rule.get("Expiration", {})
    )


async def _asked_or_none(service: Service, action: str, call: Any, name: str, absent: str) -> Any:
    try:
        return await service.ask(action, call, Bucket=name)
    except RequestRefused as error:
        if error.code == absent:
            return None
        raise


def _encryption_rule(definition: BucketDefinition) -> dict[str, Any]:
    default = {"SSEAlgorithm": ALGORITHMS[definition.encryption]}
    if definition.kms_key is not None:
        default["KMSMasterKeyID"] = definition.kms_key
    # One key of KMS per bucket and while, in place of one per object: fewer requests to pay.
    return {
        "ApplyServerSideEncryptionByDefault": default,
        "BucketKeyEnabled": definition.encryption == "kms",
    }


def _lifecycle_rules(definition: BucketDefinition) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [
        {
            "ID": f"holdfast-{number}",
            "Filter": {"Prefix": rule.prefix},
            "Status": "Enabled",
            "Expiration": {"Days": rule.days},
        }
        for number, rule in enumerate(definition.lifecycle, 1)
    ]
    if definition.holds:
        rules.append(
            {
                "ID": OLD_VERSIONS,
                "Filter": {"Prefix": ""},
                "Status": "Enabled",
                "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
                "Expiration": {"ExpiredObjectDeleteMarker": True},
            }
        )
    return rules
