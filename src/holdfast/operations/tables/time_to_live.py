"""UpdateTimeToLive and DescribeTimeToLive: the attribute that holds an item's expiry time."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.operation import Operation

TimeToLiveStatus: TypeAlias = Literal["ENABLING", "DISABLING", "ENABLED", "DISABLED"]


class TimeToLiveSpecification(msgspec.Struct, frozen=True):
    attribute: str
    enabled: bool


class UpdateTimeToLive(Operation[TimeToLiveSpecification], frozen=True):
    table: str
    attribute: str
    enabled: bool


class DescribeTimeToLiveResult(msgspec.Struct, frozen=True):
    status: TimeToLiveStatus
    attribute: str | None = None


class DescribeTimeToLive(Operation[DescribeTimeToLiveResult], frozen=True):
    table: str
