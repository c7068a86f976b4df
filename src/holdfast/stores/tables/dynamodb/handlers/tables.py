"""Handlers of Create-, Describe-, Update- and DeleteTable, ListTables and DescribeLimits on DynamoDB."""

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
    """Start the creation of a table and return its description."""
    service.lifetimes.pop(operation.definition.name, None)
    request = definitions.encode_table(operation.definition)
    response = await service.send("CreateTable", request, repeat="once")
    return parse_table_description(response["TableDescription"])


async def describe_table(operation: DescribeTable, service: Service) -> TableDescription:
    """Return the table's description. Raise `NotFound` without it."""
    response = await service.send("DescribeTable", {"TableName": operation.table})
    return parse_table_description(response["Table"])


async def update_table(operation: UpdateTable, service: Service) -> TableDescription:
    """Start the changes to a table and return its description."""
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
    """Return one page of table names."""
    request: Request = {"Limit": operation.limit}
    if operation.after is not None:
        request["ExclusiveStartTableName"] = operation.after
    response = await service.send("ListTables", request)
    return ListTablesResult(tuple(response["TableNames"]), response.get("LastEvaluatedTableName"))


async def describe_limits(operation: DescribeLimits, service: Service) -> DescribeLimitsResult:
    """Return the account's and a table's maximum capacity units."""
    limits = await service.send("DescribeLimits", {})
    return DescribeLimitsResult(
        limits["AccountMaxReadCapacityUnits"],
        limits["AccountMaxWriteCapacityUnits"],
        limits["TableMaxReadCapacityUnits"],
        limits["TableMaxWriteCapacityUnits"],
    )
