"""Unmodified boto3 on the embedded engine, with a change stream, in one process and one file.

Shows a program that would run on AWS without the line marked below. It keeps its position in the stream, so a
second run prints only what changed since the first.

    pip install 'holdfast-state[aws]'
    python boto3_streams.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
from botocore.exceptions import ClientError

from holdfast.boto3 import in_process
from holdfast.stores.tables.embedded import open_tables

REGION = "eu-west-1"


def create_table(dynamodb: Any, name: str, **more: Any) -> Any:
    """Create a table with the key `id` unless it exists, and return its description."""
    try:
        dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            **more,
        )
        dynamodb.get_waiter("table_exists").wait(TableName=name)
    except dynamodb.exceptions.ResourceInUseException:
        print(f"{name} exists")
    return dynamodb.describe_table(TableName=name)["Table"]


def change_seats(dynamodb: Any, passenger: str) -> None:
    """Write, update conditionally and delete, as any program does."""
    seat = {"id": {"S": "07A"}}
    dynamodb.put_item(TableName="Seats", Item=seat | {"price": {"N": "129"}})
    take = {
        "TableName": "Seats",
        "Key": seat,
        "UpdateExpression": "SET passenger = :p",
        "ConditionExpression": "attribute_not_exists(passenger)",
        "ExpressionAttributeValues": {":p": {"S": passenger}},
    }
    dynamodb.update_item(**take)
    try:
        dynamodb.update_item(**take)
    except ClientError as error:
        print(error.response["Error"]["Code"])
    dynamodb.delete_item(TableName="Seats", Key=seat)


def read_changes(streams: Any, arn: str, position: str | None) -> Iterator[Any]:
    """Yield the records of the stream after a position, or all of them."""
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = {"ShardIteratorType": "TRIM_HORIZON"}
    if position is not None:
        start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": position}
    iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], **start)["ShardIterator"]
    while records := (page := streams.get_records(ShardIterator=iterator))["Records"]:
        yield from records
        iterator = page["NextShardIterator"]


def main() -> None:
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    streams = boto3.client("dynamodbstreams", region_name=REGION)
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    arn = create_table(dynamodb, "Seats", StreamSpecification=stream)["LatestStreamArn"]
    create_table(dynamodb, "Positions")
    key = {"id": {"S": "seats"}}
    found = dynamodb.get_item(TableName="Positions", Key=key, ConsistentRead=True).get("Item")
    position = found["at"]["S"] if found else None

    change_seats(dynamodb, passenger="Amal")
    for record in read_changes(streams, arn, position):
        passenger = record["dynamodb"].get("NewImage", {}).get("passenger", {}).get("S")
        print(record["eventName"], record["dynamodb"]["Keys"]["id"]["S"], passenger or "-")
        at = {"S": record["dynamodb"]["SequenceNumber"]}
        dynamodb.put_item(TableName="Positions", Item=key | {"at": at})


if __name__ == "__main__":
    with open_tables("seats.db") as tables, in_process(tables):  # this line replaces AWS
        main()
