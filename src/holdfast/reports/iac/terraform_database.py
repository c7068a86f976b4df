"""Build the Terraform blocks of a system's database and cache, as in the CloudFormation template."""

from __future__ import annotations

from typing import Any

from holdfast.model.system import System
from holdfast.reports.iac.cloudformation_database import (
    BACKUP_DAYS,
    CACHE_NODE_COUNT,
    CACHE_NODE_TYPE,
    CACHE_VERSION,
    ENGINE,
    ENGINE_FAMILY,
    ENGINE_VERSION,
    MAX_CAPACITY_LIMIT,
    MIN_CAPACITY,
    OWNER,
    PASSWORD_LENGTH,
    get_database_name,
    get_max_capacity,
    list_sql_components,
)
from holdfast.reports.iac.hcl_writer import Block, Expression, Part
from holdfast.reports.iac.infrastructure import has_cache, to_file_name, to_snake_case
from holdfast.reports.iac.terraform_stores import ENVIRONMENT_MARK, PREVENT_DESTROY, interpolate_environment
from holdfast.reports.iam.grants import LoginSecret
from holdfast.reports.iam.policies import get_secret_name
from holdfast.reports.iam.sql_grants import get_role_name


def build_database_blocks(system: System) -> list[Block]:
    """Return the cluster, its instances and the secrets; empty without SQL schemas."""
    if not system.schemas:
        return []
    return [
        *_build_cluster(system),
        *(_build_instance(name, tier) for tier, name in enumerate(("writer", "reader"))),
        *(
            block
            for component in list_sql_components(system)
            for block in _build_component_secret(system, component)
        ),
    ]


def build_cache_blocks(system: System) -> list[Block]:
    """Return the cache with its subnet group and secret; empty without a cache."""
    if not has_cache(system):
        return []
    name, what = get_secret_block_name(LoginSecret("cache")), f"The cache of {system.name}"
    group: tuple[Part, ...] = (
        ("replication_group_id", interpolate_environment(f"{to_file_name(system.name)}-{ENVIRONMENT_MARK}")),
        ("description", what),
        ("engine", "redis"),
        ("engine_version", CACHE_VERSION),
        ("node_type", Expression("var.cache_node_type")),
        ("num_cache_clusters", CACHE_NODE_COUNT),
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
        ("name", interpolate_environment(f"{to_file_name(system.name)}-{ENVIRONMENT_MARK}")),
        ("description", what),
        ("subnet_ids", Expression("var.cache_subnets")),
    )
    return [
        _build_password("cache"),
        *_build_secret(
            system,
            LoginSecret("cache"),
            f"The password of the cache of {system.name}.",
            Expression("random_password.cache.result"),
        ),
        Block("resource", ("aws_elasticache_subnet_group", "cache"), subnets),
        Block("resource", ("aws_elasticache_replication_group", name), group),
    ]


def build_network_variables(system: System) -> list[Block]:
    """Return the variables for the network and the size of the database and the cache."""
    found: list[Block] = []
    for kind, is_there in (("database", bool(system.schemas)), ("cache", has_cache(system))):
        if is_there:
            found += [
                _build_variable(
                    f"{kind}_subnets",
                    "list(string)",
                    f"Two subnets or more, in different zones, for the {kind}.",
                ),
                _build_variable(
                    f"{kind}_security_groups",
                    "list(string)",
                    f"Security groups that let only the components reach the port of the {kind}.",
                ),
            ]
    if system.schemas:
        description = "Maximum capacity of the database, in units of 2 GiB."
        within = Block(
            "validation",
            (),
            (
                (
                    "condition",
                    Expression(
                        f"var.database_capacity_max >= 1 && var.database_capacity_max <= {MAX_CAPACITY_LIMIT}"
                    ),
                ),
                ("error_message", f"Aurora takes 1 to {MAX_CAPACITY_LIMIT} capacity units."),
            ),
        )
        found.append(
            _build_variable("database_capacity_max", "number", description, get_max_capacity(system), within)
        )
    if has_cache(system):
        found.append(_build_variable("cache_node_type", "string", "Node type of the cache.", CACHE_NODE_TYPE))
    return found


def build_database_outputs(system: System) -> dict[str, str]:
    """Return the outputs, as an expression by name: addresses, and the ARNs of the secrets."""
    found: dict[str, str] = {}
    if system.schemas:
        found["database_writer_address"] = "aws_rds_cluster.database.endpoint"
        found["database_reader_address"] = "aws_rds_cluster.database.reader_endpoint"
        found["database_owner_secret_arn"] = "aws_rds_cluster.database.master_user_secret[0].secret_arn"
        for component in list_sql_components(system):
            name = get_secret_block_name(LoginSecret("sql", component))
            found[f"{name}_secret_arn"] = f"aws_secretsmanager_secret.{name}.arn"
    if has_cache(system):
        found["cache_address"] = "aws_elasticache_replication_group.cache.primary_endpoint_address"
        found["cache_secret_arn"] = "aws_secretsmanager_secret.cache.arn"
    return found


