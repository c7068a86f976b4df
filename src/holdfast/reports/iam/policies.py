"""Build least-privilege IAM policies for each component, from the grants that its patterns need.

Every pattern of a component is called with its example; the operation determines the action, the table, queue
or bucket, and how narrowly it can be granted (`grants.py`). This module turns grants into statements and
statements into policies.

Separate statements allow the component to describe its tables and queues: a host checks that they exist and
that their indexes are ready, and a reader looks up the TTL attribute. A description contains no items and no
messages.

Nothing is granted by a wildcard action, and nothing that no pattern needs. CloudFormation and Terraform use
the same statements with their own resource references; the JSON files are for deployments without either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from holdfast.model.components import Component
from holdfast.model.objects import Bucket, substitute_environment
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index
from holdfast.reports.iac.infrastructure import ALIAS_PREFIX, map_to_distinct_names, to_file_name
from holdfast.reports.iam.grants import (
    Condition,
    DeadLetters,
    EncryptionKey,
    Grant,
    GrantableResource,
    KeyPattern,
    LoginSecret,
    SubResource,
    build_description_grants,
    list_grants,
)

POLICY_VERSION: Final = "2012-10-17"
# A managed policy may have 6,144 characters without white space. This is less, because physical names are
# longer than placeholders.
MAX_POLICY_CHARACTERS: Final = 5_000
MAX_RESOURCES_PER_STATEMENT: Final = 20
# Placeholders for an unknown region or account: the policy grants nothing until they are replaced.
REGION_PLACEHOLDER: Final = "REGION"
ACCOUNT_PLACEHOLDER: Final = "ACCOUNT"
PARTITIONS: Final = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}

GrantTarget: TypeAlias = tuple[GrantableResource, SubResource]
ArnBuilder: TypeAlias = Callable[[GrantableResource, SubResource], Any]
# Formats a condition value that may contain the environment.
ValueFormatter: TypeAlias = Callable[[str], Any]


@dataclass(frozen=True)
class Statement:
    """Grants that differ only in their resource."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[GrantTarget, ...]
    conditions: tuple[Condition, ...]

    def to_document(self, arn: ArnBuilder, format_value: ValueFormatter = str) -> dict[str, Any]:
        """Return the statement in IAM's JSON form. `arn` builds the resources, `format_value` the condition
        values.
        """
        conditions: dict[str, dict[str, list[Any]]] = {}
        for operator, key, values in self.conditions:
            conditions.setdefault(operator, {})[key] = [format_value(value) for value in values]
        stated: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": [arn(resource, inside) for resource, inside in self.resources],
        }
        return stated | ({"Condition": conditions} if conditions else {})


def build_policy_files(
    system: System,
    *,
    environment: str = "",
    region: str = REGION_PLACEHOLDER,
    account: str = ACCOUNT_PLACEHOLDER,
) -> dict[str, str]:
    """Return the JSON policies of all components, by file name; a component has several if one would be too
    long.
    """
    arn = make_arn_builder(environment, region, account, system.name)
    names = map_to_distinct_names(
        (component.name for component in system.components), to_file_name, "components"
    )
    return {
        f"{to_file_name(system.name)}-{names[component.name]}{suffix}.json": (
            json.dumps(
                build_policy_document(
                    statements, arn, lambda text: substitute_environment(text, environment)
                ),
                indent=2,
                ensure_ascii=False,
            )
            + "\n"
        )
        for component in system.components
        for suffix, statements in add_suffixes(build_policies(component))
    }


def build_component_policies(
    system: System, component: Component, *, environment: str = ""
) -> list[dict[str, Any]]:
    """Return the policies of one component, with placeholders for the region and the account."""
    arn = make_arn_builder(environment, REGION_PLACEHOLDER, ACCOUNT_PLACEHOLDER, system.name)
    return [
        build_policy_document(statements, arn, lambda text: substitute_environment(text, environment))
        for statements in build_policies(component)
    ]


def build_policy_document(
    statements: Iterable[Statement], arn: ArnBuilder, format_value: ValueFormatter = str
) -> dict[str, Any]:
    """Return the policy as a dictionary in IAM's JSON form."""
    stated = [statement.to_document(arn, format_value) for statement in statements]
    return {"Version": POLICY_VERSION, "Statement": stated}


