"""Render a system's stores, alarms and policies as one CloudFormation template.

Pure: a `System` in, YAML out. Table definitions come from the model, permissions from `iam/policies.py`,
alarms from `infrastructure.py`; this module only writes them down.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.objects import ENVIRONMENT_PLACEHOLDER as DECLARED
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexDefinition, KeySchema
from holdfast.reports.iac.cloudformation_database import (
    build_database_and_cache,
    build_database_outputs,
    build_network_parameters,
    get_secret_id,
)
from holdfast.reports.iac.cloudformation_stores import (
    ENVIRONMENT_REFERENCE,
    build_bucket_names,
    build_queues_and_buckets,
    build_store_outputs,
    get_bucket_id,
    get_key_arn,
    get_queue_id,
    substitute,
)
from holdfast.reports.iac.infrastructure import (
    GENERATED_NOTICE,
    UNUSUAL_DEVIATIONS,
    Alarm,
    build_alarms,
    build_deployed_definition,
    compute_max_environment_length,
    format_store_kinds,
    get_environment_characters,
    has_bucket_names_by_environment,
    is_own_key,
    map_to_distinct_names,
    to_file_name,
    to_pascal_case,
)
from holdfast.reports.iac.yaml_writer import write_yaml
from holdfast.reports.iam.grants import (
    DeadLetters,
    EncryptionKey,
    GrantableResource,
    KeyPattern,
    LoginSecret,
    SubResource,
)
from holdfast.reports.iam.policies import add_suffixes, build_key_arn, build_policies, build_policy_document

ACCOUNT_KEY_PREFIX: Final = "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}"
# A longer template must be uploaded to S3 first.
MAX_TEMPLATE_BYTES: Final = 51_200

HEADER: Final = """\
# {generated}: `holdfast iac cloudformation {name}` regenerates it.
#
# The policies need `--capabilities CAPABILITY_IAM`. This template has {size:,} bytes{upload}.
#
# A stack update may create or delete one global index per table. A new table may have all of them at once;
# to add several to an existing table, update the stack once for each. Do not add them with
# `holdfast indexes add`: the stack would try to create them again.
#
# Tables are kept when they are removed from the template or the stack is deleted.
"""
UPLOAD_HINT: Final = """,
# more than a request may have: deploy it with `--s3-bucket`"""


def render_template(system: System, *, environment: str = "", all_indexes: bool = False) -> str:
    """Return the template as YAML. `environment` is the default of its parameter."""
    template = build_template(system, environment=environment, all_indexes=all_indexes)
    body = write_yaml(template)
    size = len(body.encode())
    upload = UPLOAD_HINT if size > MAX_TEMPLATE_BYTES - len(HEADER) else ""
    return HEADER.format(generated=GENERATED_NOTICE, name=system.name, size=size, upload=upload) + body


def get_template_file_name(system: System) -> str:
    """Return the file name of the template."""
    return f"{to_file_name(system.name)}.yaml"


def build_template(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, Any]:
    """Return the template as a dictionary."""
    ids = map_to_distinct_names((table.name for table in system.tables), _get_table_id, "tables")
    resources = {ids[table.name]: _build_table(table, all_indexes) for table in system.tables}
    resources |= build_queues_and_buckets(system) | build_database_and_cache(system)
    watched = {" ".join(alarm.name_parts): alarm for alarm in build_alarms(system, all_indexes=all_indexes)}
    alarm_ids = map_to_distinct_names(watched, to_pascal_case, "alarms")
    resources |= {f"{alarm_ids[name]}Alarm": _build_alarm(alarm) for name, alarm in watched.items()}
    granted = _build_policies(system)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{system.title or system.name}: {system.purpose}"[:1024],
        "Parameters": _build_parameters(system, environment),
        **({"Mappings": names} if (names := build_bucket_names(system)) else {}),
        "Conditions": {"HasAlarmTopic": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}},
        "Resources": resources | granted,
        "Outputs": _build_outputs(system, list(granted)),
    }


