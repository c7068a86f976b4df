"""The permissions that each pattern needs, derived from the operation that its example builds.

Tables: the action, and how narrowly it can be granted:

    a partition key that is, or begins with, a constant    dynamodb:LeadingKeys
    a query that selects attributes, or only counts        dynamodb:Attributes and dynamodb:Select
    a write that is part of a transaction                  dynamodb:EnclosingOperation

Queues: send, receive, delete and change visibility, each separately. Objects: the keys with the prefix of
their object kind, and the encryption key if the bucket names one. SQL and the cache: the secret to log in
with; the database itself grants the rest (`sql_grants.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from holdfast.core.errors import DeclarationError
from holdfast.model.cache import CacheOperation
from holdfast.model.components import Component
from holdfast.model.entities.declaration import Declaration, KeyDeclaration
from holdfast.model.entities.reads import BaseQuery, BatchGet, CountQuery, PagedRead, ParallelQuery
from holdfast.model.entities.writes import BatchPut, Transact
from holdfast.model.objects import Bucket, ObjectKind, ObjectOperation, PutObject
from holdfast.model.operations import EntityOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue, QueueOperation
from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.model.tables import Index, Table
from holdfast.operations.expressions import nodes
from holdfast.reports.iac.infrastructure import ALIAS_PREFIX, build_example_operation

# The SQS permission of each kind of operation: a batch needs the same as a single call.
SQS_ACTIONS: Final = {
    "SendMessage": "sqs:SendMessage",
    "SendMessageBatch": "sqs:SendMessage",
    "ReceiveMessage": "sqs:ReceiveMessage",
    "DeleteMessage": "sqs:DeleteMessage",
    "ChangeMessageVisibility": "sqs:ChangeMessageVisibility",
}
# The S3 permission on objects of each kind of operation.
S3_ACTIONS: Final = {
    "PutObject": "s3:PutObject",
    "AdoptObject": "s3:PutObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "DeleteObject": "s3:DeleteObject",
    "PutObjectLegalHold": "s3:PutObjectLegalHold",
}
# The permissions on the bucket's KMS key of each kind of operation.
KMS_ACTIONS: Final = {
    "PutObject": ("kms:GenerateDataKey",),
    "AdoptObject": ("kms:GenerateDataKey", "kms:Decrypt"),
    "GetObject": ("kms:Decrypt",),
}


@dataclass(frozen=True)
class EncryptionKey:
    """A KMS key: its id, its ARN, or an alias."""

    name: str


@dataclass(frozen=True)
class LoginSecret:
    """A secret to log in with: one per component for SQL, one for all components for the cache."""

    store: str
    component: str = ""

    @property
    def name(self) -> str:
        """The store, with the component if the secret belongs to one."""
        return f"{self.store}/{self.component}" if self.component else self.store


@dataclass(frozen=True)
class KeyPattern:
    """The objects of a bucket whose keys match a pattern; `*` matches any text."""

    glob: str


@dataclass(frozen=True)
class DeadLetters:
    """The dead-letter queue of a queue, without the queue itself."""


# An operator, a condition key and its allowed values.
Condition: TypeAlias = tuple[str, str, tuple[str, ...]]
GrantableResource: TypeAlias = Table | Queue[Any] | Bucket | EncryptionKey | LoginSecret
SubResource: TypeAlias = Index | KeyPattern | DeadLetters | None


@dataclass(frozen=True)
class Grant:
    """Permission for one action on a resource, or on a part of it, if all conditions hold."""

    action: str
    resource: GrantableResource
    sub_resource: SubResource = None
    conditions: frozenset[Condition] = frozenset()

    def covers(self, other: Grant) -> bool:
        """Return True if this grant makes the other one unnecessary."""
        same = (self.action, self.resource, self.sub_resource) == (
            other.action,
            other.resource,
            other.sub_resource,
        )
        return same and self != other and self.conditions <= other.conditions


def list_grants(component: Component) -> list[Grant]:
    """Return the grants that the component's patterns need, without those that a wider grant covers."""
    needed = (grant for pattern in component.patterns for grant in list_pattern_grants(pattern))
    found = list(dict.fromkeys(_bind_to_component(component, grant) for grant in needed))
    return [grant for grant in found if not any(other.covers(grant) for other in found)]


def _bind_to_component(component: Component, grant: Grant) -> Grant:
    """Replace the SQL login secret by the component's own."""
    if grant.resource == LoginSecret("sql"):
        return replace(grant, resource=LoginSecret("sql", component.name))
    return grant


def build_description_grants(grants: Iterable[Grant]) -> Iterator[Grant]:
    """Yield the grants to describe the used tables and queues, which expose no items or messages."""
    several = list(grants)
    for resource in dict.fromkeys(grant.resource for grant in several):
        if isinstance(resource, Table):
            yield from _build_table_descriptions(resource)
        elif isinstance(resource, Queue):
            is_received = Grant("sqs:ReceiveMessage", resource) in several
            yield from _build_queue_descriptions(resource, with_dead_letters=is_received)


