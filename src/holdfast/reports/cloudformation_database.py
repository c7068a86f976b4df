"""A system's database and cache as resources of a CloudFormation template: Aurora PostgreSQL and ElastiCache.

Where they stand in the network, the deployer says. The owner's password is kept and changed by the service, each
component's own in a secret beside it; what a component may do is the database's to say (`holdfast iam`).
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.model.system import System
from holdfast.reports.cloudformation_stores import ENVIRONMENT, Resources, kept
from holdfast.reports.grants import LoginSecret
from holdfast.reports.iam import secret_name
from holdfast.reports.infrastructure import has_cache, hyphenated, pascal_case
from holdfast.reports.sql_grants import role_of, tables_for

ENGINE: Final = "aurora-postgresql"
ENGINE_VERSION: Final = "17.4"
ENGINE_FAMILY: Final = "aurora-postgresql17"
OWNER: Final = "owner"
BACKUP_DAYS: Final = 35
# In Aurora's capacity units of 2 GiB; the deployer may say more.
CAPACITY_MIN: Final = 0.5
CAPACITY_MAX: Final = 16
# The most that Aurora Serverless v2 takes.
CAPACITY_LIMIT: Final = 128
CACHE_VERSION: Final = "7.1"
CACHE_NODE: Final = "cache.t4g.small"
CACHE_NODES: Final = 2
PASSWORD_LENGTH: Final = 48

CLUSTER_ID: Final = "DatabaseCluster"
CACHE_ID: Final = "CacheGroup"


def database_name(system: System) -> str:
    """`pagwdb`."""
    return f"{pascal_case(system.name).lower()}db"


def sql_components(system: System) -> list[str]:
    """Those that log in."""
    return [component.name for component in system.components if tables_for(component)]


def database_and_cache(system: System) -> Resources:
    """By logical id; nothing where the system has neither."""
    found: Resources = {}
    if system.schemas:
        found |= _database(system)
        for component in sql_components(system):
            found[secret_id(LoginSecret("sql", component))] = _secret_of(system, component)
    if has_cache(system):
        found |= _cache(system)
    return found


def network_parameters(system: System) -> dict[str, Any]:
    """Where the database and the cache stand, and how large they may get."""
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
            "Description": f"They say who reaches the {what}: the components, on its port alone.",
        }
    if system.schemas:
        found["DatabaseCapacityMax"] = {
            "Type": "Number",
            "Description": "How many capacity units of 2 GiB the database may grow to.",
            "Default": capacity_max(system),
            "MinValue": 1,
            "MaxValue": CAPACITY_LIMIT,
        }
    if kinds["Cache"]:
        found["CacheNodeType"] = {
            "Type": "String",
            "Description": "The kind of the cache's nodes.",
            "Default": CACHE_NODE,
        }
    return found


def capacity_max(system: System) -> float:
    """What the schemas together say, or what suits most."""
    told = [schema.capacity_max for schema in system.schemas if schema.capacity_max is not None]
    return max(told, default=CAPACITY_MAX)


def database_outputs(system: System) -> dict[str, Any]:
    """Addresses, and where the passwords are."""
    outputs: dict[str, Any] = {}
    if system.schemas:
        for name, attribute in (
            ("DatabaseWriterAddress", "Endpoint.Address"),
            ("DatabaseReaderAddress", "ReadEndpoint.Address"),
            ("DatabaseOwnerSecretArn", "MasterUserSecret.SecretArn"),
        ):
            outputs[name] = {"Value": {"Fn::GetAtt": [CLUSTER_ID, attribute]}}
        for component in sql_components(system):
            logical = secret_id(LoginSecret("sql", component))
            outputs[f"{logical}Arn"] = {"Value": {"Ref": logical}}
    if has_cache(system):
        outputs["CacheAddress"] = {"Value": {"Fn::GetAtt": [CACHE_ID, "PrimaryEndPoint.Address"]}}
        outputs["CacheSecretArn"] = {"Value": {"Ref": secret_id(LoginSecret("cache"))}}
    return outputs


def secret_id(secret: LoginSecret) -> str:
    return f"{pascal_case(secret.component, secret.store)}Secret"


def _database(system: System) -> Resources:
    cluster = {
        "DBClusterIdentifier": {"Fn::Sub": f"{hyphenated(system.name)}-{ENVIRONMENT}"},
        "Engine": ENGINE,
        "EngineVersion": ENGINE_VERSION,
        "DatabaseName": database_name(system),
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
            "MinCapacity": CAPACITY_MIN,
            "MaxCapacity": {"Ref": "DatabaseCapacityMax"},
        },
    }
    return {
        "DatabaseSubnetGroup": _resource(
            "AWS::RDS::DBSubnetGroup",
            DBSubnetGroupDescription=f"The database of {system.name}",
            SubnetIds={"Ref": "DatabaseSubnets"},
        ),
        # Nobody is answered who asks in the clear.
        "DatabaseParameters": _resource(
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
        "DatabaseWriter": _instance(0),
        "DatabaseReader": _instance(1),
    }


def _instance(tier: int) -> dict[str, Any]:
    """Whichever writes, the other reads, and takes over when that ends."""
    return _resource(
        "AWS::RDS::DBInstance",
        Engine=ENGINE,
        DBInstanceClass="db.serverless",
        DBClusterIdentifier={"Ref": CLUSTER_ID},
        PubliclyAccessible=False,
        PromotionTier=tier,
    )


def _secret_of(system: System, component: str) -> dict[str, Any]:
    """A name and a password, as the setting `sql_secret` reads them."""
    secret = LoginSecret("sql", component)
    return kept(
        "AWS::SecretsManager::Secret",
        {
            "Name": {"Fn::Sub": secret_name(system.name, secret, ENVIRONMENT)},
            "Description": f"How the component {component} of {system.name} logs in to the database.",
            "GenerateSecretString": {
                "SecretStringTemplate": json.dumps({"username": role_of(system, component)}),
                "GenerateStringKey": "password",
                "PasswordLength": PASSWORD_LENGTH,
                "ExcludePunctuation": True,
            },
        },
    )


def _cache(system: System) -> Resources:
    secret = secret_id(LoginSecret("cache"))
    group = {
        "ReplicationGroupId": {"Fn::Sub": f"{hyphenated(system.name)}-{ENVIRONMENT}"},
        "ReplicationGroupDescription": f"The cache of {system.name}",
        "Engine": "redis",
        "EngineVersion": CACHE_VERSION,
        "CacheNodeType": {"Ref": "CacheNodeType"},
        "NumCacheClusters": CACHE_NODES,
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
        secret: kept(
            "AWS::SecretsManager::Secret",
            {
                "Name": {"Fn::Sub": secret_name(system.name, LoginSecret("cache"), ENVIRONMENT)},
                "Description": f"The password of the cache of {system.name}.",
                "GenerateSecretString": {"PasswordLength": PASSWORD_LENGTH, "ExcludePunctuation": True},
            },
        ),
        "CacheSubnetGroup": _resource(
            "AWS::ElastiCache::SubnetGroup",
            Description=f"The cache of {system.name}",
            SubnetIds={"Ref": "CacheSubnets"},
        ),
        CACHE_ID: _resource("AWS::ElastiCache::ReplicationGroup", **group),
    }


def _resource(type: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type, "Properties": properties}