def needs_passwords(system: System) -> bool:
    """Return True if the module generates passwords, which needs the `random` provider."""
    return has_cache(system) or bool(system.schemas and list_sql_components(system))


def get_secret_block_name(secret: LoginSecret) -> str:
    """Return the Terraform name of a secret: `worker_sql`, or `cache`."""
    return to_snake_case(*filter(None, (secret.component, secret.store)))


def _build_cluster(system: System) -> list[Block]:
    """Return the subnet group, the parameter group and the cluster, without its instances."""
    name = interpolate_environment(f"{to_file_name(system.name)}-{ENVIRONMENT_MARK}")
    force_tls = Block("parameter", (), (("name", "rds.force_ssl"), ("value", "1")))
    cluster: tuple[Part, ...] = (
        ("cluster_identifier", name),
        ("engine", ENGINE),
        ("engine_version", ENGINE_VERSION),
        ("database_name", get_database_name(system)),
        ("db_cluster_parameter_group_name", Expression("aws_rds_cluster_parameter_group.database.name")),
        ("db_subnet_group_name", Expression("aws_db_subnet_group.database.name")),
        ("vpc_security_group_ids", Expression("var.database_security_groups")),
        ("master_username", OWNER),
        ("manage_master_user_password", True),
        ("storage_encrypted", True),
        ("deletion_protection", True),
        ("backup_retention_period", BACKUP_DAYS),
        ("copy_tags_to_snapshot", True),
        (
            "final_snapshot_identifier",
            interpolate_environment(f"{to_file_name(system.name)}-{ENVIRONMENT_MARK}-final"),
        ),
        Block(
            "serverlessv2_scaling_configuration",
            (),
            (("min_capacity", MIN_CAPACITY), ("max_capacity", Expression("var.database_capacity_max"))),
        ),
        PREVENT_DESTROY,
    )
    return [
        Block(
            "resource",
            ("aws_db_subnet_group", "database"),
            (("name", name), ("subnet_ids", Expression("var.database_subnets"))),
        ),
        # Refuse connections without TLS.
        Block(
            "resource",
            ("aws_rds_cluster_parameter_group", "database"),
            (("name", name), ("family", ENGINE_FAMILY), force_tls),
        ),
        Block("resource", ("aws_rds_cluster", "database"), cluster),
    ]


def _build_instance(name: str, tier: int) -> Block:
    """Return an instance of the cluster. Tier 0 writes; tier 1 reads and takes over on failure."""
    body: tuple[Part, ...] = (
        ("cluster_identifier", Expression("aws_rds_cluster.database.id")),
        ("engine", Expression("aws_rds_cluster.database.engine")),
        ("engine_version", Expression("aws_rds_cluster.database.engine_version")),
        ("instance_class", "db.serverless"),
        ("publicly_accessible", False),
        ("promotion_tier", tier),
    )
    return Block("resource", ("aws_rds_cluster_instance", name), body)


def _build_component_secret(system: System, component: str) -> list[Block]:
    """Return a secret with a user name and a password, as the setting `sql_secret` reads them."""
    secret = LoginSecret("sql", component)
    name = get_secret_block_name(secret)
    login = f'username = "{get_role_name(system, component)}", password = random_password.{name}.result'
    value = f"jsonencode({{ {login} }})"
    description = f"Database login of the component {component} of {system.name}."
    return [_build_password(name), *_build_secret(system, secret, description, Expression(value))]


def _build_secret(system: System, secret: LoginSecret, description: str, value: Expression) -> list[Block]:
    """Return a secret and its first version with this value."""
    name = get_secret_block_name(secret)
    named = interpolate_environment(get_secret_name(system.name, secret, ENVIRONMENT_MARK))
    return [
        Block(
            "resource",
            ("aws_secretsmanager_secret", name),
            (("name", named), ("description", description), PREVENT_DESTROY),
        ),
        Block(
            "resource",
            ("aws_secretsmanager_secret_version", name),
            (("secret_id", Expression(f"aws_secretsmanager_secret.{name}.id")), ("secret_string", value)),
        ),
    ]


def _build_password(name: str) -> Block:
    """Return a generated password of letters and digits."""
    return Block("resource", ("random_password", name), (("length", PASSWORD_LENGTH), ("special", False)))


def _build_variable(name: str, type: str, description: str, default: Any = None, *more: Part) -> Block:
    """Return a variable; it has no default if `default` is None. `more` are further parts, such as a
    validation.
    """
    given: tuple[Part, ...] = () if default is None else (("default", default),)
    return Block(
        "variable", (name,), (("type", Expression(type)), ("description", description), *given, *more)
    )
