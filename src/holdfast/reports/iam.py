"""The least privilege of each component, as IAM policies.

Every pattern that a component declares is called with its example; what the operation is says which action on
which table, queue or bucket it takes, and how narrowly that can be granted (`grants.py`). Here grants become
statements, and statements policies.

Statements of their own let it describe the tables and queues that it uses: a host looks whether they are there and
how far their indexes are, and a reader in which attribute the end of an item's life stands. A description has no
items and no messages.

Nothing is granted by a wildcard action, and nothing that no pattern asks for. CloudFormation and Terraform take
the same statements and write the resources their own way. The file itself is used where neither is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from holdfast.model.objects import Bucket, in_environment
from holdfast.model.queues import Queue
from holdfast.model.system import Component, System
from holdfast.model.tables import Index
from holdfast.reports.grants import (
    Condition,
    DeadLetters,
    EncryptionKey,
    Grant,
    Granted,
    Inside,
    Keys,
    LoginSecret,
    descriptions_of,
    grants_of,
)
from holdfast.reports.infrastructure import ALIAS, distinct, hyphenated

POLICY_VERSION: Final = "2012-10-17"
# A managed policy may have 6,144 characters without white space; physical names are longer than placeholders.
POLICY_CHARACTERS_MAX: Final = 5_000
PLACES_PER_STATEMENT_MAX: Final = 20
# What stands for a region or an account that was not named: a policy that grants nothing until it is.
REGION_PLACEHOLDER: Final = "REGION"
ACCOUNT_PLACEHOLDER: Final = "ACCOUNT"
PARTITIONS: Final = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}

Place: TypeAlias = tuple[Granted, Inside]
Arn: TypeAlias = Callable[[Granted, Inside], Any]
# How a text is written that may have the environment in it.
Said: TypeAlias = Callable[[str], Any]


@dataclass(frozen=True)
class Statement:
    """The grants that differ only in their place."""

    sid: str
    actions: tuple[str, ...]
    places: tuple[Place, ...]
    conditions: tuple[Condition, ...]

    def document(self, arn: Arn, said: Said = str) -> dict[str, Any]:
        """As a policy has it, with resources as `arn` spells them and the values of conditions as `said` does."""
        conditions: dict[str, dict[str, list[Any]]] = {}
        for operator, key, values in self.conditions:
            conditions.setdefault(operator, {})[key] = [said(value) for value in values]
        stated: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": [arn(resource, inside) for resource, inside in self.places],
        }
        return stated | ({"Condition": conditions} if conditions else {})


def policy_files(
    system: System,
    *,
    environment: str = "",
    region: str = REGION_PLACEHOLDER,
    account: str = ACCOUNT_PLACEHOLDER,
) -> dict[str, str]:
    """A JSON document per component, by file name; a second where one would be too long."""
    arn = plain_arn(environment, region, account, system.name)
    names = distinct((component.name for component in system.components), hyphenated, "components")
    return {
        f"{hyphenated(system.name)}-{names[component.name]}{suffix}.json": (
            json.dumps(
                policy_document(statements, arn, lambda text: in_environment(text, environment)),
                indent=2,
                ensure_ascii=False,
            )
            + "\n"
        )
        for component in system.components
        for suffix, statements in numbered(policies(component))
    }


def policy_document(statements: Iterable[Statement], arn: Arn, said: Said = str) -> dict[str, Any]:
    stated = [statement.document(arn, said) for statement in statements]
    return {"Version": POLICY_VERSION, "Statement": stated}


def plain_arn(environment: str, region: str, account: str, system: str = "") -> Arn:
    partition = next((name for start, name in PARTITIONS.items() if region.startswith(start)), "aws")

    def arn(resource: Granted, inside: Inside) -> str:
        match resource:
            case Queue():
                name = resource.physical_name(environment, dead=isinstance(inside, DeadLetters))
                return f"arn:{partition}:sqs:{region}:{account}:{name}"
            case Bucket():
                keys = f"/{inside.like}" if isinstance(inside, Keys) else ""
                return f"arn:{partition}:s3:::{resource.physical_name(environment)}{keys}"
            case EncryptionKey():
                return key_arn(resource, f"arn:{partition}:kms:{region}:{account}")
            case LoginSecret():
                # The service puts six characters of its own behind the name.
                name = secret_name(system, resource, environment)
                return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{name}-??????"
        index = f"/index/{inside.name}" if isinstance(inside, Index) else ""
        return (
            f"arn:{partition}:dynamodb:{region}:{account}:table/{resource.physical_name(environment)}{index}"
        )

    return arn


def secret_name(system: str, secret: LoginSecret, environment: str) -> str:
    """`pagw/prod/sql/api`."""
    return "/".join(filter(None, (system, environment, secret.store, secret.component)))


def key_arn(key: EncryptionKey, before: str) -> str:
    """`before` is what the ARNs of the account's keys begin with. Of an alias any key may be: a condition names it."""
    is_alias = key.name.rpartition(":")[2].startswith(ALIAS)
    return (
        key.name
        if key.name.startswith("arn:") and not is_alias
        else (f"{before}:key/{'*' if is_alias else key.name}")
    )


