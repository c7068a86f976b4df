"""CreateTable, DescribeTable, UpdateTable, DeleteTable, ListTables and DescribeLimits."""

from __future__ import annotations

from holdfast.operations.tables import (
    CreateTable,
    DeleteTable,
    DescribeLimits,
    DescribeLimitsResult,
    DescribeTable,
    ListTables,
    ListTablesResult,
    TableDescription,
    UpdateTable,
)
from holdfast.stores.tables.dynamodb import definitions
from holdfast.stores.tables.dynamodb.descriptions import table_description
from holdfast.stores.tables.dynamodb.service import Request, Service


async def create_table(operation: CreateTable, service: Service) -> TableDescription:
    service.lifetimes.pop(operation.definition.name, None)
    request = definitions.table(operation.definition)
    answer = await service.ask("CreateTable", request, repeat="once")
    return table_description(answer["TableDescription"])


async def describe_table(operation: DescribeTable, service: Service) -> TableDescription:
    answer = await service.ask("DescribeTable", {"TableName": operation.table})
    return table_description(answer["Table"])


async def update_table(operation: UpdateTable, service: Service) -> TableDescription:
    answer = await service.ask("UpdateTable", definitions.changes(operation), repeat="once")
    return table_description(answer["TableDescription"])


async def delete_table(operation: DeleteTable, service: Service) -> TableDescription:
    """Delete a table. The service does not return the keys of a table being deleted, so they are read
    first.
    """
    request = {"TableName": operation.table}
    before = await service.ask("DescribeTable", request)
    service.lifetimes.pop(operation.table, None)
    answer = await service.ask("DeleteTable", request, repeat="once")
    return table_description(before["Table"] | answer["TableDescription"])


async def list_tables(operation: ListTables, service: Service) -> ListTablesResult:
    request: Request = {"Limit": operation.limit}
    if operation.after is not None:
        request["ExclusiveStartTableName"] = operation.after
    answer = await service.ask("ListTables", request)
    return ListTablesResult(tuple(answer["TableNames"]), answer.get("LastEvaluatedTableName"))


async def describe_limits(operation: DescribeLimits, service: Service) -> DescribeLimitsResult:
    told = await service.ask("DescribeLimits", {})
    return DescribeLimitsResult(
        told["AccountMaxReadCapacityUnits"],
        told["AccountMaxWriteCapacityUnits"],
        told["TableMaxReadCapacityUnits"],
        told["TableMaxWriteCapacityUnits"],
    )
