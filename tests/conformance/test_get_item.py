"""GetItem over the wire: its shape, its refusals in order, and its responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    NOT_NULL,
    TABLE_NAME_PATTERN,
    Raw,
    cases,
    constraint,
    split_constraints,
)

INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "
MISMATCH = "The provided key element does not match the schema"
OVERLAP = (
    "Invalid ProjectionExpression: Two document paths overlap with each other; "
    "must remove or rewrite one of these paths; "
)

# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing at all": (
                {},
                {constraint("null", "tableName", NOT_NULL), constraint("null", "key", NOT_NULL)},
            ),
            "several faults": (
                {"TableName": "abc;", "ReturnConsumedCapacity": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'abc;'", "tableName", TABLE_NAME_PATTERN),
                    constraint("null", "key", NOT_NULL),
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("GetItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


# Validation, before the table is looked up: the table `abc` does not exist


@all_cases(
    ("more", "text"),
    cases(
        {
            "expression and non-expression parameters": (
                {"AttributesToGet": ["a"], "ProjectionExpression": ""},
                "Can not use both expression and non-expression parameters in the same request: "
                "Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}",
            ),
            "names without an expression": (
                {"ExpressionAttributeNames": {}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "a key value without a type": (
                {"Key": {"a": {}}, "ProjectionExpression": ""},
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "a key of an empty set": (
                {"Key": {"a": {"SS": []}}},
                INVALID + "An string set  may not be empty",
            ),
            "a key that is no number": (
                {"Key": {"a": {"N": "b"}}},
                "The parameter cannot be converted to a numeric value: b",
            ),
            "no names": (
                {"ExpressionAttributeNames": {}, "ProjectionExpression": ""},
                "ExpressionAttributeNames must not be empty",
            ),
            "an empty projection": (
                {"ProjectionExpression": ""},
                "Invalid ProjectionExpression: The expression can not be empty;",
            ),
            "a syntax error": (
                {"ProjectionExpression": "!!! INVALID !!!"},
                'Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"',
            ),
            "a reserved word": (
                {"ProjectionExpression": "a, Absolute"},
                "Invalid ProjectionExpression: Attribute name is a reserved keyword; reserved keyword: "
                "Absolute",
            ),
            "a name not defined": (
                {"ProjectionExpression": "#c, a", "ExpressionAttributeNames": {"#d": "d"}},
                "Invalid ProjectionExpression: An expression attribute name used in the document path is not "
                "defined; attribute name: #c",
            ),
            "a name not used": (
                {"ProjectionExpression": "a", "ExpressionAttributeNames": {"#d": "d"}},
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#d}",
            ),
            "the same path twice": (
                {"ProjectionExpression": "a, a"},
                OVERLAP + "path one: [a], path two: [a]",
            ),
            "a path inside another": (
                {"ProjectionExpression": "a, a.b"},
                OVERLAP + "path one: [a], path two: [a, b]",
            ),
            "one attribute under two names": (
                {"ProjectionExpression": "#b, #c", "ExpressionAttributeNames": {"#b": "a", "#c": "a"}},
                OVERLAP + "path one: [a], path two: [a]",
            ),
            "one attribute as a map and a list": (
                {"ProjectionExpression": "a.b, a[0]"},
                "Invalid ProjectionExpression: Two document paths conflict with each other; must remove or "
                "rewrite one of these paths; path one: [a, b], path two: [a, [0]]",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_the_table(
    raw: Raw, more: dict[str, Any], text: str
) -> None:
    body = {"TableName": "abc", "Key": {}} | more
    assert raw.refusal("GetItem", body) == ("ValidationException", text)


def test_reports_a_missing_table_before_checking_the_key(raw: Raw) -> None:
    body = {"TableName": "no_such_table", "Key": {}}
    assert raw.refusal("GetItem", body) == ("ResourceNotFoundException", "Requested resource not found")


# Validation against the table


@all_cases(
    ("key", "text"),
    cases(
        {
            "an empty key": ({}, MISMATCH),
            "no range key": ({"pk": {"S": "a"}}, MISMATCH),
            "an attribute too many": ({"pk": {"S": "a"}, "sk": {"S": "b"}, "x": {"S": "c"}}, MISMATCH),
            "another attribute": ({"pk": {"S": "a"}, "x": {"S": "b"}}, MISMATCH),
            "a number for a string": ({"pk": {"N": "1"}, "sk": {"S": "b"}}, MISMATCH),
            "a set for a string": ({"pk": {"S": "a"}, "sk": {"SS": ["b"]}}, MISMATCH),
            # dynalite says "were invalid:" where AWS says "are not valid." for the key of a read.
            "an empty hash key": (
                {"pk": {"S": ""}, "sk": {"S": "b"}},
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "an empty range key": (
                {"pk": {"S": "a"}, "sk": {"S": ""}},
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: sk",
            ),
            "a hash key too long": (
                {"pk": {"S": "a" * 2049}, "sk": {"S": "b"}},
                INVALID + "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ),
            "a range key too long": (
                {"pk": {"S": "a"}, "sk": {"S": "b" * 1025}},
                INVALID + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
            ),
        }
    ),
)
def test_a_key_that_does_not_fit_the_table_is_refused(
    raw: Raw, shared_index_table: str, key: dict[str, Any], text: str
) -> None:
    body = {"TableName": shared_index_table, "Key": key}
    assert raw.refusal("GetItem", body) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("attribute", "place"),
    [("pk", "Key: pk"), ("sk", "Key: sk"), ("kind", "IndexKey: kind"), ("size", "IndexKey: size")],
)
@pytest.mark.parametrize("step", [".x", "[0]"])
def test_a_projection_into_a_key_attribute_is_refused(
    raw: Raw, shared_index_table: str, attribute: str, place: str, step: str
) -> None:
    body = {
        "TableName": shared_index_table,
        "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}},
        "ProjectionExpression": "#a" + step,
        "ExpressionAttributeNames": {"#a": attribute},
    }
    text = (
        f"Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: {place}"
    )
    assert raw.refusal("GetItem", body) == ("ValidationException", text)


# Behaviour


@pytest.mark.parametrize("consistent", [True, False])
def test_absent_item_gives_an_empty_answer(raw: Raw, hash_table: str, consistent: bool) -> None:
    body = {"TableName": hash_table, "Key": {"pk": {"S": "a"}}, "ConsistentRead": consistent}
    assert raw.answer("GetItem", body) == {}


DOCUMENT = {
    "pk": {"S": "a"},
    "flat": {"S": "x"},
    "with.dot": {"N": "1"},
    "map": {"M": {"inner": {"M": {"leaf": {"N": "7"}, "other": {"N": "8"}}}, "list": {"L": [{"N": "0"}]}}},
    "list": {
        "L": [{"S": "zero"}, {"M": {"b": {"S": "one"}, "c": {"S": "uno"}}}, {"L": [{"N": "2"}, {"N": "3"}]}]
    },
}


@pytest.mark.parametrize(
    ("projection", "names", "expected"),
    cases(
        {
            "an attribute": ("flat", None, {"flat": {"S": "x"}}),
            "the key is not added": ("flat, pk", None, {"flat": {"S": "x"}, "pk": {"S": "a"}}),
            "an absent attribute": ("gone", None, {}),
            "a whole document": ("#m", {"#m": "map"}, {"map": DOCUMENT["map"]}),
            "a nested leaf": (
                "#m.#i.leaf",
                {"#m": "map", "#i": "inner"},
                {"map": {"M": {"inner": {"M": {"leaf": {"N": "7"}}}}}},
            ),
            "two leaves of one map": (
                "#m.#i.leaf, #m.#i.#o",
                {"#m": "map", "#i": "inner", "#o": "other"},
                {"map": {"M": {"inner": {"M": {"leaf": {"N": "7"}, "other": {"N": "8"}}}}}},
            ),
            "a list element": ("#l[0]", {"#l": "list"}, {"list": {"L": [{"S": "zero"}]}}),
            "elements close ranks in the order of the list": (
                "#l[2][1], #l[0]",
                {"#l": "list"},
                {"list": {"L": [{"S": "zero"}, {"L": [{"N": "3"}]}]}},
            ),
            "an element past the end": ("#l[9]", {"#l": "list"}, {}),
            "a leaf inside an element": (
                "#l[1].b",
                {"#l": "list"},
                {"list": {"L": [{"M": {"b": {"S": "one"}}}]}},
            ),
            "a path through a scalar": ("flat.x", None, {}),
            "a map looked into as a list": ("#m[0]", {"#m": "map"}, {}),
            "a dot inside a name is part of the name": ("#d", {"#d": "with.dot"}, {"with.dot": {"N": "1"}}),
        }
    ),
)
def test_a_projection_keeps_the_shape_of_what_it_selects(
    raw: Raw, hash_table: str, projection: str, names: dict[str, str] | None, expected: dict[str, Any]
) -> None:
    raw.put(hash_table, DOCUMENT)
    body: dict[str, Any] = {
        "TableName": hash_table,
        "Key": {"pk": {"S": "a"}},
        "ProjectionExpression": projection,
    }
    if names:
        body["ExpressionAttributeNames"] = names
    assert raw.answer("GetItem", body) == {"Item": expected}


def test_boto3_reads_what_it_wrote(dynamodb: Any, range_table: str) -> None:
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "blob": {"B": b"\x00\xff"}, "set": {"BS": [b"1"]}}
    dynamodb.put_item(TableName=range_table, Item=item)
    answer = dynamodb.get_item(
        TableName=range_table, Key={"pk": item["pk"], "sk": item["sk"]}, ConsistentRead=True
    )
    assert answer["Item"] == item
