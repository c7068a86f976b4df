"""Print a system's resource tree as one CloudFormation template in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.model.system import System
from holdfast.reports.iac.infrastructure import GENERATED_NOTICE, to_file_name, to_pascal_case
from holdfast.reports.iac.system_tree import build_tree
from holdfast.reports.iac.tree import (
    ENVIRONMENT_MARK,
    Address,
    ExistingKey,
    NameByEnvironment,
    Parameter,
    ParameterReference,
    Password,
    Reference,
    Resource,
)
from holdfast.reports.iac.yaml_writer import write_yaml
from holdfast.reports.iam.grants import EncryptionKey
from holdfast.reports.iam.policies import POLICY_VERSION, build_key_arn

ACCOUNT_KEY_PREFIX: Final = "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}"
# The mapping with the names of buckets that have a separate name for each environment.
BUCKET_NAMES_MAPPING: Final = "BucketNames"
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

# A parameter cannot be an empty list, so the template takes one topic or an empty text.
ALARM_TOPIC: Final = {
    "Type": "String",
    "Description": "The ARN of the SNS topic that alarms are sent to. If empty, alarms are only displayed.",
    "Default": "",
}
ALARM_ACTIONS: Final = {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]}
# Unlike the API and Terraform, CloudFormation has no default for the policy of a key: the account's own.
ACCOUNT_POLICY: Final = {
    "Sid": "ByThePoliciesOfTheAccount",
    "Effect": "Allow",
    "Principal": {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}},
    "Action": "kms:*",
    "Resource": "*",
}


@dataclass(frozen=True)
class Kind:
    """How CloudFormation calls the resources of a kind, and their attributes.

    `id` and `output` are the logical id and the start of the names of outputs, with `{}` for the resource's
    name. `attributes` has the names of attributes for `Fn::GetAtt` that differ; an empty one means `Ref`.
    `omitted` are properties that the template does not set, most of them names that CloudFormation chooses.
    """

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    output: str = ""


KINDS: Final = {
    "AWS::DynamoDB::Table": Kind("{}Table", {"Name": ""}),
    "AWS::SQS::Queue": Kind("{}Queue", {"Url": "", "Name": "QueueName"}),
    "AWS::S3::Bucket": Kind("{}Bucket", {"Name": "", "Id": ""}),
    "AWS::S3::BucketPolicy": Kind("{}BucketPolicy"),
    "AWS::KMS::Key": Kind("{}Key", {"Id": ""}),
    "AWS::KMS::Alias": Kind("{}KeyAlias"),
    "AWS::RDS::DBCluster": Kind(
        "{}Cluster",
        {
            "Id": "",
            "WriterAddress": "Endpoint.Address",
            "ReaderAddress": "ReadEndpoint.Address",
            "OwnerSecretArn": "MasterUserSecret.SecretArn",
        },
        omitted=("FinalSnapshotIdentifier",),
        output="{}",
    ),
    "AWS::RDS::DBClusterParameterGroup": Kind(
        "{}Parameters", {"Name": ""}, omitted=("DBClusterParameterGroupName",)
    ),
    "AWS::RDS::DBSubnetGroup": Kind("{}SubnetGroup", {"Name": ""}, omitted=("DBSubnetGroupName",)),
    "AWS::RDS::DBInstance": Kind("Database{}"),
    "AWS::SecretsManager::Secret": Kind("{}Secret", {"Arn": ""}),
    "AWS::ElastiCache::ReplicationGroup": Kind(
        "{}Group", {"Address": "PrimaryEndPoint.Address"}, output="{}"
    ),
    "AWS::ElastiCache::SubnetGroup": Kind("{}SubnetGroup", {"Name": ""}, omitted=("CacheSubnetGroupName",)),
    "AWS::CloudWatch::Alarm": Kind("{}Alarm"),
    "AWS::IAM::ManagedPolicy": Kind("{}Policy", {"Arn": ""}, omitted=("ManagedPolicyName",)),
}


def render_template(system: System, *, environment: str = "", all_indexes: bool = False) -> str:
    """Return the template as YAML. `environment` is the default of its parameter."""
    body = write_yaml(build_template(system, environment=environment, all_indexes=all_indexes))
    size = len(body.encode())
    upload = UPLOAD_HINT if size > MAX_TEMPLATE_BYTES - len(HEADER) else ""
    return HEADER.format(generated=GENERATED_NOTICE, name=system.name, size=size, upload=upload) + body


def get_template_file_name(system: System) -> str:
    """Return the file name of the template."""
    return f"{to_file_name(system.name)}.yaml"


def build_template(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, Any]:
    """Return the template as a dictionary."""
    tree = build_tree(system, environment=environment, all_indexes=all_indexes)
    tree.check_names(to_pascal_case)
    bucket_names = _build_bucket_names(tree.sections["buckets"])
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{system.title or system.name}: {system.purpose}"[:1024],
        "Parameters": dict(map(_build_parameter, tree.parameters)),
        **({"Mappings": {BUCKET_NAMES_MAPPING: bucket_names}} if bucket_names else {}),
        "Conditions": {"HasAlarmTopic": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}},
        "Resources": {_get_id(resource.address): _build_resource(resource) for resource in tree},
        "Outputs": {_get_output_name(each): {"Value": _build_value(each)} for each in tree.outputs},
    }


def _build_parameter(parameter: Parameter) -> tuple[str, dict[str, Any]]:
    """Return the name and the declaration of a parameter."""
    if parameter.name == "AlarmTopics":
        return "AlarmTopic", ALARM_TOPIC
    low, high = parameter.bounds or (None, None)
    declared = {
        "Type": parameter.type,
        "Description": parameter.description,
        "AllowedPattern": parameter.pattern or None,
        "AllowedValues": list(parameter.allowed) or None,
        "Default": parameter.default,
        "MinValue": low,
        "MaxValue": high,
    }
    return parameter.name, {name: value for name, value in declared.items() if value is not None}


def _build_bucket_names(buckets: list[Resource]) -> dict[str, dict[str, str]]:
    """Return the names by environment and logical id of the buckets that have one for each environment."""
    found: dict[str, dict[str, str]] = {}
    for bucket in buckets:
        if isinstance(named := bucket.properties.get("BucketName"), NameByEnvironment):
            for environment, name in named.names.items():
                found.setdefault(environment, {})[_get_id(bucket.address)] = name
    return found


def _build_resource(resource: Resource) -> dict[str, Any]:
    kind, id = KINDS[resource.address.kind], _get_id(resource.address)
    properties = {
        name: {"Fn::FindInMap": [BUCKET_NAMES_MAPPING, {"Ref": "Environment"}, id]}
        if isinstance(value, NameByEnvironment)
        else _build_value(value)
        for name, value in resource.properties.items()
        if name not in kind.omitted
    }
    if resource.address.kind == "AWS::KMS::Key":
        properties["KeyPolicy"] = {"Version": POLICY_VERSION, "Statement": [ACCOUNT_POLICY]}
    kept = {"DeletionPolicy": resource.on_delete, "UpdateReplacePolicy": resource.on_delete}
    return {
        "Type": resource.address.kind,
        **({} if resource.on_delete == "Delete" else kept),
        "Properties": properties,
    }


def _build_value(value: Any) -> Any:
    """Return the value with references and environment marks replaced by CloudFormation's functions."""
    match value:
        case str() if ENVIRONMENT_MARK in value:
            return {"Fn::Sub": _escape(value).replace(ENVIRONMENT_MARK, "${Environment}")}
        case Mapping():
            return {name: _build_value(inner) for name, inner in value.items()}
        case list():
            return [_build_value(inner) for inner in value]
        case Reference():
            return _build_reference(value)
        case ParameterReference():
            return ALARM_ACTIONS if value.name == "AlarmTopics" else {"Ref": value.name}
        case Password():
            return {"Fn::Sub": f"{{{{resolve:secretsmanager:${{{_get_id(value.secret)}}}}}}}"}
        case ExistingKey(is_arn=True):
            arn = build_key_arn(EncryptionKey(value.name), ACCOUNT_KEY_PREFIX)
            return {"Fn::Sub": arn} if arn.startswith(ACCOUNT_KEY_PREFIX) else arn
        case ExistingKey():
            return value.name
    return value


def _build_reference(reference: Reference) -> dict[str, Any]:
    id = _get_id(reference.address)
    attribute = KINDS[reference.address.kind].attributes.get(reference.attribute, reference.attribute)
    if reference.suffix:
        return {"Fn::Sub": f"${{{id}.{attribute}}}{_escape(reference.suffix)}"}
    return {"Fn::GetAtt": [id, attribute]} if attribute else {"Ref": id}


def _escape(text: str) -> str:
    """Return the text so that `Fn::Sub` substitutes nothing in it."""
    return text.replace("${", "${!")


def _get_id(address: Address) -> str:
    """Return the logical id of a resource."""
    return KINDS[address.kind].id.format(to_pascal_case(address.name)) + to_pascal_case(address.part)


def _get_output_name(reference: Reference) -> str:
    address, form = reference.address, KINDS[reference.address.kind].output
    start = form.format(to_pascal_case(address.name)) if form else _get_id(address)
    return f"{start}{reference.attribute}"