def _build_parameters(system: System, environment: str) -> dict[str, Any]:
    """Return the template's parameters: environment, alarm topic, and the network of database and cache."""
    return {
        "Environment": {
            "Type": "String",
            "Description": (
                f"Part of the name of every {format_store_kinds(system)}, as in the setting environment."
            ),
            "AllowedPattern": (
                f"[{get_environment_characters(system)}]{{1,{compute_max_environment_length(system)}}}"
            ),
            **(
                {"AllowedValues": list(system.deployment.environments)}
                if has_bucket_names_by_environment(system)
                else {}
            ),
            **({"Default": environment} if environment else {}),
        },
        "AlarmTopic": {
            "Type": "String",
            "Description": (
                "The ARN of the SNS topic that alarms are sent to. If empty, alarms are only displayed."
            ),
            "Default": "",
        },
        **build_network_parameters(system),
    }


def _build_table(table: Table, all_indexes: bool) -> dict[str, Any]:
    """Return a DynamoDB table with its deployed indexes; it is retained when the stack is deleted."""
    definition = build_deployed_definition(table, table.physical_name(ENVIRONMENT_REFERENCE), all_indexes)
    properties: dict[str, Any] = {
        "TableName": _substitute_if_needed(definition.name),
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
    return {
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }


def _build_key_schema(keys: KeySchema) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, kinds, strict=False)]


def _build_index(index: IndexDefinition) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": _build_key_schema(index.keys), "Projection": projection}


def _build_alarm(alarm: Alarm) -> dict[str, Any]:
    properties = {
        "AlarmName": _substitute_if_needed(alarm.format_name(ENVIRONMENT_REFERENCE)),
        "AlarmDescription": alarm.purpose,
        **_build_alarm_metrics(alarm),
        "ComparisonOperator": alarm.comparison,
        "EvaluationPeriods": alarm.periods,
        "TreatMissingData": "notBreaching",
        "AlarmActions": {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
    }
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}


def _build_alarm_metrics(alarm: Alarm) -> dict[str, Any]:
    """Return one metric, one metric with its usual band, or a sum over operations."""
    period = {"Period": alarm.period_s}
    if alarm.threshold is None:
        band = f"ANOMALY_DETECTION_BAND(used, {UNUSUAL_DEVIATIONS})"
        measured = {"Metric": _build_metric(alarm), **period, "Stat": alarm.statistic}
        return {
            "Metrics": [{"Id": "used", "MetricStat": measured}, {"Id": "usual", "Expression": band}],
            "ThresholdMetricId": "usual",
        }
    if alarm.operations:
        parts = [
            {
                "Id": operation.lower(),
                "ReturnData": False,
                "MetricStat": {"Metric": _build_metric(alarm, operation), **period, "Stat": alarm.statistic},
            }
            for operation in alarm.operations
        ]
        total = {"Id": "total", "Expression": "SUM(METRICS())", "Label": alarm.metric}
        return {"Metrics": [total, *parts], "Threshold": alarm.threshold}
    return {**_build_metric(alarm), **period, "Statistic": alarm.statistic, "Threshold": alarm.threshold}


def _build_metric(alarm: Alarm, operation: str = "") -> dict[str, Any]:
    """Return a CloudWatch metric of the alarm's table, index or queue, or of one operation on it."""
    dimensions: list[dict[str, Any]] = [{"Name": alarm.dimension, "Value": _get_dimension_value(alarm)}]
    if alarm.index is not None:
        dimensions.append({"Name": "GlobalSecondaryIndexName", "Value": alarm.index.name})
    if operation:
        dimensions.append({"Name": "Operation", "Value": operation})
    return {"Namespace": alarm.namespace, "MetricName": alarm.metric, "Dimensions": dimensions}


