"""Build the resource tree of a system: its stores, alarms, policies, parameters and outputs.

Pure: a `System` in, a `Tree` out. Definitions come from the model, permissions from `iam/policies.py`.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.objects import MAX_BUCKET_NAME, Bucket
from holdfast.model.objects import substitute_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index
from holdfast.reports.iac import database, stores
from holdfast.reports.iac.alarms import build_alarms
from holdfast.reports.iac.infrastructure import has_cache, is_own_key, to_file_name
from holdfast.reports.iac.tree import (
    ENVIRONMENT_MARK,
    Address,
    ExistingKey,
    Parameter,
    Reference,
    Resource,
    Tree,
)
from holdfast.reports.iam import grants
from holdfast.reports.iam.policies import add_suffixes, build_policies, build_policy_document

# SQS accepts 80 characters, including the suffix `.fifo`.
MAX_QUEUE_NAME: Final = 80
# ElastiCache's limit for the id of a replication group.
MAX_CACHE_NAME: Final = 40
MAX_ENVIRONMENT_NAME: Final = 32


def build_tree(system: System, *, environment: str = "", all_indexes: bool = False) -> Tree:
    """Return the system's resources. `environment` is the default of its parameter."""
    policies = _build_policies(system)
    keys = dict.fromkeys(bucket.kms_key for bucket in system.buckets)
    return Tree(
        parameters=[
            _build_environment_parameter(system, environment),
            Parameter(
                "AlarmTopics",
                "List<String>",
                "The ARNs of the SNS topics that alarms are sent to.",
                default=[],
            ),
            *database.build_network_parameters(system),
        ],
        sections={
            "tables": [stores.build_table(table, all_indexes) for table in system.tables],
            "queues": [resource for queue in system.queues for resource in stores.build_queues(queue)],
            "keys": stores.build_keys(system),
            "buckets": stores.build_buckets(system),
            "database": database.build_database(system),
            "cache": database.build_cache(system),
            "alarms": build_alarms(system, all_indexes=all_indexes),
            "policies": policies,
        },
        outputs=[*_list_store_outputs(system), *(policy.address.refer("Arn") for policy in policies)],
        existing_keys=[key for key in keys if key is not None and not is_own_key(key)],
    )


def _build_environment_parameter(system: System, environment: str) -> Parameter:
    """Return the parameter of the environment, which must fit into the name of every store."""
    room = compute_max_environment_length(system)
    if system.buckets or system.schemas or has_cache(system):
        letters, described = "a-z0-9-", "lower-case letters, digits and '-'"
    elif system.queues:
        letters, described = "a-zA-Z0-9_-", "letters, digits, '_' and '-'"
    else:
        letters, described = "a-zA-Z0-9_.-", "letters, digits, '_', '-' and '.'"
    has_own_names = any(bucket.physical is not None for bucket in system.buckets)
    allowed = tuple(system.deployment.environments) if has_own_names else ()
    is_valid = f"is one of {', '.join(allowed)}" if allowed else f"has one to {room} {described}"
    return Parameter(
        "Environment",
        "String",
        f"Part of the name of every {_format_store_kinds(system)}, as in the setting environment.",
        default=environment or None,
        pattern=f"[{letters}]{{1,{room}}}",
        allowed=allowed,
        error=f"The environment {is_valid}.",
    )


def compute_max_environment_length(system: System) -> int:
    """Return the longest environment name that still fits into the names of every queue, bucket and cache."""
    longest = [
        MAX_QUEUE_NAME - len(queue.physical_name("e", dead_letter=queue.max_receives is not None)) + 1
        for queue in system.queues
    ] + [MAX_BUCKET_NAME - len(bucket.physical_name("e")) + 1 for bucket in system.buckets]
    if has_cache(system):
        longest.append(MAX_CACHE_NAME - len(f"{to_file_name(system.name)}-"))
    return min([MAX_ENVIRONMENT_NAME, *longest])


def _format_store_kinds(system: System) -> str:
    """Return the kinds of stores that have the environment in their names: `table`, `table and queue`."""
    declared = {
        "table": system.tables,
        "queue": system.queues,
        "bucket": system.buckets,
        "database": system.schemas,
        "cache": has_cache(system),
    }
    kinds = [kind for kind, some in declared.items() if some] or ["table"]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def _list_store_outputs(system: System) -> list[Reference]:
    """Return the names, URLs and ARNs of the stores."""
    found = []
    for table in system.tables:
        attributes = ("Name", "Arn", *(["StreamArn"] if table.stream is not None else []))
        found += [stores.get_table_address(table).refer(attribute) for attribute in attributes]
    for queue in system.queues:
        for dead in (False, True) if queue.max_receives is not None else (False,):
            found += [
                stores.get_queue_address(queue, dead=dead).refer(attribute) for attribute in ("Url", "Arn")
            ]
    for bucket in system.buckets:
        found += [stores.get_bucket_address(bucket).refer(attribute) for attribute in ("Name", "Arn")]
    return found + database.list_database_outputs(system)


def _build_policies(system: System) -> list[Resource]:
    """Return the policies of each component; a large policy is split into several."""
    scope = "data" if system.queues or system.buckets or system.schemas else "tables"
    return [
        Resource(
            Address("AWS::IAM::ManagedPolicy", component.name, part),
            {
                "ManagedPolicyName": f"{system.name}-{component.name}{part}-{ENVIRONMENT_MARK}",
                "Description": f"Access of the component {component.name} of {system.name} to its {scope}.",
                "PolicyDocument": build_policy_document(
                    statements, _build_arn, lambda text: put_in(text, ENVIRONMENT_MARK)
                ),
            },
        )
        for component in system.components
        for part, statements in add_suffixes(build_policies(component))
    ]


def _build_arn(
    resource: grants.GrantableResource, sub_resource: grants.SubResource
) -> Reference | ExistingKey:
    """Return the ARN of a resource, or of an index, dead-letter queue or key pattern inside it."""
    match resource:
        case Queue():
            return stores.get_queue_address(
                resource, dead=isinstance(sub_resource, grants.DeadLetters)
            ).refer("Arn")
        case Bucket():
            keys = f"/{sub_resource.glob}" if isinstance(sub_resource, grants.KeyPattern) else ""
            return stores.get_bucket_address(resource).refer("Arn", keys)
        case grants.LoginSecret():
            return database.get_secret_address(resource).refer("Arn")
        case grants.EncryptionKey():
            return stores.get_key_arn(resource.name, is_arn=True)
    index = f"/index/{sub_resource.name}" if isinstance(sub_resource, Index) else ""
    return stores.get_table_address(resource).refer("Arn", index)
