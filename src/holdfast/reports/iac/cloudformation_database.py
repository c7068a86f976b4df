"""Build the CloudFormation resources of a system's database and cache: Aurora PostgreSQL and ElastiCache.

The deployer chooses the subnets and security groups. RDS keeps and rotates the owner's password; each
component's password is in its own secret. The database itself grants what a component may do (`holdfast
iam`).
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.model.system import System
from holdfast.reports.iac.cloudformation_stores import (
    ENVIRONMENT_REFERENCE,
    Resources,
    build_retained_resource,
)
from holdfast.reports.iac.infrastructure import has_cache, to_file_name, to_pascal_case
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

CLUSTER_ID: Final = "DatabaseCluster"
CACHE_ID: Final = "CacheGroup"


def get_database_name(system: System) -> str:
    """Return the name of the database, such as `pagwdb`."""
    return f"{to_pascal_case(system.name).lower()}db"


def list_sql_components(system: System) -> list[str]:
    """Return the names of the components that log in to the database: those with SQL privileges."""
    return [component.name for component in system.components if collect_privileges(component)]


def build_database_and_cache(system: System) -> Resources:
    """Return the resources by logical id; empty if the system has neither."""
    found: Resources = {}
    if system.schemas:
        found |= _build_database(system)
        for component in list_sql_components(system):
            found[get_secret_id(LoginSecret("sql", component))] = _build_component_secret(system, component)
    if has_cache(system):
        found |= _build_cache(system)
    return found


def build_network_parameters(system: System) -> dict[str, Any]:
    """Return the parameters for the network and the size of the database and the cache."""
    found: dict[str, Any] = {}
    kinds = {"Database": bool(system.schemas), "Cache": has_cache(system)}
    for kind in (kind for kind, is_there in kinds.items() if is_there):
        what = kind.lower()
        found[f"{kind}Subnets"] = {
            "Type": "List<AWS::EC2::Subnet::Id>",
            "Description": f"Two subnets or more, in different zones, for the {what}.",
        }
        found[f"{kind}SecurityGroups"] = {
            "Type": "List<AWS::EC2::SecurityGroup::Id>",
            "Description": f"Security groups that let only the components reach the port of the {what}.",
        }
    if system.schemas:
        found["DatabaseCapacityMax"] = {
            "Type": "Number",
            "Description": "Maximum capacity of the database, in units of 2 GiB.",
            "Default": get_max_capacity(system),
            "MinValue": 1,
            "MaxValue": MAX_CAPACITY_LIMIT,
        }
    if kinds["Cache"]:
        found["CacheNodeType"] = {
            "Type": "String",
            "Description": "Node type of the cache.",
            "Default": CACHE_NODE_TYPE,
        }
    return found


def get_max_capacity(system: System) -> float:
    """Return the largest capacity that a schema declares, or the default."""
    declared = [schema.capacity_max for schema in system.schemas if schema.capacity_max is not None]
    return max(declared, default=DEFAULT_MAX_CAPACITY)


def build_database_outputs(system: System) -> dict[str, Any]:
    """Return the outputs: addresses, and the ARNs of the secrets."""
    outputs: dict[str, Any] = {}
    if system.schemas:
        for name, attribute in (
            ("DatabaseWriterAddress", "Endpoint.Address"),
            ("DatabaseReaderAddress", "ReadEndpoint.Address"),
            ("DatabaseOwnerSecretArn", "MasterUserSecret.SecretArn"),
        ):
            outputs[name] = {"Value": {"Fn::GetAtt": [CLUSTER_ID, attribute]}}
        for component in list_sql_components(system):
            logical = get_secret_id(LoginSecret("sql", component))
            outputs[f"{logical}Arn"] = {"Value": {"Ref": logical}}
    if has_cache(system):
        outputs["CacheAddress"] = {"Value": {"Fn::GetAtt": [CACHE_ID, "PrimaryEndPoint.Address"]}}
        outputs["CacheSecretArn"] = {"Value": {"Ref": get_secret_id(LoginSecret("cache"))}}
    return outputs


def get_secret_id(secret: LoginSecret) -> str:
    """Return the logical id of a secret, such as `WorkerSqlSecret`."""
    return f"{to_pascal_case(secret.component, secret.store)}Secret"


def _build_database(system: System) -> Resources:
    """Return an Aurora cluster that requires TLS, with a writer, a reader, a subnet and a parameter group."""
    cluster = {
        "DBClusterIdentifier": {"Fn::Sub": f"{to_file_name(system.name)}-{ENVIRONMENT_REFERENCE}"},
        "Engine": ENGINE,
        "EngineVersion": ENGINE_VERSION,
        "DatabaseName": get_database_name(system),
        "DBClusterParameterGroupName": {"Ref": "DatabaseParameters"},
        "DBSubnetGroupName": {"Ref": "DatabaseSubnetGroup"},
        "VpcSecurityGroupIds": {"Ref": "DatabaseSecurityGroups"},
        "MasterUsername": OWNER,
        "ManageMasterUserPassword": True,
        "StorageEncrypted": True,
        "DeletionProtection": True,
        "BackupRetentionPeriod": BACKUP_DAYS,
        "CopyTagsToSnapshot": True,
        "ServerlessV2ScalingConfiguration": {
            "MinCapacity": MIN_CAPACITY,
            "MaxCapacity": {"Ref": "DatabaseCapacityMax"},
        },
    }
    return {
        "DatabaseSubnetGroup": _build_resource(
            "AWS::RDS::DBSubnetGroup",
            DBSubnetGroupDescription=f"The database of {system.name}",
            SubnetIds={"Ref": "DatabaseSubnets"},
        ),
        # Refuse connections without TLS.
        "DatabaseParameters": _build_resource(
            "AWS::RDS::DBClusterParameterGroup",
            Description=f"The database of {system.name}",
            Family=ENGINE_FAMILY,
            Parameters={"rds.force_ssl": "1"},
        ),
        CLUSTER_ID: {
            "Type": "AWS::RDS::DBCluster",
            "DeletionPolicy": "Snapshot",
            "UpdateReplacePolicy": "Snapshot",
            "Properties": cluster,
        },
        "DatabaseWriter": _build_instance(0),
        "DatabaseReader": _build_instance(1),
    }


def _build_instance(tier: int) -> dict[str, Any]:
    """Return an instance of the cluster. Tier 0 writes; tier 1 reads and takes over on failure."""
    return _build_resource(
        "AWS::RDS::DBInstance",
        Engine=ENGINE,
        DBInstanceClass="db.serverless",
        DBClusterIdentifier={"Ref": CLUSTER_ID},
        PubliclyAccessible=False,
        PromotionTier=tier,
    )


def _build_component_secret(system: System, component: str) -> dict[str, Any]:
    """Return a secret with a user name and a password, as the setting `sql_secret` reads them."""
    secret = LoginSecret("sql", component)
    return build_retained_resource(
        "AWS::SecretsManager::Secret",
        {
            "Name": {"Fn::Sub": get_secret_name(system.name, secret, ENVIRONMENT_REFERENCE)},
            "Description": f"Database login of the component {component} of {system.name}.",
            "GenerateSecretString": {
                "SecretStringTemplate": json.dumps({"username": get_role_name(system, component)}),
                "GenerateStringKey": "password",
                "PasswordLength": PASSWORD_LENGTH,
                "ExcludePunctuation": True,
            },
        },
    )


def _build_cache(system: System) -> Resources:
    """Return an encrypted Redis replication group, its subnet group, and the secret with its password."""
    secret = get_secret_id(LoginSecret("cache"))
    group = {
        "ReplicationGroupId": {"Fn::Sub": f"{to_file_name(system.name)}-{ENVIRONMENT_REFERENCE}"},
        "ReplicationGroupDescription": f"The cache of {system.name}",
        "Engine": "redis",
        "EngineVersion": CACHE_VERSION,
        "CacheNodeType": {"Ref": "CacheNodeType"},
        "NumCacheClusters": CACHE_NODE_COUNT,
        "AutomaticFailoverEnabled": True,
        "MultiAZEnabled": True,
        "Port": 6379,
        "TransitEncryptionEnabled": True,
        "AtRestEncryptionEnabled": True,
        "AuthToken": {"Fn::Sub": f"{{{{resolve:secretsmanager:${{{secret}}}}}}}"},
        "CacheSubnetGroupName": {"Ref": "CacheSubnetGroup"},
        "SecurityGroupIds": {"Ref": "CacheSecurityGroups"},
    }
    return {
        secret: build_retained_resource(
            "AWS::SecretsManager::Secret",
            {
                "Name": {
                    "Fn::Sub": get_secret_name(system.name, LoginSecret("cache"), ENVIRONMENT_REFERENCE)
                },
                "Description": f"The password of the cache of {system.name}.",
                "GenerateSecretString": {"PasswordLength": PASSWORD_LENGTH, "ExcludePunctuation": True},
            },
        ),
        "CacheSubnetGroup": _build_resource(
            "AWS::ElastiCache::SubnetGroup",
            Description=f"The cache of {system.name}",
            SubnetIds={"Ref": "CacheSubnets"},
        ),
        CACHE_ID: _build_resource("AWS::ElastiCache::ReplicationGroup", **group),
    }


def _build_resource(type: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type, "Properties": properties}
