"""UpdateTimeToLive and DescribeTimeToLive: the attribute that holds an item's expiry time."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.operation import Operation

TimeToLiveStatus: TypeAlias = Literal["ENABLING", "DISABLING", "ENABLED", "DISABLED"]


class TimeToLiveSpecification(msgspec.Struct, frozen=True):
    """The attribute that holds an item's expiry time, and whether it is in use."""

    attribute: str
    enabled: bool


class UpdateTimeToLive(Operation[TimeToLiveSpecification], frozen=True):
    """Turn expiry by an attribute on or off."""

    table: str
    attribute: str
    enabled: bool


class DescribeTimeToLiveResult(msgspec.Struct, frozen=True):
    """Whether items expire, and by which attribute."""

    status: TimeToLiveStatus
    attribute: str | None = None


class DescribeTimeToLive(Operation[DescribeTimeToLiveResult], frozen=True):
    """Return whether the items of a table expire."""

    table: str
