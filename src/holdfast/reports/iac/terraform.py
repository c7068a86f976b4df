"""Print a system's resource tree as the files of a Terraform module."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from holdfast.model.system import System
from holdfast.reports.iac.hcl_writer import Block, Expression, Part, quote, write_hcl
from holdfast.reports.iac.infrastructure import GENERATED_NOTICE, to_snake_case
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
    Tree,
)

# The sections of the tree by file, in the order in which the files are listed.
FILES: Final = {
    "tables.tf": "tables",
    "queues.tf": "queues",
    "buckets.tf": "buckets",
    "kms.tf": "keys",
    "aurora.tf": "database",
    "elasticache.tf": "cache",
    "policies.tf": "policies",
    "alarms.tf": "alarms",
}
# File names after the AWS services, used in a module with a database or a cache. Other modules keep the first
# names: regenerating a module in its folder must not leave every resource twice.
SERVICE_FILE_NAMES: Final = {"tables.tf": "dynamodb.tf", "queues.tf": "sqs.tf", "buckets.tf": "s3.tf"}
FILE_NOTES: Final = {
    "tables.tf": """\
# DynamoDB creates or deletes one global index per table at a time, and the provider does so one by one.
# `holdfast indexes add {name}` adds them too and shows progress; Terraform sees them at its next refresh.
"""
}
PREVENT_DESTROY: Final = Block("lifecycle", (), (("prevent_destroy", True),))

# How a property is written: by its name in Terraform, by the parts that a function returns, or not at all. An
# empty name writes the inner properties in its place. A property without a rule has its own name in snake
# case. The rules of a kind hold for inner properties too.
Rule: TypeAlias = str | Callable[[Any], list[Part]] | None
Rules: TypeAlias = Mapping[str, Rule]


# --- properties that Terraform has in another form ----------------------------------------------------------


def _write_keys(schema: list[dict[str, str]]) -> list[Part]:
    names = {"HASH": "hash_key", "RANGE": "range_key"}
    return [(names[key["KeyType"]], key["AttributeName"]) for key in schema]


def _write_local_indexes(indexes: list[dict[str, Any]]) -> list[Part]:
    """A local index has the partition key of its table and does not repeat it."""
    own = [{**index, "KeySchema": index["KeySchema"][1:]} for index in indexes]
    return _write_property(own, "local_secondary_index", KINDS["AWS::DynamoDB::Table"].rules)


def _write_lifecycle(configuration: dict[str, Any]) -> list[Part]:
    rules = [
        {
            "Id": rule.pop("Id"),
            "Status": rule.pop("Status"),
            "Filter": {"Prefix": rule.pop("Prefix", "")},
            **rule,
        }
        for rule in map(dict, configuration["Rules"])
    ]
    return _write_property(
        rules, "rule", {"ExpirationInDays": lambda days: [_block("expiration", days=days)]}
    )


def _write_cluster_reference(cluster: str) -> list[Part]:
    """An instance repeats the engine of its cluster."""
    block = cluster.removesuffix(".id")
    engine: list[Part] = [(name, Expression(f"{block}.{name}")) for name in ("engine", "engine_version")]
    return [("cluster_identifier", cluster), *engine]


def _write_metric_queries(queries: list[dict[str, Any]]) -> list[Part]:
    """A query returns data only if it says so; in the tree, unless it says otherwise."""
    blocks: list[Part] = []
    for query in queries:
        properties: dict[str, Any] = {
            name: query[name] for name in ("Id", "Expression", "Label") if name in query
        }
        if query.get("ReturnData", True):
            properties["ReturnData"] = True
        if "MetricStat" in query:
            metric = {**query["MetricStat"]["Metric"], **query["MetricStat"]}
            names = ("Namespace", "MetricName", "Period", "Stat", "Dimensions")
            properties["Metric"] = {name: metric[name] for name in names}
        blocks += _write_property(properties, "metric_query", {"Dimensions": _write_dimensions})
    return blocks


def _write_dimensions(dimensions: list[dict[str, Any]]) -> list[Part]:
    return [("dimensions", {each["Name"]: each["Value"] for each in dimensions})]


def _block(block_type: str, **attributes: Any) -> Block:
    return Block(block_type, (), tuple(attributes.items()))


@dataclass(frozen=True)
class Kind:
    """How Terraform calls the resources of a kind, their properties and their attributes.

    `attributes` has the names of referenced attributes that are not their own names in snake case. `first`
    are properties that are written before the others. `separate` are properties that have a resource of their
    own, with its type. `output` is a word in the names of outputs, `document` the end of a policy document's
    name.
    """

    type: str
    rules: Rules = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    separate: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    document: str = ""


KINDS: Final = {
    "AWS::DynamoDB::Table": Kind(
        "aws_dynamodb_table",
        {
            "TableName": "name",
            "KeySchema": _write_keys,
            "StreamSpecification": lambda stream: [("stream_enabled", True), *_write_parts(stream, {})],
            "AttributeDefinitions": "attribute",
            "AttributeName": "name",
            "AttributeType": "type",
            "GlobalSecondaryIndexes": "global_secondary_index",
            "LocalSecondaryIndexes": _write_local_indexes,
            "IndexName": "name",
            "Projection": "",
            "TimeToLiveSpecification": lambda ttl: _write_property(ttl, "ttl", {}),
            "PointInTimeRecoverySpecification": "point_in_time_recovery",
            "PointInTimeRecoveryEnabled": "enabled",
            "SSESpecification": "server_side_encryption",
            "SSEEnabled": "enabled",
            "SSEType": None,
        },
        first=("TableName", "BillingMode", "KeySchema", "DeletionProtectionEnabled", "StreamSpecification"),
    ),
    "AWS::SQS::Queue": Kind(
        "aws_sqs_queue",
        {
            "QueueName": "name",
            "VisibilityTimeout": "visibility_timeout_seconds",
            "MessageRetentionPeriod": "message_retention_seconds",
            "RedrivePolicy": lambda policy: [("redrive_policy", _encode_json(policy))],
        },
        output="queue",
    ),
    "AWS::S3::Bucket": Kind(
        "aws_s3_bucket",
        {
            "BucketName": "bucket",
            "PublicAccessBlockConfiguration": "",
            "OwnershipControls": "",
            "Rules": "rule",
            "BucketEncryption": "",
            "ServerSideEncryptionConfiguration": "rule",
            "ServerSideEncryptionByDefault": "apply_server_side_encryption_by_default",
            "SSEAlgorithm": "sse_algorithm",
            "KMSMasterKeyID": "kms_master_key_id",
            "LifecycleConfiguration": _write_lifecycle,
        },
        {"Name": "bucket"},
        separate={
            "PublicAccessBlockConfiguration": "aws_s3_bucket_public_access_block",
            "OwnershipControls": "aws_s3_bucket_ownership_controls",
            "BucketEncryption": "aws_s3_bucket_server_side_encryption_configuration",
            "VersioningConfiguration": "aws_s3_bucket_versioning",
            "LifecycleConfiguration": "aws_s3_bucket_lifecycle_configuration",
        },
        output="bucket",
    ),
    "AWS::S3::BucketPolicy": Kind(
        "aws_s3_bucket_policy", {"PolicyDocument": "policy"}, document="_only_by_tls"
    ),
    "AWS::KMS::Key": Kind("aws_kms_key", attributes={"Id": "key_id"}),
    "AWS::KMS::Alias": Kind("aws_kms_alias", {"AliasName": "name"}),
    "AWS::RDS::DBCluster": Kind(
        "aws_rds_cluster",
        {
            "DBClusterIdentifier": "cluster_identifier",
            "DBClusterParameterGroupName": "db_cluster_parameter_group_name",
            "DBSubnetGroupName": "db_subnet_group_name",
            "ServerlessV2ScalingConfiguration": "serverlessv2_scaling_configuration",
        },
        {
            "WriterAddress": "endpoint",
            "ReaderAddress": "reader_endpoint",
            "OwnerSecretArn": "master_user_secret[0].secret_arn",
        },
    ),
    "AWS::RDS::DBClusterParameterGroup": Kind(
        "aws_rds_cluster_parameter_group",
        {
            "DBClusterParameterGroupName": "name",
            "Description": None,
            "Parameters": lambda several: [
                _block("parameter", name=name, value=value) for name, value in several.items()
            ],
        },
    ),
    "AWS::RDS::DBSubnetGroup": Kind(
        "aws_db_subnet_group", {"DBSubnetGroupName": "name", "DBSubnetGroupDescription": None}
    ),
    "AWS::RDS::DBInstance": Kind(
        "aws_rds_cluster_instance",
        {
            "DBClusterIdentifier": _write_cluster_reference,
            "Engine": None,
            "DBInstanceClass": "instance_class",
        },
        first=("DBClusterIdentifier",),
    ),
    "AWS::SecretsManager::Secret": Kind(
        "aws_secretsmanager_secret", {"GenerateSecretString": None}, output="secret"
    ),
    "AWS::ElastiCache::ReplicationGroup": Kind(
        "aws_elasticache_replication_group",
        {
            "ReplicationGroupDescription": "description",
            "CacheNodeType": "node_type",
            "MultiAZEnabled": "multi_az_enabled",
            "CacheSubnetGroupName": "subnet_group_name",
        },
        {"Address": "primary_endpoint_address"},
    ),
    "AWS::ElastiCache::SubnetGroup": Kind("aws_elasticache_subnet_group", {"CacheSubnetGroupName": "name"}),
    "AWS::CloudWatch::Alarm": Kind(
        "aws_cloudwatch_metric_alarm",
        {"Dimensions": _write_dimensions, "Metrics": _write_metric_queries},
        first=(
            "AlarmName",
            "AlarmDescription",
            "ComparisonOperator",
            "EvaluationPeriods",
            "TreatMissingData",
            "AlarmActions",
            "Threshold",
            "ThresholdMetricId",
            "Namespace",
            "MetricName",
            "Period",
            "Statistic",
        ),
    ),
    "AWS::IAM::ManagedPolicy": Kind(
        "aws_iam_policy", {"ManagedPolicyName": "name", "PolicyDocument": "policy"}, output="policy"
    ),
}
PARAMETER_TYPES: Final = {"String": "string", "Number": "number"}


def render_module(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, str]:
    """Return the files of the module by name. `environment` is the default of its variable."""
    tree = build_tree(system, environment=environment, all_indexes=all_indexes)
    tree.check_names(to_snake_case)
    files = {
        "versions.tf": [_build_versions(tree)],
        "variables.tf": [_build_variable(parameter) for parameter in tree.parameters],
        **{
            name: [block for resource in tree.sections[section] for block in _build_blocks(resource)]
            for name, section in FILES.items()
        },
        "outputs.tf": [
            Block("output", (_get_output_name(each),), (("value", _resolve(each)),)) for each in tree.outputs
        ],
    }
    lookups = [
        Block("data", ("aws_kms_key", to_snake_case(key)), (("key_id", key),)) for key in tree.existing_keys
    ]
    files["buckets.tf"][:0] = lookups
    called = SERVICE_FILE_NAMES if tree.sections["database"] or tree.sections["cache"] else {}
    return {
        called.get(name, name): _render_file(system, name, blocks) for name, blocks in files.items() if blocks
    }


def _render_file(system: System, name: str, blocks: list[Block]) -> str:
    """Return a file's header, its note if it has one, and its blocks as HCL."""
    header = f"# {GENERATED_NOTICE}: `holdfast iac terraform {system.name}` regenerates it.\n"
    return header + FILE_NOTES.get(name, "").format(name=system.name) + "\n" + write_hcl(blocks)


def _build_versions(tree: Tree) -> Block:
    """Return the versions of Terraform and the providers; passwords need the `random` provider."""
    providers: list[Part] = [("aws", {"source": "hashicorp/aws", "version": ">= 5.40"})]
    if any(resource.address.kind == "AWS::SecretsManager::Secret" for resource in tree):
        providers.append(("random", {"source": "hashicorp/random", "version": ">= 3.6"}))
    return Block(
        "terraform", (), (("required_version", ">= 1.5"), Block("required_providers", (), tuple(providers)))
    )


def _build_variable(parameter: Parameter) -> Block:
    name = to_snake_case(parameter.name)
    body: list[Part] = [
        ("type", Expression(PARAMETER_TYPES.get(parameter.type, "list(string)"))),
        ("description", parameter.description),
    ]
    if parameter.default is not None:
        body.append(("default", parameter.default))
    if parameter.error:
        condition = ("condition", Expression(_build_condition(parameter, f"var.{name}")))
        body.append(Block("validation", (), (condition, ("error_message", parameter.error))))
    return Block("variable", (name,), tuple(body))


def _build_condition(parameter: Parameter, value: str) -> str:
    """Return the condition of the variable's validation: bounds, allowed values or a pattern."""
    if parameter.bounds:
        return f"{value} >= {parameter.bounds[0]} && {value} <= {parameter.bounds[1]}"
    if parameter.allowed:
        return f"contains([{', '.join(map(quote, parameter.allowed))}], {value})"
    return f'can(regex("^{parameter.pattern}$", {value}))'


