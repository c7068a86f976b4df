"""Build the CloudFormation resources of queues, buckets and KMS keys from their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.model.objects import Bucket
from holdfast.model.objects import substitute_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.operations.objects import BucketDefinition, LifecycleRule
from holdfast.operations.queues import QueueDefinition
from holdfast.reports.iac.infrastructure import (
    ALIAS_PREFIX,
    build_name_template,
    has_bucket_names_by_environment,
    is_own_key,
    list_own_keys,
    map_to_distinct_names,
    to_pascal_case,
)

ENVIRONMENT_REFERENCE: Final = "${Environment}"
# The mapping with the names of buckets that have a separate name for each environment.
BUCKET_NAMES_MAPPING: Final = "BucketNames"

Resources = dict[str, dict[str, Any]]


def build_queues_and_buckets(system: System) -> Resources:
    """Return the resources by logical id; a dead-letter queue precedes its queue."""
    map_to_distinct_names((queue.name for queue in system.queues), get_queue_id, "queues")
    map_to_distinct_names((bucket.name for bucket in system.buckets), get_bucket_id, "buckets")
    found: Resources = {}
    for queue in system.queues:
        for definition in queue.definitions(ENVIRONMENT_REFERENCE):
            is_dead = definition.name == queue.physical_name(ENVIRONMENT_REFERENCE, dead_letter=True)
            found[get_queue_id(queue.name, dead=is_dead)] = _build_queue(queue, definition)
    map_to_distinct_names(list_own_keys(system), get_key_id, "keys")
    for alias in list_own_keys(system):
        found |= {get_key_id(alias): _build_key(system), f"{get_key_id(alias)}Alias": _build_alias(alias)}
    for bucket in system.buckets:
        logical = get_bucket_id(bucket.name)
        found |= {logical: _build_bucket(system, bucket), f"{logical}Policy": _build_tls_only_policy(logical)}
    return found


def build_bucket_names(system: System) -> dict[str, Any]:
    """Return the mapping of bucket names; empty unless buckets have a separate name for each environment."""
    if not has_bucket_names_by_environment(system):
        return {}
    named = [bucket for bucket in system.buckets if bucket.physical is not None]
    return {
        BUCKET_NAMES_MAPPING: {
            environment: {get_bucket_id(bucket.name): bucket.physical_name(environment) for bucket in named}
            for environment in system.deployment.environments
        }
    }


def build_store_outputs(system: System) -> dict[str, Any]:
    """Return the outputs: names, URLs and ARNs."""
    outputs: dict[str, Any] = {}
    for logical in (logical for queue in system.queues for logical in _iter_queue_ids(queue)):
        outputs[f"{logical}Url"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
    for logical in (get_bucket_id(bucket.name) for bucket in system.buckets):
        outputs[f"{logical}Name"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
    return outputs


def get_queue_id(name: str, *, dead: bool = False) -> str:
    """Return the logical id of a queue, or of its dead-letter queue if `dead`."""
    return f"{to_pascal_case(name)}{'DeadLetters' if dead else ''}Queue"


def get_bucket_id(name: str) -> str:
    return f"{to_pascal_case(name)}Bucket"


def get_key_id(alias: str) -> str:
    """Return the logical id of a key: `PagwS3Key` for `alias/pagw-s3-{environment}`."""
    return f"{to_pascal_case(put_in(alias.removeprefix(ALIAS_PREFIX), ''))}Key"


def get_key_arn(bucket_key: str) -> Any:
    """Return a reference to the key's ARN if the stack creates the key, otherwise the name as declared."""
    return {"Fn::GetAtt": [get_key_id(bucket_key), "Arn"]} if is_own_key(bucket_key) else bucket_key


def substitute(text: str) -> dict[str, str]:
    """Return `Fn::Sub` of a text, with `{environment}` replaced by a reference to the parameter."""
    return {"Fn::Sub": put_in(text, ENVIRONMENT_REFERENCE)}


def _iter_queue_ids(queue: Queue[Any]) -> Iterator[str]:
    yield get_queue_id(queue.name)
    if queue.max_receives is not None:
        yield get_queue_id(queue.name, dead=True)


def _build_queue(queue: Queue[Any], definition: QueueDefinition) -> dict[str, Any]:
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
            "deadLetterTargetArn": {"Fn::GetAtt": [get_queue_id(queue.name, dead=True), "Arn"]},
            "maxReceiveCount": definition.max_receives,
        }
    return build_retained_resource("AWS::SQS::Queue", properties)


def _build_bucket(system: System, bucket: Bucket) -> dict[str, Any]:
    """Return a private, encrypted bucket with its versions, object lock and lifecycle as declared."""
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
    return build_retained_resource("AWS::S3::Bucket", properties)


def _build_bucket_name(system: System, bucket: Bucket) -> dict[str, Any]:
    """Return the bucket's name: a template, or a lookup if each environment has its own name."""
    if bucket.physical is None or not system.deployment.environments:
        return {"Fn::Sub": build_name_template(bucket, ENVIRONMENT_REFERENCE)}
    return {"Fn::FindInMap": [BUCKET_NAMES_MAPPING, {"Ref": "Environment"}, get_bucket_id(bucket.name)]}


def _build_tls_only_policy(bucket: str) -> dict[str, Any]:
    """Return a bucket policy that denies requests without TLS; `bucket` is the bucket's logical id."""
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


def _build_key(system: System) -> dict[str, Any]:
    """Return a KMS key whose use the account's own policies control."""
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
    return build_retained_resource("AWS::KMS::Key", properties)


def _build_alias(alias: str) -> dict[str, Any]:
    properties = {"AliasName": substitute(alias), "TargetKeyId": {"Ref": get_key_id(alias)}}
    return {"Type": "AWS::KMS::Alias", "Properties": properties}


def _build_encryption(bucket: Bucket) -> dict[str, Any]:
    """Return the encryption by S3's own key, or by KMS with the bucket's key if it names one."""
    if bucket.encryption == "s3":
        return {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    key = {} if bucket.kms_key is None else {"KMSMasterKeyID": get_key_arn(bucket.kms_key)}
    return {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **key}}


def _build_lifecycle_rules(definition: BucketDefinition) -> list[dict[str, Any]]:
    """Return a rule for each lifetime of objects, and one for old versions."""
    rules = [
        _build_expiration_rule(number, rule) for number, rule in enumerate(definition.lifecycle, start=1)
    ]
    if definition.noncurrent_version_days is not None:
        old = {"NoncurrentDays": definition.noncurrent_version_days}
        rules.append({"Id": "old-versions", "Status": "Enabled", "NoncurrentVersionExpiration": old})
    return rules


def _build_expiration_rule(number: int, rule: LifecycleRule) -> dict[str, Any]:
    return {
        "Id": f"lifetime-{number}",
        "Status": "Enabled",
        **({"Prefix": rule.prefix} if rule.prefix else {}),
        "ExpirationInDays": rule.days,
    }


def build_retained_resource(type: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Return a resource that is retained when it is replaced or when the stack is deleted."""
    return {
        "Type": type,
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }
