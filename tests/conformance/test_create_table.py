"""CreateTable over the wire: accepted and refused definitions, and the description in the response.

The first of the table operations' files; the others rely on it for the JSON types, whose every refusal is
spelled out here once. Texts are AWS's; where AWS has worded a refusal in two ways over the years, both are
accepted.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable, index, unique_name
from .protocol import Raw, constraint, split_constraints

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
UNITS = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
LONG_NAME = "x" * 256


def hash_key(name: str) -> Body:
    return {"AttributeName": name, "KeyType": "HASH"}


def range_key(name: str) -> Body:
    return {"AttributeName": name, "KeyType": "RANGE"}


def attribute_definitions(*names: str) -> list[Body]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def local(name: str = "local", *keys: Body, **projection: Any) -> Body:
    """Return a local secondary index with these keys, by default on `other`."""
    return {
        "IndexName": name,
        "KeySchema": list(keys) or [hash_key("pk"), range_key("other")],
        "Projection": projection or {"ProjectionType": "ALL"},
    }


def global_(name: str = "global", *keys: Body, **projection: Any) -> Body:
    """Return a global secondary index with these keys, by default on `other`."""
    return local(name, *(keys or (hash_key("other"),)), **projection)


def table(**members: Any) -> Body:
    """Return a valid CreateTable request with some members replaced; `None` leaves a member out."""
    body = {
        "TableName": unique_name(),
        "AttributeDefinitions": attribute_definitions("pk"),
        "KeySchema": [hash_key("pk")],
        "BillingMode": "PAY_PER_REQUEST",
    }
    return {name: value for name, value in (body | members).items() if value is not None}


def range_table(**members: Any) -> Body:
    """Return a CreateTable request with the keys `pk` and `sk`, and a definition of `other`."""
    keys = {
        "AttributeDefinitions": attribute_definitions("pk", "sk", "other"),
        "KeySchema": [hash_key("pk"), range_key("sk")],
    }
    return table(**(keys | members))


def with_global(*indexes: Body, **members: Any) -> Body:
    """Return a CreateTable request with these global indexes and a definition of `other`."""
    keys = {
        "AttributeDefinitions": attribute_definitions("pk", "other"),
        "GlobalSecondaryIndexes": list(indexes),
    }
    return table(**(keys | members))


# Shape


def test_ignores_unknown_members(raw: Raw, dynamodb: Any) -> None:
    body = table(SomethingNew={"a": [1]})
    raw.answer("CreateTable", body)
    dynamodb.delete_table(TableName=body["TableName"])


def must(value: str, path: str, rule: str) -> str:
    """Return one entry of a constraint message."""
    return constraint(value, path, f"Member must {rule}")


def one(value: str, path: str, rule: str) -> str:
    """Return the whole message about one violated constraint."""
    return "1 validation error detected: " + must(value, path, rule)


@pytest.mark.parametrize("name", ["", "a", "ab", "a" * 256], ids=["empty", "one", "two", "256"])
def test_a_table_name_has_3_to_255_characters(raw: Raw, name: str) -> None:
    # Until about 2024 AWS answered as it does for the other operations on tables.
    bound = "less than or equal to 255" if len(name) > 3 else "greater than or equal to 3"
    text = one(f"'{name}'", "tableName", f"have length {bound}")
    assert raw.refusal("CreateTable", table(TableName=name)) == ("ValidationException", text)
    assert raw.refusal("CreateTable", {"TableName": name, "KeySchema": []}) == ("ValidationException", text)


def test_reports_a_missing_table_name_first(raw: Raw) -> None:
    text = "The parameter 'TableName' is required but was not present in the request"
    assert raw.refusal("CreateTable", {"KeySchema": []}) == ("ValidationException", text)


NAME_RULE = "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
NO_NULL = "not be null"
CONSTRAINTS: list[tuple[str, Body, list[str]]] = [
    ("characters of the name", table(TableName="abc;"), [must("'abc;'", "tableName", NAME_RULE)]),
    ("no definitions", table(AttributeDefinitions=None), [must("null", "attributeDefinitions", NO_NULL)]),
    ("no key", table(KeySchema=None), [must("null", "keySchema", NO_NULL)]),
    (
        "nothing but a bad name",
        {"TableName": "abc;"},
        [
            must("null", "attributeDefinitions", NO_NULL),
            must("'abc;'", "tableName", NAME_RULE),
            must("null", "keySchema", NO_NULL),
        ],
    ),
    (
        "an empty key",
        table(KeySchema=[]),
        [must("'[]'", "keySchema", "have length greater than or equal to 1")],
    ),
    (
        "an unknown billing mode",
        table(BillingMode="FREE"),
        [must("'FREE'", "billingMode", "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]")],
    ),
    (
        "an unknown key type",
        table(KeySchema=[{"AttributeName": "pk", "KeyType": "SORT"}]),
        [must("'SORT'", "keySchema.1.member.keyType", "satisfy enum value set: [HASH, RANGE]")],
    ),
    (
        "an unknown attribute type",
        table(AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "SS"}]),
        [must("'SS'", "attributeDefinitions.1.member.attributeType", "satisfy enum value set: [B, N, S]")],
    ),
    (
        "an empty definition",
        table(AttributeDefinitions=[{}]),
        [
            must("null", "attributeDefinitions.1.member.attributeName", NO_NULL),
            must("null", "attributeDefinitions.1.member.attributeType", NO_NULL),
        ],
    ),
    (
        "an empty key element",
        table(KeySchema=[{}]),
        [
            must("null", "keySchema.1.member.attributeName", NO_NULL),
            must("null", "keySchema.1.member.keyType", NO_NULL),
        ],
    ),
    (
        "empty throughput",
        table(ProvisionedThroughput={}),
        [
            must("null", "provisionedThroughput.writeCapacityUnits", NO_NULL),
            must("null", "provisionedThroughput.readCapacityUnits", NO_NULL),
        ],
    ),
    (
        "negative throughput",
        table(ProvisionedThroughput={"ReadCapacityUnits": -1, "WriteCapacityUnits": 0}),
        [
            must("'0'", "provisionedThroughput.writeCapacityUnits", "have value greater than or equal to 1"),
            must("'-1'", "provisionedThroughput.readCapacityUnits", "have value greater than or equal to 1"),
        ],
    ),
    (
        "an empty local index",
        range_table(LocalSecondaryIndexes=[{}]),
        [
            must("null", "localSecondaryIndexes.1.member.indexName", NO_NULL),
            must("null", "localSecondaryIndexes.1.member.keySchema", NO_NULL),
            must("null", "localSecondaryIndexes.1.member.projection", NO_NULL),
        ],
    ),
    (
        "the name and key of a global index",
        with_global({"IndexName": "h;", "KeySchema": [], "Projection": {}}),
        [
            must("'h;'", "globalSecondaryIndexes.1.member.indexName", NAME_RULE),
            must(
                "'h;'", "globalSecondaryIndexes.1.member.indexName", "have length greater than or equal to 3"
            ),
            must(
                "'[]'", "globalSecondaryIndexes.1.member.keySchema", "have length greater than or equal to 1"
            ),
        ],
    ),
    (
        "a long index name",
        with_global(global_(LONG_NAME)),
        [
            must(
                f"'{LONG_NAME}'",
                "globalSecondaryIndexes.1.member.indexName",
                "have length less than or equal to 255",
            )
        ],
    ),
    (
        "an unknown projection",
        with_global(global_(ProjectionType="SOME", NonKeyAttributes=[])),
        [
            must(
                "'SOME'",
                "globalSecondaryIndexes.1.member.projection.projectionType",
                "satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]",
            ),
            must(
                "'[]'",
                "globalSecondaryIndexes.1.member.projection.nonKeyAttributes",
                "have length greater than or equal to 1",
            ),
        ],
    ),
]


@all_cases(("body", "parts"), [case[1:] for case in CONSTRAINTS])
def test_reports_all_violated_constraints_together(raw: Raw, body: Body, parts: list[str]) -> None:
    code, text = raw.refusal("CreateTable", body)
    assert (code, split_constraints(text)) == ("ValidationException", set(parts))


def test_reports_at_most_ten_constraints(raw: Raw) -> None:
    _, text = raw.refusal("CreateTable", range_table(LocalSecondaryIndexes=[{}] * 9))
    assert len(split_constraints(text)) == 10


def test_a_key_has_at_most_two_elements(raw: Raw) -> None:
    keys = [hash_key("pk"), range_key("sk"), range_key("more")]
    code, text = raw.refusal(
        "CreateTable", table(AttributeDefinitions=attribute_definitions("pk", "sk", "more"), KeySchema=keys)
    )
    # Some of AWS's hosts show the elements like this, others by Java's name of the object.
    tail = r"at 'keySchema' failed to satisfy constraint: Member must have length less than or equal to 2"
    element = r"KeySchemaElement(\(attributeName=\w+, keyType=(HASH|RANGE)\)|@[0-9a-f]+)"
    assert code == "ValidationException"
    assert re.fullmatch(
        rf"1 validation error detected: Value '\[{element}(, {element}){{2}}\]' {tail}", str(text)
    )


def test_reports_global_index_errors_before_local_ones(raw: Raw) -> None:
    members = {"LocalSecondaryIndexes": [local("aa")], "GlobalSecondaryIndexes": [global_("zz")]}
    _, text = raw.refusal("CreateTable", range_table(**members))
    too_short = "have length greater than or equal to 3"
    assert text == "2 validation errors detected: " + "; ".join(
        (
            must("'zz'", "globalSecondaryIndexes.1.member.indexName", too_short),
            must("'aa'", "localSecondaryIndexes.1.member.indexName", too_short),
        )
    )


# Validation, in the order of the checks

MISSING_UNITS = (
    INVALID
    + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"
)
UNDEFINED = INVALID + "Some index key attributes are not defined in AttributeDefinitions. "
SAME_NAME = "Both the Hash Key and the Range Key element in the KeySchema have the same name"
NOT_HASH = "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"
NOT_RANGE = "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"
COUNT_DIFFERS = (
    INVALID
    + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"  # noqa: E501
)

REFUSALS: list[tuple[str, Body, str]] = [
    (
        "throughput with PAY_PER_REQUEST",
        table(ProvisionedThroughput=UNITS),
        INVALID
        + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST",  # noqa: E501
    ),
    ("no throughput with PROVISIONED", table(BillingMode="PROVISIONED"), MISSING_UNITS),
    ("no throughput and no billing mode", table(BillingMode=None), MISSING_UNITS),
    (
        "reads out of bounds",
        table(
            BillingMode=None, ProvisionedThroughput={"ReadCapacityUnits": 10**12 + 1, "WriteCapacityUnits": 1}
        ),
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
    ),
    (
        "writes out of bounds",
        table(
            BillingMode=None, ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 10**12 + 1}
        ),
        "Given value 1000000000001 for WriteCapacityUnits is out of bounds",
    ),
    (
        "fewer definitions than keys",
        table(KeySchema=[hash_key("pk"), range_key("sk")]),
        "Invalid KeySchema: Some index key attribute have no definition",
    ),
    (
        "one definition for one attribute twice in the key",
        table(KeySchema=[hash_key("pk"), range_key("pk")]),
        "Invalid KeySchema: Some index key attribute have no definition",
    ),
    (
        "a key without a definition",
        table(AttributeDefinitions=attribute_definitions("other")),
        UNDEFINED + "Keys: [pk], AttributeDefinitions: [other]",
    ),
    (
        "the same attribute twice in the key",
        table(
            AttributeDefinitions=attribute_definitions("pk", "sk"),
            KeySchema=[hash_key("pk"), range_key("pk")],
        ),
        SAME_NAME,
    ),
    (
        "the range key first",
        table(
            AttributeDefinitions=attribute_definitions("pk", "sk"),
            KeySchema=[range_key("pk"), hash_key("sk")],
        ),
        NOT_HASH,
    ),
    ("only a range key", table(KeySchema=[range_key("pk")]), NOT_HASH),
    (
        "two hash keys",
        table(
            AttributeDefinitions=attribute_definitions("pk", "sk"), KeySchema=[hash_key("pk"), hash_key("sk")]
        ),
        NOT_RANGE,
    ),
    ("an unused definition", table(AttributeDefinitions=attribute_definitions("pk", "other")), COUNT_DIFFERS),
    (
        "two unused definitions",
        table(AttributeDefinitions=attribute_definitions("pk", "other", "more")),
        COUNT_DIFFERS,
    ),
    ("no local index", table(LocalSecondaryIndexes=[]), INVALID + "List of LocalSecondaryIndexes is empty"),
    (
        "a local index without a range key in the table",
        table(AttributeDefinitions=attribute_definitions("pk", "other"), LocalSecondaryIndexes=[local()]),
        INVALID
        + "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",  # noqa: E501
    ),
    (
        "a local index on an undefined attribute",
        range_table(
            AttributeDefinitions=attribute_definitions("pk", "sk"),
            LocalSecondaryIndexes=[local("local", hash_key("pk"), range_key("other"))],
        ),
        UNDEFINED + "Keys: [pk, other], AttributeDefinitions: [pk, sk]",
    ),
    (
        "a local index on one attribute twice",
        range_table(LocalSecondaryIndexes=[local("local", hash_key("pk"), range_key("pk"))]),
        SAME_NAME,
    ),
    (
        "a local index with the range key first",
        range_table(LocalSecondaryIndexes=[local("local", range_key("pk"))]),
        NOT_HASH,
    ),
    (
        "a local index with two hash keys",
        range_table(LocalSecondaryIndexes=[local("local", hash_key("pk"), hash_key("other"))]),
        NOT_RANGE,
    ),
    (
        "a local index without a range key",
        range_table(LocalSecondaryIndexes=[local("local", hash_key("pk"))]),
        INVALID + "Index KeySchema does not have a range key for index: local",
    ),
    (
        "a local index with another hash key",
        range_table(LocalSecondaryIndexes=[local("local", hash_key("sk"), range_key("other"))]),
        INVALID
        + "Index KeySchema does not have the same leading hash key as table KeySchema for index: local. "
        + "index hash key: sk, table hash key: pk",
    ),
    (
        "a local index without a projection type",
        range_table(LocalSecondaryIndexes=[local(NonKeyAttributes=["a"])]),
        INVALID + "Unknown ProjectionType: null",
    ),
    (
        "a local index that projects ALL and more",
        range_table(LocalSecondaryIndexes=[local(ProjectionType="ALL", NonKeyAttributes=["a"])]),
        INVALID + "ProjectionType is ALL, but NonKeyAttributes is specified",
    ),
    (
        "two local indexes of one name",
        range_table(LocalSecondaryIndexes=[local("twin"), local("twin")]),
        INVALID + "Duplicate index name: twin",
    ),
    (
        "six local indexes",
        range_table(LocalSecondaryIndexes=[local(f"local{number}") for number in range(6)]),
        INVALID + "Number of LocalSecondaryIndexes exceeds per-table limit of 5",
    ),
    (
        "no global index",
        table(GlobalSecondaryIndexes=[]),
        INVALID + "List of GlobalSecondaryIndexes is empty",
    ),
    (
        "a global index on an undefined attribute",
        table(GlobalSecondaryIndexes=[global_()]),
        UNDEFINED + "Keys: [other], AttributeDefinitions: [pk]",
    ),
    (
        "a global index on one attribute twice",
        with_global(global_("global", hash_key("other"), range_key("other"))),
        SAME_NAME,
    ),
    ("a global index with only a range key", with_global(global_("global", range_key("other"))), NOT_HASH),
    (
        "a global index with two hash keys",
        with_global(global_("global", hash_key("other"), hash_key("pk"))),
        NOT_RANGE,
    ),
    (
        "a global index that includes nothing",
        with_global(global_(ProjectionType="INCLUDE")),
        INVALID + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
    ),
    (
        "a global index of keys only that includes more",
        with_global(global_(ProjectionType="KEYS_ONLY", NonKeyAttributes=["a"])),
        INVALID + "ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified",
    ),
    (
        "an attribute included twice",
        with_global(global_(ProjectionType="INCLUDE", NonKeyAttributes=["a", "a"])),
        INVALID + "Duplicate element in NonKeyAttributes: a",
    ),
    (
        "throughput of an index with PAY_PER_REQUEST",
        with_global(global_() | {"ProvisionedThroughput": UNITS}),
        INVALID
        + "ProvisionedThroughput should not be specified for index: global when BillingMode is PAY_PER_REQUEST",  # noqa: E501
    ),
    (
        "no throughput of an index with PROVISIONED",
        with_global(global_(), BillingMode=None, ProvisionedThroughput=UNITS),
        INVALID + "ProvisionedThroughput is not specified for index: global",
    ),
    (
        "two global indexes of one name",
        with_global(global_("twin"), global_("twin")),
        INVALID + "Duplicate index name: twin",
    ),
    (
        "a local and a global index of one name",
        range_table(LocalSecondaryIndexes=[local("twin")], GlobalSecondaryIndexes=[global_("twin")]),
        INVALID + "Duplicate index name: twin",
    ),
    (
        "twenty-one global indexes",
        with_global(*(global_(f"global{number}") for number in range(21))),
        INVALID + "GlobalSecondaryIndex count exceeds the per-table limit of 20",
    ),
    (
        "a definition no key of a table with an index uses",
        with_global(global_(), AttributeDefinitions=attribute_definitions("pk", "other", "unused")),
        INVALID
        + "Some AttributeDefinitions are not used. "
        + "AttributeDefinitions: [pk, other, unused], keys used: [pk, other]",
    ),
    (
        "a stream without a view",
        table(StreamSpecification={"StreamEnabled": True}),
        INVALID + "Table is being created with a stream enabled, UpdateViewType is required",
    ),
    (
        "a view without a stream",
        table(StreamSpecification={"StreamEnabled": False, "StreamViewType": "NEW_IMAGE"}),
        INVALID + "Table is being created with a stream disabled, UpdateViewType should not be specified",
    ),
]


@all_cases(("body", "text"), [case[1:] for case in REFUSALS])
def test_rejects_an_invalid_table(raw: Raw, body: Body, text: str) -> None:
    # DynamoDB Local has texts of its own for nearly all of these; dynalite does not check the included
    # attributes and missing throughput of an index, unused definitions next to an index, and streams.
    code, refused = raw.refusal("CreateTable", body)
    assert (code, sort_keys_in_text(refused)) == ("ValidationException", sort_keys_in_text(text))


def sort_keys_in_text(text: str | None) -> str:
    """Sort the names in `Keys: [pk, sk]`, whose order is arbitrary."""
    return re.sub(r"\[([^]]*)]", lambda names: str(sorted(names[1].split(", "))), str(text))


def test_an_attribute_defined_twice_is_refused_by_name(raw: Raw) -> None:
    # dynalite and moto take it for an unused definition.
    twice = [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "pk", "AttributeType": "N"}]
    refusal = raw.refusal("CreateTable", table(AttributeDefinitions=twice))
    assert refusal == ("ValidationException", "Attribute Name is duplicated: pk")


def test_indexes_together_include_at_most_100_attributes(raw: Raw) -> None:
    indexes = [
        global_(f"global{n}", ProjectionType="INCLUDE", NonKeyAttributes=[f"a{n}_{i}" for i in range(20)])
        for n in range(6)
    ]
    code, text = raw.refusal("CreateTable", with_global(*indexes))
    assert code in ("ValidationException", "LimitExceededException"), text


@pytest.mark.parametrize("name", ["", LONG_NAME], ids=["empty", "256 characters"])
def test_the_name_of_a_key_has_1_to_255_characters(raw: Raw, name: str) -> None:
    body = table(AttributeDefinitions=attribute_definitions(name), KeySchema=[hash_key(name)])
    code, text = raw.refusal("CreateTable", body)
    bound = "less than or equal to 255" if name else "greater than or equal to 1"
    assert code == "ValidationException"
    assert must(f"'{name}'", "keySchema.1.member.attributeName", f"have length {bound}") in str(text)


def test_an_unknown_table_class_is_refused(raw: Raw) -> None:
    code, text = raw.refusal("CreateTable", table(TableClass="COLD"))
    assert code == "ValidationException"
    assert text in (
        one("'COLD'", "tableClass", "satisfy enum value set: [STANDARD, STANDARD_INFREQUENT_ACCESS]"),
        "Invalid table-class parameter provided. Please try again with a valid table-class value: "
        "[STANDARD, STANDARD_INFREQUENT_ACCESS].",
    )


def test_an_unknown_stream_view_is_refused(raw: Raw) -> None:
    body = table(StreamSpecification={"StreamEnabled": True, "StreamViewType": "ALL"})
    code, text = raw.refusal("CreateTable", body)
    assert code == "ValidationException"
    assert "Value 'ALL' at 'streamSpecification.streamViewType' failed to satisfy constraint: " in str(text)


def test_rejects_an_existing_table(raw: Raw, hash_table: str) -> None:
    refusal = raw.refusal("CreateTable", table(TableName=hash_table))
    assert refusal == ("ResourceInUseException", f"Table already exists: {hash_table}")


def test_refused_table_is_not_created(raw: Raw) -> None:
    body = table(AttributeDefinitions=attribute_definitions("pk", "other"))
    raw.refusal("CreateTable", body)
    assert raw.refusal("DescribeTable", {"TableName": body["TableName"]})[0] == "ResourceNotFoundException"


# Behaviour


def create_and_delete(raw: Raw, dynamodb: Any, body: Body) -> Body:
    """Create the table, wait until it is active, delete it, and return the response of CreateTable."""
    description: Body = raw.answer("CreateTable", body)["TableDescription"]
    dynamodb.get_waiter("table_exists").wait(TableName=body["TableName"], WaiterConfig={"Delay": 1})
    dynamodb.delete_table(TableName=body["TableName"])
    return description


def test_the_answer_describes_the_new_table(raw: Raw, dynamodb: Any) -> None:
    body = table()
    description = create_and_delete(raw, dynamodb, body)
    name = body["TableName"]
    assert description["TableName"] == name
    assert description["TableStatus"] in ("CREATING", "ACTIVE")
    assert description["TableArn"].endswith(f":table/{name}")
    assert str(uuid.UUID(description["TableId"])) == description["TableId"]
    assert description["CreationDateTime"] > 0
    assert (description["ItemCount"], description["TableSizeBytes"]) == (0, 0)
    assert description["KeySchema"] == body["KeySchema"]
    assert description["AttributeDefinitions"] == body["AttributeDefinitions"]


def test_a_table_paid_per_request_has_no_throughput(raw: Raw, dynamodb: Any) -> None:
    description = create_and_delete(raw, dynamodb, table())
    throughput = description["ProvisionedThroughput"]
    assert {
        "ReadCapacityUnits": 0,
        "WriteCapacityUnits": 0,
        "NumberOfDecreasesToday": 0,
    }.items() <= throughput.items()
    assert description["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_provisioned_table_has_no_billing_summary(raw: Raw, dynamodb: Any) -> None:
    # moto writes one anyway.
    description = create_and_delete(raw, dynamodb, table(BillingMode=None, ProvisionedThroughput=UNITS))
    assert UNITS.items() <= description["ProvisionedThroughput"].items()
    assert "BillingModeSummary" not in description


def test_describes_indexes_with_their_own_arns(raw: Raw, dynamodb: Any) -> None:
    body = range_table(
        LocalSecondaryIndexes=[local("mine")],
        GlobalSecondaryIndexes=[global_("ours", ProjectionType="INCLUDE", NonKeyAttributes=["a", "b"])],
    )
    description = create_and_delete(raw, dynamodb, body)
    (mine,), (ours,) = description["LocalSecondaryIndexes"], description["GlobalSecondaryIndexes"]
    assert mine["IndexArn"] == f"{description['TableArn']}/index/mine"
    assert ours["IndexArn"] == f"{description['TableArn']}/index/ours"
    assert (mine["ItemCount"], mine["IndexSizeBytes"]) == (0, 0)
    assert ours["IndexStatus"] in ("CREATING", "ACTIVE")
    assert ours["ProvisionedThroughput"]["ReadCapacityUnits"] == 0
    assert "IndexStatus" not in mine
    assert "ProvisionedThroughput" not in mine
    assert ours["Projection"]["NonKeyAttributes"] == ["a", "b"]


def test_requested_stream_has_a_label_and_an_arn(raw: Raw, dynamodb: Any) -> None:
    wanted = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    description = create_and_delete(raw, dynamodb, table(StreamSpecification=wanted))
    assert description["StreamSpecification"] == wanted
    label = description["LatestStreamLabel"]
    assert description["LatestStreamArn"] == f"{description['TableArn']}/stream/{label}"


def test_a_stream_that_is_off_is_not_described(raw: Raw, dynamodb: Any) -> None:
    description = create_and_delete(raw, dynamodb, table(StreamSpecification={"StreamEnabled": False}))
    assert "LatestStreamArn" not in description


def test_class_and_protection_are_kept(raw: Raw, dynamodb: Any) -> None:
    body = table(TableClass="STANDARD_INFREQUENT_ACCESS", DeletionProtectionEnabled=False)
    description = create_and_delete(raw, dynamodb, body)
    assert description["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
    assert description["DeletionProtectionEnabled"] is False


@pytest.mark.parametrize("name", [".starts.with.a.point", "_", "n" * 255], ids=["point", "short", "255"])
def test_every_allowed_name_names_a_table(make_table: MakeTable, dynamodb: Any, name: str) -> None:
    name = name if len(name) == 255 else name + unique_name()
    assert make_table("pk:S", TableName=name) == name
    assert dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE"


def test_a_table_takes_twenty_global_and_five_local_indexes(make_table: MakeTable, dynamodb: Any) -> None:
    name = make_table(
        "pk:S",
        "sk:S",
        lsi=[index(f"local{n}", "pk:S", "a:N") for n in range(5)],
        gsi=[index(f"global{n}", "a:N") for n in range(20)],
    )
    description = dynamodb.describe_table(TableName=name)["Table"]
    assert len(description["GlobalSecondaryIndexes"]) == 20
    assert len(description["LocalSecondaryIndexes"]) == 5
