"""DescribeLimits: return the capacity quotas of an account."""

from __future__ import annotations

import msgspec

from holdfast.operations.tables.operation import Operation


class DescribeLimitsResult(msgspec.Struct, frozen=True):
    """The capacity units per second that an account and a table may have."""

    account_read: int
    account_write: int
    table_read: int
    table_write: int


class DescribeLimits(Operation[DescribeLimitsResult], frozen=True):
    """Return the capacity quotas of the account."""
