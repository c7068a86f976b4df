"""Buckets on S3: create one or apply a changed definition, and read a definition back.

A bucket with legal holds has Object Lock, and therefore versions. A noncurrent version expires after a day,
so that deleted content does not stay out of sight; where versions are wanted, after a month. A held version
stays. Nothing in a bucket is public: the public access block is set once, if the bucket has none yet.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.errors import AlreadyExists, RequestRefused
from holdfast.operations.objects import HOLD_ONLY_VERSION_DAYS, BucketDefinition, Encryption, LifecycleRule
from holdfast.stores.objects.s3.service import ALGORITHMS, Service

# The region that a CreateBucket request must not name.
IMPLICIT_REGION: Final = "us-east-1"
ALREADY_OWNED: Final = "BucketAlreadyOwnedByYou"
NO_LOCK: Final = "ObjectLockConfigurationNotFoundError"
NO_LIFECYCLE: Final = "NoSuchLifecycleConfiguration"
NO_ENCRYPTION: Final = "ServerSideEncryptionConfigurationNotFoundError"
NO_ACCESS_BLOCK: Final = "NoSuchPublicAccessBlockConfiguration"
NONCURRENT_RULE_ID: Final = "holdfast-old-versions"
BLOCK_ALL_PUBLIC_ACCESS: Final = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}


async def create_bucket(service: Service, definition: BucketDefinition) -> None:
    """Create the bucket if it is missing, then apply the whole definition.

    Raise `AlreadyExists` if that would disable legal holds.
    """
    client, name = service.client, definition.name
    await _create_if_absent(service, definition)
    has_lock = await _has_object_lock(service, name)
    if has_lock and not definition.holds:
        raise AlreadyExists(
            f"The bucket {name} was created with legal holds, which cannot be disabled. Declare it with "
            "legal_holds=True."
        )
    if definition.versions or (definition.holds and not has_lock):
        await _enable_versioning(service, name)
    if definition.holds and not has_lock:
        await _enable_object_lock(service, name)
    await _block_public_access(service, name)
    await service.send(
        "PutBucketEncryption",
        client.put_bucket_encryption,
        writes=True,
        Bucket=name,
        ServerSideEncryptionConfiguration={"Rules": [_build_encryption_rule(definition)]},
    )
    if rules := _build_lifecycle_rules(definition):
        await service.send(
            "PutBucketLifecycleConfiguration",
            client.put_bucket_lifecycle_configuration,
            writes=True,
            Bucket=name,
            LifecycleConfiguration={"Rules": rules},
        )
    else:
        await service.send("DeleteBucketLifecycle", client.delete_bucket_lifecycle, writes=True, Bucket=name)


async def describe_bucket(service: Service, name: str) -> BucketDefinition:
    """Return the bucket's definition, read from its settings on S3. Raise `NotFound` without the bucket."""
    await service.send("HeadBucket", service.client.head_bucket, Bucket=name)
    encryption, kms_key = await _get_encryption(service, name)
    has_lock, lifecycle = await _has_object_lock(service, name), await _get_lifecycle_rules(service, name)
    return BucketDefinition(
        name=name,
        encryption=encryption,
        kms_key=kms_key,
        lifecycle=_parse_lifecycle(lifecycle),
        holds=has_lock,
        versions=await _has_versioning(service, name)
        and not (has_lock and _has_versions_only_for_holds(lifecycle)),
    )


async def _create_if_absent(service: Service, definition: BucketDefinition) -> None:
    """Create the bucket, with Object Lock if it has holds; do nothing if this account already owns it."""
    region = service.client.meta.region_name
    location = (
        {} if region == IMPLICIT_REGION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    )
    lock = {"ObjectLockEnabledForBucket": True} if definition.holds else {}
    try:
        await service.send(
            "CreateBucket",
            service.client.create_bucket,
            writes=True,
            Bucket=definition.name,
            **location,
            **lock,
        )
    except RequestRefused as error:
        if error.code != ALREADY_OWNED:
            raise


async def _enable_versioning(service: Service, name: str) -> None:
    await service.send(
        "PutBucketVersioning",
        service.client.put_bucket_versioning,
        writes=True,
        Bucket=name,
        VersioningConfiguration={"Status": "Enabled"},
    )


async def _enable_object_lock(service: Service, name: str) -> None:
    await service.send(
        "PutObjectLockConfiguration",
        service.client.put_object_lock_configuration,
        writes=True,
        Bucket=name,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"},
    )


