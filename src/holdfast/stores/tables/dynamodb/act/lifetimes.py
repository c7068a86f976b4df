"""UpdateTimeToLive and DescribeTimeToLive."""

from __future__ import annotations

from holdfast.operations.tables import (
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    LifetimeSpecification,
    UpdateTimeToLive,
)
from holdfast.stores.tables.dynamodb.service import Service


async def update_time_to_live(operation: UpdateTimeToLive, service: Service) -> LifetimeSpecification:
    wanted = {"AttributeName": operation.attribute, "Enabled": operation.enabled}
    request = {"TableName": operation.table, "TimeToLiveSpecification": wanted}
    service.lifetimes.pop(operation.table, None)
    answer = await service.ask("UpdateTimeToLive", request, repeat="once")
    told = answer["TimeToLiveSpecification"]
    return LifetimeSpecification(told["AttributeName"], told["Enabled"])


async def describe_time_to_live(operation: DescribeTimeToLive, service: Service) -> DescribeTimeToLiveResult:
    answer = await service.ask("DescribeTimeToLive", {"TableName": operation.table})
    told = answer["TimeToLiveDescription"]
    return DescribeTimeToLiveResult(told["TimeToLiveStatus"], told.get("AttributeName"))