def _get_dimension_value(alarm: Alarm) -> dict[str, Any]:
    """Return the dimension's value: `Ref` of a table is its name, but `Ref` of a queue is its URL."""
    if isinstance(alarm.resource, Table):
        return {"Ref": _get_table_id(alarm.resource.name)}
    return {"Fn::GetAtt": [get_queue_id(alarm.resource.name, dead=alarm.is_for_dead_letters), "QueueName"]}


def _build_policies(system: System) -> dict[str, Any]:
    """Return the managed policies of each component by logical id; a large policy is split into several."""
    names = map_to_distinct_names(
        (component.name for component in system.components), to_pascal_case, "components"
    )
    return {
        f"{names[component.name]}Policy{to_pascal_case(suffix)}": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "Description": (
                    f"Access of the component {component.name} of {system.name} to its "
                    f"{_format_scope(system)}."
                ),
                "PolicyDocument": build_policy_document(statements, _build_arn, _substitute_declared),
            },
        }
        for component in system.components
        for suffix, statements in add_suffixes(build_policies(component))
    }


def _format_scope(system: System) -> str:
    return "data" if system.queues or system.buckets or system.schemas else "tables"


def _build_arn(resource: GrantableResource, sub_resource: SubResource) -> Any:
    """Return the reference to the ARN of a resource, or of an index, dead-letter queue or key pattern inside
    it.
    """
    match resource:
        case Queue():
            return {
                "Fn::GetAtt": [get_queue_id(resource.name, dead=isinstance(sub_resource, DeadLetters)), "Arn"]
            }
        case Bucket():
            return _build_arn_inside(
                get_bucket_id(resource.name),
                f"/{sub_resource.glob}" if isinstance(sub_resource, KeyPattern) else "",
            )
        case LoginSecret():
            return {"Ref": get_secret_id(resource)}
        case EncryptionKey() if is_own_key(resource.name):
            return get_key_arn(resource.name)
        case EncryptionKey():
            spelled = build_key_arn(resource, ACCOUNT_KEY_PREFIX)
            return {"Fn::Sub": spelled} if spelled.startswith(ACCOUNT_KEY_PREFIX) else spelled
    name = f"/index/{sub_resource.name}" if isinstance(sub_resource, Index) else ""
    return _build_arn_inside(_get_table_id(resource.name), name)


def _substitute_declared(text: str) -> Any:
    """Substitute the environment in a condition value that contains it."""
    return substitute(text) if DECLARED in text else text


def _build_arn_inside(logical: str, suffix: str) -> dict[str, Any]:
    """Return the ARN of a resource with a suffix; `${…}` in the suffix is not substituted."""
    if not suffix:
        return {"Fn::GetAtt": [logical, "Arn"]}
    return {"Fn::Sub": f"${{{logical}.Arn}}{suffix.replace('${', '${!')}"}


def _build_outputs(system: System, policy_ids: list[str]) -> dict[str, Any]:
    """Return the names and ARNs of tables, streams, other stores and policies."""
    outputs: dict[str, Any] = {}
    for table in system.tables:
        logical = _get_table_id(table.name)
        outputs[f"{logical}Name"] = {"Value": {"Ref": logical}}
        outputs[f"{logical}Arn"] = {"Value": {"Fn::GetAtt": [logical, "Arn"]}}
        if table.stream is not None:
            outputs[f"{logical}StreamArn"] = {"Value": {"Fn::GetAtt": [logical, "StreamArn"]}}
    return (
        outputs
        | build_store_outputs(system)
        | build_database_outputs(system)
        | {f"{policy}Arn": {"Value": {"Ref": policy}} for policy in policy_ids}
    )


def _get_table_id(name: str) -> str:
    return f"{to_pascal_case(name)}Table"


def _substitute_if_needed(text: str) -> str | dict[str, str]:
    """Substitute the environment in a text that contains it; return any other text unchanged."""
    return {"Fn::Sub": text} if ENVIRONMENT_REFERENCE in text else text
