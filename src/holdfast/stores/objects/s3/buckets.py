"""Buckets on S3: apply a definition, and read it back.

A bucket with legal holds has Object Lock, and therefore versions. A noncurrent version expires after a day,
so that deleted content does not stay out of sight; where versions are wanted, after a month. A held version
stays. Nothing in a bucket is public: the public access block is set once, if the bucket has none yet.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.errors import AlreadyExists, RequestRefused
from holdfast.operations.objects import (
    UNWANTED_VERSION_DAYS,
    BucketDefinition,
    Encryption,
    LifecycleRule,
)
from holdfast.stores.objects.s3.service import ALGORITHMS, Service

# The region that a CreateBucket request must not name.
FIRST_REGION: Final = "us-east-1"
OWN_BUCKET: Final = "BucketAlreadyOwnedByYou"
NO_LOCK: Final = "ObjectLockConfigurationNotFoundError"
NO_LIFECYCLE: Final = "NoSuchLifecycleConfiguration"
NO_ENCRYPTION: Final = "ServerSideEncryptionConfigurationNotFoundError"
NO_ACCESS_BLOCK: Final = "NoSuchPublicAccessBlockConfiguration"
OLD_VERSIONS: Final = "holdfast-old-versions"
NOTHING_PUBLIC: Final = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}


async def create_bucket(service: Service, definition: BucketDefinition) -> None:
    client, name = service.client, definition.name
    await _make(service, definition)
    has_lock = await _has_lock(service, name)
    if has_lock and not definition.holds:
        raise AlreadyExists(
            f"The bucket {name} was made with legal holds, which cannot be taken from it: declare it with "
            "holds=True."
        )
    if definition.versions or (definition.holds and not has_lock):
        await _keep_versions(service, name)
    if definition.holds and not has_lock:
        await _add_lock(service, name)
    await _block_public_access(service, name)
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
    has_lock, lifecycle = await _has_lock(service, name), await _lifecycle_told(service, name)
    return BucketDefinition(
        name=name,
        encryption=encryption,
        kms_key=kms_key,
        lifecycle=_lifecycle(lifecycle),
        holds=has_lock,
        versions=await _has_versions(service, name) and not (has_lock and _are_unwanted(lifecycle)),
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


async def _keep_versions(service: Service, name: str) -> None:
    await service.ask(
        "PutBucketVersioning",
        service.client.put_bucket_versioning,
        writes=True,
        Bucket=name,
        VersioningConfiguration={"Status": "Enabled"},
    )


async def _add_lock(service: Service, name: str) -> None:
    await service.ask(
        "PutObjectLockConfiguration",
        service.client.put_object_lock_configuration,
        writes=True,
        Bucket=name,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"},
    )


async def _block_public_access(service: Service, name: str) -> None:
    client = service.client
    if await _asked_or_none(
        service, "GetPublicAccessBlock", client.get_public_access_block, name, NO_ACCESS_BLOCK
    ):
        return
    await service.ask(
        "PutPublicAccessBlock",
        client.put_public_access_block,
        writes=True,
        Bucket=name,
        PublicAccessBlockConfiguration=NOTHING_PUBLIC,
    )


async def _has_versions(service: Service, name: str) -> bool:
    found = await service.ask("GetBucketVersioning", service.client.get_bucket_versioning, Bucket=name)
    return bool(found.get("Status") == "Enabled")


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


async def _lifecycle_told(service: Service, name: str) -> list[Any]:
    found = await _asked_or_none(
        service,
        "GetBucketLifecycleConfiguration",
        service.client.get_bucket_lifecycle_configuration,
        name,
        NO_LIFECYCLE,
    )
    return [] if found is None else list(found["Rules"])


def _lifecycle(rules: list[Any]) -> tuple[LifecycleRule, ...]:
    return tuple(
        LifecycleRule(prefix=rule.get("Filter", {}).get("Prefix", ""), days=rule["Expiration"]["Days"])
        for rule in rules
        if "Days" in rule.get("Expiration", {})
    )


def _are_unwanted(rules: list[Any]) -> bool:
    """Return whether the bucket has versions only because legal holds need them."""
    return any(
        rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays") == UNWANTED_VERSION_DAYS
        for rule in rules
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
    # One KMS key per bucket for a while instead of one per object: fewer KMS requests to pay for.
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
    if definition.former_version_days is not None:
        rules.append(
            {
                "ID": OLD_VERSIONS,
                "Filter": {"Prefix": ""},
                "Status": "Enabled",
                "NoncurrentVersionExpiration": {"NoncurrentDays": definition.former_version_days},
                "Expiration": {"ExpiredObjectDeleteMarker": True},
            }
        )
    return rules
