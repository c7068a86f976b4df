"""A system's tables, queues, buckets, database, cache, alarms and policies as a Terraform module.

Pure: a `System` in, the text of each file out. It says the same as the CloudFormation template, from the same
definitions, grants and alarms.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.objects import ENVIRONMENT as DECLARED
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import Component, System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexDefinition
from holdfast.reports.grants import DeadLetters, EncryptionKey, Granted, Inside, Keys, LoginSecret
from holdfast.reports.hcl_text import Block, Expression, Part, hcl_text, quoted
from holdfast.reports.iam import Statement, numbered, policies
from holdfast.reports.infrastructure import (
    GENERATED,
    UNUSUAL_DEVIATIONS,
    Alarm,
    alarms,
    deployed_definition,
    distinct,
    environment_letters,
    environment_room,
    has_cache,
    named_by_environment,
    snake_case,
    stores_in_words,
)
from holdfast.reports.terraform_database import (
    cache_blocks,
    database_blocks,
    database_outputs,
    network_variables,
    secret_block_name,
    uses_passwords,
)
from holdfast.reports.terraform_stores import (
    ENVIRONMENT,
    bucket_blocks,
    key_blocks,
    key_reference,
    own_key_blocks,
    queue_blocks,
    queue_name,
    said,
    store_outputs,
    with_environment,
)

# How files are called after the services, in a module that has more than the first three stores. Others keep their names:
# a module that is made anew in its folder must not have everything twice.
SERVICE_FILES: Final = {"tables.tf": "dynamodb.tf", "queues.tf": "sqs.tf", "buckets.tf": "s3.tf"}
NOTES: Final = {
    "tables.tf": """\
# The service creates or deletes one global index per table at a time, and the provider does so one after another.
# `holdfast indexes add {name}` adds them too, with progress, before the state learns of them.
"""
}


def terraform(system: System, *, environment: str = "", all_indexes: bool = False) -> dict[str, str]:
    """The files of the module, by name. `environment` is its variable's default, where it has one."""
    names = distinct((table.name for table in system.tables), snake_case, "tables")
    distinct((component.name for component in system.components), snake_case, "components")
    watched = alarms(system, all_indexes=all_indexes)
    distinct((" ".join(alarm.name) for alarm in watched), snake_case, "alarms")
    files = {
        "versions.tf": [_versions(system)],
        "variables.tf": _variables(system, environment),
        "tables.tf": [_table(table, names[table.name], all_indexes) for table in system.tables],
        "queues.tf": queue_blocks(system),
        "buckets.tf": [*key_blocks(system), *bucket_blocks(system)],
        "kms.tf": own_key_blocks(system),
        "aurora.tf": database_blocks(system),
        "elasticache.tf": cache_blocks(system),
        "policies.tf": [block for component in system.components for block in _policies(system, component)],
        "alarms.tf": [_alarm(alarm) for alarm in watched],
        "outputs.tf": _outputs(system),
    }
    called = SERVICE_FILES if system.schemas or has_cache(system) else {}
    return {called.get(name, name): _file(system, name, blocks) for name, blocks in files.items() if blocks}


def _file(system: System, name: str, blocks: list[Block]) -> str:
    header = f"# {GENERATED}: `holdfast iac terraform {system.name}` makes it anew.\n"
    return header + NOTES.get(name, "").format(name=system.name) + "\n" + hcl_text(blocks)


def _versions(system: System) -> Block:
    providers: list[Part] = [("aws", {"source": "hashicorp/aws", "version": ">= 5.40"})]
    if uses_passwords(system):
        providers.append(("random", {"source": "hashicorp/random", "version": ">= 3.6"}))
    return Block(
        "terraform", (), (("required_version", ">= 1.5"), Block("required_providers", (), tuple(providers)))
    )


