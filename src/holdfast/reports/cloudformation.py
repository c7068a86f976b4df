"""A system's tables, queues, buckets, database, cache, alarms and policies as one CloudFormation template in YAML.

Pure: a `System` in, text out. What a table is comes from its definition, what a component may do from `iam.py`,
what is watched from `infrastructure.py`; only the way to write it down is here.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.objects import ENVIRONMENT as DECLARED
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexDefinition, KeySchema
from holdfast.reports.cloudformation_database import (
    database_and_cache,
    database_outputs,
    network_parameters,
    secret_id,
)
from holdfast.reports.cloudformation_stores import (
    ENVIRONMENT,
    bucket_id,
    bucket_names,
    key_arn_of,
    queue_id,
    queues_and_buckets,
    store_outputs,
    substituted,
)
from holdfast.reports.grants import DeadLetters, EncryptionKey, Granted, Inside, Keys, LoginSecret
from holdfast.reports.iam import key_arn, numbered, policies, policy_document
from holdfast.reports.infrastructure import (
    GENERATED,
    UNUSUAL_DEVIATIONS,
    Alarm,
    alarms,
    deployed_definition,
    distinct,
    environment_letters,
    environment_room,
    hyphenated,
    is_own_key,
    named_by_environment,
    pascal_case,
    stores_in_words,
)
from holdfast.reports.yaml_text import yaml_text

ACCOUNT_KEYS: Final = "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}"
# A longer template must be uploaded to S3 first.
TEMPLATE_BYTES_MAX: Final = 51_200

HEADER: Final = """\
# {generated}: `holdfast iac cloudformation {name}` makes it anew.
#
# The policies need `--capabilities CAPABILITY_IAM`. This template has {size:,} bytes{upload}.
#
# A stack update may create or delete one global index per table. A new table may have all of them at once; to add
# several to a table that is there, update the stack once for each. Do not add them with `holdfast indexes add` here:
# the stack would try to create them again.
#
# Tables are kept when they are taken out of the template or the stack is deleted.
"""
MUST_UPLOAD: Final = """,
# more than fit into a request: deploy it with `--s3-bucket`"""


def cloudformation(system: System, *, environment: str = "", all_indexes: bool = False) -> str:
    """The template. `environment` is what its parameter is, where the deployer says nothing else."""
    template = template_of(system, environment=environment, all_indexes=all_indexes)
    body = yaml_text(template)
    size = len(body.encode())
    upload = MUST_UPLOAD if size > TEMPLATE_BYTES_MAX - len(HEADER) else ""
    return HEADER.format(generated=GENERATED, name=system.name, size=size, upload=upload) + body


def template_file(system: System) -> str:
    return f"{hyphenated(system.name)}.yaml"


def template_of(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, Any]:
    """The template as a value."""
    ids = distinct((table.name for table in system.tables), _table_id, "tables")
    resources = {ids[table.name]: _table(table, all_indexes) for table in system.tables}
    resources |= queues_and_buckets(system) | database_and_cache(system)
    watched = {" ".join(alarm.name): alarm for alarm in alarms(system, all_indexes=all_indexes)}
    alarm_ids = distinct(watched, pascal_case, "alarms")
    resources |= {f"{alarm_ids[name]}Alarm": _alarm(alarm) for name, alarm in watched.items()}
    granted = _policies(system)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{system.title or system.name}: {system.purpose}"[:1024],
        "Parameters": _parameters(system, environment),
        **({"Mappings": names} if (names := bucket_names(system)) else {}),
        "Conditions": {"HasAlarmTopic": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}},
        "Resources": resources | granted,
        "Outputs": _outputs(system, list(granted)),
    }


def _parameters(system: System, environment: str) -> dict[str, Any]:
    return {
        "Environment": {
            "Type": "String",
            "Description": f"Part of the name of every {stores_in_words(system)}, as in the setting environment.",
            "AllowedPattern": f"[{environment_letters(system)}]{{1,{environment_room(system)}}}",
            **({"AllowedValues": list(system.environments)} if named_by_environment(system) else {}),
            **({"Default": environment} if environment else {}),
        },
        "AlarmTopic": {
            "Type": "String",
            "Description": "The ARN of the SNS topic that alarms are sent to. Left empty, they are only shown.",
            "Default": "",
        },
        **network_parameters(system),
    }


def _table(table: Table, all_indexes: bool) -> dict[str, Any]:
    definition = deployed_definition(table, table.physical_name(ENVIRONMENT), all_indexes)
    properties: dict[str, Any] = {
        "TableName": _substituted(definition.name),
        "BillingMode": definition.billing_mode,
        "AttributeDefinitions": [
            {"AttributeName": key.name, "AttributeType": key.type} for key in definition.attributes
        ],
        "KeySchema": _key_schema(definition.keys),
    }
    if definition.global_indexes:
        properties["GlobalSecondaryIndexes"] = [_index(index) for index in definition.global_indexes]
    if definition.local_indexes:
        properties["LocalSecondaryIndexes"] = [_index(index) for index in definition.local_indexes]
    if table.ttl is not None:
        properties["TimeToLiveSpecification"] = {"AttributeName": table.ttl, "Enabled": True}
    if definition.stream_view is not None:
        properties["StreamSpecification"] = {"StreamViewType": definition.stream_view}
    properties |= {
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": table.recovery},
        "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
        "DeletionProtectionEnabled": definition.deletion_protection,
    }
    return {
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }


