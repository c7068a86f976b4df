"""docs/guides/coming_from_moto.md: every request of its tables is sent to moto and to Holdfast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws as moto_aws

from holdfast.boto3 import mock_aws
from tests.docs import pages

PAGE: Final = pages.DOCS / "guides" / "coming_from_moto.md"
SECTIONS: Final = (
    "Requests that moto accepts",
    "Results that differ",
    "Requests that Holdfast rejects and DynamoDB accepts",
)
ROWS: Final = [row for each in SECTIONS for row in pages.parse_rows(pages.split_sections(PAGE, 2)[each])]
KEY: Final = {"pk": {"S": "a"}, "sk": {"S": "b"}}
ADA: Final = {":a": {"S": "ada"}}

Send = Callable[[Any], Any]
CASES: dict[str, Send] = {}


def case(row: str) -> Callable[[Send], Send]:
    """Register the request that a row of the page describes."""

    def register(send: Send) -> Send:
        CASES[row] = send
        return send

    return register


def make_client(region: str = "us-east-1") -> Any:
    # moto's own exceptions pass through the retries; one attempt keeps the tests fast.
    return boto3.client("dynamodb", region_name=region, config=Config(retries={"total_max_attempts": 1}))


def create_table(client: Any, name: str = "orders", **more: Any) -> Any:
    """Create a table with a sort key and an index, or as `more` says."""
    definition: dict[str, Any] = {
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", "g")],
        "GlobalSecondaryIndexes": [make_index("by-g", "g")],
        "BillingMode": "PAY_PER_REQUEST",
    }
    return client.create_table(TableName=name, **(definition | more))["TableDescription"]


def make_index(name: str, attribute: str) -> dict[str, Any]:
    keys = [{"AttributeName": attribute, "KeyType": "HASH"}]
    return {"IndexName": name, "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}


def put(client: Any, **attributes: Any) -> Any:
    return client.put_item(TableName="orders", Item=KEY | attributes)


def query(client: Any, condition: str = "pk = :a", **more: Any) -> Any:
    arguments = {"ExpressionAttributeValues": ADA} | more
    return client.query(TableName="orders", KeyConditionExpression=condition, **arguments)


def scan(client: Any, filter: str, **values: Any) -> Any:
    arguments = {"ExpressionAttributeValues": {f":{name}": value for name, value in values.items()}}
    return client.scan(TableName="orders", FilterExpression=filter, **(arguments if values else {}))


def describe_result(send: Send) -> str:
    """Send the request and return its outcome as the page writes it."""
    client = make_client()
    create_table(client)
    try:
        result = send(client)
    except ClientError as error:
        return f"`{error.response['Error']['Code']}`"
    except Exception as error:
        return f"`{type(error).__name__}`"
    return "accepted" if result is None else f"`{result!r}`"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_moto_answers_as_the_page_says(row: list[str]) -> None:
    with moto_aws():
        assert describe_result(CASES[row[0]]) == row[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_holdfast_answers_as_the_page_says(row: list[str]) -> None:
    with mock_aws():
        assert describe_result(CASES[row[0]]) == row[2]


def test_every_case_is_on_the_page() -> None:
    assert sorted(CASES) == sorted(row[0] for row in ROWS)


# --- requests that moto accepts -----------------------------------------------------------------------------


@case("a query with a filter on a key attribute")
def _(client: Any) -> None:
    query(client, FilterExpression="sk = :a")


@case("a query with a reserved word in its key condition")
def _(client: Any) -> None:
    keys = [{"AttributeName": "name", "KeyType": "HASH"}]
    names = [{"AttributeName": "name", "AttributeType": "S"}]
    client.create_table(
        TableName="people", KeySchema=keys, AttributeDefinitions=names, BillingMode="PAY_PER_REQUEST"
    )
    client.query(TableName="people", KeyConditionExpression="name = :a", ExpressionAttributeValues=ADA)


@case("a query with an unused `ExpressionAttributeValues` member")
def _(client: Any) -> None:
    query(client, ExpressionAttributeValues=ADA | {":b": {"S": "unused"}})


@case("a query whose key condition compares with a value of another type")
def _(client: Any) -> None:
    query(client, ExpressionAttributeValues={":a": {"N": "1"}})


@case("a query or filter with `BETWEEN` and its bounds in the wrong order")
def _(client: Any) -> None:
    scan(client, "price BETWEEN :high AND :low", high={"N": "9"}, low={"N": "1"})
    bounds = {":high": {"S": "z"}, ":low": {"S": "a"}}
    query(client, "pk = :a AND sk BETWEEN :high AND :low", ExpressionAttributeValues=ADA | bounds)


@case("a query that starts after a key of another partition")
def _(client: Any) -> None:
    query(client, ExclusiveStartKey=KEY)


@case("a get with a key of another type")
def _(client: Any) -> None:
    client.get_item(TableName="orders", Key={"pk": {"N": "1"}, "sk": {"S": "b"}})


@case("a put with an index key of another type")
def _(client: Any) -> None:
    put(client, g={"N": "1"})


@case("a put with a number of more than 38 digits")
def _(client: Any) -> None:
    put(client, n={"N": "1" * 39})


@case("a put with a set that contains a value twice")
def _(client: Any) -> None:
    put(client, s={"SS": ["x", "x"]})


@case("a put with more than 32 levels of nesting")
def _(client: Any) -> None:
    value: dict[str, Any] = {"N": "1"}
    for _ in range(33):
        value = {"M": {"inner": value}}
    put(client, m=value)


@case("a filter with `begins_with` and a number")
def _(client: Any) -> None:
    scan(client, "begins_with(title, :n)", n={"N": "1"})


@case("a filter with `IN` and more than 100 values")
def _(client: Any) -> None:
    values = {f"v{number}": {"N": str(number)} for number in range(101)}
    scan(client, f"price IN ({', '.join(f':{name}' for name in values)})", **values)


@case("a filter of more than 4 KB")
def _(client: Any) -> None:
    scan(client, " OR ".join(f"attribute_number_{number} = :n" for number in range(200)), n={"N": "1"})


@case("a filter that compares an attribute with itself")
def _(client: Any) -> None:
    scan(client, "price = price")


@case("a batch of more than 25 writes")
def _(client: Any) -> None:
    puts = [{"PutRequest": {"Item": KEY | {"sk": {"S": str(number)}}}} for number in range(26)]
    client.batch_write_item(RequestItems={"orders": puts})


@case("a batch that puts and deletes the same key")
def _(client: Any) -> None:
    writes = [{"PutRequest": {"Item": KEY}}, {"DeleteRequest": {"Key": KEY}}]
    client.batch_write_item(RequestItems={"orders": writes})


@case("a transaction of more than 4 MB")
def _(client: Any) -> None:
    large = {"d": {"S": "x" * 390_000}}
    puts = [
        {"Put": {"TableName": "orders", "Item": KEY | large | {"sk": {"S": str(number)}}}}
        for number in range(12)
    ]
    client.transact_write_items(TransactItems=puts)


@case("a transaction with the token of another transaction")
def _(client: Any) -> None:
    for name in ("x", "y"):
        write = {"Put": {"TableName": "orders", "Item": KEY | {"sk": {"S": name}}}}
        client.transact_write_items(TransactItems=[write], ClientRequestToken="token-1")


@case("a table with provisioned throughput and an index without")
def _(client: Any) -> None:
    throughput = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    create_table(client, "others", BillingMode="PROVISIONED", ProvisionedThroughput=throughput)


@case("a table with more than 20 global indexes")
def _(client: Any) -> None:
    names = [f"g{number}" for number in range(21)]
    create_table(
        client,
        "others",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", *names)],
        GlobalSecondaryIndexes=[make_index(f"by-{name}", name) for name in names],
    )


@case("a new index on an undefined attribute")
def _(client: Any) -> None:
    new = {"Create": make_index("by-new", "new")}
    client.update_table(TableName="orders", GlobalSecondaryIndexUpdates=[new])


@case("time to live enabled a second time")
def _(client: Any) -> None:
    for _ in range(2):
        wanted = {"Enabled": True, "AttributeName": "expires"}
        client.update_time_to_live(TableName="orders", TimeToLiveSpecification=wanted)


# --- results that differ ------------------------------------------------------------------------------------


@case("a transaction sent twice with one token, which adds 1: the sum")
def _(client: Any) -> int:
    add = {
        "TableName": "orders",
        "Key": KEY,
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    for _ in range(2):
        client.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="token-1")
    return int(client.get_item(TableName="orders", Key=KEY)["Item"]["n"]["N"])


@case("a query with `Limit=3` that finds 3 items: whether there is a `LastEvaluatedKey`")
def _(client: Any) -> bool:
    for name in ("x", "y", "z"):
        put(client, pk={"S": "ada"}, sk={"S": name})
    return "LastEvaluatedKey" in query(client, Limit=3)


@case("the capacity of a put of 3,000 bytes with one index")
def _(client: Any) -> float:
    item = KEY | {"g": {"S": "x"}, "d": {"S": "x" * 2900}}
    stored = client.put_item(TableName="orders", Item=item, ReturnConsumedCapacity="TOTAL")
    return float(stored["ConsumedCapacity"]["CapacityUnits"])


@case("the number `007.50`, read back")
def _(client: Any) -> str:
    put(client, n={"N": "007.50"})
    return str(client.get_item(TableName="orders", Key=KEY)["Item"]["n"]["N"])


@case("the stream after an item is put twice, unchanged: its events")
def _(client: Any) -> list[str]:
    wanted = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    arn = create_table(client, "streamed", StreamSpecification=wanted)["LatestStreamArn"]
    for _ in range(2):
        client.put_item(TableName="streamed", Item=KEY)
    return [str(record["eventName"]) for record in read_stream(arn)]


def read_stream(arn: str) -> Iterator[Any]:
    """Yield the records of the stream's only shard."""
    streams = boto3.client("dynamodbstreams", region_name="us-east-1")
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    yield from streams.get_records(ShardIterator=start["ShardIterator"])["Records"]


