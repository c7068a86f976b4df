"""Queues and buckets as resources of a CloudFormation template. What they are comes from their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.operations.objects import BucketDefinition, LifecycleRule
from holdfast.operations.queues import QueueDefinition
from holdfast.reports.infrastructure import distinct, in_environment, pascal_case

ENVIRONMENT: Final = "${Environment}"
# In a bucket with versions, what has ended stays behind as an old version: for the shortest time there is, so that a
# lifetime is kept. One under a legal hold stays.
OLD_VERSIONS_DAYS: Final = 1

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
    return found | {bucket_id(bucket.name): _bucket(bucket) for bucket in system.buckets}


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
    return _kept("AWS::SQS::Queue", properties)


def _bucket(bucket: Bucket) -> dict[str, Any]:
    definition = bucket.definition("")
    properties: dict[str, Any] = {
        "BucketName": {"Fn::Sub": in_environment(bucket, ENVIRONMENT)},
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [_encryption(definition)]},
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
    }
    if definition.holds:
        properties |= {"ObjectLockEnabled": True, "VersioningConfiguration": {"Status": "Enabled"}}
    if definition.lifecycle or definition.holds:
        properties["LifecycleConfiguration"] = {"Rules": _lifecycle(definition)}
    return _kept("AWS::S3::Bucket", properties)


def _encryption(definition: BucketDefinition) -> dict[str, Any]:
    if definition.encryption == "s3":
        return {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    key = {} if definition.kms_key is None else {"KMSMasterKeyID": definition.kms_key}
    return {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **key}}


def _lifecycle(definition: BucketDefinition) -> list[dict[str, Any]]:
    rules = [_expiry(number, rule) for number, rule in enumerate(definition.lifecycle, start=1)]
    if definition.holds:
        old = {"NoncurrentDays": OLD_VERSIONS_DAYS}
        rules.append({"Id": "old-versions", "Status": "Enabled", "NoncurrentVersionExpiration": old})
    return rules


def _expiry(number: int, rule: LifecycleRule) -> dict[str, Any]:
    return {
        "Id": f"lifetime-{number}",
        "Status": "Enabled",
        "Prefix": rule.prefix,
        "ExpirationInDays": rule.days,
    }


def _kept(type: str, properties: dict[str, Any]) -> dict[str, Any]:
    """What holds data outlives the stack."""
    return {
        "Type": type,
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }
