"""Render a system's stores, alarms and policies as a Terraform module.

Pure: a `System` in, the text of each file out. It has the same content as the CloudFormation template, from
the same definitions, grants and alarms.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.components import Component
from holdfast.model.objects import ENVIRONMENT_PLACEHOLDER as DECLARED
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexDefinition
from holdfast.reports.iac.hcl_writer import Block, Expression, Part, quote, write_hcl
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
    has_cache,
    map_to_distinct_names,
    to_snake_case,
)
from holdfast.reports.iac.terraform_database import (
    build_cache_blocks,
    build_database_blocks,
    build_database_outputs,
    build_network_variables,
    get_secret_block_name,
    needs_passwords,
)
from holdfast.reports.iac.terraform_stores import (
    ENVIRONMENT_MARK,
    build_bucket_blocks,
    build_key_lookups,
    build_own_key_blocks,
    build_queue_blocks,
    build_store_outputs,
    get_key_reference,
    get_queue_block_name,
    interpolate_declared,
    interpolate_environment,
)
from holdfast.reports.iam.grants import (
    DeadLetters,
    EncryptionKey,
    GrantableResource,
    KeyPattern,
    LoginSecret,
    SubResource,
)
from holdfast.reports.iam.policies import Statement, add_suffixes, build_policies

# File names after the AWS services, used in a module with a database or a cache. Other modules keep the first
# names: regenerating a module in its folder must not leave every resource twice.
SERVICE_FILE_NAMES: Final = {"tables.tf": "dynamodb.tf", "queues.tf": "sqs.tf", "buckets.tf": "s3.tf"}
FILE_NOTES: Final = {
    "tables.tf": """\
# DynamoDB creates or deletes one global index per table at a time, and the provider does so one by one.
# `holdfast indexes add {name}` adds them too and shows progress; Terraform sees them at its next refresh.
"""
}


def render_module(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, str]:
    """Return the files of the module by name. `environment` is the default of its variable."""
    names = map_to_distinct_names((table.name for table in system.tables), to_snake_case, "tables")
    map_to_distinct_names((component.name for component in system.components), to_snake_case, "components")
    watched = build_alarms(system, all_indexes=all_indexes)
    map_to_distinct_names((" ".join(alarm.name_parts) for alarm in watched), to_snake_case, "alarms")
    files = {
        "versions.tf": [_build_versions(system)],
        "variables.tf": _build_variables(system, environment),
        "tables.tf": [_build_table(table, names[table.name], all_indexes) for table in system.tables],
        "queues.tf": build_queue_blocks(system),
        "buckets.tf": [*build_key_lookups(system), *build_bucket_blocks(system)],
        "kms.tf": build_own_key_blocks(system),
        "aurora.tf": build_database_blocks(system),
        "elasticache.tf": build_cache_blocks(system),
        "policies.tf": [
            block for component in system.components for block in _build_policies(system, component)
        ],
        "alarms.tf": [_build_alarm(alarm) for alarm in watched],
        "outputs.tf": _build_outputs(system),
    }
    called = SERVICE_FILE_NAMES if system.schemas or has_cache(system) else {}
    return {
        called.get(name, name): _render_file(system, name, blocks) for name, blocks in files.items() if blocks
    }


def _render_file(system: System, name: str, blocks: list[Block]) -> str:
    """Return a file's header, its note if it has one, and its blocks as HCL."""
    header = f"# {GENERATED_NOTICE}: `holdfast iac terraform {system.name}` regenerates it.\n"
    return header + FILE_NOTES.get(name, "").format(name=system.name) + "\n" + write_hcl(blocks)


def _build_versions(system: System) -> Block:
    providers: list[Part] = [("aws", {"source": "hashicorp/aws", "version": ">= 5.40"})]
    if needs_passwords(system):
        providers.append(("random", {"source": "hashicorp/random", "version": ">= 3.6"}))
    return Block(
        "terraform", (), (("required_version", ">= 1.5"), Block("required_providers", (), tuple(providers)))
    )


def _build_variables(system: System, environment: str) -> list[Block]:
    """Return the module's variables: environment, alarm topics, and the network of database and cache."""
    given: tuple[Part, ...] = (("default", environment),) if environment else ()
    return [
        Block(
            "variable",
            ("environment",),
            (
                ("type", Expression("string")),
                (
                    "description",
                    f"Part of the name of every {format_store_kinds(system)}, as in the setting environment.",
                ),
                *given,
                Block(
                    "validation",
                    (),
                    (
                        ("condition", _build_environment_condition(system)),
                        (
                            "error_message",
                            _describe_environment(system),
                        ),
                    ),
                ),
            ),
        ),
        Block(
            "variable",
            ("alarm_topics",),
            (
                ("type", Expression("list(string)")),
                ("description", "The ARNs of the SNS topics that alarms are sent to."),
                ("default", []),
            ),
        ),
        *build_network_variables(system),
    ]


