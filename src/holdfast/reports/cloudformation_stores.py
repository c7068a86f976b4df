"""Queues, buckets and their keys as resources of a CloudFormation template. What they are comes from their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.model.objects import Bucket
from holdfast.model.objects import in_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.operations.objects import BucketDefinition, LifecycleRule
from holdfast.operations.queues import QueueDefinition
from holdfast.reports.infrastructure import (
    ALIAS,
    distinct,
    in_environment,
    is_own_key,
    named_by_environment,
    own_keys,
    pascal_case,
)

ENVIRONMENT: Final = "${Environment}"
# Where the names stand of buckets that are named for each environment by itself.
BUCKET_NAMES: Final = "BucketNames"

Resources = dict[str, dict[str, Any]]


def queues_and_buckets(system: System) -> Resources:
    """By logical id; the dead letters of a queue before it."""
    distinct((queue.name for queue in system.queues), queue_id, "queues")
    distinct((bucket.name for bucket in system.buckets), bucket_id, "buckets")
    found: Resources = {}
    for queue in system.queues:
        for definition in queue.definitions(ENVIRONMENT):
            is_dead = definition.name == queue.physical_name(ENVIRONMENT, dead=True)
            found[queue_id(queue.name, dead=is_dead)] = _queue(queue, definition)
    distinct(own_keys(system), key_id, "keys")
    for alias in own_keys(system):
        found |= {key_id(alias): _key(system), f"{key_id(alias)}Alias": _alias(alias)}
    for bucket in system.buckets:
        logical = bucket_id(bucket.name)
        found |= {logical: _bucket(system, bucket), f"{logical}Policy": _only_by_tls(logical)}
    return found


def bucket_names(system: System) -> dict[str, Any]:
    """The mapping of names, where buckets have one for each environment by itself."""
    if not named_by_environment(system):
        return {}
    named = [bucket for bucket in system.buckets if bucket.physical is not None]
    return {
        BUCKET_NAMES: {
            environment: {bucket_id(bucket.name): bucket.physical_name(environment) for bucket in named}
            for environment in system.environments
        }
    }


def store_outputs(system: System) -> dict[str, Any]:
    """Names, addresses and ARNs."""
    outputs: dict[str, Any] = {}
    for logical in (logical for queue in system.queues for logical in _queue_ids(queue)):
        outputs[f"{logical}Url"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
    for logical in (bucket_id(bucket.name) for bucket in system.buckets):
        outputs[f"{logical}Name"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
    return outputs


def queue_id(name: str, *, dead: bool = False) -> str:
    return f"{pascal_case(name)}{'DeadLetters' if dead else ''}Queue"


def bucket_id(name: str) -> str:
    return f"{pascal_case(name)}Bucket"


def key_id(alias: str) -> str:
    """`alias/pagw-s3-{environment}` is the key `PagwS3Key`."""
    return f"{pascal_case(put_in(alias.removeprefix(ALIAS), ''))}Key"


def key_arn_of(bucket_key: str) -> Any:
    """By reference where the key is the system's own, and as it is called otherwise."""
    return {"Fn::GetAtt": [key_id(bucket_key), "Arn"]} if is_own_key(bucket_key) else bucket_key


def substituted(text: str) -> dict[str, str]:
    """A text with the environment where the declaration has it."""
    return {"Fn::Sub": put_in(text, ENVIRONMENT)}


def _queue_ids(queue: Queue[Any]) -> Iterator[str]:
    yield queue_id(queue.name)
    if queue.receives_max is not None:
        yield queue_id(queue.name, dead=True)


def _queue(queue: Queue[Any], definition: QueueDefinition) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "QueueName": {"Fn::Sub": definition.name},
        **({"FifoQueue": True} if definition.fifo else {}),
        "VisibilityTimeout": definition.visibility_s,
        "DelaySeconds": definition.delay_s,
        "MessageRetentionPeriod": definition.retention_s,
        "SqsManagedSseEnabled": True,
    }
    if definition.dead_letters is not None:
        properties["RedrivePolicy"] = {
            "deadLetterTargetArn": {"Fn::GetAtt": [queue_id(queue.name, dead=True), "Arn"]},
            "maxReceiveCount": definition.receives_max,
        }
    return kept("AWS::SQS::Queue", properties)


def _bucket(system: System, bucket: Bucket) -> dict[str, Any]:
    definition = bucket.definition("")
    properties: dict[str, Any] = {
        "BucketName": _bucket_name(system, bucket),
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [_encryption(bucket)]},
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
    if definition.former_version_days is not None:
        properties["VersioningConfiguration"] = {"Status": "Enabled"}
    if rules := _lifecycle(definition):
        properties["LifecycleConfiguration"] = {"Rules": rules}
    return kept("AWS::S3::Bucket", properties)


def _bucket_name(system: System, bucket: Bucket) -> dict[str, Any]:
    if bucket.physical is None or not system.environments:
        return {"Fn::Sub": in_environment(bucket, ENVIRONMENT)}
    return {"Fn::FindInMap": [BUCKET_NAMES, {"Ref": "Environment"}, bucket_id(bucket.name)]}


def _only_by_tls(bucket: str) -> dict[str, Any]:
    """Nobody is answered who asks in the clear."""
    refusal = {
        "Sid": "OnlyByTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [{"Fn::GetAtt": [bucket, "Arn"]}, {"Fn::Sub": f"${{{bucket}.Arn}}/*"}],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = {"Version": "2012-10-17", "Statement": [refusal]}
    return {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": bucket}, "PolicyDocument": document},
    }


def _key(system: System) -> dict[str, Any]:
    """What may be done with it, the account's own policies say."""
    account = {
        "Sid": "ByThePoliciesOfTheAccount",
        "Effect": "Allow",
        "Principal": {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}},
        "Action": "kms:*",
        "Resource": "*",
    }
    properties = {
        "Description": f"Encrypts the objects of {system.title or system.name}.",
        "EnableKeyRotation": True,
        "KeyPolicy": {"Version": "2012-10-17", "Statement": [account]},
    }
    return kept("AWS::KMS::Key", properties)


def _alias(alias: str) -> dict[str, Any]:
    properties = {"AliasName": substituted(alias), "TargetKeyId": {"Ref": key_id(alias)}}
    return {"Type": "AWS::KMS::Alias", "Properties": properties}


def _encryption(bucket: Bucket) -> dict[str, Any]:
    if bucket.encryption == "s3":
        return {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    key = {} if bucket.kms_key is None else {"KMSMasterKeyID": key_arn_of(bucket.kms_key)}
    return {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **key}}


def _lifecycle(definition: BucketDefinition) -> list[dict[str, Any]]:
    rules = [_expiry(number, rule) for number, rule in enumerate(definition.lifecycle, start=1)]
    if definition.former_version_days is not None:
        old = {"NoncurrentDays": definition.former_version_days}
        rules.append({"Id": "old-versions", "Status": "Enabled", "NoncurrentVersionExpiration": old})
    return rules


def _expiry(number: int, rule: LifecycleRule) -> dict[str, Any]:
    return {
        "Id": f"lifetime-{number}",
        "Status": "Enabled",
        **({"Prefix": rule.prefix} if rule.prefix else {}),
        "ExpirationInDays": rule.days,
    }


def kept(type: str, properties: dict[str, Any]) -> dict[str, Any]:
    """What holds data outlives the stack."""
    return {
        "Type": type,
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }
