"""DescribeLimits over the wire: four positive capacity quotas."""

from __future__ import annotations

from .protocol import Raw

LIMITS = {
    "AccountMaxReadCapacityUnits",
    "AccountMaxWriteCapacityUnits",
    "TableMaxReadCapacityUnits",
    "TableMaxWriteCapacityUnits",
}


def test_returns_four_limits(raw: Raw) -> None:
    limits = raw.answer("DescribeLimits", {})
    assert limits.keys() == LIMITS
    assert all(isinstance(limit, int) and limit > 0 for limit in limits.values())


def test_table_limits_do_not_exceed_account_limits(raw: Raw) -> None:
    limits = raw.answer("DescribeLimits", {})
    for kind in ("Read", "Write"):
        assert limits[f"TableMax{kind}CapacityUnits"] <= limits[f"AccountMax{kind}CapacityUnits"]


def test_ignores_unknown_members(raw: Raw) -> None:
    assert raw.answer("DescribeLimits", {"TableName": 23}).keys() == LIMITS