def _build_blocks(resource: Resource) -> list[Block]:
    """Return the block of a resource and those that Terraform has in addition."""
    kind, name = KINDS[resource.address.kind], _get_name(resource.address)
    properties = _resolve(resource.properties)
    documents = []
    if "PolicyDocument" in properties:
        labels = ("aws_iam_policy_document", f"{name}{kind.document}")
        statements = properties["PolicyDocument"]["Statement"]
        documents.append(Block("data", labels, tuple(map(_build_statement, statements))))
        properties["PolicyDocument"] = Expression(f"data.{labels[0]}.{labels[1]}.json")
    own = {key: value for key, value in properties.items() if key not in kind.separate}
    kept = [] if resource.on_delete == "Delete" else [PREVENT_DESTROY]
    block = Block("resource", (kind.type, name), (*_write_parts(own, kind.rules, kind.first), *kept))
    if "GenerateSecretString" in properties:
        return _build_secret_blocks(block, properties["GenerateSecretString"])
    bucket = ("bucket", Expression(f"{kind.type}.{name}.id"))
    separate = [
        Block("resource", (type, name), (bucket, *_write_parts({key: properties[key]}, kind.rules)))
        for key, type in kind.separate.items()
        if key in properties
    ]
    return [*documents, block, *separate]


def _build_secret_blocks(secret: Block, generated: dict[str, Any]) -> list[Block]:
    """Return a generated password, the secret, and its first version with the password in its template."""
    type, name = secret.labels
    value = Expression(f"random_password.{name}.result")
    if "SecretStringTemplate" in generated:
        template = json.loads(generated["SecretStringTemplate"])
        value = _encode_json({**template, generated["GenerateStringKey"]: value})
    password = (("length", generated["PasswordLength"]), ("special", not generated["ExcludePunctuation"]))
    version = (("secret_id", Expression(f"{type}.{name}.id")), ("secret_string", value))
    return [
        Block("resource", ("random_password", name), password),
        secret,
        Block("resource", (f"{type}_version", name), version),
    ]


