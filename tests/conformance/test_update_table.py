"""UpdateTable over the wire: billing, class, protection, stream, and indexes added and removed.

Refusals are sent raw; later effects are checked through boto3. Backfill is tested with concurrent writes, and
with old items that the new index cannot hold.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable, index, unique_name
from .protocol import NOT_NULL, TABLE_NAME_PATTERN, Raw, cases, constraint, split_constraints

Body = dict[str, Any]
Wait = Callable[[str], Body]

INVALID = "One or more parameter values were invalid: "
SHORT_NAME = "TableName must be at least 3 characters long and at most 255 characters long"
AT_LEAST_ONE = "Member must have value greater than or equal to 1"
ONE_AT_A_TIME = (
    "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
)
ON_DEMAND = {"BillingMode": "PAY_PER_REQUEST"}
GONE_WITHIN_S = 30.0


def units(read: int, write: int) -> Body:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def create(name: str, hash_key: str, range_key: str | None = None, **more: Any) -> Body:
    """Return an update that creates a global index."""
    entry = index(name, hash_key, range_key, **more)
    del entry["attributes"]
    return {"Create": entry}


def delete(name: str) -> Body:
    """Return an update that deletes a global index."""
    return {"Delete": {"IndexName": name}}


def attribute_definitions(*attributes: str) -> list[Body]:
    return [
        dict(zip(("AttributeName", "AttributeType"), name.split(":"), strict=True)) for name in attributes
    ]


# Shape


def test_requires_a_table_name(raw: Raw) -> None:
    text = "The parameter 'TableName' is required but was not present in the request"
    assert raw.refusal("UpdateTable", {}) == ("ValidationException", text)


def test_a_name_has_at_least_3_characters(raw: Raw) -> None:
    # Two texts: AWS's until about 2024 (and dynalite's), and AWS's since.
    code, text = raw.refusal("UpdateTable", {"TableName": "ab"} | ON_DEMAND)
    rule = constraint("'ab'", "tableName", "Member must have length greater than or equal to 3")
    assert code == "ValidationException"
    assert text in (SHORT_NAME, "1 validation error detected: " + rule)


UPDATES = "globalSecondaryIndexUpdates"


@all_cases(
    ("body", "entries"),
    cases(
        {
            "characters of the name": (
                {"TableName": "abc;"},
                {constraint("'abc;'", "tableName", TABLE_NAME_PATTERN)},
            ),
            "empty throughput": (
                {"TableName": "abc", "ProvisionedThroughput": {}},
                {
                    constraint("null", "provisionedThroughput.readCapacityUnits", NOT_NULL),
                    constraint("null", "provisionedThroughput.writeCapacityUnits", NOT_NULL),
                },
            ),
            "negative throughput": (
                {"TableName": "abc", "ProvisionedThroughput": units(-1, 0)},
                {
                    constraint("'-1'", "provisionedThroughput.readCapacityUnits", AT_LEAST_ONE),
                    constraint("'0'", "provisionedThroughput.writeCapacityUnits", AT_LEAST_ONE),
                },
            ),
            "unknown billing mode": (
                {"TableName": "abc", "BillingMode": "FREE"},
                {
                    constraint(
                        "'FREE'",
                        "billingMode",
                        "Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]",
                    )
                },
            ),
            "empty update of an index": (
                {"TableName": "abc", "GlobalSecondaryIndexUpdates": [{"Update": {}}]},
                {
                    constraint("null", f"{UPDATES}.1.member.update.indexName", NOT_NULL),
                    constraint("null", f"{UPDATES}.1.member.update.provisionedThroughput", NOT_NULL),
                },
            ),
            "two bad index names": (
                {"TableName": "abc", "GlobalSecondaryIndexUpdates": [delete("a"), delete("abc;")]},
                {
                    constraint(
                        "'a'",
                        f"{UPDATES}.1.member.delete.indexName",
                        "Member must have length greater than or equal to 3",
                    ),
                    constraint("'abc;'", f"{UPDATES}.2.member.delete.indexName", TABLE_NAME_PATTERN),
                },
            ),
        }
    ),
)
def test_reports_all_violated_constraints_together(raw: Raw, body: Body, entries: set[str]) -> None:
    # botocore's model no longer requires the throughput of an index update, since updates gained other
    # members; a service that does not report it here reports it later.
    code, text = raw.refusal("UpdateTable", body)
    assert (code, split_constraints(text)) == ("ValidationException", entries)


# Validation


@pytest.mark.parametrize(
    "body",
    [{}, {"GlobalSecondaryIndexUpdates": []}, {"AttributeDefinitions": attribute_definitions("a:S")}],
    ids=str,
)
def test_rejects_an_empty_update(raw: Raw, body: Body) -> None:
    # The list grows with the service; in 2026 it names thirteen members and ends in TableClass.
    code, text = raw.refusal("UpdateTable", {"TableName": "abc"} | body)
    start = (
        "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates"
    )
    assert code == "ValidationException"
    assert re.fullmatch(start + r"[, ].* is required", str(text))


@pytest.mark.parametrize(
    ("body", "text"),
    cases(
        {
            "PROVISIONED without throughput": (
                {"BillingMode": "PROVISIONED"},
                INVALID + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
            ),
            "reads out of bounds": (
                {"ProvisionedThroughput": units(10**12 + 1, 1)},
                "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
            ),
            "writes out of bounds": (
                {"ProvisionedThroughput": units(1, 10**12 + 1)},
                "Given value 1000000000001 for WriteCapacityUnits is out of bounds",
            ),
            "an update of an index that does nothing": (
                {"GlobalSecondaryIndexUpdates": [{}]},
                INVALID
                + "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
                + "GlobalSecondaryIndexUpdate.Delete must not be null",
            ),
            "one index twice": (
                {"GlobalSecondaryIndexUpdates": [delete("twin"), delete("twin")]},
                INVALID
                + "Only one global secondary index update per index is allowed simultaneously. Index: twin",
            ),
        }
    ),
)
def test_rejects_invalid_parameters_before_looking_up_the_table(raw: Raw, body: Body, text: str) -> None:
    assert raw.refusal("UpdateTable", {"TableName": unique_name()} | body) == ("ValidationException", text)


def test_names_a_missing_table(raw: Raw) -> None:
    name = unique_name()
    text = f"Requested resource not found: Table: {name} not found"
    assert raw.refusal("UpdateTable", {"TableName": name} | ON_DEMAND) == ("ResourceNotFoundException", text)


@pytest.fixture(scope="module")
def provisioned(make_shared_table: MakeTable) -> str:
    """Create a table with 5 reads and 5 writes, the local index `mine`, and the global index `ours` on the
    string `other`.
    """
    ours = index("ours", "other:S") | {"ProvisionedThroughput": units(2, 2)}
    mine = index("mine", "pk:S", "other:S")
    return make_shared_table("pk:S", "sk:S", lsi=[mine], gsi=[ours], ProvisionedThroughput=units(5, 5))


@pytest.fixture(scope="module")
def on_demand(make_shared_table: MakeTable) -> str:
    """Create an on-demand table with the local index `mine` and the global index `ours` on the string
    `other`.
    """
    lsi, gsi = [index("mine", "pk:S", "other:S")], [index("ours", "other:S")]
    return make_shared_table("pk:S", "sk:S", lsi=lsi, gsi=gsi, **ON_DEMAND)


def test_rejects_unchanged_throughput(raw: Raw, provisioned: str) -> None:
    text = (
        "The provisioned throughput for the table will not change. The requested value equals the current "
        "value. Current ReadCapacityUnits provisioned for the table: 5. Requested ReadCapacityUnits: 5. "
        "Current WriteCapacityUnits provisioned for the table: 5. Requested WriteCapacityUnits: 5. "
        "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
    )
    body = {"TableName": provisioned, "ProvisionedThroughput": units(5, 5)}
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


@pytest.mark.parametrize("name", ["ours", "no_such_index"])
def test_blocks_excessive_throughput_for_existing_and_missing_indexes(
    raw: Raw, provisioned: str, name: str
) -> None:
    update = {"Update": {"IndexName": name, "ProvisionedThroughput": units(1, 10**12 + 1)}}
    text = (
        "This operation cannot be performed with given input values. Please contact DynamoDB service team "
        "for more info: Action Blocked: IndexUpdate"
    )
    body = {"TableName": provisioned, "GlobalSecondaryIndexUpdates": [update]}
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


@pytest.mark.parametrize("body", [{}, ON_DEMAND], ids=["as it is", "asked for again"])
def test_a_table_paid_per_request_takes_no_throughput(raw: Raw, on_demand: str, body: Body) -> None:
    text = (
        INVALID
        + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"  # noqa: E501
    )
    request = {"TableName": on_demand, "ProvisionedThroughput": units(1, 1)} | body
    assert raw.refusal("UpdateTable", request) == ("ValidationException", text)


def test_provisioning_needs_throughput_for_every_index(raw: Raw, on_demand: str) -> None:
    body = {"TableName": on_demand, "BillingMode": "PROVISIONED", "ProvisionedThroughput": units(1, 1)}
    text = INVALID + "ProvisionedThroughput must be specified for index: ours"
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


NEW = create("new", "fresh:S")


@pytest.mark.parametrize(
    ("body", "text"),
    cases(
        {
            "two actions in one update": (
                {
                    "GlobalSecondaryIndexUpdates": [NEW | delete("ours")],
                    "AttributeDefinitions": attribute_definitions("fresh:S"),
                },
                INVALID
                + "Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object",
            ),
            "the name of a global index again": (
                {
                    "GlobalSecondaryIndexUpdates": [create("ours", "fresh:S")],
                    "AttributeDefinitions": attribute_definitions("fresh:S"),
                },
                "Attempting to create an index which already exists",
            ),
            "the name of a local index again": (
                {
                    "GlobalSecondaryIndexUpdates": [create("mine", "fresh:S")],
                    "AttributeDefinitions": attribute_definitions("fresh:S"),
                },
                "Attempting to create an index which already exists",
            ),
            "no definitions": (
                {"GlobalSecondaryIndexUpdates": [NEW]},
                INVALID + "AttributeDefinitions is not specified for index: new",
            ),
            "another type than the attribute has": (
                {
                    "GlobalSecondaryIndexUpdates": [create("new", "other:N")],
                    "AttributeDefinitions": attribute_definitions("other:N"),
                },
                INVALID
                + "Attributes cannot be redefined. Please check that your attribute has the same type as previously "  # noqa: E501
                + "defined. Existing schema: Schema:[SchemaElement: key{other:S:HASH}] "
                + "New schema: Schema:[SchemaElement: key{other:N:HASH}]",
            ),
            "a local index to delete": (
                {"GlobalSecondaryIndexUpdates": [delete("mine")]},
                "Cannot delete an index that is not a GlobalSecondaryIndex: mine",
            ),
            "throughput for an index paid per request": (
                {
                    "GlobalSecondaryIndexUpdates": [
                        {"Create": NEW["Create"] | {"ProvisionedThroughput": units(1, 1)}}
                    ],
                    "AttributeDefinitions": attribute_definitions("fresh:S"),
                },
                INVALID
                + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: new "
                + "when BillingMode is PAY_PER_REQUEST",
            ),
            "a projection of nothing": (
                {
                    "GlobalSecondaryIndexUpdates": [create("new", "fresh:S", projection="INCLUDE")],
                    "AttributeDefinitions": attribute_definitions("fresh:S"),
                },
                INVALID + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
            ),
        }
    ),
)
def test_rejects_invalid_index_changes(raw: Raw, on_demand: str, body: Body, text: str) -> None:
    # dynalite changes no indexes, and DynamoDB Local has only "Attempting to create ..." among these texts.
    assert raw.refusal("UpdateTable", {"TableName": on_demand} | body) == ("ValidationException", text)


def test_rejects_a_new_index_on_an_undefined_attribute(raw: Raw, on_demand: str) -> None:
    body = {"GlobalSecondaryIndexUpdates": [NEW], "AttributeDefinitions": attribute_definitions("stale:S")}
    code, text = raw.refusal("UpdateTable", {"TableName": on_demand} | body)
    assert code == "ValidationException"
    assert "AttributeDefinitions" in str(text)


def test_missing_index_is_not_found(raw: Raw, on_demand: str) -> None:
    code, text = raw.refusal(
        "UpdateTable", {"TableName": on_demand, "GlobalSecondaryIndexUpdates": [delete("absent")]}
    )
    assert code == "ResourceNotFoundException"
    assert str(text).startswith("Requested resource not found")


@pytest.mark.parametrize(
    "updates",
    [[create("ind1", "fresh:S"), create("ind2", "fresh:S")], [delete("ours"), create("ind1", "fresh:S")]],
    ids=["two to create", "one to delete and one to create"],
)
def test_rejects_two_index_changes_at_once(raw: Raw, on_demand: str, updates: list[Body]) -> None:
    body = {
        "TableName": on_demand,
        "GlobalSecondaryIndexUpdates": updates,
        "AttributeDefinitions": attribute_definitions("fresh:S"),
    }
    assert raw.refusal("UpdateTable", body) == ("LimitExceededException", ONE_AT_A_TIME)


def test_a_second_index_is_refused_while_the_first_is_built(
    raw: Raw, make_table: MakeTable, await_active: Wait
) -> None:
    """The first index may already be done, as it may well be here."""
    table = make_table("pk:S", **ON_DEMAND)
    for name in ("first", "second"):
        body = {
            "GlobalSecondaryIndexUpdates": [create(name, "kind:S")],
            "AttributeDefinitions": attribute_definitions("kind:S"),
        }
        status, answer = raw.call("UpdateTable", {"TableName": table} | body)
        if status == 400:
            assert (name, answer["message"]) == ("second", ONE_AT_A_TIME)
    await_active(table)


STREAM_ON = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}


@pytest.mark.parametrize(
    ("stream", "text"),
    cases(
        {
            "on without a view": (
                {"StreamEnabled": True},
                INVALID + "If stream is being enabled then UpdateViewType is required",
            ),
            "off with a view": (
                {"StreamEnabled": False, "StreamViewType": "KEYS_ONLY"},
                INVALID + "If stream is being disabled, then UpdateViewType must not be specified",
            ),
        }
    ),
)
def test_stream_view_is_required_when_on_and_refused_when_off(
    raw: Raw, hash_table: str, stream: Body, text: str
) -> None:
    body = {"TableName": hash_table, "StreamSpecification": stream}
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


def test_rejects_disabling_a_stream_that_is_off(raw: Raw, hash_table: str) -> None:
    # DynamoDB Local does not name the table, here and below.
    body = {"TableName": hash_table, "StreamSpecification": {"StreamEnabled": False}}
    text = f"Table has no stream to disable: TableName: {hash_table}"
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


def test_rejects_enabling_a_stream_that_is_on(raw: Raw, make_table: MakeTable) -> None:
    table = make_table("pk:S", StreamSpecification=STREAM_ON)
    other_view = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    text = f"Table already has an enabled stream: TableName: {table}"
    for stream in (STREAM_ON, other_view):
        body = {"TableName": table, "StreamSpecification": stream}
        assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


def test_rejects_stream_and_throughput_changes_together(raw: Raw, provisioned: str) -> None:
    body = {"TableName": provisioned, "StreamSpecification": STREAM_ON, "ProvisionedThroughput": units(6, 6)}
    text = INVALID + "You cannot modify stream status while updating table IOPS"
    assert raw.refusal("UpdateTable", body) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("body", "text"),
    cases(
        {
            "class": (
                {"TableClass": "STANDARD_INFREQUENT_ACCESS"},
                INVALID + "TableClass modification must be the only operation in the request",
            ),
            "protection": (
                {"DeletionProtectionEnabled": True},
                INVALID + "DeletionProtection modification must be the only operation in the request",
            ),
        }
    ),
)
def test_rejects_class_or_protection_with_other_changes(
    raw: Raw, provisioned: str, body: Body, text: str
) -> None:
    request = {"TableName": provisioned, "ProvisionedThroughput": units(6, 6)} | body
    assert raw.refusal("UpdateTable", request) == ("ValidationException", text)


# Behaviour of everything but indexes


def test_throughput_can_be_raised_and_lowered(
    dynamodb: Any, make_table: MakeTable, await_active: Wait
) -> None:
    table = make_table("pk:S", ProvisionedThroughput=units(5, 5))
    rising = dynamodb.update_table(TableName=table, ProvisionedThroughput=units(9, 7))["TableDescription"]
    assert units(5, 5).items() <= rising["ProvisionedThroughput"].items()
    risen = await_active(table)["ProvisionedThroughput"]
    assert units(9, 7).items() <= risen.items()
    assert "LastIncreaseDateTime" in risen
    falling = dynamodb.update_table(TableName=table, ProvisionedThroughput=units(3, 2))["TableDescription"]
    assert units(9, 7).items() <= falling["ProvisionedThroughput"].items()
    assert falling["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0
    fallen = await_active(table)["ProvisionedThroughput"]
    assert units(3, 2).items() <= fallen.items()
    assert fallen["NumberOfDecreasesToday"] == 1
    assert "LastDecreaseDateTime" in fallen


def test_billing_mode_changes_to_on_demand_and_back(
    dynamodb: Any, make_table: MakeTable, await_active: Wait
) -> None:
    ours = index("ours", "other:S") | {"ProvisionedThroughput": units(2, 2)}
    table = make_table("pk:S", gsi=[ours], ProvisionedThroughput=units(5, 5))
    dynamodb.update_table(TableName=table, BillingMode="PAY_PER_REQUEST")
    paid = await_active(table)
    assert paid["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert "LastUpdateToPayPerRequestDateTime" in paid["BillingModeSummary"]
    assert units(0, 0).items() <= paid["ProvisionedThroughput"].items()
    assert units(0, 0).items() <= paid["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"].items()
    dynamodb.update_table(
        TableName=table,
        BillingMode="PROVISIONED",
        ProvisionedThroughput=units(4, 4),
        GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "ours", "ProvisionedThroughput": units(3, 3)}}],
    )
    back = await_active(table)
    assert back["BillingModeSummary"]["BillingMode"] == "PROVISIONED"
    assert units(4, 4).items() <= back["ProvisionedThroughput"].items()
    assert units(3, 3).items() <= back["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"].items()


def test_unchanged_billing_mode_is_accepted(dynamodb: Any, make_table: MakeTable, await_active: Wait) -> None:
    table = make_table("pk:S", **ON_DEMAND)
    dynamodb.update_table(TableName=table, BillingMode="PAY_PER_REQUEST")
    assert await_active(table)["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_the_table_class_can_be_changed(dynamodb: Any, hash_table: str, await_active: Wait) -> None:
    # Neither dynalite nor DynamoDB Local of 2020 knows classes and protection.
    dynamodb.update_table(TableName=hash_table, TableClass="STANDARD_INFREQUENT_ACCESS")
    summary = await_active(hash_table)["TableClassSummary"]
    assert summary["TableClass"] == "STANDARD_INFREQUENT_ACCESS"


def test_protection_is_turned_on_and_off(dynamodb: Any, hash_table: str, await_active: Wait) -> None:
    for protected in (True, False):
        answer = dynamodb.update_table(TableName=hash_table, DeletionProtectionEnabled=protected)
        assert answer["TableDescription"]["DeletionProtectionEnabled"] is protected
        assert await_active(hash_table)["DeletionProtectionEnabled"] is protected


def test_a_stream_turned_on_again_is_another_stream(
    dynamodb: Any, hash_table: str, await_active: Wait
) -> None:
    dynamodb.update_table(TableName=hash_table, StreamSpecification=STREAM_ON)
    first = await_active(hash_table)
    assert first["StreamSpecification"] == STREAM_ON
    dynamodb.update_table(TableName=hash_table, StreamSpecification={"StreamEnabled": False})
    off = await_active(hash_table)
    assert not off.get("StreamSpecification", {}).get("StreamEnabled")
    # The ARN remains, because the stream can still be read for a day.
    assert off["LatestStreamArn"] == first["LatestStreamArn"]
    time.sleep(0.002)  # Labels contain milliseconds.
    dynamodb.update_table(TableName=hash_table, StreamSpecification=STREAM_ON)
    assert await_active(hash_table)["LatestStreamArn"] != first["LatestStreamArn"]


# Behaviour of indexes


@pytest.fixture
def add_index(dynamodb: Any, await_active: Wait) -> Callable[..., Body]:
    """Return a function that adds a global index and waits until it is active."""

    def add(table: str, name: str, hash_key: str, range_key: str | None = None, **more: Any) -> Body:
        dynamodb.update_table(
            TableName=table,
            AttributeDefinitions=attribute_definitions(*filter(None, (hash_key, range_key))),
            GlobalSecondaryIndexUpdates=[create(name, hash_key, range_key, **more)],
        )
        return await_active(table)

    return add


@pytest.fixture
def plain(make_table: MakeTable) -> str:
    """Create an on-demand table without indexes."""
    return make_table("pk:S", **ON_DEMAND)


def keys_in(dynamodb: Any, table: str, name: str) -> list[str]:
    """Return the sorted partition keys of all items in an index."""
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, IndexName=name)
    return sorted(item["pk"]["S"] for page in pages for item in page["Items"])


def test_an_index_is_filled_with_the_items_that_are_there(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    for number in range(30):
        raw.put(plain, {"pk": {"S": f"{number:02}"}, "kind": {"S": "even" if number % 2 == 0 else "odd"}})
    raw.put(plain, {"pk": {"S": "kindless"}})
    (added,) = add_index(plain, "by_kind", "kind:S")["GlobalSecondaryIndexes"]
    assert added["IndexStatus"] == "ACTIVE"
    assert "Backfilling" not in added or added["Backfilling"] is False
    answer = dynamodb.query(
        TableName=plain,
        IndexName="by_kind",
        KeyConditionExpression="kind = :kind",
        ExpressionAttributeValues={":kind": {"S": "odd"}},
    )
    assert sorted(item["pk"]["S"] for item in answer["Items"]) == [
        f"{number:02}" for number in range(1, 30, 2)
    ]
    assert len(keys_in(dynamodb, plain, "by_kind")) == 30


def test_index_has_the_final_state_of_items_written_during_backfill(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    # DynamoDB Local fails with an error of its own when it is written to in the meantime.
    for number in range(200):
        raw.put(plain, {"pk": {"S": f"old{number}"}, "kind": {"S": "old"}})
    done = threading.Event()
    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write_until_done, raw, plain, done)
        try:
            add_index(plain, "by_kind", "kind:S")
        finally:
            done.set()
        writer.result()
    expected = {item["pk"]["S"]: item["kind"]["S"] for item in scan_all(dynamodb, plain) if "kind" in item}
    indexed = {item["pk"]["S"]: item["kind"]["S"] for item in scan_all(dynamodb, plain, IndexName="by_kind")}
    assert indexed == expected


def write_until_done(raw: Raw, table: str, done: threading.Event) -> None:
    """Change, delete and add items until `done` is set."""
    number = 0
    while not done.is_set() or number < 20:
        number += 1
        raw.put(table, {"pk": {"S": f"old{number % 200}"}, "kind": {"S": f"changed{number}"}})
        raw.answer("DeleteItem", {"TableName": table, "Key": {"pk": {"S": f"old{(number * 7) % 200}"}}})
        raw.put(table, {"pk": {"S": f"new{number}"}, "kind": {"S": "new"}})


def scan_all(dynamodb: Any, table: str, **request: Any) -> list[Body]:
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, **request)
    return [item for page in pages for item in page["Items"]]


UNFIT_FOR_HASH: dict[str, Body] = {
    "a number": {"N": "1"},
    "a list": {"L": [{"S": "a"}]},
    "an empty string": {"S": ""},
    "2049 bytes": {"S": "x" * 2049},
    "null": {"NULL": True},
}


def test_items_whose_hash_key_does_not_fit_are_left_out(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    # DynamoDB Local of 2020 refuses the empty string itself, in any attribute.
    for name, value in UNFIT_FOR_HASH.items():
        raw.put(plain, {"pk": {"S": name}, "kind": value})
    raw.put(plain, {"pk": {"S": "fits"}, "kind": {"S": "x" * 2048}})
    add_index(plain, "by_kind", "kind:S")
    assert keys_in(dynamodb, plain, "by_kind") == ["fits"]
    assert len(scan_all(dynamodb, plain)) == len(UNFIT_FOR_HASH) + 1


def test_items_whose_range_key_does_not_fit_are_left_out(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    # DynamoDB Local looks at the hash key only.
    values: dict[str, Body] = {"wrong type": {"N": "1"}, "long": {"S": "x" * 1025}, "fits": {"S": "x" * 1024}}
    for name, value in values.items():
        raw.put(plain, {"pk": {"S": name}, "kind": {"S": "k"}, "at": value})
    raw.put(plain, {"pk": {"S": "missing"}, "kind": {"S": "k"}})
    add_index(plain, "by_kind", "kind:S", "at:S")
    assert keys_in(dynamodb, plain, "by_kind") == ["fits"]


def test_omitted_item_enters_the_index_once_corrected(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    raw.put(plain, {"pk": {"S": "a"}, "kind": {"N": "1"}})
    add_index(plain, "by_kind", "kind:S")
    raw.put(plain, {"pk": {"S": "a"}, "kind": {"S": "one"}})
    assert keys_in(dynamodb, plain, "by_kind") == ["a"]


def test_omitted_item_may_be_changed_and_deleted(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    for name in "ab":
        raw.put(plain, {"pk": {"S": name}, "kind": {"N": "1"}})
    add_index(plain, "by_kind", "kind:S")
    dynamodb.delete_item(TableName=plain, Key={"pk": {"S": "a"}})
    dynamodb.update_item(
        TableName=plain,
        Key={"pk": {"S": "b"}},
        UpdateExpression="REMOVE kind",
    )
    assert scan_all(dynamodb, plain) == [{"pk": {"S": "b"}}]
    assert keys_in(dynamodb, plain, "by_kind") == []


def test_new_index_enforces_the_key_type(raw: Raw, plain: str, add_index: Callable[..., Body]) -> None:
    add_index(plain, "by_kind", "kind:S")
    body = {"TableName": plain, "Item": {"pk": {"S": "a"}, "kind": {"N": "1"}}}
    text = INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: by_kind"
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


def test_an_index_on_the_tables_own_keys_may_be_added(
    dynamodb: Any, raw: Raw, make_table: MakeTable, add_index: Callable[..., Body]
) -> None:
    table = make_table("pk:S", "sk:S", **ON_DEMAND)
    raw.put(table, {"pk": {"S": "a"}, "sk": {"S": "b"}, "more": {"S": "c"}})
    added = add_index(table, "turned", "sk:S", "pk:S", projection="KEYS_ONLY")
    assert sorted(added["AttributeDefinitions"], key=str) == attribute_definitions("pk:S", "sk:S")
    assert scan_all(dynamodb, table, IndexName="turned") == [{"pk": {"S": "a"}, "sk": {"S": "b"}}]


def test_accepts_definitions_that_the_new_index_does_not_use(
    dynamodb: Any, plain: str, await_active: Wait
) -> None:
    dynamodb.update_table(
        TableName=plain,
        AttributeDefinitions=attribute_definitions("kind:S", "unused:S"),
        GlobalSecondaryIndexUpdates=[create("by_kind", "kind:S")],
    )
    names = {entry["AttributeName"] for entry in await_active(plain)["AttributeDefinitions"]}
    assert {"pk", "kind"} <= names


def test_deleted_index_no_longer_constrains_its_key(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    add_index(plain, "by_kind", "kind:S")
    remove_index(dynamodb, plain, "by_kind")
    body = {"TableName": plain, "IndexName": "by_kind"}
    text = "The table does not have the specified index: by_kind"
    assert raw.refusal("Scan", body) == ("ValidationException", text)
    raw.put(plain, {"pk": {"S": "a"}, "kind": {"N": "1"}})
    described = dynamodb.describe_table(TableName=plain)["Table"]
    assert "GlobalSecondaryIndexes" not in described
    assert described["AttributeDefinitions"] == attribute_definitions("pk:S")


def test_index_may_be_recreated_with_another_key(
    dynamodb: Any, raw: Raw, plain: str, add_index: Callable[..., Body]
) -> None:
    raw.put(plain, {"pk": {"S": "a"}, "kind": {"S": "k"}, "other": {"N": "7"}})
    add_index(plain, "again", "kind:S")
    remove_index(dynamodb, plain, "again")
    add_index(plain, "again", "other:N")
    assert keys_in(dynamodb, plain, "again") == ["a"]


def test_local_index_key_stays_typed_after_deleting_a_global_index(
    dynamodb: Any, raw: Raw, make_table: MakeTable
) -> None:
    table = make_table(
        "pk:S", "sk:S", lsi=[index("mine", "pk:S", "other:S")], gsi=[index("ours", "other:S")], **ON_DEMAND
    )
    remove_index(dynamodb, table, "ours")
    body = {"TableName": table, "Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "other": {"N": "1"}}}
    text = INVALID + "Type mismatch for Index Key other Expected: S Actual: N IndexName: mine"
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


def remove_index(dynamodb: Any, table: str, name: str) -> None:
    """Delete a global index and wait until it is gone."""
    dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[delete(name)])
    deadline = time.monotonic() + GONE_WITHIN_S
    while any(
        entry["IndexName"] == name
        for entry in dynamodb.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
    ):
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.02)