@case("a query of an unknown index")
def _(client: Any) -> None:
    query(client, IndexName="by-nothing")


@case("a filter with an undefined placeholder")
def _(client: Any) -> None:
    scan(client, "price = :price")


@case("a filter that compares a text with a number: the items found")
def _(client: Any) -> int:
    put(client, price={"S": "10"})
    return int(scan(client, "price > :n", n={"N": "1"})["Count"])


@case("an update without an expression")
def _(client: Any) -> None:
    client.update_item(TableName="orders", Key=KEY)


@case("the status in the response of `create_table`")
def _(client: Any) -> str:
    return str(create_table(client, "others")["TableStatus"])


@case("the account in a table's ARN")
def _(client: Any) -> str:
    return str(create_table(client, "others")["TableArn"].split(":")[4])


@case("the tables that a client of another region lists")
def _(client: Any) -> list[str]:
    return list(make_client("eu-west-1").list_tables()["TableNames"])


# --- requests that Holdfast rejects and DynamoDB accepts ----------------------------------------------------


@case("a PartiQL statement")
def _(client: Any) -> None:
    client.execute_statement(Statement="SELECT * FROM orders")


@case("tags on an existing table")
def _(client: Any) -> None:
    arn = create_table(client, "others")["TableArn"]
    client.tag_resource(ResourceArn=arn, Tags=[{"Key": "team", "Value": "orders"}])


@case("a legacy parameter, such as `KeyConditions` or `AttributesToGet`")
def _(client: Any) -> None:
    wanted = {"AttributeValueList": [{"S": "a"}], "ComparisonOperator": "EQ"}
    client.query(TableName="orders", KeyConditions={"pk": wanted})


@case("encryption with a KMS key")
def _(client: Any) -> None:
    create_table(client, "others", SSESpecification={"Enabled": True, "SSEType": "KMS"})


@case("a replica in another region")
def _(client: Any) -> None:
    client.update_table(TableName="orders", ReplicaUpdates=[{"Create": {"RegionName": "eu-west-1"}}])
