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
from holdfast.stores.tables.dynamodb.descriptions import parse_table_description
from holdfast.stores.tables.dynamodb.service import Request, Service


async def create_table(operation: CreateTable, service: Service) -> TableDescription:
    service.lifetimes.pop(operation.definition.name, None)
    request = definitions.encode_table(operation.definition)
    response = await service.send("CreateTable", request, repeat="once")
    return parse_table_description(response["TableDescription"])


async def describe_table(operation: DescribeTable, service: Service) -> TableDescription:
    response = await service.send("DescribeTable", {"TableName": operation.table})
    return parse_table_description(response["Table"])


async def update_table(operation: UpdateTable, service: Service) -> TableDescription:
    response = await service.send("UpdateTable", definitions.encode_changes(operation), repeat="once")
    return parse_table_description(response["TableDescription"])


async def delete_table(operation: DeleteTable, service: Service) -> TableDescription:
    """Delete a table.

    Its keys are read first, because the service does not return them for a deleted table.
    """
    request = {"TableName": operation.table}
    before = await service.send("DescribeTable", request)
    service.lifetimes.pop(operation.table, None)
    response = await service.send("DeleteTable", request, repeat="once")
    return parse_table_description(before["Table"] | response["TableDescription"])


async def list_tables(operation: ListTables, service: Service) -> ListTablesResult:
    request: Request = {"Limit": operation.limit}
    if operation.after is not None:
        request["ExclusiveStartTableName"] = operation.after
    response = await service.send("ListTables", request)
    return ListTablesResult(tuple(response["TableNames"]), response.get("LastEvaluatedTableName"))


async def describe_limits(operation: DescribeLimits, service: Service) -> DescribeLimitsResult:
    limits = await service.send("DescribeLimits", {})
    return DescribeLimitsResult(
        limits["AccountMaxReadCapacityUnits"],
        limits["AccountMaxWriteCapacityUnits"],
        limits["TableMaxReadCapacityUnits"],
        limits["TableMaxWriteCapacityUnits"],
    )
