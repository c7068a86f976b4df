"""A small IAM simulator for tests: it decides whether policies allow a request.

It knows only the rules that our policies use. The requests are those that the runtime sends when a pattern
runs; the simulator never asks the report.
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
class RequestedAction:
    """One action on one resource, with the condition keys that the service passes to IAM."""

    action: str
    resource: str
    context: dict[str, list[str]] = field(default_factory=dict, hash=False)


class Recorder:
    """Tables engine that records its requests."""

    def __init__(self, tables: Any) -> None:
        self.tables = tables
        self.seen: list[Any] = []

    async def run(self, operation: Any) -> Any:
        self.seen.append(operation)
        return await self.tables.run(operation)


class GuardedTables:
    """Tables engine that runs what policies allow and refuses the rest as the service does."""

    def __init__(self, tables: Any, system: System, policies: list[dict[str, Any]]) -> None:
        self.tables, self.system, self.policies = tables, system, policies
        self.refused: list[RequestedAction] = []

    async def run(self, operation: Any) -> Any:
        """Run the operation if the policies allow all its actions; otherwise note and refuse the first other
        one.
        """
        for each in _list_actions(self.system, operation):
            if not is_allowed(self.policies, each):
                self.refused.append(each)
                raise AccessRefused(
                    "AccessDeniedException", f"User is not authorized to perform: {each.action}"
                )
        return await self.tables.run(operation)


class EmptyEngine:
    """Engine of the other stores that records its requests and raises `NotFound` for each."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    async def run(self, operation: Any) -> Any:
        self.seen.append(operation)
        raise NotFound("There is nothing here.")

    def close(self) -> None: ...


async def record_actions_by_pattern(system: System) -> dict[str, list[RequestedAction]]:
    """Run every pattern with its example and return its requested actions by pattern id."""
    stores = open_memory_stores(system)
    async with stores:
        await create_tables(stores, system.tables)
        return {each.id: await _record_actions(stores, system, each) for each in system.patterns}


async def _record_actions(
    stores: Stores, system: System, pattern: Pattern[..., Any]
) -> list[RequestedAction]:
    """Run the pattern with its example and return the actions that it requests, also if it fails."""
    recorder = Recorder(stores.tables)
    unserved = EmptyEngine(recorder.seen)
    engines = Engines(dict.fromkeys(("queues", "objects", "sql", "cache"), lambda: unserved))
    recording = Stores(recorder, system=system, engines=engines)
    try:
        example = pattern.build_example()
        await recording.run(transact(example) if isinstance(example, ConditionCheck) else example)
    except HoldfastError:
        pass  # the example's item is missing: only the request matters
    return [each for request in recorder.seen for each in _list_actions(system, request)]


def _list_actions(system: System, request: Any) -> Iterator[RequestedAction]:
    """Yield the IAM actions of one request of an engine."""
    match request:
        case requests.TransactWriteItems():
            for action in request.actions:
                for each in _list_actions(system, action):
                    enclosing = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
                    yield RequestedAction(each.action, each.resource, each.context | enclosing)
        case requests.BatchGetItem():
            for part in request.requests:
                yield _build_item_action(system, "BatchGetItem", part.table, part.keys)
        case requests.BatchWriteItem():
            tables = {write.table for write in request.writes}
            for table in tables:
                yield _build_item_action(
                    system, "BatchWriteItem", table, [_get_key_or_item(write) for write in request.writes]
                )
        case requests.Query() | requests.Scan():
            yield _build_page_action(request)
        case requests.DescribeTable() | requests.DescribeTimeToLive() | requests.DescribeContinuousBackups():
            yield RequestedAction(type(request).__name__, f"table/{request.table}")
        case requests.ConditionCheck():
            yield _build_item_action(system, "ConditionCheckItem", request.table, [request.key])
        case requests.CreateTable():
            yield RequestedAction("CreateTable", f"table/{request.definition.name}")
        case requests.ListTables():
            yield RequestedAction("ListTables", "*")
        case queues.Operation():
            yield from _list_queue_actions(request)
        case objects.AdoptObject():
            yield from _list_object_actions(system, request.put)
            yield from _list_object_actions(system, objects.GetObject(request.put.bucket, request.put.key))
        case objects.Operation():
            yield from _list_object_actions(system, request)
        case sql.Statement():
            yield RequestedAction("secretsmanager:GetSecretValue", f"secret:{system.name}/sql/")
        case cache.Operation():
            yield RequestedAction("secretsmanager:GetSecretValue", f"secret:{system.name}/cache-")
        case _:
            yield _build_item_action(
                system, type(request).__name__, request.table, [_get_key_or_item(request)]
            )


def _list_queue_actions(request: Any) -> Iterator[RequestedAction]:
    """Yield the actions of a queue request: the lookup of its URL, and the action, the same for a batch."""
    actions: dict[type[Any], str] = {
        queues.SendMessages: "sqs:SendMessage",
        queues.ReceiveMessages: "sqs:ReceiveMessage",
        queues.DeleteMessages: "sqs:DeleteMessage",
        queues.ChangeVisibility: "sqs:ChangeMessageVisibility",
        queues.DescribeQueue: "sqs:GetQueueAttributes",
    }
    yield RequestedAction("sqs:GetQueueUrl", request.queue)
    yield RequestedAction(actions[type(request)], request.queue)


