"""Build the resources of tables, queues, buckets and KMS keys from their definitions."""

from __future__ import annotations

from typing import Any

from holdfast.model.objects import Bucket
from holdfast.model.objects import substitute_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.objects import BucketDefinition
from holdfast.operations.tables.schema import IndexDefinition, KeySchema
from holdfast.reports.iac.infrastructure import (
    ALIAS_PREFIX,
    build_name_template,
    get_deployed_indexes,
    is_own_key,
    list_own_keys,
)
from holdfast.reports.iac.tree import (
    ENVIRONMENT_MARK,
    Address,
    ExistingKey,
    NameByEnvironment,
    Reference,
    Resource,
)
from holdfast.reports.iam.policies import POLICY_VERSION


def get_table_address(table: Table) -> Address:
    return Address("AWS::DynamoDB::Table", table.name)


def build_table(table: Table, all_indexes: bool) -> Resource:
    """Return a DynamoDB table with its deployed indexes."""
    definition = table.definition(
        table.physical_name(ENVIRONMENT_MARK), indexes=get_deployed_indexes(table, all_indexes)
    )
    properties: dict[str, Any] = {
        "TableName": definition.name,
        "BillingMode": definition.billing_mode,
        "AttributeDefinitions": [
            {"AttributeName": key.name, "AttributeType": key.type} for key in definition.attributes
        ],
        "KeySchema": _build_key_schema(definition.keys),
    }
    if definition.global_indexes:
        properties["GlobalSecondaryIndexes"] = [_build_index(index) for index in definition.global_indexes]
    if definition.local_indexes:
        properties["LocalSecondaryIndexes"] = [_build_index(index) for index in definition.local_indexes]
    if table.ttl is not None:
        properties["TimeToLiveSpecification"] = {"AttributeName": table.ttl, "Enabled": True}
    if definition.stream_view is not None:
        properties["StreamSpecification"] = {"StreamViewType": definition.stream_view}
    properties |= {
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": table.point_in_time_recovery},
        "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
        "DeletionProtectionEnabled": definition.deletion_protection,
    }
    return Resource(get_table_address(table), properties, "Retain")


def _build_key_schema(keys: KeySchema) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, kinds, strict=False)]


def _build_index(index: IndexDefinition) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": _build_key_schema(index.keys), "Projection": projection}


def get_queue_address(queue: Queue[Any], *, dead: bool = False) -> Address:
    """Return the address of a queue, or of its dead-letter queue if `dead`."""
    return Address("AWS::SQS::Queue", f"{queue.name} dead letters" if dead else queue.name)


def build_queues(queue: Queue[Any]) -> list[Resource]:
    """Return the queue; its dead-letter queue precedes it."""
    dead = get_queue_address(queue, dead=True)
    found = []
    for definition in queue.definitions(ENVIRONMENT_MARK):
        is_dead = definition.name == queue.physical_name(ENVIRONMENT_MARK, dead_letter=True)
        properties: dict[str, Any] = {
            "QueueName": definition.name,
            **({"FifoQueue": True} if definition.fifo else {}),
            "VisibilityTimeout": definition.visibility_s,
            "DelaySeconds": definition.delay_s,
            "MessageRetentionPeriod": definition.retention_s,
            "SqsManagedSseEnabled": True,
        }
        if definition.dead_letters is not None:
            properties["RedrivePolicy"] = {
                "deadLetterTargetArn": dead.refer("Arn"),
                "maxReceiveCount": definition.max_receives,
            }
        found.append(Resource(dead if is_dead else get_queue_address(queue), properties, "Retain"))
    return found


def get_key_arn(key: str, *, is_arn: bool = False) -> Reference | ExistingKey:
    """Return the reference to a bucket's key. `is_arn` asks for the ARN of a key that exists already."""
    return _get_key_address(key).refer("Arn") if is_own_key(key) else ExistingKey(key, is_arn)


def _get_key_address(alias: str, kind: str = "AWS::KMS::Key") -> Address:
    """Return the address of an own key: `pagw-s3` for `alias/pagw-s3-{environment}`."""
    return Address(kind, put_in(alias.removeprefix(ALIAS_PREFIX), ""))


def build_keys(system: System) -> list[Resource]:
    """Return the KMS keys that the system owns, each with its alias."""
    found = []
    for alias in list_own_keys(system):
        properties = {
            "Description": f"Encrypts the objects of {system.title or system.name}.",
            "EnableKeyRotation": True,
        }
        named = {
            "AliasName": put_in(alias, ENVIRONMENT_MARK),
            "TargetKeyId": _get_key_address(alias).refer("Id"),
        }
        found += [
            Resource(_get_key_address(alias), properties, "Retain"),
            Resource(_get_key_address(alias, "AWS::KMS::Alias"), named),
        ]
    return found


def get_bucket_address(bucket: Bucket) -> Address:
    return Address("AWS::S3::Bucket", bucket.name)


def build_buckets(system: System) -> list[Resource]:
    """Return the buckets, each with a policy that denies requests without TLS."""
    found = []
    for bucket in system.buckets:
        address = get_bucket_address(bucket)
        refusal = {
            "Sid": "OnlyByTls",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [address.refer("Arn"), address.refer("Arn", "/*")],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        document = {"Version": POLICY_VERSION, "Statement": [refusal]}
        found += [
            Resource(address, _build_bucket(system, bucket), "Retain"),
            Resource(
                Address("AWS::S3::BucketPolicy", bucket.name),
                {"Bucket": address.refer("Id"), "PolicyDocument": document},
            ),
        ]
    return found


def _build_bucket(system: System, bucket: Bucket) -> dict[str, Any]:
    """Return the properties of a private, encrypted bucket with its versions, lock and lifetimes."""
    definition = bucket.definition("")
    properties: dict[str, Any] = {
        "BucketName": _build_bucket_name(system, bucket),
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [_build_encryption(bucket)]},
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
    }
    if definition.holds:
        properties["ObjectLockEnabled"] = True
    if definition.noncurrent_version_days is not None:
        properties["VersioningConfiguration"] = {"Status": "Enabled"}
    if rules := _build_lifecycle_rules(definition):
        properties["LifecycleConfiguration"] = {"Rules": rules}
    return properties


def _build_bucket_name(system: System, bucket: Bucket) -> str | NameByEnvironment:
    if bucket.physical is None or not system.deployment.environments:
        return build_name_template(bucket, ENVIRONMENT_MARK)
    return NameByEnvironment({each: bucket.physical_name(each) for each in system.deployment.environments})


def _build_encryption(bucket: Bucket) -> dict[str, Any]:
    """Return the encryption by S3's own key, or by KMS with the bucket's key if it names one."""
    if bucket.encryption == "s3":
        return {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    key = {} if bucket.kms_key is None else {"KMSMasterKeyID": get_key_arn(bucket.kms_key)}
    return {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **key}}


def _build_lifecycle_rules(definition: BucketDefinition) -> list[dict[str, Any]]:
    """Return a rule for each lifetime of objects, and one for old versions."""
    rules: list[dict[str, Any]] = [
        {
            "Id": f"lifetime-{number}",
            "Status": "Enabled",
            **({"Prefix": rule.prefix} if rule.prefix else {}),
            "ExpirationInDays": rule.days,
        }
        for number, rule in enumerate(definition.lifecycle, start=1)
    ]
    if definition.noncurrent_version_days is not None:
        old = {"NoncurrentDays": definition.noncurrent_version_days}
        rules.append({"Id": "old-versions", "Status": "Enabled", "NoncurrentVersionExpiration": old})
    return rules