def _build_environment_condition(system: System) -> Expression:
    """Return the condition of the variable's validation: one of the declared names, or allowed characters and
    length.
    """
    if has_bucket_names_by_environment(system):
        return Expression(
            f"contains([{', '.join(map(quote, system.deployment.environments))}], var.environment)"
        )
    letters, room = get_environment_characters(system), compute_max_environment_length(system)
    return Expression(f'can(regex("^[{letters}]{{1,{room}}}$", var.environment))')


def _describe_environment(system: System) -> str:
    """Return the error message for an invalid environment name."""
    if has_bucket_names_by_environment(system):
        return f"The environment is one of {', '.join(system.deployment.environments)}."
    room = compute_max_environment_length(system)
    if system.buckets or system.schemas or has_cache(system):
        return f"The environment has one to {room} lower-case letters, digits and '-'."
    others = "'_' and '-'" if system.queues else "'_', '-' and '.'"
    return f"The environment has one to {room} letters, digits, {others}."


def _build_table(table: Table, name: str, all_indexes: bool) -> Block:
    """Return a DynamoDB table with its deployed indexes; Terraform must not destroy it."""
    definition = build_deployed_definition(table, table.physical_name(ENVIRONMENT_MARK), all_indexes)
    body: list[Part] = [
        ("name", interpolate_environment(definition.name)),
        ("billing_mode", definition.billing_mode),
    ]
    body += _build_keys(definition.keys.names)
    body.append(("deletion_protection_enabled", definition.deletion_protection))
    if definition.stream_view is not None:
        body += [("stream_enabled", True), ("stream_view_type", definition.stream_view)]
    body += [
        Block("attribute", (), (("name", key.name), ("type", key.type))) for key in definition.attributes
    ]
    body += [_build_index("global_secondary_index", index) for index in definition.global_indexes]
    body += [_build_index("local_secondary_index", index) for index in definition.local_indexes]
    if table.ttl is not None:
        body.append(Block("ttl", (), (("attribute_name", table.ttl), ("enabled", True))))
    body += [
        Block("point_in_time_recovery", (), (("enabled", table.point_in_time_recovery),)),
        Block("server_side_encryption", (), (("enabled", True),)),
        Block("lifecycle", (), (("prevent_destroy", True),)),
    ]
    return Block("resource", ("aws_dynamodb_table", name), tuple(body))


def _build_keys(names: tuple[str, ...]) -> list[Part]:
    return list(zip(("hash_key", "range_key"), names, strict=False))


def _build_index(type: str, index: IndexDefinition) -> Block:
    """Return the block of an index. `type` is its block type; a local index has no partition key of its
    own.
    """
    keys = _build_keys(index.keys.names)
    body: list[Part] = [("name", index.name), *(keys if type.startswith("global") else keys[1:])]
    body.append(("projection_type", index.projection.kind))
    if index.projection.attributes:
        body.append(("non_key_attributes", list(index.projection.attributes)))
    return Block(type, (), tuple(body))


def _build_policies(system: System, component: Component) -> list[Block]:
    """Return the document and the policy of a component, or several of them if one would be too long."""
    blocks = []
    for suffix, statements in add_suffixes(build_policies(component)):
        name = to_snake_case(component.name + suffix)
        document = Expression(f"data.aws_iam_policy_document.{name}.json")
        blocks += [
            Block("data", ("aws_iam_policy_document", name), tuple(map(_build_statement, statements))),
            Block(
                "resource",
                ("aws_iam_policy", name),
                (
                    (
                        "name",
                        interpolate_environment(f"{system.name}-{component.name}{suffix}-{ENVIRONMENT_MARK}"),
                    ),
                    (
                        "description",
                        f"Access of the component {component.name} of {system.name} to its "
                        f"{_format_scope(system)}.",
                    ),
                    ("policy", document),
                ),
            ),
        ]
    return blocks


def _build_statement(statement: Statement) -> Block:
    conditions = (
        Block(
            "condition",
            (),
            (("test", operator), ("variable", key), ("values", list(map(_substitute_declared, values)))),
        )
        for operator, key, values in statement.conditions
    )
    return Block(
        "statement",
        (),
        (
            ("sid", statement.sid),
            ("effect", "Allow"),
            ("actions", list(statement.actions)),
            ("resources", [_build_arn(resource, inside) for resource, inside in statement.resources]),
            *conditions,
        ),
    )


def _format_scope(system: System) -> str:
    return "data" if system.queues or system.buckets or system.schemas else "tables"


def _substitute_declared(text: str) -> str:
    """Interpolate the environment in a condition value that contains it."""
    return interpolate_declared(text) if DECLARED in text else text


