"""DescribeLimits: the account's and a table's capacity, as numbers a client may plan with."""

from __future__ import annotations

from .protocol import Raw

LIMITS = {
    "AccountMaxReadCapacityUnits",
    "AccountMaxWriteCapacityUnits",
    "TableMaxReadCapacityUnits",
    "TableMaxWriteCapacityUnits",
}


def test_four_limits_are_told(raw: Raw) -> None:
    limits = raw.answer("DescribeLimits", {})
    assert limits.keys() == LIMITS
    assert all(isinstance(limit, int) and limit > 0 for limit in limits.values())


def test_a_table_has_no_more_than_the_account(raw: Raw) -> None:
    limits = raw.answer("DescribeLimits", {})
    for kind in ("Read", "Write"):
        assert limits[f"TableMax{kind}CapacityUnits"] <= limits[f"AccountMax{kind}CapacityUnits"]


def test_members_it_does_not_know_are_passed_over(raw: Raw) -> None:
    assert raw.answer("DescribeLimits", {"TableName": 23}).keys() == LIMITS