def _key_schema(keys: KeySchema) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, kinds, strict=False)]


def _index(index: IndexDefinition) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": _key_schema(index.keys), "Projection": projection}


def _alarm(alarm: Alarm) -> dict[str, Any]:
    properties = {
        "AlarmName": _substituted(alarm.full_name(ENVIRONMENT)),
        "AlarmDescription": alarm.purpose,
        **_watched(alarm),
        "ComparisonOperator": alarm.comparison,
        "EvaluationPeriods": alarm.periods,
        "TreatMissingData": "notBreaching",
        "AlarmActions": {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
    }
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}


def _watched(alarm: Alarm) -> dict[str, Any]:
    """One metric, one metric against its usual band, or a sum over operations."""
    period = {"Period": alarm.period_s}
    if alarm.threshold is None:
        band = f"ANOMALY_DETECTION_BAND(used, {UNUSUAL_DEVIATIONS})"
        measured = {"Metric": _metric(alarm), **period, "Stat": alarm.statistic}
        return {
            "Metrics": [{"Id": "used", "MetricStat": measured}, {"Id": "usual", "Expression": band}],
            "ThresholdMetricId": "usual",
        }
    if alarm.operations:
        parts = [
            {
                "Id": operation.lower(),
                "ReturnData": False,
                "MetricStat": {"Metric": _metric(alarm, operation), **period, "Stat": alarm.statistic},
            }
            for operation in alarm.operations
        ]
        total = {"Id": "total", "Expression": "SUM(METRICS())", "Label": alarm.metric}
        return {"Metrics": [total, *parts], "Threshold": alarm.threshold}
    return {**_metric(alarm), **period, "Statistic": alarm.statistic, "Threshold": alarm.threshold}


def _metric(alarm: Alarm, operation: str = "") -> dict[str, Any]:
    dimensions: list[dict[str, Any]] = [{"Name": alarm.dimension, "Value": _watched_name(alarm)}]
    if alarm.index is not None:
        dimensions.append({"Name": "GlobalSecondaryIndexName", "Value": alarm.index.name})
    if operation:
        dimensions.append({"Name": "Operation", "Value": operation})
    return {"Namespace": alarm.namespace, "MetricName": alarm.metric, "Dimensions": dimensions}


def _watched_name(alarm: Alarm) -> dict[str, Any]:
    """A reference to a table gives its name; one to a queue gives its address."""
    if isinstance(alarm.resource, Table):
        return {"Ref": _table_id(alarm.resource.name)}
    return {"Fn::GetAtt": [queue_id(alarm.resource.name, dead=alarm.dead), "QueueName"]}


def _policies(system: System) -> dict[str, Any]:
    names = distinct((component.name for component in system.components), pascal_case, "components")
    return {
        f"{names[component.name]}Policy{pascal_case(suffix)}": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "Description": f"What the component {component.name} of {system.name} may do with its {_things(system)}.",
                "PolicyDocument": policy_document(statements, _arn, _said),
            },
        }
        for component in system.components
        for suffix, statements in numbered(policies(component))
    }


def _things(system: System) -> str:
    return "data" if system.queues or system.buckets or system.schemas else "tables"


def _arn(resource: Granted, inside: Inside) -> Any:
    match resource:
        case Queue():
            return {"Fn::GetAtt": [queue_id(resource.name, dead=isinstance(inside, DeadLetters)), "Arn"]}
        case Bucket():
            return _inside(bucket_id(resource.name), f"/{inside.like}" if isinstance(inside, Keys) else "")
        case LoginSecret():
            return {"Ref": secret_id(resource)}
        case EncryptionKey() if is_own_key(resource.name):
            return key_arn_of(resource.name)
        case EncryptionKey():
            spelled = key_arn(resource, ACCOUNT_KEYS)
            return {"Fn::Sub": spelled} if spelled.startswith(ACCOUNT_KEYS) else spelled
    name = f"/index/{inside.name}" if isinstance(inside, Index) else ""
    return _inside(_table_id(resource.name), name)


def _said(text: str) -> Any:
    """A value of a condition, with the environment where the declaration has it."""
    return substituted(text) if DECLARED in text else text


def _inside(logical: str, rest: str) -> dict[str, Any]:
    """The ARN of a resource, and what is behind it; there, nothing is put in for `${…}`."""
    if not rest:
        return {"Fn::GetAtt": [logical, "Arn"]}
    return {"Fn::Sub": f"${{{logical}.Arn}}{rest.replace('${', '${!')}"}


def _outputs(system: System, policy_ids: list[str]) -> dict[str, Any]:
    outputs: dict[str, Any] = {}
    for table in system.tables:
        logical = _table_id(table.name)
        outputs[f"{logical}Name"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
        if table.stream is not None:
            outputs[f"{logical}StreamArn"] = {"Value": {"Fn::GetAtt": [logical, "StreamArn"]}}
    return (
        outputs
        | store_outputs(system)
        | database_outputs(system)
        | {f"{policy}Arn": {"Value": {"Ref": policy}} for policy in policy_ids}
    )


def _table_id(name: str) -> str:
    return f"{pascal_case(name)}Table"


def _substituted(text: str) -> str | dict[str, str]:
    """A text with the environment in it; one without is left as it is."""
    return {"Fn::Sub": text} if ENVIRONMENT in text else text
