"""Table requests: decoded into operations, or refused with DynamoDB's messages without a table lookup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import HoldfastError, InvalidRequest
from holdfast.operations.tables import (
    CreateIndex,
    CreateTable,
    DeleteIndex,
    DeleteTable,
    DescribeLimits,
    DescribeTable,
    DescribeTimeToLive,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    ListTables,
    StreamChange,
    TableDefinition,
    Throughput,
    UpdateIndex,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.wire.dispatch import decode
from tests.cases import all_cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
NOT_SUPPORTED = " is not supported by Holdfast; leave it out"
UNITS = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2}
ALL = {"ProjectionType": "ALL"}
NO_HASH_KEY = "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"


def decode_request(operation: str, body: Body) -> Any:
    """Decode a request of this operation and return the operation value."""
    return decode(f"DynamoDB_20120810.{operation}", msgspec.json.encode(body))[1]


def refusal(operation: str, body: Body, kind: type[HoldfastError] = InvalidRequest) -> str:
    """Decode an invalid request and return the message of its error, which is of the class `kind`."""
    with pytest.raises(kind) as refused:
        decode_request(operation, body)
    return refused.value.message


def attribute_definitions(*names: str) -> list[Body]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def keys(partition: str, sort: str | None = None) -> list[Body]:
    """Return a key schema with this partition key and, if given, sort key."""
    schema = [{"AttributeName": partition, "KeyType": "HASH"}]
    return schema if sort is None else [*schema, {"AttributeName": sort, "KeyType": "RANGE"}]


def index(name: str, schema: list[Body], projection: Body = ALL, **members: Any) -> Body:
    return {"IndexName": name, "KeySchema": schema, "Projection": projection, **members}


def table(**members: Any) -> Body:
    """Return the body of a valid CreateTable request, with members replaced (None removes one)."""
    body: Body = {
        "TableName": "orders",
        "AttributeDefinitions": attribute_definitions("id"),
        "KeySchema": keys("id"),
        "BillingMode": "PAY_PER_REQUEST",
        **members,
    }
    return {name: value for name, value in body.items() if value is not None}


def range_table(*more: str, **members: Any) -> Body:
    """Return a CreateTable body with the keys `id` and `at`, and definitions of more attributes."""
    return table(
        AttributeDefinitions=attribute_definitions("id", "at", *more), KeySchema=keys("id", "at"), **members
    )


def complaints(text: str) -> list[str]:
    """Split a message about several constraints into its parts."""
    return text.partition("detected: ")[2].split("; ")


def null(path: str) -> str:
    """Return the message part about a required member that is missing."""
    return f"Value null at '{path}' failed to satisfy constraint: Member must not be null"


def test_a_table_is_decoded_whole() -> None:
    request = table(
        AttributeDefinitions=[
            *attribute_definitions("id", "at"),
            {"AttributeName": "size", "AttributeType": "N"},
        ],
        KeySchema=keys("id", "at"),
        BillingMode="PROVISIONED",
        ProvisionedThroughput=UNITS,
        LocalSecondaryIndexes=[index("by_size", keys("id", "size"), {"ProjectionType": "KEYS_ONLY"})],
        GlobalSecondaryIndexes=[
            index(
                "by_at",
                keys("at"),
                {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a", "b"]},
                ProvisionedThroughput=UNITS,
            )
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        TableClass="STANDARD_INFREQUENT_ACCESS",
        DeletionProtectionEnabled=True,
    )
    assert decode_request("CreateTable", request) == CreateTable(
        definition=TableDefinition(
            name="orders",
            attributes=(KeyAttribute("id", "S"), KeyAttribute("at", "S"), KeyAttribute("size", "N")),
            keys=KeySchema("id", "at"),
            local_indexes=(
                IndexDefinition("by_size", KeySchema("id", "size"), IndexProjection("KEYS_ONLY")),
            ),
            global_indexes=(
                IndexDefinition(
                    "by_at", KeySchema("at"), IndexProjection("INCLUDE", ("a", "b")), Throughput(3, 2)
                ),
            ),
            billing_mode="PROVISIONED",
            throughput=Throughput(3, 2),
            table_class="STANDARD_INFREQUENT_ACCESS",
            deletion_protection=True,
            stream_view="NEW_IMAGE",
        )
    )


def test_a_table_without_a_billing_mode_is_provisioned() -> None:
    definition = decode_request(
        "CreateTable", table(BillingMode=None, ProvisionedThroughput=UNITS)
    ).definition
    assert (definition.billing_mode, definition.throughput) == ("PROVISIONED", Throughput(3, 2))


def test_a_table_may_be_named_by_its_arn() -> None:
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/orders"
    assert decode_request("CreateTable", table(TableName=arn)).definition.name == "orders"


@pytest.mark.parametrize(
    "members",
    [
        {"StreamSpecification": {"StreamEnabled": False}},
        {"SSESpecification": {"Enabled": False}},
        {"SSESpecification": {}},
        {"Tags": [{"Key": "team", "Value": "a"}]},
        {"UnheardOf": {"a": 1}},
    ],
    ids=str,
)
def test_accepts_members_without_an_effect(members: Body) -> None:
    assert decode_request("CreateTable", table(**members)) == decode_request("CreateTable", table())


CONSTRAINTS: dict[str, tuple[Body, list[str]]] = {
    "nothing but a name": (
        {"TableName": "abc;"},
        [
            null("attributeDefinitions"),
            "Value 'abc;' at 'tableName' failed to satisfy constraint: Member must satisfy regular "
            "expression pattern: [a-zA-Z0-9_.-]+",
            null("keySchema"),
        ],
    ),
    "negative units": (
        table(ProvisionedThroughput={"ReadCapacityUnits": 0, "WriteCapacityUnits": -1}, KeySchema=[]),
        [
            "Value '-1' at 'provisionedThroughput.writeCapacityUnits' failed to satisfy constraint: Member "
            "must have value greater than or equal to 1",
            "Value '0' at 'provisionedThroughput.readCapacityUnits' failed to satisfy constraint: Member "
            "must have value greater than or equal to 1",
            "Value '[]' at 'keySchema' failed to satisfy constraint: Member must have length greater than or "
            "equal to 1",
        ],
    ),
    "unknown words": (
        table(
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "SS"}],
            BillingMode="FREE",
            KeySchema=[{"AttributeName": "id", "KeyType": "Woop"}],
            StreamSpecification={"StreamViewType": "Fisk"},
        ),
        [
            "Value 'SS' at 'attributeDefinitions.1.member.attributeType' failed to satisfy constraint: "
            "Member must satisfy enum value set: [B, N, S]",
            "Value 'FREE' at 'billingMode' failed to satisfy constraint: Member must satisfy enum value set: "
            "[PROVISIONED, PAY_PER_REQUEST]",
            "Value 'Woop' at 'keySchema.1.member.keyType' failed to satisfy constraint: Member must satisfy "
            "enum value set: [HASH, RANGE]",
            null("streamSpecification.streamEnabled"),
            "Value 'Fisk' at 'streamSpecification.streamViewType' failed to satisfy constraint: Member must "
            "satisfy enum value set: [NEW_IMAGE, OLD_IMAGE, NEW_AND_OLD_IMAGES, KEYS_ONLY]",
        ],
    ),
}


@all_cases(("request_", "parts"), CONSTRAINTS.values())
def test_reports_constraints_of_a_new_table_together(request_: Body, parts: list[str]) -> None:
    assert complaints(refusal("CreateTable", request_)) == parts


REFUSED: dict[str, tuple[Body, str]] = {
    "more attributes projected than a table may": (
        range_table(
            GlobalSecondaryIndexes=[
                index(
                    f"all{n}",
                    keys("at"),
                    {"ProjectionType": "INCLUDE", "NonKeyAttributes": [f"a{i}" for i in range(20)]},
                )
                for n in range(6)
            ]
        ),
        INVALID + "Number of NonKeyAttributes of all indexes exceeds per-table limit of 100",
    ),
    "a key of KMS while encryption is off": (
        table(SSESpecification={"Enabled": False, "KMSMasterKeyId": "k"}),
        INVALID + "KMSMasterKeyId can not be specified if Enabled is false",
    ),
    "a key of KMS without its type": (
        table(SSESpecification={"Enabled": True, "KMSMasterKeyId": "k"}),
        INVALID + "SSEType KMS is required if KMSMasterKeyId is specified",
    ),
    "AES256": (
        table(SSESpecification={"Enabled": True, "SSEType": "AES256"}),
        INVALID + "SSEType AES256 is not supported",
    ),
    "encryption with KMS": (
        table(SSESpecification={"Enabled": True}),
        INVALID
        + "SSESpecification with a KMS key is not supported by Holdfast; leave it out and encrypt the "
        "disk that holds the store",
    ),
    "a policy": (table(ResourcePolicy="{}"), INVALID + "ResourcePolicy" + NOT_SUPPORTED),
    "warm throughput": (table(WarmThroughput={}), INVALID + "WarmThroughput" + NOT_SUPPORTED),
    "an on-demand limit of an index": (
        range_table(
            GlobalSecondaryIndexes=[index("all", keys("at"), OnDemandThroughput={"MaxReadRequestUnits": 1})]
        ),
        INVALID + "OnDemandThroughput" + NOT_SUPPORTED,
    ),
}


@all_cases(("request_", "text"), REFUSED.values())
def test_rejects_an_invalid_table(request_: Body, text: str) -> None:
    assert refusal("CreateTable", request_) == text


def update(**members: Any) -> Body:
    """Return the body of an UpdateTable request."""
    return {"TableName": "orders", **members}


def updates(*changes: Body, **members: Any) -> Body:
    """Return the body of an UpdateTable request with these index updates."""
    return update(GlobalSecondaryIndexUpdates=list(changes), **members)


def create_index(name: str, schema: Iterable[Body] = (), projection: Body = ALL, **members: Any) -> Body:
    return {"Create": index(name, list(schema) or keys("size"), projection, **members)}


def delete_index(name: str) -> Body:
    return {"Delete": {"IndexName": name}}


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (update(BillingMode="PAY_PER_REQUEST"), UpdateTable(table="orders", billing_mode="PAY_PER_REQUEST")),
        (update(ProvisionedThroughput=UNITS), UpdateTable(table="orders", throughput=Throughput(3, 2))),
        (
            update(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}),
            UpdateTable(table="orders", stream=StreamChange("KEYS_ONLY")),
        ),
        (
            update(StreamSpecification={"StreamEnabled": False}),
            UpdateTable(table="orders", stream=StreamChange(None)),
        ),
        (update(TableClass="STANDARD"), UpdateTable(table="orders", table_class="STANDARD")),
        (
            update(DeletionProtectionEnabled=False),
            UpdateTable(table="orders", deletion_protection=False),
        ),
        (
            updates(create_index("by_size"), AttributeDefinitions=attribute_definitions("unused", "size")),
            UpdateTable(
                table="orders",
                attributes=(KeyAttribute("size", "S"),),
                index_changes=(
                    CreateIndex(IndexDefinition("by_size", KeySchema("size"), IndexProjection("ALL"))),
                ),
            ),
        ),
        (
            updates(
                delete_index("by_size"), {"Update": {"IndexName": "by_at", "ProvisionedThroughput": UNITS}}
            ),
            UpdateTable(
                table="orders",
                index_changes=(DeleteIndex("by_size"), UpdateIndex("by_at", Throughput(3, 2))),
            ),
        ),
    ],
    ids=["billing", "throughput", "stream on", "stream off", "class", "protection", "new index", "indexes"],
)
def test_each_change_is_decoded(request_: Body, operation: UpdateTable) -> None:
    assert decode_request("UpdateTable", request_) == operation


NOTHING = (
    "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or "
    "SSESpecification or ReplicaUpdates is required"
)
UPDATES_REFUSED: dict[str, tuple[Body, str]] = {
    "nothing": (update(), NOTHING),
    "no index": (updates(), NOTHING),
    "definitions alone": (update(AttributeDefinitions=attribute_definitions("a")), NOTHING),
    "no index and something else": (
        updates(DeletionProtectionEnabled=True),
        INVALID + "List of GlobalSecondaryIndexUpdates is empty",
    ),
    "encryption with protection": (
        update(DeletionProtectionEnabled=True, SSESpecification={}),
        INVALID + "Server-Side Encryption modification must be the only operation in the request",
    ),
    "an unknown class": (
        update(TableClass="junk"),
        "Invalid table-class parameter provided. Please try again with a valid table-class value: "
        "[STANDARD, STANDARD_INFREQUENT_ACCESS].",
    ),
    "encryption as it is": (
        update(SSESpecification={"Enabled": False}),
        INVALID + "Table is already encrypted by default",
    ),
    "replicas": (update(ReplicaUpdates=[]), INVALID + "ReplicaUpdates" + NOT_SUPPORTED),
    "a new index's key not defined": (
        updates(create_index("abc"), AttributeDefinitions=attribute_definitions("x")),
        INVALID + "Some index key attributes are not defined in AttributeDefinitions. Keys: [size], "
        "AttributeDefinitions: [x]",
    ),
    "an attribute defined twice": (
        updates(create_index("abc"), AttributeDefinitions=attribute_definitions("size", "size")),
        "Attribute Name is duplicated: size",
    ),
    "a new index with a range key alone": (
        updates(
            create_index("abc", keys("id", "size")[1:]), AttributeDefinitions=attribute_definitions("size")
        ),
        NO_HASH_KEY,
    ),
    "a new index without a projection": (
        updates(create_index("abc", (), {}), AttributeDefinitions=attribute_definitions("size")),
        INVALID + "Unknown ProjectionType: null",
    ),
    "a stream and an index": (
        updates(delete_index("abc"), StreamSpecification={"StreamEnabled": False}),
        INVALID + "You cannot create or delete index while changing stream status",
    ),
    "units and an index": (
        updates(delete_index("abc"), ProvisionedThroughput=UNITS),
        INVALID + "You cannot create or delete index while updating table IOPS",
    ),
}


@all_cases(("request_", "text"), UPDATES_REFUSED.values())
def test_rejects_an_invalid_change(request_: Body, text: str) -> None:
    assert refusal("UpdateTable", request_) == text


@pytest.mark.parametrize(
    ("name", "request_", "operation"),
    [
        ("DescribeTable", {"TableName": "orders"}, DescribeTable(table="orders")),
        ("DeleteTable", {"TableName": "orders"}, DeleteTable(table="orders")),
        ("DescribeTimeToLive", {"TableName": "orders"}, DescribeTimeToLive(table="orders")),
        ("DescribeLimits", {}, DescribeLimits()),
        ("ListTables", {}, ListTables(limit=100)),
        (
            "ListTables",
            {"Limit": 7, "ExclusiveStartTableName": "abc"},
            ListTables(limit=7, after="abc"),
        ),
        (
            "UpdateTimeToLive",
            {"TableName": "orders", "TimeToLiveSpecification": {"AttributeName": "ends", "Enabled": True}},
            UpdateTimeToLive(table="orders", attribute="ends", enabled=True),
        ),
    ],
)
def test_the_other_operations_are_decoded(name: str, request_: Body, operation: object) -> None:
    assert decode_request(name, request_) == operation


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        (
            "ListTables",
            {"Limit": 101, "ExclusiveStartTableName": "a;"},
            "3 validation errors detected: Value '101' at 'limit' failed to satisfy constraint: Member must "
            "have value less than or equal to 100; Value 'a;' at 'exclusiveStartTableName' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; Value 'a;' at "
            "'exclusiveStartTableName' failed to satisfy constraint: Member must have length greater than or "
            "equal to 3",
        ),
        (
            "UpdateTimeToLive",
            {"TableName": "orders"},
            "1 validation error detected: " + null("timeToLiveSpecification"),
        ),
        (
            "UpdateTimeToLive",
            {"TableName": "orders", "TimeToLiveSpecification": {}},
            "2 validation errors detected: "
            + null("timeToLiveSpecification.enabled")
            + "; "
            + null("timeToLiveSpecification.attributeName"),
        ),
        (
            "UpdateTimeToLive",
            {"TableName": "orders", "TimeToLiveSpecification": {"AttributeName": "", "Enabled": True}},
            "1 validation error detected: Value '' at 'timeToLiveSpecification.attributeName' failed to "
            "satisfy constraint: Member must have length greater than or equal to 1",
        ),
        (
            "DescribeTimeToLive",
            {},
            "The parameter 'TableName' is required but was not present in the request",
        ),
    ],
)
def test_the_other_operations_are_refused_in_the_services_words(name: str, request_: Body, text: str) -> None:
    assert refusal(name, request_) == text