def _build_table_descriptions(table: Table) -> Iterator[Grant]:
    """Yield the grants to describe a table, its TTL and its continuous backups, as far as it has them."""
    yield Grant("dynamodb:DescribeTable", table)
    if table.ttl is not None:
        yield Grant("dynamodb:DescribeTimeToLive", table)
    if table.point_in_time_recovery:
        yield Grant("dynamodb:DescribeContinuousBackups", table)


def _build_queue_descriptions(queue: Queue[Any], *, with_dead_letters: bool) -> Iterator[Grant]:
    """Yield the grants to find a queue's URL and read its message counts.

    A consumer also reads those of the dead-letter queue.
    """
    for action in ("sqs:GetQueueAttributes", "sqs:GetQueueUrl"):
        yield Grant(action, queue)
        if with_dead_letters and queue.max_receives is not None:
            yield Grant(action, queue, DeadLetters())


def list_pattern_grants(pattern: Pattern[..., Any]) -> list[Grant]:
    """Return the grants that one pattern needs. Raise `DeclarationError` if its example uses no resource."""
    operation = build_example_operation(pattern)
    found = list(_build_grants(operation))
    if not found:
        raise DeclarationError(
            f"The example of the pattern {pattern.id} ({pattern.name}) builds an operation on no table, so "
            "its permissions are unknown. Give it an example with at least one key or item."
        )
    return found


def _build_grants(operation: Operation[Any]) -> Iterator[Grant]:
    """Yield the grants that an operation and its parts need; none for an empty batch."""
    match operation:
        case Transact():
            enclosed = ("ForAnyValue:StringEquals", "dynamodb:EnclosingOperation", (operation.kind,))
            for action in operation.actions:
                yield _grant_items(action.kind, [action], frozenset({enclosed}))
        case BatchPut():
            yield from [_grant_items(operation.kind, operation.puts)] if operation.puts else []
        case BatchGet():
            yield from [_grant_items(operation.kind, operation.gets)] if operation.gets else []
        case ParallelQuery():
            for query in operation.queries:
                yield from _build_grants(query)
        case CountQuery():
            yield _grant_page(operation.query, _limit_to_count(operation.query))
        case PagedRead():
            yield _grant_page(operation, _limit_attributes(operation))
        case EntityOperation():
            yield _grant_items(operation.kind, [operation])
        case QueueOperation():
            yield Grant(SQS_ACTIONS[operation.kind], operation.queue)
        case ObjectOperation():
            yield from _grant_objects(operation)
        case SqlOperation() | SqlTransact() | CacheOperation():
            yield Grant("secretsmanager:GetSecretValue", LoginSecret(operation.store))


def _grant_items(
    action: str, operations: Iterable[EntityOperation[Any]], conditions: frozenset[Condition] = frozenset()
) -> Grant:
    """Return the grant for an action on items of one table, limited to constant partition keys if
    possible.
    """
    several = list(operations)
    keys = [each.declaration.primary for each in several]
    return Grant(f"dynamodb:{action}", several[0].table, None, conditions | _limit_leading_keys(keys))


def _grant_page(operation: PagedRead[Any, Any], conditions: frozenset[Condition]) -> Grant:
    """Return the grant for a query or scan of a table or index, limited by these conditions and by constant
    keys.
    """
    if isinstance(operation, BaseQuery):
        conditions |= _limit_leading_keys([_find_key_declaration(operation.declaration, operation.index)])
    return Grant(f"dynamodb:{operation.kind}", operation.table, operation.index, conditions)


def _grant_objects(operation: ObjectOperation[Any]) -> Iterator[Grant]:
    """Yield the grants of an object operation: the objects, the lookups around it, and the encryption key."""
    shelf, bucket = operation.object_kind, operation.object_kind.bucket
    if operation.kind == "ListObjectsV2":
        yield Grant("s3:ListBucket", bucket, None, _limit_to_prefix(f"{_escape_wildcards(shelf.prefix)}*"))
        return
    keys = _build_key_glob(shelf, getattr(operation, "key", ""))
    yield Grant(S3_ACTIONS[operation.kind], bucket, KeyPattern(keys))
    if _reads_before_write(operation):
        yield from _grant_object_lookup(bucket, keys)
    if operation.kind == "DeleteObject":
        # If the object is missing, the engine checks that the bucket exists: a list without a prefix.
        yield Grant("s3:ListBucket", bucket)
    if operation.kind == "DeleteObject" and (bucket.legal_holds or bucket.versions):
        # In a bucket with versions, every version is deleted.
        yield Grant("s3:DeleteObjectVersion", bucket, KeyPattern(keys))
        yield Grant("s3:GetObjectVersion", bucket, KeyPattern(keys))
        yield Grant("s3:ListBucketVersions", bucket, None, _limit_to_prefix(keys))
    for action in KMS_ACTIONS.get(operation.kind, ()):
        yield from _grant_encryption_key(action, bucket)


