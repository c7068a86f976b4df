"""Build the resources of a system's database and cache: Aurora PostgreSQL and ElastiCache.

The deployer chooses the subnets and security groups. RDS keeps and rotates the owner's password; each
component's password is in its own secret. The database itself grants what a component may do (`holdfast
iam`).
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.model.system import System
from holdfast.reports.iac.infrastructure import has_cache, to_file_name, to_pascal_case
from holdfast.reports.iac.tree import (
    ENVIRONMENT_MARK,
    Address,
    Parameter,
    ParameterReference,
    Password,
    Reference,
    Resource,
)
from holdfast.reports.iam.grants import LoginSecret
from holdfast.reports.iam.policies import get_secret_name
from holdfast.reports.iam.sql_grants import collect_privileges, get_role_name

ENGINE: Final = "aurora-postgresql"
ENGINE_VERSION: Final = "17.4"
ENGINE_FAMILY: Final = "aurora-postgresql17"
OWNER: Final = "owner"
BACKUP_DAYS: Final = 35
# In Aurora capacity units of 2 GiB. The deployer can raise the maximum.
MIN_CAPACITY: Final = 0.5
DEFAULT_MAX_CAPACITY: Final = 16
# The maximum of Aurora Serverless v2.
MAX_CAPACITY_LIMIT: Final = 128
CACHE_VERSION: Final = "7.1"
CACHE_NODE_TYPE: Final = "cache.t4g.small"
CACHE_NODE_COUNT: Final = 2
PASSWORD_LENGTH: Final = 48

CLUSTER_ADDRESS: Final = Address("AWS::RDS::DBCluster", "database")
CACHE_ADDRESS: Final = Address("AWS::ElastiCache::ReplicationGroup", "cache")


def get_secret_address(secret: LoginSecret) -> Address:
    """Return the address of a secret, such as `worker sql`, or `cache`."""
    return Address("AWS::SecretsManager::Secret", f"{secret.component} {secret.store}".strip())


def build_database(system: System) -> list[Resource]:
    """Return an Aurora cluster that requires TLS, with a writer, a reader and a secret for each component."""
    if not system.schemas:
        return []
    name, description = _name_in_environment(system), f"The database of {system.name}"
    subnets = Address("AWS::RDS::DBSubnetGroup", "database")
    parameters = Address("AWS::RDS::DBClusterParameterGroup", "database")
    cluster = {
        "DBClusterIdentifier": name,
        "Engine": ENGINE,
        "EngineVersion": ENGINE_VERSION,
        "DatabaseName": f"{to_pascal_case(system.name).lower()}db",
        "DBClusterParameterGroupName": parameters.refer("Name"),
        "DBSubnetGroupName": subnets.refer("Name"),
        "VpcSecurityGroupIds": ParameterReference("DatabaseSecurityGroups"),
        "MasterUsername": OWNER,
        "ManageMasterUserPassword": True,
        "StorageEncrypted": True,
        "DeletionProtection": True,
        "BackupRetentionPeriod": BACKUP_DAYS,
        "CopyTagsToSnapshot": True,
        "FinalSnapshotIdentifier": f"{name}-final",
        "ServerlessV2ScalingConfiguration": {
            "MinCapacity": MIN_CAPACITY,
            "MaxCapacity": ParameterReference("DatabaseCapacityMax"),
        },
    }
    in_subnets = {
        "DBSubnetGroupName": name,
        "DBSubnetGroupDescription": description,
        "SubnetIds": ParameterReference("DatabaseSubnets"),
    }
    # Refuse connections without TLS.
    force_tls = {
        "DBClusterParameterGroupName": name,
        "Description": description,
        "Family": ENGINE_FAMILY,
        "Parameters": {"rds.force_ssl": "1"},
    }
    return [
        Resource(subnets, in_subnets),
        Resource(parameters, force_tls),
        Resource(CLUSTER_ADDRESS, cluster, "Snapshot"),
        *(_build_instance(name, tier) for tier, name in enumerate(("writer", "reader"))),
        *(_build_component_secret(system, component) for component in _list_sql_components(system)),
    ]


def build_cache(system: System) -> list[Resource]:
    """Return an encrypted Redis replication group, its subnet group, and the secret with its password."""
    if not has_cache(system):
        return []
    name, description = _name_in_environment(system), f"The cache of {system.name}"
    secret, subnets = LoginSecret("cache"), Address("AWS::ElastiCache::SubnetGroup", "cache")
    group = {
        "ReplicationGroupId": name,
        "ReplicationGroupDescription": description,
        "Engine": "redis",
        "EngineVersion": CACHE_VERSION,
        "CacheNodeType": ParameterReference("CacheNodeType"),
        "NumCacheClusters": CACHE_NODE_COUNT,
        "AutomaticFailoverEnabled": True,
        "MultiAZEnabled": True,
        "Port": 6379,
        "TransitEncryptionEnabled": True,
        "AtRestEncryptionEnabled": True,
        "AuthToken": Password(get_secret_address(secret)),
        "CacheSubnetGroupName": subnets.refer("Name"),
        "SecurityGroupIds": ParameterReference("CacheSecurityGroups"),
    }
    in_subnets = {
        "CacheSubnetGroupName": name,
        "Description": description,
        "SubnetIds": ParameterReference("CacheSubnets"),
    }
    return [
        _build_secret(system, secret, f"The password of the cache of {system.name}."),
        Resource(subnets, in_subnets),
        Resource(CACHE_ADDRESS, group),
    ]


def build_network_parameters(system: System) -> list[Parameter]:
    """Return the parameters for the network and the size of the database and the cache."""
    kinds = {"Database": bool(system.schemas), "Cache": has_cache(system)}
    found = []
    for kind in (kind for kind, is_there in kinds.items() if is_there):
        subnets = f"Two subnets or more, in different zones, for the {kind.lower()}."
        groups = f"Security groups that let only the components reach the port of the {kind.lower()}."
        found += [
            Parameter(f"{kind}Subnets", "List<AWS::EC2::Subnet::Id>", subnets),
            Parameter(f"{kind}SecurityGroups", "List<AWS::EC2::SecurityGroup::Id>", groups),
        ]
    if system.schemas:
        declared = [schema.capacity_max for schema in system.schemas if schema.capacity_max is not None]
        found.append(
            Parameter(
                "DatabaseCapacityMax",
                "Number",
                "Maximum capacity of the database, in units of 2 GiB.",
                default=max(declared, default=DEFAULT_MAX_CAPACITY),
                bounds=(1, MAX_CAPACITY_LIMIT),
                error=f"Aurora takes 1 to {MAX_CAPACITY_LIMIT} capacity units.",
            )
        )
    if kinds["Cache"]:
        found.append(Parameter("CacheNodeType", "String", "Node type of the cache.", CACHE_NODE_TYPE))
    return found


def list_database_outputs(system: System) -> list[Reference]:
    """Return the addresses of the database and the cache, and the ARNs of the secrets."""
    found = []
    if system.schemas:
        secrets = [get_secret_address(LoginSecret("sql", each)) for each in _list_sql_components(system)]
        found += [
            CLUSTER_ADDRESS.refer(each) for each in ("WriterAddress", "ReaderAddress", "OwnerSecretArn")
        ]
        found += [each.refer("Arn") for each in secrets]
    if has_cache(system):
        found += [CACHE_ADDRESS.refer("Address"), get_secret_address(LoginSecret("cache")).refer("Arn")]
    return found


def _list_sql_components(system: System) -> list[str]:
    """Return the names of the components that log in to the database: those with SQL privileges."""
    return [component.name for component in system.components if collect_privileges(component)]


def _name_in_environment(system: System) -> str:
    return f"{to_file_name(system.name)}-{ENVIRONMENT_MARK}"


def _build_instance(name: str, tier: int) -> Resource:
    """Return an instance of the cluster. Tier 0 writes; tier 1 reads and takes over on failure."""
    properties = {
        "Engine": ENGINE,
        "DBInstanceClass": "db.serverless",
        "DBClusterIdentifier": CLUSTER_ADDRESS.refer("Id"),
        "PubliclyAccessible": False,
        "PromotionTier": tier,
    }
    return Resource(Address("AWS::RDS::DBInstance", name), properties)


def _build_component_secret(system: System, component: str) -> Resource:
    """Return a secret with a user name and a password, as the setting `sql_secret` reads them."""
    return _build_secret(
        system,
        LoginSecret("sql", component),
        f"Database login of the component {component} of {system.name}.",
        SecretStringTemplate=json.dumps({"username": get_role_name(system, component)}),
        GenerateStringKey="password",
    )


def _build_secret(system: System, secret: LoginSecret, description: str, **template: str) -> Resource:
    """Return a secret with a generated password of letters and digits, put into the template if given."""
    generated: dict[str, Any] = {**template, "PasswordLength": PASSWORD_LENGTH, "ExcludePunctuation": True}
    properties = {
        "Name": get_secret_name(system.name, secret, ENVIRONMENT_MARK),
        "Description": description,
        "GenerateSecretString": generated,
    }
    return Resource(get_secret_address(secret), properties, "Retain")
