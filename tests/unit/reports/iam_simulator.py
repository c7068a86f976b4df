"""A small reading of IAM: whether policies allow what a request asks for, by the rules that ours use.

The requests are those that the runtime really sends when a pattern runs: nothing here asks the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast import Pattern, Stores, System, open_memory_stores
from holdfast.core.errors import AccessRefused, HoldfastError, NotFound
from holdfast.model.entities.writes import ConditionCheck, transact
from holdfast.model.objects import Bucket
from holdfast.operations import cache, objects, queues, sql
from holdfast.operations import tables as requests
from holdfast.runtime import create_tables
from holdfast.runtime.engines import Engines


@dataclass(frozen=True)
class Asked:
    """One action on one resource, with what the service tells IAM of the request."""

    action: str
    resource: str
    context: dict[str, list[str]] = field(default_factory=dict, hash=False)


class Recorder:
    """An engine that writes down what it is asked."""

    def __init__(self, tables: Any) -> None:
        self.tables = tables
        self.seen: list[Any] = []

    async def run(self, operation: Any) -> Any:
        self.seen.append(operation)
        return await self.tables.run(operation)


class Guarded:
    """An engine that does what policies allow and refuses the rest as the service does."""

    def __init__(self, tables: Any, system: System, policies: list[dict[str, Any]]) -> None:
        self.tables, self.system, self.policies = tables, system, policies
        self.refused: list[Asked] = []

    async def run(self, operation: Any) -> Any:
        for each in _asked_of(self.system, operation):
            if not allows(self.policies, each):
                self.refused.append(each)
                raise AccessRefused(
                    "AccessDeniedException", f"User is not authorized to perform: {each.action}"
                )
        return await self.tables.run(operation)


class Unserved:
    """An engine of queues or objects that writes down what it is asked and has nothing."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    async def run(self, operation: Any) -> Any:
        self.seen.append(operation)
        raise NotFound("There is nothing here.")

    def close(self) -> None: ...


async def asked_by_pattern(system: System) -> dict[str, list[Asked]]:
    """What every pattern asks for when it is run with its example, by id."""
    stores = open_memory_stores(system)
    async with stores:
        await create_tables(stores, system.tables)
        return {each.id: await _asked(stores, system, each) for each in system.patterns}


async def _asked(stores: Stores, system: System, pattern: Pattern[..., Any]) -> list[Asked]:
    recorder = Recorder(stores.tables)
    unserved = Unserved(recorder.seen)
    engines = Engines(dict.fromkeys(("queues", "objects", "sql", "cache"), lambda: unserved))
    recording = Stores(recorder, system=system, engines=engines)
    try:
        example = pattern.build_example()
        await recording.run(transact(example) if isinstance(example, ConditionCheck) else example)
    except HoldfastError:
        pass  # the example's item is not there: what was asked is what counts
    return [each for request in recorder.seen for each in _asked_of(system, request)]


def _asked_of(system: System, request: Any) -> Iterator[Asked]:
    match request:
        case requests.TransactWriteItems():
            for action in request.actions:
                for each in _asked_of(system, action):
                    enclosing = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
                    yield Asked(each.action, each.resource, each.context | enclosing)
        case requests.BatchGetItem():
            for part in request.requests:
                yield _on_items(system, "BatchGetItem", part.table, part.keys)
        case requests.BatchWriteItem():
            tables = {write.table for write in request.writes}
            for table in tables:
                yield _on_items(system, "BatchWriteItem", table, [_of(write) for write in request.writes])
        case requests.Query() | requests.Scan():
            yield _page(request)
        case requests.DescribeTable() | requests.DescribeTimeToLive() | requests.DescribeContinuousBackups():
            yield Asked(type(request).__name__, f"table/{request.table}")
        case requests.ConditionCheck():
            yield _on_items(system, "ConditionCheckItem", request.table, [request.key])
        case requests.CreateTable():
            yield Asked("CreateTable", f"table/{request.definition.name}")
        case requests.ListTables():
            yield Asked("ListTables", "*")
        case queues.Operation():
            yield from _asked_of_queue(request)
        case objects.AdoptObject():
            yield from _asked_of_objects(system, request.put)
            yield from _asked_of_objects(system, objects.GetObject(request.put.bucket, request.put.key))
        case objects.Operation():
            yield from _asked_of_objects(system, request)
        case sql.Statement():
            yield Asked("secretsmanager:GetSecretValue", f"secret:{system.name}/sql/")
        case cache.Operation():
            yield Asked("secretsmanager:GetSecretValue", f"secret:{system.name}/cache-")
        case _:
            yield _on_items(system, type(request).__name__, request.table, [_of(request)])


def _asked_of_queue(request: Any) -> Iterator[Asked]:
    """The queue's address is asked for by its name; batches need what one message needs."""
    actions: dict[type[Any], str] = {
        queues.SendMessages: "sqs:SendMessage",
        queues.ReceiveMessages: "sqs:ReceiveMessage",
        queues.DeleteMessages: "sqs:DeleteMessage",
        queues.ChangeVisibility: "sqs:ChangeMessageVisibility",
        queues.DescribeQueue: "sqs:GetQueueAttributes",
    }
    yield Asked("sqs:GetQueueUrl", request.queue)
    yield Asked(actions[type(request)], request.queue)