def _build_arn(resource: GrantableResource, sub_resource: SubResource) -> Expression:
    """Return the reference to the ARN of a resource, or of an index, dead-letter queue or key pattern inside
    it.
    """
    match resource:
        case Queue():
            name = get_queue_block_name(resource, dead=isinstance(sub_resource, DeadLetters))
            return Expression(f"aws_sqs_queue.{name}.arn")
        case Bucket():
            keys = f"/{sub_resource.glob}" if isinstance(sub_resource, KeyPattern) else ""
            return _build_arn_inside(f"aws_s3_bucket.{to_snake_case(resource.name)}.arn", keys)
        case EncryptionKey():
            return Expression(get_key_reference(resource.name))
        case LoginSecret():
            return Expression(f"aws_secretsmanager_secret.{get_secret_block_name(resource)}.arn")
    index = f"/index/{sub_resource.name}" if isinstance(sub_resource, Index) else ""
    return _build_arn_inside(f"aws_dynamodb_table.{to_snake_case(resource.name)}.arn", index)


def _build_arn_inside(arn: str, suffix: str) -> Expression:
    """Return the ARN with a suffix in which nothing is interpolated."""
    return Expression(f'"${{{arn}}}{quote(suffix)[1:-1]}"' if suffix else arn)


def _build_alarm(alarm: Alarm) -> Block:
    body: list[Part] = [
        ("alarm_name", interpolate_environment(alarm.format_name(ENVIRONMENT_MARK))),
        ("alarm_description", alarm.purpose),
        ("comparison_operator", alarm.comparison),
        ("evaluation_periods", alarm.periods),
        ("treat_missing_data", "notBreaching"),
        ("alarm_actions", Expression("var.alarm_topics")),
        *_build_alarm_metrics(alarm),
    ]
    return Block("resource", ("aws_cloudwatch_metric_alarm", to_snake_case(*alarm.name_parts)), tuple(body))


def _build_alarm_metrics(alarm: Alarm) -> list[Part]:
    """Return one metric, one metric with its usual band, or a sum over operations."""
    if alarm.threshold is None:
        band = f"ANOMALY_DETECTION_BAND(used, {UNUSUAL_DEVIATIONS})"
        return [
            ("threshold_metric_id", "usual"),
            Block("metric_query", (), (("id", "used"), ("return_data", True), _build_metric(alarm))),
            Block("metric_query", (), (("id", "usual"), ("expression", band), ("return_data", True))),
        ]
    if alarm.operations:
        total = (
            ("id", "total"),
            ("expression", "SUM(METRICS())"),
            ("label", alarm.metric),
            ("return_data", True),
        )
        parts = [
            Block("metric_query", (), (("id", operation.lower()), _build_metric(alarm, operation)))
            for operation in alarm.operations
        ]
        return [("threshold", alarm.threshold), Block("metric_query", (), total), *parts]
    return [
        ("threshold", alarm.threshold),
        ("namespace", alarm.namespace),
        ("metric_name", alarm.metric),
        ("period", alarm.period_s),
        ("statistic", alarm.statistic),
        ("dimensions", _build_dimensions(alarm)),
    ]


def _build_metric(alarm: Alarm, operation: str = "") -> Block:
    return Block(
        "metric",
        (),
        (
            ("namespace", alarm.namespace),
            ("metric_name", alarm.metric),
            ("period", alarm.period_s),
            ("stat", alarm.statistic),
            ("dimensions", _build_dimensions(alarm, operation)),
        ),
    )


def _build_dimensions(alarm: Alarm, operation: str = "") -> dict[str, Any]:
    """Return the dimensions of the alarm's table, index or queue, or of one operation on it."""
    dimensions: dict[str, Any] = {alarm.dimension: Expression(f"{_get_watched_block(alarm)}.name")}
    if alarm.index is not None:
        dimensions["GlobalSecondaryIndexName"] = alarm.index.name
    return dimensions | ({"Operation": operation} if operation else {})


def _get_watched_block(alarm: Alarm) -> str:
    """Return the address of the table's or queue's resource block."""
    if isinstance(alarm.resource, Table):
        return f"aws_dynamodb_table.{to_snake_case(alarm.resource.name)}"
    return f"aws_sqs_queue.{get_queue_block_name(alarm.resource, dead=alarm.is_for_dead_letters)}"


def _build_outputs(system: System) -> list[Block]:
    """Return outputs with the names and ARNs of tables, streams, other stores and policies."""
    found = {}
    for table in system.tables:
        name = to_snake_case(table.name)
        found[f"{name}_name"] = f"aws_dynamodb_table.{name}.name"
        found[f"{name}_arn"] = f"aws_dynamodb_table.{name}.arn"
        if table.stream is not None:
            found[f"{name}_stream_arn"] = f"aws_dynamodb_table.{name}.stream_arn"
    found |= build_store_outputs(system) | build_database_outputs(system)
    for component in system.components:
        for suffix, _ in add_suffixes(build_policies(component)):
            name = to_snake_case(component.name + suffix)
            found[f"{name}_policy_arn"] = f"aws_iam_policy.{name}.arn"
    return [Block("output", (name,), (("value", Expression(value)),)) for name, value in found.items()]
