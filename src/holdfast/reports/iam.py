"""The least privilege of each component, as IAM policies.

Every pattern that a component declares is called with its example; what the operation is says which action on
which table or index it takes, and how narrowly that can be granted:

    a partition key that is, or begins with, a constant    dynamodb:LeadingKeys
    a query that selects attributes, or only counts        dynamodb:Attributes and dynamodb:Select
    a write that stands in a transaction                   dynamodb:EnclosingOperation

Statements of their own let it describe the tables that it uses: a host looks whether they are there and how far
their indexes are, and a reader in which attribute the end of an item's life stands. A description has no items.

Nothing is granted by a wildcard action, and nothing that no pattern asks for. CloudFormation and Terraform take
the same statements and write the resources their own way. The file itself is used where neither is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from holdfast.errors import DeclarationError
from holdfast.model.declaration import Declaration, KeyDeclaration
from holdfast.model.operations import EntityOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.reads import AnyQuery, BatchGet, CountOf, Paged, Parallel
from holdfast.model.system import Component, System
from holdfast.model.tables import Index, Table
from holdfast.model.writes import BatchPut, Transact
from holdfast.operations.expressions import nodes
from holdfast.reports.infrastructure import distinct, hyphenated, operation_of

POLICY_VERSION: Final = "2012-10-17"
# A managed policy may have 6,144 characters without white space; physical names are longer than placeholders.
POLICY_CHARACTERS_MAX: Final = 5_000
PLACES_PER_STATEMENT_MAX: Final = 20
# What stands for a region or an account that was not named: a policy that grants nothing until it is.
REGION_PLACEHOLDER: Final = "REGION"
ACCOUNT_PLACEHOLDER: Final = "ACCOUNT"
PARTITIONS: Final = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}

# An operator, a condition key and the values it may have.
Condition: TypeAlias = tuple[str, str, tuple[str, ...]]
Place: TypeAlias = tuple[Table, Index | None]
Arn: TypeAlias = Callable[[Table, Index | None], Any]


@dataclass(frozen=True)
class Grant:
    """One action on one table or index, where all conditions hold."""

    action: str
    table: Table
    index: Index | None = None
    conditions: frozenset[Condition] = frozenset()

    def covers(self, other: Grant) -> bool:
        """Whether whoever has this needs the other no more."""
        same = (self.action, self.table, self.index) == (other.action, other.table, other.index)
        return same and self != other and self.conditions <= other.conditions


@dataclass(frozen=True)
class Statement:
    """The grants that differ only in their place."""

    sid: str
    actions: tuple[str, ...]
    places: tuple[Place, ...]
    conditions: tuple[Condition, ...]

    def document(self, arn: Arn) -> dict[str, Any]:
        """As a policy has it, with resources as `arn` spells them."""
        conditions: dict[str, dict[str, list[str]]] = {}
        for operator, key, values in self.conditions:
            conditions.setdefault(operator, {})[key] = list(values)
        stated: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": [f"dynamodb:{action}" for action in self.actions],
            "Resource": [arn(table, index) for table, index in self.places],
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
    arn = plain_arn(environment, region, account)
    names = distinct((component.name for component in system.components), hyphenated, "components")
    return {
        f"{hyphenated(system.name)}-{names[component.name]}{suffix}.json": (
            json.dumps(policy_document(statements, arn), indent=2, ensure_ascii=False) + "\n"
        )
        for component in system.components
        for suffix, statements in numbered(policies(component))
    }


def policy_document(statements: Iterable[Statement], arn: Arn) -> dict[str, Any]:
    return {"Version": POLICY_VERSION, "Statement": [statement.document(arn) for statement in statements]}


def plain_arn(environment: str, region: str, account: str) -> Arn:
    partition = next((name for start, name in PARTITIONS.items() if region.startswith(start)), "aws")

    def arn(table: Table, index: Index | None) -> str:
        inside = "" if index is None else f"/index/{index.name}"
        return f"arn:{partition}:dynamodb:{region}:{account}:table/{table.physical_name(environment)}{inside}"

    return arn


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
        actions.setdefault(((grant.table, grant.index), grant.conditions), set()).add(grant.action)
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
        Statement(f"Holdfast{number:02}{several[0]}", several, tuple(found), conditions)
        for number, (several, found, conditions) in enumerate(parts, start=1)
    ]


def grants_of(component: Component) -> list[Grant]:
    """What the declared patterns need, without what a wider grant covers."""
    found = list(dict.fromkeys(grant for pattern in component.patterns for grant in grants_for(pattern)))
    return [grant for grant in found if not any(other.covers(grant) for other in found)]


def descriptions_of(grants: Iterable[Grant]) -> Iterator[Grant]:
    """What tells of the tables that are used, without an item of them."""
    for table in dict.fromkeys(grant.table for grant in grants):
        yield Grant("DescribeTable", table)
        if table.ttl is not None:
            yield Grant("DescribeTimeToLive", table)
        if table.recovery:
            yield Grant("DescribeContinuousBackups", table)


def grants_for(pattern: Pattern[..., Any]) -> list[Grant]:
    """What one pattern needs, as its example shows it; nothing here, if it is for another store than tables."""
    operation = operation_of(pattern)
    found = list(_grants(operation))
    if not found and operation.store == "tables":
        raise DeclarationError(
            f"The example of the pattern {pattern.id} ({pattern.name}) makes an operation on no table, so that nothing "
            "can be told of it: give it an example with one key or item at least."
        )
    return found


def _grants(operation: Operation[Any]) -> Iterator[Grant]:
    match operation:
        case Transact():
            enclosed = ("ForAnyValue:StringEquals", "dynamodb:EnclosingOperation", (operation.kind,))
            for action in operation.actions:
                yield _on_items(action.kind, [action], frozenset({enclosed}))
        case BatchPut():
            yield from [_on_items(operation.kind, operation.puts)] if operation.puts else []
        case BatchGet():
            yield from [_on_items(operation.kind, operation.gets)] if operation.gets else []
        case Parallel():
            for query in operation.queries:
                yield from _grants(query)
        case CountOf():
            yield _on_page(operation.query, _counting(operation.query))
        case Paged():
            yield _on_page(operation, _selecting(operation))
        case EntityOperation():
            yield _on_items(operation.kind, [operation])


def _on_items(
    action: str, operations: Iterable[EntityOperation[Any]], conditions: frozenset[Condition] = frozenset()
) -> Grant:
    several = list(operations)
    keys = [each.declaration.primary for each in several]
    return Grant(action, several[0].table, None, conditions | _leading(keys))


def _on_page(operation: Paged[Any, Any], conditions: frozenset[Condition]) -> Grant:
    if isinstance(operation, AnyQuery):
        conditions |= _leading([_key(operation.declaration, operation.index)])
    return Grant(operation.kind, operation.table, operation.index, conditions)


def _key(declaration: Declaration, index: Index | None) -> KeyDeclaration:
    return next((key for key in declaration.indexes if key.index is index), declaration.primary)


def _leading(keys: Iterable[KeyDeclaration]) -> frozenset[Condition]:
    """The partition keys that may be named, where all of them begin with a constant."""
    partitions = [key.partition for key in keys]
    if not all(partition.start for partition in partitions):
        return frozenset()
    values = {_literally(each.start) + ("*" if each.slots else "") for each in partitions}
    return frozenset({("ForAllValues:StringLike", "dynamodb:LeadingKeys", tuple(sorted(values)))})


def _counting(query: Paged[Any, Any]) -> frozenset[Condition]:
    """Only the count; unless expired items can be told only by looking at them, because the end of life is a key."""
    keys = {query.table.partition, query.table.sort} if query.index is None else _keys_of(query.index)
    if query.table.ttl in keys - {None}:
        return frozenset()
    return frozenset({("StringEquals", "dynamodb:Select", ("COUNT",))})


def _selecting(query: Paged[Any, Any]) -> frozenset[Condition]:
    """The attributes that are selected, and those a request must name beside them: keys and what it filters by."""
    if not query.selected:
        return frozenset()
    named = {query.table.partition, query.table.sort, query.table.ttl, *_keys_of(query.index)}
    names = {*query.selected, *_attributes_in(query.filter), *(name for name in named if name is not None)}
    return frozenset(
        {
            ("ForAllValues:StringEquals", "dynamodb:Attributes", tuple(sorted(names))),
            ("StringEqualsIfExists", "dynamodb:Select", ("SPECIFIC_ATTRIBUTES",)),
        }
    )


def _keys_of(index: Index | None) -> set[str | None]:
    return set() if index is None else {index.partition, index.sort}


def _attributes_in(node: object) -> Iterator[str]:
    """The attributes that a filter names."""
    if isinstance(node, nodes.Path):
        yield node.root
    elif isinstance(node, tuple):
        for each in node:
            yield from _attributes_in(each)
    elif hasattr(node, "__struct_fields__"):
        for name in node.__struct_fields__:
            yield from _attributes_in(getattr(node, name))


def _literally(text: str) -> str:
    """A text in which IAM reads no wildcard and no variable."""
    return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", text)


def _spelled_place(place: Place) -> tuple[str, str]:
    return place[0].name, "" if place[1] is None else place[1].name
