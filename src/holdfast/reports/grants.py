"""What each pattern needs to be allowed, read from the operation that its example makes.

Tables: the action, and how narrowly it can be granted:

    a partition key that is, or begins with, a constant    dynamodb:LeadingKeys
    a query that selects attributes, or only counts        dynamodb:Attributes and dynamodb:Select
    a write that stands in a transaction                   dynamodb:EnclosingOperation

Queues: sending, receiving, deleting and holding, each by itself. Objects: the keys that begin as the shelf's do, and
the key that encrypts them, where the bucket names one. SQL and the cache: the secret by which one logs in; what may be
done there is the database's to say (`sql_grants.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from holdfast.errors import DeclarationError
from holdfast.model.cache import CacheOperation
from holdfast.model.declaration import Declaration, KeyDeclaration
from holdfast.model.objects import Bucket, PutObject, Shelf, ShelfOperation
from holdfast.model.operations import EntityOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue, QueueOperation
from holdfast.model.reads import AnyQuery, BatchGet, CountOf, Paged, Parallel
from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.model.system import Component
from holdfast.model.tables import Index, Table
from holdfast.model.writes import BatchPut, Transact
from holdfast.operations.expressions import nodes
from holdfast.reports.infrastructure import ALIAS, operation_of

# What a queue is asked, by the kind of operation: a batch needs the same as one.
SQS_ACTIONS: Final = {
    "SendMessage": "sqs:SendMessage",
    "SendMessageBatch": "sqs:SendMessage",
    "ReceiveMessage": "sqs:ReceiveMessage",
    "DeleteMessage": "sqs:DeleteMessage",
    "ChangeMessageVisibility": "sqs:ChangeMessageVisibility",
}
# What is asked of the objects themselves, by the kind of operation.
S3_ACTIONS: Final = {
    "PutObject": "s3:PutObject",
    "AdoptObject": "s3:PutObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "DeleteObject": "s3:DeleteObject",
    "PutObjectLegalHold": "s3:PutObjectLegalHold",
}
# What the key of a bucket is asked.
KMS_ACTIONS: Final = {
    "PutObject": ("kms:GenerateDataKey",),
    "AdoptObject": ("kms:GenerateDataKey", "kms:Decrypt"),
    "GetObject": ("kms:Decrypt",),
}


@dataclass(frozen=True)
class EncryptionKey:
    """A key of the key service: its id, its ARN, or an alias."""

    name: str


@dataclass(frozen=True)
class LoginSecret:
    """The secret by which a component logs in to SQL, each by its own; or all of them to the cache, by one."""

    store: str
    component: str = ""

    @property
    def name(self) -> str:
        return f"{self.store}/{self.component}" if self.component else self.store


@dataclass(frozen=True)
class Keys:
    """The objects of a bucket whose keys are like this, `*` standing for any text."""

    like: str


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of a queue, and not the queue."""


# An operator, a condition key and the values it may have.
Condition: TypeAlias = tuple[str, str, tuple[str, ...]]
Granted: TypeAlias = Table | Queue[Any] | Bucket | EncryptionKey | LoginSecret
Inside: TypeAlias = Index | Keys | DeadLetters | None


@dataclass(frozen=True)
class Grant:
    """One action on one resource, or on what is inside of it, where all conditions hold."""

    action: str
    resource: Granted
    inside: Inside = None
    conditions: frozenset[Condition] = frozenset()

    def covers(self, other: Grant) -> bool:
        """Whether whoever has this needs the other no more."""
        same = (self.action, self.resource, self.inside) == (other.action, other.resource, other.inside)
        return same and self != other and self.conditions <= other.conditions


def grants_of(component: Component) -> list[Grant]:
    """What the declared patterns need, without what a wider grant covers."""
    needed = (grant for pattern in component.patterns for grant in grants_for(pattern))
    found = list(dict.fromkeys(_as_component(component, grant) for grant in needed))
    return [grant for grant in found if not any(other.covers(grant) for other in found)]


def _as_component(component: Component, grant: Grant) -> Grant:
    """In the database each is somebody of its own."""
    if grant.resource == LoginSecret("sql"):
        return replace(grant, resource=LoginSecret("sql", component.name))
    return grant


def descriptions_of(grants: Iterable[Grant]) -> Iterator[Grant]:
    """What tells of the tables and queues that are used, without an item or a message of them."""
    several = list(grants)
    for resource in dict.fromkeys(grant.resource for grant in several):
        if isinstance(resource, Table):
            yield from _table_descriptions(resource)
        elif isinstance(resource, Queue):
            is_received = Grant("sqs:ReceiveMessage", resource) in several
            yield from _queue_descriptions(resource, with_dead_letters=is_received)


def _table_descriptions(table: Table) -> Iterator[Grant]:
    yield Grant("dynamodb:DescribeTable", table)
    if table.ttl is not None:
        yield Grant("dynamodb:DescribeTimeToLive", table)
    if table.recovery:
        yield Grant("dynamodb:DescribeContinuousBackups", table)


