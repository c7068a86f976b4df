"""Handlers of UpdateTimeToLive and DescribeTimeToLive on DynamoDB."""

from __future__ import annotations

from holdfast.operations.tables import (
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    TimeToLiveSpecification,
    UpdateTimeToLive,
)
from holdfast.stores.tables.dynamodb.service import Service


async def update_time_to_live(operation: UpdateTimeToLive, service: Service) -> TimeToLiveSpecification:
    """Enable or disable the lifetime attribute, and forget the cached one."""
    wanted = {"AttributeName": operation.attribute, "Enabled": operation.enabled}
    request = {"TableName": operation.table, "TimeToLiveSpecification": wanted}
    service.lifetimes.pop(operation.table, None)
    response = await service.send("UpdateTimeToLive", request, repeat="once")
    specification = response["TimeToLiveSpecification"]
    return TimeToLiveSpecification(specification["AttributeName"], specification["Enabled"])


async def describe_time_to_live(operation: DescribeTimeToLive, service: Service) -> DescribeTimeToLiveResult:
    """Return the status of the table's lifetimes and their attribute."""
    response = await service.send("DescribeTimeToLive", {"TableName": operation.table})
    description = response["TimeToLiveDescription"]
    return DescribeTimeToLiveResult(description["TimeToLiveStatus"], description.get("AttributeName"))