def _reads_before_write(operation: ObjectOperation[Any]) -> bool:
    """Return True if the operation reads whether the object exists and has a legal hold."""
    if isinstance(operation, PutObject):
        return not operation.create_only
    return operation.kind in ("AdoptObject", "GetObject", "HeadObject", "DeleteObject")


def _grant_object_lookup(bucket: Bucket, keys: str) -> Iterator[Grant]:
    """Yield the grants to find out whether an object exists and has a legal hold."""
    yield Grant("s3:GetObject", bucket, KeyPattern(keys))
    # Without it S3 answers AccessDenied for a missing key. The prefix is the key itself.
    yield Grant("s3:ListBucket", bucket, None, _limit_to_prefix(keys))
    if bucket.legal_holds:
        yield Grant("s3:GetObjectLegalHold", bucket, KeyPattern(keys))


def _limit_to_prefix(keys: str) -> frozenset[Condition]:
    """Limit a list permission to the keys or the prefix."""
    return frozenset({("StringLike", "s3:prefix", (keys,))})


def _build_key_glob(object_kind: ObjectKind, key: str) -> str:
    """Return a pattern for the keys of an object kind: its constant prefix and `*`.

    Without a prefix, the constant texts between its fields, unless the operation is on a key of another form.
    An object kind without fields has one key.
    """
    if object_kind.prefix or not object_kind.fields:
        return (
            f"{_escape_wildcards(object_kind.prefix)}*"
            if object_kind.fields
            else _escape_wildcards(object_kind.template)
        )
    shape = "".join(re.escape(part.before) + (".*" if part.name else "") for part in object_kind.parts)
    if not re.fullmatch(shape, key):
        return "*"
    return "".join(_escape_wildcards(part.before) + ("*" if part.name else "") for part in object_kind.parts)


def _grant_encryption_key(action: str, bucket: Bucket) -> Iterator[Grant]:
    """Yield the grant on the bucket's KMS key, if it names one; AWS's own key needs no grant.

    A policy cannot name an alias as a resource; a condition requires a key with that alias.
    """
    if bucket.kms_key is None:
        return
    alias = bucket.kms_key.rpartition(":")[2]
    is_alias = alias.startswith(ALIAS_PREFIX)
    conditions = {("ForAnyValue:StringEquals", "kms:ResourceAliases", (alias,))} if is_alias else set()
    yield Grant(action, EncryptionKey(bucket.kms_key), None, frozenset(conditions))


def _find_key_declaration(declaration: Declaration, index: Index | None) -> KeyDeclaration:
    """Return the entity's key in the index, or its primary key."""
    return next((key for key in declaration.indexes if key.index is index), declaration.primary)


def _limit_leading_keys(keys: Iterable[KeyDeclaration]) -> frozenset[Condition]:
    """Return a condition on the partition keys if all of them begin with a constant; otherwise no
    condition.
    """
    partitions = [key.partition for key in keys]
    if not all(partition.constant_prefix for partition in partitions):
        return frozenset()
    values = {_escape_wildcards(each.constant_prefix) + ("*" if each.slots else "") for each in partitions}
    return frozenset({("ForAllValues:StringLike", "dynamodb:LeadingKeys", tuple(sorted(values)))})


def _limit_to_count(query: PagedRead[Any, Any]) -> frozenset[Condition]:
    """Return a condition that allows only COUNT; none if the TTL attribute is a key.

    In that case the query must read the items to skip expired ones.
    """
    keys = {query.table.partition, query.table.sort} if query.index is None else _get_index_keys(query.index)
    if query.table.ttl in keys - {None}:
        return frozenset()
    return frozenset({("StringEquals", "dynamodb:Select", ("COUNT",))})


def _limit_attributes(query: PagedRead[Any, Any]) -> frozenset[Condition]:
    """Return conditions that allow only the selected attributes, the keys, the TTL attribute and the
    filter's.

    A query that selects nothing gets no condition.
    """
    if not query.selected:
        return frozenset()
    named = {query.table.partition, query.table.sort, query.table.ttl, *_get_index_keys(query.index)}
    names = {*query.selected, *_iter_attributes(query.filter), *(name for name in named if name is not None)}
    return frozenset(
        {
            ("ForAllValues:StringEquals", "dynamodb:Attributes", tuple(sorted(names))),
            ("StringEqualsIfExists", "dynamodb:Select", ("SPECIFIC_ATTRIBUTES",)),
        }
    )


def _get_index_keys(index: Index | None) -> set[str | None]:
    return set() if index is None else {index.partition, index.sort}


def _iter_attributes(node: object) -> Iterator[str]:
    """Yield the attributes that a filter names."""
    if isinstance(node, nodes.Path):
        yield node.root
    elif isinstance(node, tuple):
        for each in node:
            yield from _iter_attributes(each)
    elif hasattr(node, "__struct_fields__"):
        for name in node.__struct_fields__:
            yield from _iter_attributes(getattr(node, name))


def _escape_wildcards(text: str) -> str:
    """Escape the text so that IAM reads no wildcard and no variable in it."""
    return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", text)
