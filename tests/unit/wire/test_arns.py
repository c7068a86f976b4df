"""ARNs of tables, indexes, streams and backups: formatted for a region and account, and parsed."""

from __future__ import annotations

import pytest

from holdfast.wire.arns import (
    DEFAULT_LOCATION,
    AwsLocation,
    format_backup_arn,
    format_index_arn,
    format_stream_arn,
    format_table_arn,
    parse_backup_arn,
    parse_stream_arn,
    parse_table_arn,
)

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/shop.orders"


def test_arn_contains_region_account_and_table() -> None:
    assert format_table_arn(DEFAULT_LOCATION, "shop.orders") == TABLE
    assert format_index_arn(DEFAULT_LOCATION, "shop.orders", "by_day") == f"{TABLE}/index/by_day"
    assert (
        format_stream_arn(DEFAULT_LOCATION, "shop.orders", "2026-11-15T00:00:00.000")
        == f"{TABLE}/stream/2026-11-15T00:00:00.000"
    )
    assert format_backup_arn(DEFAULT_LOCATION, "shop.orders", "01489-a1b2") == f"{TABLE}/backup/01489-a1b2"


@pytest.mark.parametrize(
    ("region", "partition"), [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_a_region_belongs_to_a_partition(region: str, partition: str) -> None:
    arn = format_table_arn(AwsLocation(region, "123456789012"), "orders")
    assert arn == f"arn:{partition}:dynamodb:{region}:123456789012:table/orders"
    assert parse_table_arn(arn) == "orders"


def test_built_arns_can_be_parsed() -> None:
    assert parse_table_arn(format_table_arn(DEFAULT_LOCATION, "orders")) == "orders"
    assert parse_stream_arn(format_stream_arn(DEFAULT_LOCATION, "orders", "2026-11-15T00:00:00.000")) == (
        "orders",
        "2026-11-15T00:00:00.000",
    )
    assert parse_backup_arn(format_backup_arn(DEFAULT_LOCATION, "orders", "01489-a1b2")) == (
        "orders",
        "01489-a1b2",
    )


@pytest.mark.parametrize(
    "text",
    ["", "orders", TABLE + "/", TABLE + "/index/by_day", "arn:aws:sqs:us-east-1:000000000000:table/orders"],
)
def test_parses_no_table_from_other_texts(text: str) -> None:
    assert parse_table_arn(text) is None


@pytest.mark.parametrize(
    "text", ["", TABLE, TABLE + "/stream/", TABLE + "/stream/yesterday", TABLE + "/backup/1"]
)
def test_parses_no_stream_from_other_texts(text: str) -> None:
    assert parse_stream_arn(text) is None


@pytest.mark.parametrize("text", ["", TABLE, TABLE + "/backup/", TABLE + "/backup/a/b"])
def test_parses_no_backup_from_other_texts(text: str) -> None:
    assert parse_backup_arn(text) is None