def _list_object_actions(system: System, request: Any) -> Iterator[RequestedAction]:
    """Yield the requests of the S3 engine in order, for a bucket with or without legal holds and a key."""
    [bucket] = [each for each in system.buckets if each.physical_name("") == request.bucket]
    if isinstance(request, objects.ListObjects):
        yield RequestedAction("s3:ListBucket", request.bucket, {"s3:prefix": [request.prefix]})
        return
    place = f"{request.bucket}/{request.key}"
    looks = not isinstance(request, objects.SetLegalHold) and not getattr(request, "create_only", False)
    if looks:
        yield RequestedAction("s3:GetObject", place)
        # Lets S3 report a missing key as such; it uses the key as the prefix.
        yield RequestedAction("s3:ListBucket", request.bucket, {"s3:prefix": [request.key]})
        if bucket.legal_holds:
            yield RequestedAction("s3:GetObjectLegalHold", place)
    match request:
        case objects.PutObject():
            yield RequestedAction("s3:PutObject", place)
            yield from _list_key_actions(bucket, "kms:GenerateDataKey")
        case objects.GetObject():
            yield from _list_key_actions(bucket, "kms:Decrypt")
        case objects.SetLegalHold():
            yield RequestedAction("s3:PutObjectLegalHold", place)
        case objects.DeleteObject():
            yield RequestedAction("s3:DeleteObject", place)
            yield RequestedAction("s3:ListBucket", request.bucket)  # HeadBucket, if the object is missing
            if bucket.legal_holds or bucket.versions:
                yield RequestedAction("s3:ListBucketVersions", request.bucket, {"s3:prefix": [request.key]})
                yield RequestedAction("s3:DeleteObjectVersion", place)


def _list_key_actions(bucket: Bucket, action: str) -> Iterator[RequestedAction]:
    """Yield the action on the bucket's KMS key, if it names one."""
    if bucket.kms_key is not None:
        yield RequestedAction(action, "key/1234", {"kms:ResourceAliases": [str(bucket.physical_kms_key(""))]})


def _get_key_or_item(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(request, "item", None) or request.key
    return found


def _build_item_action(system: System, action: str, table: str, items: Any) -> RequestedAction:
    """Return the action on items of a table, with their partition keys as the condition key."""
    partition = next(each.partition for each in system.tables if each.physical_name("") == table)
    return RequestedAction(
        action, f"table/{table}", {"dynamodb:LeadingKeys": [str(item[partition]) for item in items]}
    )


def _build_page_action(request: Any) -> RequestedAction:
    """Return the action of a query or scan, with its key, attributes and Select as condition keys."""
    inside = f"/index/{request.index}" if request.index else ""
    context: dict[str, list[str]] = {}
    if isinstance(request, requests.Query):
        context["dynamodb:LeadingKeys"] = [str(request.key_condition[0].values[0])]
    if request.projection:
        context["dynamodb:Attributes"] = [path.root for path in request.projection]
    select = "SPECIFIC_ATTRIBUTES" if request.projection else "ALL_ATTRIBUTES"
    context["dynamodb:Select"] = [request.select or select]
    return RequestedAction(type(request).__name__, f"table/{request.table}{inside}", context)


def is_allowed(policies: list[dict[str, Any]], request: RequestedAction) -> bool:
    """Return True if any statement of the policies allows the request."""
    return any(_matches(statement, request) for policy in policies for statement in policy["Statement"])


def _matches(statement: dict[str, Any], request: RequestedAction) -> bool:
    """Return True if the statement allows the action on the resource and all its conditions hold."""
    assert statement["Effect"] == "Allow"
    action = request.action if ":" in request.action else f"dynamodb:{request.action}"
    is_action = action in statement["Action"]
    is_resource = any(_matches_resource(arn.split(":", 5)[5], request) for arn in statement["Resource"])
    conditions = statement.get("Condition", {})
    return (
        is_action
        and is_resource
        and all(
            _holds(operator, values, request.context.get(key, []))
            for operator, block in conditions.items()
            for key, values in block.items()
        )
    )


def _matches_resource(granted: str, request: RequestedAction) -> bool:
    """Compare a granted resource with the requested one.

    Only objects and keys use wildcards; a secret's ARN ends in six random characters.
    """
    if request.action.startswith("secretsmanager:"):
        return granted.startswith(request.resource)
    return (
        _like(granted, request.resource)
        if request.action[:3] in ("s3:", "kms")
        else granted == request.resource
    )


def _holds(operator: str, allowed: list[str], found: list[str]) -> bool:
    """Evaluate one IAM condition operator. Raise `AssertionError` for an operator that our policies do not
    use.
    """
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
    """Match an IAM pattern: `*` is any text; `${*}` is a literal star."""
    words = re.split(r"(\$\{[*?$]\}|\*)", pattern)
    text = "".join(
        ".*" if word == "*" else re.escape(word[2]) if re.fullmatch(r"\$\{.\}", word) else re.escape(word)
        for word in words
    )
    return re.fullmatch(text, value) is not None