def _build_statement(statement: dict[str, Any]) -> Block:
    """Return a statement of a policy document."""
    body: list[Part] = [
        ("sid", statement["Sid"]),
        ("effect", statement["Effect"]),
        ("actions", _to_list(statement["Action"])),
        ("resources", statement["Resource"]),
    ]
    if "Principal" in statement:
        body.append(_block("principals", type="*", identifiers=_to_list(statement["Principal"])))
    for test, keys in statement.get("Condition", {}).items():
        body += [
            _block("condition", test=test, variable=key, values=_to_list(values))
            for key, values in keys.items()
        ]
    return Block("statement", (), tuple(body))


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _write_parts(properties: Mapping[str, Any], rules: Rules, first: tuple[str, ...] = ()) -> list[Part]:
    """Return the attributes and blocks of properties, those named in `first` before the others."""
    names = sorted(properties, key=lambda name: first.index(name) if name in first else len(first))
    written = (
        _write_property(properties[name], rules.get(name, to_snake_case(name)), rules) for name in names
    )
    return [part for parts in written for part in parts]


def _write_property(value: Any, rule: Rule, rules: Rules) -> list[Part]:
    """Return a property as its rule says: a map as a block, a list of maps as a block for each."""
    if rule is None:
        return []
    if callable(rule):
        return rule(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [part for each in value for part in _write_property(each, rule, rules)]
    if not isinstance(value, dict):
        return [(rule, value)]
    parts = _write_parts(value, rules)
    return [Block(rule, (), tuple(parts))] if rule else parts


def _encode_json(value: Mapping[str, Any]) -> Expression:
    members = (
        f"{name} = {inner if isinstance(inner, Expression) else json.dumps(inner)}"
        for name, inner in value.items()
    )
    return Expression(f"jsonencode({{ {', '.join(members)} }})")


def _resolve(value: Any) -> Any:
    """Return the value with references and environment marks replaced by Terraform's expressions."""
    match value:
        case str() if ENVIRONMENT_MARK in value:
            parts = (quote(part)[1:-1] for part in value.split(ENVIRONMENT_MARK))
            return Expression(f'"{"${var.environment}".join(parts)}"')
        case Mapping():
            return {name: _resolve(inner) for name, inner in value.items()}
        case list():
            return [_resolve(inner) for inner in value]
        case Reference():
            return _build_reference(value)
        case ParameterReference():
            return Expression(f"var.{to_snake_case(value.name)}")
        case NameByEnvironment():
            names = (f"{quote(each)} = {quote(name)}" for each, name in value.names.items())
            return Expression(f"{{ {', '.join(names)} }}[var.environment]")
        case ExistingKey():
            return Expression(f"data.aws_kms_key.{to_snake_case(value.name)}.arn")
        case Password():
            return Expression(f"random_password.{_get_name(value.secret)}.result")
    return value


def _build_reference(reference: Reference) -> Expression:
    kind = KINDS[reference.address.kind]
    attribute = kind.attributes.get(reference.attribute, to_snake_case(reference.attribute))
    found = f"{kind.type}.{_get_name(reference.address)}.{attribute}"
    return Expression(f'"${{{found}}}{quote(reference.suffix)[1:-1]}"' if reference.suffix else found)


def _get_name(address: Address) -> str:
    """Return the name of a resource's block."""
    return to_snake_case(address.name + address.part)


def _get_output_name(reference: Reference) -> str:
    word = KINDS[reference.address.kind].output
    return "_".join(filter(None, (_get_name(reference.address), word, to_snake_case(reference.attribute))))