def numbered(several: Iterable[Any]) -> list[tuple[str, Any]]:
    """Each with what tells it from the others: nothing for the first, -part-2 for the second."""
    return [("" if place == 1 else f"-part-{place}", each) for place, each in enumerate(several, start=1)]


def policies(component: Component) -> list[tuple[Statement, ...]]:
    """What a component may do, in as few policies as it fits into; none where it declares no pattern."""
    arn = plain_arn("", REGION_PLACEHOLDER, ACCOUNT_PLACEHOLDER)
    found: list[tuple[Statement, ...]] = []
    length = POLICY_CHARACTERS_MAX
    granted = grants_of(component)
    # Each is made into statements by itself, so that reading descriptions stands apart from reading data.
    for statement in (*statements_of(granted), *statements_of(descriptions_of(granted))):
        added = len(json.dumps(statement.document(arn), separators=(",", ":")))
        if length + added > POLICY_CHARACTERS_MAX:
            found.append(())
            length = 0
        found[-1] = (*found[-1], statement)
        length += added
    return found


def statements_of(grants: Iterable[Grant]) -> list[Statement]:
    """Grants put together: the actions of one place, then the places with the same actions."""
    actions: dict[tuple[Place, frozenset[Condition]], set[str]] = {}
    for grant in grants:
        actions.setdefault(((grant.resource, grant.inside), grant.conditions), set()).add(grant.action)
    places: dict[tuple[tuple[str, ...], tuple[Condition, ...]], list[Place]] = {}
    for (place, conditions), several in actions.items():
        places.setdefault((tuple(sorted(several)), tuple(sorted(conditions))), []).append(place)
    parts = [
        (several, found[start : start + PLACES_PER_STATEMENT_MAX], conditions)
        for (several, conditions), unsorted in sorted(places.items(), key=lambda each: each[0])
        for found in [sorted(unsorted, key=_spelled_place)]
        for start in range(0, len(found), PLACES_PER_STATEMENT_MAX)
    ]
    return [
        Statement(f"Holdfast{number:02}{_told(several)}", several, tuple(found), conditions)
        for number, (several, found, conditions) in enumerate(parts, start=1)
    ]


def _told(actions: Iterable[str]) -> str:
    """All of the actions: whoever reads the id alone must not take it for less than it allows."""
    return "And".join(action.partition(":")[2] for action in actions)


def _spelled_place(place: Place) -> tuple[str, str]:
    resource, inside = place
    match inside:
        case None:
            return resource.name, ""
        case Keys():
            return resource.name, inside.like
        case DeadLetters():
            return resource.name, "dead"
    return resource.name, inside.name