def _asked_of_objects(system: System, request: Any) -> Iterator[Asked]:
    """What the S3 engine asks, one request after the other, of a bucket with or without holds and a key."""
    [bucket] = [each for each in system.buckets if each.physical_name("") == request.bucket]
    if isinstance(request, objects.ListObjects):
        yield Asked("s3:ListBucket", request.bucket, {"s3:prefix": [request.prefix]})
        return
    place = f"{request.bucket}/{request.key}"
    looks = not isinstance(request, objects.SetLegalHold) and not getattr(request, "create_only", False)
    if looks:
        yield Asked("s3:GetObject", place)
        # So that a key that is not there is told as such; the service takes the key for the prefix.
        yield Asked("s3:ListBucket", request.bucket, {"s3:prefix": [request.key]})
        if bucket.legal_holds:
            yield Asked("s3:GetObjectLegalHold", place)
    match request:
        case objects.PutObject():
            yield Asked("s3:PutObject", place)
            yield from _asked_of_key(bucket, "kms:GenerateDataKey")
        case objects.GetObject():
            yield from _asked_of_key(bucket, "kms:Decrypt")
        case objects.SetLegalHold():
            yield Asked("s3:PutObjectLegalHold", place)
        case objects.DeleteObject():
            yield Asked("s3:DeleteObject", place)
            yield Asked("s3:ListBucket", request.bucket)  # HeadBucket, where the object is not there
            if bucket.legal_holds or bucket.versions:
                yield Asked("s3:ListBucketVersions", request.bucket, {"s3:prefix": [request.key]})
                yield Asked("s3:DeleteObjectVersion", place)


def _asked_of_key(bucket: Bucket, action: str) -> Iterator[Asked]:
    if bucket.kms_key is not None:
        yield Asked(action, "key/1234", {"kms:ResourceAliases": [str(bucket.physical_kms_key(""))]})


def _of(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(request, "item", None) or request.key
    return found


def _on_items(system: System, action: str, table: str, items: Any) -> Asked:
    partition = next(each.partition for each in system.tables if each.physical_name("") == table)
    return Asked(action, f"table/{table}", {"dynamodb:LeadingKeys": [str(item[partition]) for item in items]})


def _page(request: Any) -> Asked:
    inside = f"/index/{request.index}" if request.index else ""
    context: dict[str, list[str]] = {}
    if isinstance(request, requests.Query):
        context["dynamodb:LeadingKeys"] = [str(request.key_condition[0].values[0])]
    if request.projection:
        context["dynamodb:Attributes"] = [path.root for path in request.projection]
    select = "SPECIFIC_ATTRIBUTES" if request.projection else "ALL_ATTRIBUTES"
    context["dynamodb:Select"] = [request.select or select]
    return Asked(type(request).__name__, f"table/{request.table}{inside}", context)


def allows(policies: list[dict[str, Any]], asked: Asked) -> bool:
    return any(_matches(statement, asked) for policy in policies for statement in policy["Statement"])


def _matches(statement: dict[str, Any], asked: Asked) -> bool:
    assert statement["Effect"] == "Allow"
    action = asked.action if ":" in asked.action else f"dynamodb:{asked.action}"
    is_action = action in statement["Action"]
    is_resource = any(_is_meant(arn.split(":", 5)[5], asked) for arn in statement["Resource"])
    conditions = statement.get("Condition", {})
    return (
        is_action
        and is_resource
        and all(
            _holds(operator, values, asked.context.get(key, []))
            for operator, block in conditions.items()
            for key, values in block.items()
        )
    )


def _is_meant(granted: str, asked: Asked) -> bool:
    """Only objects and keys are granted by a wildcard; a secret has its component and six characters behind its name."""
    if asked.action.startswith("secretsmanager:"):
        return granted.startswith(asked.resource)
    return _like(granted, asked.resource) if asked.action[:3] in ("s3:", "kms") else granted == asked.resource


def _holds(operator: str, allowed: list[str], found: list[str]) -> bool:
    match operator:
        case "ForAllValues:StringLike":
            return all(any(_like(pattern, value) for pattern in allowed) for value in found)
        case "ForAllValues:StringEquals":
            return set(found) <= set(allowed)
        case "ForAnyValue:StringEquals":
            return bool(set(found) & set(allowed))
        case "StringLike":
            return bool(found) and all(any(_like(pattern, value) for pattern in allowed) for value in found)
        case "StringEquals":
            return bool(found) and set(found) <= set(allowed)
        case "StringEqualsIfExists":
            return set(found) <= set(allowed)
    raise AssertionError(f"{operator} is not known here")


def _like(pattern: str, value: str) -> bool:
    """`*` is any text; `${*}` is a star."""
    words = re.split(r"(\$\{[*?$]\}|\*)", pattern)
    text = "".join(
        ".*" if word == "*" else re.escape(word[2]) if re.fullmatch(r"\$\{.\}", word) else re.escape(word)
        for word in words
    )
    return re.fullmatch(text, value) is not None
