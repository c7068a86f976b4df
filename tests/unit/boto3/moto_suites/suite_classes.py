"""A suite with moto on classes: `unittest` with a decorator, with start and stop, and pytest's own form."""

from __future__ import annotations

import unittest
from typing import Any

import boto3
from moto import mock_aws

REGION = "us-east-1"


def create_sessions() -> Any:
    """Create a table of sessions that expire, and return it."""
    table = boto3.resource("dynamodb", region_name=REGION).create_table(
        TableName="sessions",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    table.meta.client.update_time_to_live(
        TableName="sessions", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )
    return table


@mock_aws
class DecoratedCase(unittest.TestCase):
    def setUp(self) -> None:
        self.table = create_sessions()
        self.table.put_item(Item={"id": "s-1", "user": "ada"})

    def tearDown(self) -> None:
        self.table.delete()

    def test_reads_what_set_up_wrote(self) -> None:
        assert self.table.get_item(Key={"id": "s-1"})["Item"]["user"] == "ada"

    def test_deletes_what_set_up_wrote(self) -> None:
        self.table.delete_item(Key={"id": "s-1"})
        assert "Item" not in self.table.get_item(Key={"id": "s-1"})


class StartedCase(unittest.TestCase):
    def setUp(self) -> None:
        self.mock = mock_aws()
        self.mock.start()
        self.table = create_sessions()

    def tearDown(self) -> None:
        self.mock.stop()

    def test_time_to_live_is_enabled(self) -> None:
        described = self.table.meta.client.describe_time_to_live(TableName="sessions")
        assert described["TimeToLiveDescription"]["AttributeName"] == "expires"

    def test_batch_reads_several(self) -> None:
        for name in ("s-1", "s-2"):
            self.table.put_item(Item={"id": name})
        keys = {"sessions": {"Keys": [{"id": "s-1"}, {"id": "s-2"}, {"id": "s-3"}]}}
        found = boto3.resource("dynamodb", region_name=REGION).batch_get_item(RequestItems=keys)
        assert sorted(each["id"] for each in found["Responses"]["sessions"]) == ["s-1", "s-2"]


@mock_aws
class TestStream:
    def setup_method(self, method: Any) -> None:
        self.table = create_sessions()

    def test_stream_has_the_new_item(self) -> None:
        self.table.put_item(Item={"id": "s-1"})

        streams = boto3.client("dynamodbstreams", region_name=REGION)
        arn = streams.list_streams(TableName="sessions")["Streams"][0]["StreamArn"]
        (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        start = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        (record,) = streams.get_records(ShardIterator=start["ShardIterator"])["Records"]
        assert record["dynamodb"]["NewImage"] == {"id": {"S": "s-1"}}

    def test_each_test_has_a_table_of_its_own(self) -> None:
        assert self.table.scan()["Count"] == 0