def _variables(system: System, environment: str) -> list[Block]:
    given: tuple[Part, ...] = (("default", environment),) if environment else ()
    return [
        Block(
            "variable",
            ("environment",),
            (
                ("type", Expression("string")),
                (
                    "description",
                    f"Part of the name of every {stores_in_words(system)}, as in the setting environment.",
                ),
                *given,
                Block(
                    "validation",
                    (),
                    (
                        ("condition", _allowed_environments(system)),
                        (
                            "error_message",
                            _environment_in_words(system),
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
        *network_variables(system),
    ]


def _allowed_environments(system: System) -> Expression:
    if named_by_environment(system):
        return Expression(f"contains([{', '.join(map(quoted, system.environments))}], var.environment)")
    letters, room = environment_letters(system), environment_room(system)
    return Expression(f'can(regex("^[{letters}]{{1,{room}}}$", var.environment))')


def _environment_in_words(system: System) -> str:
    if named_by_environment(system):
        return f"The environment is one of {', '.join(system.environments)}."
    room = environment_room(system)
    if system.buckets or system.schemas or has_cache(system):
        return f"The environment has one to {room} small letters, digits and '-'."
    others = "'_' and '-'" if system.queues else "'_', '-' and '.'"
    return f"The environment has one to {room} letters, digits, {others}."


def _table(table: Table, name: str, all_indexes: bool) -> Block:
    definition = deployed_definition(table, table.physical_name(ENVIRONMENT), all_indexes)
    body: list[Part] = [
        ("name", with_environment(definition.name)),
        ("billing_mode", definition.billing_mode),
    ]
    body += _keys(definition.keys.names)
    body.append(("deletion_protection_enabled", definition.deletion_protection))
    if definition.stream_view is not None:
        body += [("stream_enabled", True), ("stream_view_type", definition.stream_view)]
    body += [
        Block("attribute", (), (("name", key.name), ("type", key.type))) for key in definition.attributes
    ]
    body += [_index("global_secondary_index", index) for index in definition.global_indexes]
    body += [_index("local_secondary_index", index) for index in definition.local_indexes]
    if table.ttl is not None:
        body.append(Block("ttl", (), (("attribute_name", table.ttl), ("enabled", True))))
    body += [
        Block("point_in_time_recovery", (), (("enabled", table.recovery),)),
        Block("server_side_encryption", (), (("enabled", True),)),
        Block("lifecycle", (), (("prevent_destroy", True),)),
    ]
    return Block("resource", ("aws_dynamodb_table", name), tuple(body))


def _keys(names: tuple[str, ...]) -> list[Part]:
    return list(zip(("hash_key", "range_key"), names, strict=False))


def _index(type: str, index: IndexDefinition) -> Block:
    keys = _keys(index.keys.names)
    body: list[Part] = [("name", index.name), *(keys if type.startswith("global") else keys[1:])]
    body.append(("projection_type", index.projection.kind))
    if index.projection.attributes:
        body.append(("non_key_attributes", list(index.projection.attributes)))
    return Block(type, (), tuple(body))


def _policies(system: System, component: Component) -> list[Block]:
    """The document and the policy of a component, or more of them where one would be too long."""
    blocks = []
    for suffix, statements in numbered(policies(component)):
        name = snake_case(component.name + suffix)
        document = Expression(f"data.aws_iam_policy_document.{name}.json")
        blocks += [
            Block("data", ("aws_iam_policy_document", name), tuple(map(_statement, statements))),
            Block(
                "resource",
                ("aws_iam_policy", name),
                (
                    ("name", with_environment(f"{system.name}-{component.name}{suffix}-{ENVIRONMENT}")),
                    (
                        "description",
                        f"What the component {component.name} of {system.name} may do with its {_things(system)}.",
                    ),
                    ("policy", document),
                ),
            ),
        ]
    return blocks


def _statement(statement: Statement) -> Block:
    conditions = (
        Block("condition", (), (("test", operator), ("variable", key), ("values", list(map(_said, values)))))
        for operator, key, values in statement.conditions
    )
    return Block(
        "statement",
        (),
        (
            ("sid", statement.sid),
            ("effect", "Allow"),
            ("actions", list(statement.actions)),
            ("resources", [_arn(resource, inside) for resource, inside in statement.places]),
            *conditions,
        ),
    )


def _things(system: System) -> str:
    return "data" if system.queues or system.buckets or system.schemas else "tables"


def _said(text: str) -> str:
    """A value of a condition, with the environment where the declaration has it."""
    return said(text) if DECLARED in text else text


def _arn(resource: Granted, inside: Inside) -> Expression:
    match resource:
        case Queue():
            name = queue_name(resource, dead=isinstance(inside, DeadLetters))
            return Expression(f"aws_sqs_queue.{name}.arn")
        case Bucket():
            keys = f"/{inside.like}" if isinstance(inside, Keys) else ""
            return _inside(f"aws_s3_bucket.{snake_case(resource.name)}.arn", keys)
        case EncryptionKey():
            return Expression(key_reference(resource.name))
        case LoginSecret():
            return Expression(f"aws_secretsmanager_secret.{secret_block_name(resource)}.arn")
    index = f"/index/{inside.name}" if isinstance(inside, Index) else ""
    return _inside(f"aws_dynamodb_table.{snake_case(resource.name)}.arn", index)


def _inside(arn: str, rest: str) -> Expression:
    return Expression(f'"${{{arn}}}{quoted(rest)[1:-1]}"' if rest else arn)


def _alarm(alarm: Alarm) -> Block:
    body: list[Part] = [
        ("alarm_name", with_environment(alarm.full_name(ENVIRONMENT))),
        ("alarm_description", alarm.purpose),
        ("comparison_operator", alarm.comparison),
        ("evaluation_periods", alarm.periods),
        ("treat_missing_data", "notBreaching"),
        ("alarm_actions", Expression("var.alarm_topics")),
        *_watched(alarm),
    ]
    return Block("resource", ("aws_cloudwatch_metric_alarm", snake_case(*alarm.name)), tuple(body))


def _watched(alarm: Alarm) -> list[Part]:
    """One metric, one metric against its usual band, or a sum over operations."""
    if alarm.threshold is None:
        band = f"ANOMALY_DETECTION_BAND(used, {UNUSUAL_DEVIATIONS})"
        return [
            ("threshold_metric_id", "usual"),
            Block("metric_query", (), (("id", "used"), ("return_data", True), _measured(alarm))),
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
            Block("metric_query", (), (("id", operation.lower()), _measured(alarm, operation)))
            for operation in alarm.operations
        ]
        return [("threshold", alarm.threshold), Block("metric_query", (), total), *parts]
    return [
        ("threshold", alarm.threshold),
        ("namespace", alarm.namespace),
        ("metric_name", alarm.metric),
        ("period", alarm.period_s),
        ("statistic", alarm.statistic),
        ("dimensions", _dimensions(alarm)),
    ]


def _measured(alarm: Alarm, operation: str = "") -> Block:
    return Block(
        "metric",
        (),
        (
            ("namespace", alarm.namespace),
            ("metric_name", alarm.metric),
            ("period", alarm.period_s),
            ("stat", alarm.statistic),
            ("dimensions", _dimensions(alarm, operation)),
        ),
    )


def _dimensions(alarm: Alarm, operation: str = "") -> dict[str, Any]:
    dimensions: dict[str, Any] = {alarm.dimension: Expression(f"{_watched_block(alarm)}.name")}
    if alarm.index is not None:
        dimensions["GlobalSecondaryIndexName"] = alarm.index.name
    return dimensions | ({"Operation": operation} if operation else {})


def _watched_block(alarm: Alarm) -> str:
    if isinstance(alarm.resource, Table):
        return f"aws_dynamodb_table.{snake_case(alarm.resource.name)}"
    return f"aws_sqs_queue.{queue_name(alarm.resource, dead=alarm.dead)}"


def _outputs(system: System) -> list[Block]:
    found = {}
    for table in system.tables:
        name = snake_case(table.name)
        found[f"{name}_name"] = f"aws_dynamodb_table.{name}.name"
        found[f"{name}_arn"] = f"aws_dynamodb_table.{name}.arn"
        if table.stream is not None:
            found[f"{name}_stream_arn"] = f"aws_dynamodb_table.{name}.stream_arn"
    found |= store_outputs(system) | database_outputs(system)
    for component in system.components:
        for suffix, _ in numbered(policies(component)):
            name = snake_case(component.name + suffix)
            found[f"{name}_policy_arn"] = f"aws_iam_policy.{name}.arn"
    return [Block("output", (name,), (("value", Expression(value)),)) for name, value in found.items()]