def make_arn_builder(environment: str, region: str, account: str, system: str = "") -> ArnBuilder:
    """Return a function that builds full ARNs for this environment, region and account."""
    partition = next((name for start, name in PARTITIONS.items() if region.startswith(start)), "aws")

    def arn(resource: GrantableResource, inside: SubResource) -> str:
        match resource:
            case Queue():
                name = resource.physical_name(environment, dead_letter=isinstance(inside, DeadLetters))
                return f"arn:{partition}:sqs:{region}:{account}:{name}"
            case Bucket():
                keys = f"/{inside.glob}" if isinstance(inside, KeyPattern) else ""
                return f"arn:{partition}:s3:::{resource.physical_name(environment)}{keys}"
            case EncryptionKey():
                return build_key_arn(resource, f"arn:{partition}:kms:{region}:{account}")
            case LoginSecret():
                # Secrets Manager appends six random characters to the name.
                name = get_secret_name(system, resource, environment)
                return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{name}-??????"
        index = f"/index/{inside.name}" if isinstance(inside, Index) else ""
        return (
            f"arn:{partition}:dynamodb:{region}:{account}:table/{resource.physical_name(environment)}{index}"
        )

    return arn


def get_secret_name(system: str, secret: LoginSecret, environment: str) -> str:
    """Return the name of a secret, such as `pagw/prod/sql/api`."""
    return "/".join(filter(None, (system, environment, secret.store, secret.component)))


def build_key_arn(key: EncryptionKey, prefix: str) -> str:
    """Return the ARN of a KMS key. `prefix` starts the ARNs of the account's keys.

    For an alias the ARN matches any key of the account: a condition of the statement limits it to the alias.
    """
    is_alias = key.name.rpartition(":")[2].startswith(ALIAS_PREFIX)
    return (
        key.name
        if key.name.startswith("arn:") and not is_alias
        else (f"{prefix}:key/{'*' if is_alias else key.name}")
    )


def add_suffixes(policies: Iterable[Any]) -> list[tuple[str, Any]]:
    """Pair each policy with its name suffix: empty for the first, `-part-2` for the second."""
    return [("" if place == 1 else f"-part-{place}", each) for place, each in enumerate(policies, start=1)]


def build_policies(component: Component) -> list[tuple[Statement, ...]]:
    """Return the component's statements, split into policies of at most `MAX_POLICY_CHARACTERS` in this
    order.

    The list is empty if the component declares no pattern.
    """
    arn = make_arn_builder("", REGION_PLACEHOLDER, ACCOUNT_PLACEHOLDER)
    found: list[tuple[Statement, ...]] = []
    length = MAX_POLICY_CHARACTERS
    granted = list_grants(component)
    # Descriptions get their own statements, separate from access to data.
    for statement in (*build_statements(granted), *build_statements(build_description_grants(granted))):
        added = len(json.dumps(statement.to_document(arn), separators=(",", ":")))
        if length + added > MAX_POLICY_CHARACTERS:
            found.append(())
            length = 0
        found[-1] = (*found[-1], statement)
        length += added
    return found


def build_statements(grants: Iterable[Grant]) -> list[Statement]:
    """Group grants into statements: join the actions of one resource, then resources with equal actions."""
    actions: dict[tuple[GrantTarget, frozenset[Condition]], set[str]] = {}
    for grant in grants:
        actions.setdefault(((grant.resource, grant.sub_resource), grant.conditions), set()).add(grant.action)
    places: dict[tuple[tuple[str, ...], tuple[Condition, ...]], list[GrantTarget]] = {}
    for (place, conditions), several in actions.items():
        places.setdefault((tuple(sorted(several)), tuple(sorted(conditions))), []).append(place)
    parts = [
        (several, found[start : start + MAX_RESOURCES_PER_STATEMENT], conditions)
        for (several, conditions), unsorted in sorted(places.items(), key=lambda each: each[0])
        for found in [sorted(unsorted, key=_get_sort_key)]
        for start in range(0, len(found), MAX_RESOURCES_PER_STATEMENT)
    ]
    return [
        Statement(f"Holdfast{number:02}{_format_actions(several)}", several, tuple(found), conditions)
        for number, (several, found, conditions) in enumerate(parts, start=1)
    ]


def _format_actions(actions: Iterable[str]) -> str:
    """Join all actions: a statement id that names only some would hide what it allows."""
    return "And".join(action.partition(":")[2] for action in actions)


def _get_sort_key(target: GrantTarget) -> tuple[str, str]:
    """Return the names by which the resources of a statement are sorted."""
    resource, inside = target
    match inside:
        case None:
            return resource.name, ""
        case KeyPattern():
            return resource.name, inside.glob
        case DeadLetters():
            return resource.name, "dead"
    return resource.name, inside.name