async def _block_public_access(service: Service, name: str) -> None:
    """Block all public access, unless the bucket already has a public access block of any kind."""
    client = service.client
    if await _call_or_none(
        service, "GetPublicAccessBlock", client.get_public_access_block, name, NO_ACCESS_BLOCK
    ):
        return
    await service.send(
        "PutPublicAccessBlock",
        client.put_public_access_block,
        writes=True,
        Bucket=name,
        PublicAccessBlockConfiguration=BLOCK_ALL_PUBLIC_ACCESS,
    )


async def _has_versioning(service: Service, name: str) -> bool:
    found = await service.send("GetBucketVersioning", service.client.get_bucket_versioning, Bucket=name)
    return bool(found.get("Status") == "Enabled")


async def _has_object_lock(service: Service, name: str) -> bool:
    """Return whether Object Lock is enabled, which legal holds need."""
    found = await _call_or_none(
        service, "GetObjectLockConfiguration", service.client.get_object_lock_configuration, name, NO_LOCK
    )
    return found is not None and found["ObjectLockConfiguration"].get("ObjectLockEnabled") == "Enabled"


async def _get_encryption(service: Service, name: str) -> tuple[Encryption, str | None]:
    """Return the bucket's default encryption and its KMS key, if it names one."""
    found = await _call_or_none(
        service, "GetBucketEncryption", service.client.get_bucket_encryption, name, NO_ENCRYPTION
    )
    if found is None:
        return "s3", None
    rule = found["ServerSideEncryptionConfiguration"]["Rules"][0]["ApplyServerSideEncryptionByDefault"]
    return ("s3" if rule["SSEAlgorithm"] == ALGORITHMS["s3"] else "kms"), rule.get("KMSMasterKeyID")


async def _get_lifecycle_rules(service: Service, name: str) -> list[Any]:
    """Return S3's lifecycle rules of the bucket, none if it has no lifecycle."""
    found = await _call_or_none(
        service,
        "GetBucketLifecycleConfiguration",
        service.client.get_bucket_lifecycle_configuration,
        name,
        NO_LIFECYCLE,
    )
    return [] if found is None else list(found["Rules"])


def _parse_lifecycle(rules: list[Any]) -> tuple[LifecycleRule, ...]:
    """Return the rules that delete objects after some days; skip rules of any other kind."""
    return tuple(
        LifecycleRule(prefix=rule.get("Filter", {}).get("Prefix", ""), days=rule["Expiration"]["Days"])
        for rule in rules
        if "Days" in rule.get("Expiration", {})
    )


def _has_versions_only_for_holds(rules: list[Any]) -> bool:
    """Return whether the bucket has versions only because legal holds need them."""
    return any(
        rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays") == HOLD_ONLY_VERSION_DAYS
        for rule in rules
    )


async def _call_or_none(service: Service, action: str, method: Any, name: str, absent_code: str) -> Any:
    """Return the response, or None if S3 refuses with `absent_code`: the bucket has no such setting."""
    try:
        return await service.send(action, method, Bucket=name)
    except RequestRefused as error:
        if error.code == absent_code:
            return None
        raise


def _build_encryption_rule(definition: BucketDefinition) -> dict[str, Any]:
    """Return S3's default encryption rule, with a bucket key for KMS."""
    default = {"SSEAlgorithm": ALGORITHMS[definition.encryption]}
    if definition.kms_key is not None:
        default["KMSMasterKeyID"] = definition.kms_key
    # One KMS key per bucket for a while instead of one per object: fewer KMS requests to pay for.
    return {
        "ApplyServerSideEncryptionByDefault": default,
        "BucketKeyEnabled": definition.encryption == "kms",
    }


def _build_lifecycle_rules(definition: BucketDefinition) -> list[dict[str, Any]]:
    """Return S3's rules: one per declared prefix, and one that expires noncurrent versions."""
    rules: list[dict[str, Any]] = [
        {
            "ID": f"holdfast-{number}",
            "Filter": {"Prefix": rule.prefix},
            "Status": "Enabled",
            "Expiration": {"Days": rule.days},
        }
        for number, rule in enumerate(definition.lifecycle, 1)
    ]
    if definition.noncurrent_version_days is not None:
        rules.append(
            {
                "ID": NONCURRENT_RULE_ID,
                "Filter": {"Prefix": ""},
                "Status": "Enabled",
                "NoncurrentVersionExpiration": {"NoncurrentDays": definition.noncurrent_version_days},
                "Expiration": {"ExpiredObjectDeleteMarker": True},
            }
        )
    return rules
