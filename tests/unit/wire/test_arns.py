"""ARNs: built for a place, and taken apart again."""

from __future__ import annotations

import pytest

from holdfast.wire.arns import (
    HERE,
    Place,
    backup_arn,
    backup_of,
    index_arn,
    stream_arn,
    stream_of,
    table_arn,
    table_of,
)

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/shop.orders"


def test_arns_name_the_place_and_the_table() -> None:
    assert table_arn(HERE, "shop.orders") == TABLE
    assert index_arn(HERE, "shop.orders", "by_day") == f"{TABLE}/index/by_day"
    assert (
        stream_arn(HERE, "shop.orders", "2026-11-15T00:00:00.000")
        == f"{TABLE}/stream/2026-11-15T00:00:00.000"
    )
    assert backup_arn(HERE, "shop.orders", "01489-a1b2") == f"{TABLE}/backup/01489-a1b2"


@pytest.mark.parametrize(
    ("region", "partition"), [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_a_region_belongs_to_a_partition(region: str, partition: str) -> None:
    arn = table_arn(Place(region, "123456789012"), "orders")
    assert arn == f"arn:{partition}:dynamodb:{region}:123456789012:table/orders"
    assert table_of(arn) == "orders"


def test_what_was_built_can_be_taken_apart() -> None:
    assert table_of(table_arn(HERE, "orders")) == "orders"
    assert stream_of(stream_arn(HERE, "orders", "2026-11-15T00:00:00.000")) == (
        "orders",
        "2026-11-15T00:00:00.000",
    )
    assert backup_of(backup_arn(HERE, "orders", "01489-a1b2")) == ("orders", "01489-a1b2")


@pytest.mark.parametrize(
    "text",
    ["", "orders", TABLE + "/", TABLE + "/index/by_day", "arn:aws:sqs:us-east-1:000000000000:table/orders"],
)
def test_what_is_no_table_names_none(text: str) -> None:
    assert table_of(text) is None


@pytest.mark.parametrize(
    "text", ["", TABLE, TABLE + "/stream/", TABLE + "/stream/yesterday", TABLE + "/backup/1"]
)
def test_what_is_no_stream_names_none(text: str) -> None:
    assert stream_of(text) is None


@pytest.mark.parametrize("text", ["", TABLE, TABLE + "/backup/", TABLE + "/backup/a/b"])
def test_what_is_no_backup_names_none(text: str) -> None:
    assert backup_of(text) is None
