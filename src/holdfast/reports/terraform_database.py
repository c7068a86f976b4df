"""A system's database and cache as blocks of a Terraform module: the same as in the CloudFormation template."""

from __future__ import annotations

from typing import Any

from holdfast.model.system import System
from holdfast.reports.cloudformation_database import (
    BACKUP_DAYS,
    CACHE_NODE,
    CACHE_NODES,
    CACHE_VERSION,
    CAPACITY_LIMIT,
    CAPACITY_MIN,
    ENGINE,
    ENGINE_FAMILY,
    ENGINE_VERSION,
    OWNER,
    PASSWORD_LENGTH,
    capacity_max,
    database_name,
    sql_components,
)
from holdfast.reports.grants import LoginSecret
from holdfast.reports.hcl_text import Block, Expression, Part
from holdfast.reports.iam import secret_name
from holdfast.reports.infrastructure import has_cache, hyphenated, snake_case
from holdfast.reports.sql_grants import role_of
from holdfast.reports.terraform_stores import ENVIRONMENT, KEPT, with_environment


def database_blocks(system: System) -> list[Block]:
    if not system.schemas:
        return []
    return [
        *_cluster(system),
        *(_instance(name, tier) for tier, name in enumerate(("writer", "reader"))),
        *(block for component in sql_components(system) for block in _secret_of(system, component)),
    ]


def cache_blocks(system: System) -> list[Block]:
    if not has_cache(system):
        return []
    name, what = secret_block_name(LoginSecret("cache")), f"The cache of {system.name}"
    group: tuple[Part, ...] = (
        ("replication_group_id", with_environment(f"{hyphenated(system.name)}-{ENVIRONMENT}")),
        ("description", what),
        ("engine", "redis"),
        ("engine_version", CACHE_VERSION),
        ("node_type", Expression("var.cache_node_type")),
        ("num_cache_clusters", CACHE_NODES),
        ("automatic_failover_enabled", True),
        ("multi_az_enabled", True),
        ("port", 6379),
        ("transit_encryption_enabled", True),
        ("at_rest_encryption_enabled", True),
        ("auth_token", Expression("random_password.cache.result")),
        ("subnet_group_name", Expression("aws_elasticache_subnet_group.cache.name")),
        ("security_group_ids", Expression("var.cache_security_groups")),
    )
    subnets: tuple[Part, ...] = (
        ("name", with_environment(f"{hyphenated(system.name)}-{ENVIRONMENT}")),
        ("description", what),
        ("subnet_ids", Expression("var.cache_subnets")),
    )
    return [
        _password("cache"),
        *_secret(
            system,
            LoginSecret("cache"),
            f"The password of the cache of {system.name}.",
            Expression("random_password.cache.result"),
        ),
        Block("resource", ("aws_elasticache_subnet_group", "cache"), subnets),
        Block("resource", ("aws_elasticache_replication_group", name), group),
    ]


def network_variables(system: System) -> list[Block]:
    """Where the database and the cache stand, and how large they may get."""
    found: list[Block] = []
    for kind, is_there in (("database", bool(system.schemas)), ("cache", has_cache(system))):
        if is_there:
            found += [
                _variable(
                    f"{kind}_subnets",
                    "list(string)",
                    f"Two subnets or more, in different zones, for the {kind}.",
                ),
                _variable(
                    f"{kind}_security_groups",
                    "list(string)",
                    f"They say who reaches the {kind}: the components, on its port alone.",
                ),
            ]
    if system.schemas:
        told = "How many capacity units of 2 GiB the database may grow to."
        within = Block(
            "validation",
            (),
            (
                (
                    "condition",
                    Expression(
                        f"var.database_capacity_max >= 1 && var.database_capacity_max <= {CAPACITY_LIMIT}"
                    ),
                ),
                ("error_message", f"Aurora takes 1 to {CAPACITY_LIMIT} capacity units."),
            ),
        )
        found.append(_variable("database_capacity_max", "number", told, capacity_max(system), within))
    if has_cache(system):
        found.append(_variable("cache_node_type", "string", "The kind of the cache's nodes.", CACHE_NODE))
    return found


def database_outputs(system: System) -> dict[str, str]:
    """Addresses, and where the passwords are."""
    found: dict[str, str] = {}
    if system.schemas:
        found["database_writer_address"] = "aws_rds_cluster.database.endpoint"
        found["database_reader_address"] = "aws_rds_cluster.database.reader_endpoint"
        found["database_owner_secret_arn"] = "aws_rds_cluster.database.master_user_secret[0].secret_arn"
        for component in sql_components(system):
            name = secret_block_name(LoginSecret("sql", component))
            found[f"{name}_secret_arn"] = f"aws_secretsmanager_secret.{name}.arn"
    if has_cache(system):
        found["cache_address"] = "aws_elasticache_replication_group.cache.primary_endpoint_address"
        found["cache_secret_arn"] = "aws_secretsmanager_secret.cache.arn"
    return found


def uses_passwords(system: System) -> bool:
    """Whether passwords are made, by a provider of their own."""
    return has_cache(system) or bool(system.schemas and sql_components(system))


def secret_block_name(secret: LoginSecret) -> str:
    return snake_case(*filter(None, (secret.component, secret.store)))


def _cluster(system: System) -> list[Block]:
    name = with_environment(f"{hyphenated(system.name)}-{ENVIRONMENT}")
    force_tls = Block("parameter", (), (("name", "rds.force_ssl"), ("value", "1")))
    cluster: tuple[Part, ...] = (
        ("cluster_identifier", name),
        ("engine", ENGINE),
        ("engine_version", ENGINE_VERSION),
        ("database_name", database_name(system)),
        ("db_cluster_parameter_group_name", Expression("aws_rds_cluster_parameter_group.database.name")),
        ("db_subnet_group_name", Expression("aws_db_subnet_group.database.name")),
        ("vpc_security_group_ids", Expression("var.database_security_groups")),
        ("master_username", OWNER),
        ("manage_master_user_password", True),
        ("storage_encrypted", True),
        ("deletion_protection", True),
        ("backup_retention_period", BACKUP_DAYS),
        ("copy_tags_to_snapshot", True),
        ("final_snapshot_identifier", with_environment(f"{hyphenated(system.name)}-{ENVIRONMENT}-final")),
        Block(
            "serverlessv2_scaling_configuration",
            (),
            (("min_capacity", CAPACITY_MIN), ("max_capacity", Expression("var.database_capacity_max"))),
        ),
        KEPT,
    )
    return [
        Block(
            "resource",
            ("aws_db_subnet_group", "database"),
            (("name", name), ("subnet_ids", Expression("var.database_subnets"))),
        ),
        # Nobody is answered who asks in the clear.
        Block(
            "resource",
            ("aws_rds_cluster_parameter_group", "database"),
            (("name", name), ("family", ENGINE_FAMILY), force_tls),
        ),
        Block("resource", ("aws_rds_cluster", "database"), cluster),
    ]


def _instance(name: str, tier: int) -> Block:
    """Whichever writes, the other reads, and takes over when that ends."""
    body: tuple[Part, ...] = (
        ("cluster_identifier", Expression("aws_rds_cluster.database.id")),
        ("engine", Expression("aws_rds_cluster.database.engine")),
        ("engine_version", Expression("aws_rds_cluster.database.engine_version")),
        ("instance_class", "db.serverless"),
        ("publicly_accessible", False),
        ("promotion_tier", tier),
    )
    return Block("resource", ("aws_rds_cluster_instance", name), body)


def _secret_of(system: System, component: str) -> list[Block]:
    """A name and a password, as the setting `sql_secret` reads them."""
    secret = LoginSecret("sql", component)
    name = secret_block_name(secret)
    value = f'jsonencode({{ username = "{role_of(system, component)}", password = random_password.{name}.result }})'
    told = f"How the component {component} of {system.name} logs in to the database."
    return [_password(name), *_secret(system, secret, told, Expression(value))]


def _secret(system: System, secret: LoginSecret, told: str, value: Expression) -> list[Block]:
    name = secret_block_name(secret)
    named = with_environment(secret_name(system.name, secret, ENVIRONMENT))
    return [
        Block(
            "resource", ("aws_secretsmanager_secret", name), (("name", named), ("description", told), KEPT)
        ),
        Block(
            "resource",
            ("aws_secretsmanager_secret_version", name),
            (("secret_id", Expression(f"aws_secretsmanager_secret.{name}.id")), ("secret_string", value)),
        ),
    ]


def _password(name: str) -> Block:
    return Block("resource", ("random_password", name), (("length", PASSWORD_LENGTH), ("special", False)))


def _variable(name: str, type: str, told: str, default: Any = None, *more: Part) -> Block:
    given: tuple[Part, ...] = () if default is None else (("default", default),)
    return Block("variable", (name,), (("type", Expression(type)), ("description", told), *given, *more))