def _queue_descriptions(queue: Queue[Any], *, with_dead_letters: bool) -> Iterator[Grant]:
    """By its name a queue's address is found; by its attributes who works it off sees how much waits, and what died."""
    for action in ("sqs:GetQueueAttributes", "sqs:GetQueueUrl"):
        yield Grant(action, queue)
        if with_dead_letters and queue.receives_max is not None:
            yield Grant(action, queue, DeadLetters())


def grants_for(pattern: Pattern[..., Any]) -> list[Grant]:
    """What one pattern needs, as its example shows it."""
    operation = operation_of(pattern)
    found = list(_grants(operation))
    if not found:
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
        case QueueOperation():
            yield Grant(SQS_ACTIONS[operation.kind], operation.queue)
        case ShelfOperation():
            yield from _on_objects(operation)
        case SqlOperation() | SqlTransact() | CacheOperation():
            yield Grant("secretsmanager:GetSecretValue", LoginSecret(operation.store))


def _on_items(
    action: str, operations: Iterable[EntityOperation[Any]], conditions: frozenset[Condition] = frozenset()
) -> Grant:
    several = list(operations)
    keys = [each.declaration.primary for each in several]
    return Grant(f"dynamodb:{action}", several[0].table, None, conditions | _leading(keys))


def _on_page(operation: Paged[Any, Any], conditions: frozenset[Condition]) -> Grant:
    if isinstance(operation, AnyQuery):
        conditions |= _leading([_key(operation.declaration, operation.index)])
    return Grant(f"dynamodb:{operation.kind}", operation.table, operation.index, conditions)


def _on_objects(operation: ShelfOperation[Any]) -> Iterator[Grant]:
    shelf, bucket = operation.shelf, operation.shelf.bucket
    if operation.kind == "ListObjectsV2":
        yield Grant("s3:ListBucket", bucket, None, _listing(f"{_literally(shelf.prefix)}*"))
        return
    keys = _keys_like(shelf, getattr(operation, "key", ""))
    yield Grant(S3_ACTIONS[operation.kind], bucket, Keys(keys))
    if _looks_first(operation):
        yield from _looking(bucket, keys)
    if operation.kind == "DeleteObject":
        # Where the object is not there, it is looked whether the bucket is, which asks for no prefix.
        yield Grant("s3:ListBucket", bucket)
    if operation.kind == "DeleteObject" and (bucket.holds or bucket.versions):
        # Where there are versions, every one of them is deleted.
        yield Grant("s3:DeleteObjectVersion", bucket, Keys(keys))
        yield Grant("s3:GetObjectVersion", bucket, Keys(keys))
        yield Grant("s3:ListBucketVersions", bucket, None, _listing(keys))
    for action in KMS_ACTIONS.get(operation.kind, ()):
        yield from _on_encryption_key(action, bucket)


def _looks_first(operation: ShelfOperation[Any]) -> bool:
    """Whether it is looked if there is an object, and if it is held: before one is replaced or deleted too."""
    if isinstance(operation, PutObject):
        return not operation.create_only
    return operation.kind in ("AdoptObject", "GetObject", "HeadObject", "DeleteObject")


def _looking(bucket: Bucket, keys: str) -> Iterator[Grant]:
    yield Grant("s3:GetObject", bucket, Keys(keys))
    # Without it the service answers for a key that is not there that access is denied. The key is the prefix then.
    yield Grant("s3:ListBucket", bucket, None, _listing(keys))
    if bucket.holds:
        yield Grant("s3:GetObjectLegalHold", bucket, Keys(keys))


def _listing(keys: str) -> frozenset[Condition]:
    """Listing only what is one of the keys, or begins as they do."""
    return frozenset({("StringLike", "s3:prefix", (keys,))})


def _keys_like(shelf: Shelf, key: str) -> str:
    """The keys that begin with the text before the shelf's first field; where there is none, those with the same texts
    between their fields, unless the operation is about a key of another kind. A shelf without fields has one key.
    """
    if shelf.prefix or not shelf.fields:
        return f"{_literally(shelf.prefix)}*" if shelf.fields else _literally(shelf.template)
    shape = "".join(re.escape(part.before) + (".*" if part.name else "") for part in shelf.parts)
    if not re.fullmatch(shape, key):
        return "*"
    return "".join(_literally(part.before) + ("*" if part.name else "") for part in shelf.parts)


def _on_encryption_key(action: str, bucket: Bucket) -> Iterator[Grant]:
    """Only where the bucket names a key: the service's own lets in whoever may use the bucket.

    A policy cannot name an alias as a resource; a condition says that it must be a key of that alias.
    """
    if bucket.kms_key is None:
        return
    alias = bucket.kms_key.rpartition(":")[2]
    is_alias = alias.startswith(ALIAS)
    conditions = {("ForAnyValue:StringEquals", "kms:ResourceAliases", (alias,))} if is_alias else set()
    yield Grant(action, EncryptionKey(bucket.kms_key), None, frozenset(conditions))


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
