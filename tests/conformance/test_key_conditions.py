"""KeyConditionExpression over the wire: the key conditions that a Query accepts, and every refusal.

Grammar and names are those of every expression; this file tests only what is particular to keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from .conftest import MakeTable, index
from .protocol import Raw, cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
PREFIX = "Invalid KeyConditionExpression: "
ONE_EACH = PREFIX + "KeyConditionExpressions must only contain one condition per key"
NOT_SUPPORTED = "Query key condition not supported"
WRONG_TYPE = INVALID + "Condition parameter type does not match schema type"
OPERATOR = "Invalid operator used in KeyConditionExpression: "
CONDITION = "Invalid condition in KeyConditionExpression: "
REDUNDANT = PREFIX + "The expression has redundant parentheses;"

S = {":p": {"S": "a"}}
TWO = S | {":q": {"S": "b"}}
NUMBER = S | {":n": {"N": "1"}}


def attribute_value(value: Any) -> Body:
    """Return a Python value with its type tag."""
    kinds = {str: "S", int: "N", bytes: "B"}
    return {kinds[type(value)]: value if isinstance(value, str | bytes) else str(value)}


@pytest.fixture(scope="module")
def table(make_shared_table: MakeTable) -> str:
    return make_shared_table("pk:S", "sk:S", gsi=[index("by_kind", "kind:S", "weight:N")])


# Validation: errors of any expression


@pytest.mark.parametrize(
    ("body", "text"),
    cases(
        {
            "none": (
                {},
                "Either the KeyConditions or KeyConditionExpression parameter must be specified in the "
                "request.",
            ),
            "empty": ({"KeyConditionExpression": ""}, PREFIX + "The expression can not be empty;"),
            "a value not given": (
                {"KeyConditionExpression": "pk = :p"},
                PREFIX
                + "An expression attribute value used in expression is not defined; attribute value: :p",
            ),
            "a name not given": (
                {"KeyConditionExpression": "#pk = :p", "ExpressionAttributeValues": S},
                PREFIX
                + "An expression attribute name used in the document path is not defined; attribute name: #pk",  # noqa: E501
            ),
            "a value not used": (
                {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": TWO},
                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:q}",
            ),
            "a name not used": (
                {
                    "KeyConditionExpression": "pk = :p",
                    "ExpressionAttributeValues": S,
                    "ExpressionAttributeNames": {"#x": "y"},
                },
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#x}",
            ),
            "a reserved word": (
                {"KeyConditionExpression": "hash = :p", "ExpressionAttributeValues": S},
                PREFIX + "Attribute name is a reserved keyword; reserved keyword: hash",
            ),
            "an unknown function": (
                {"KeyConditionExpression": "pk = :p AND dog(sk, :p)", "ExpressionAttributeValues": S},
                PREFIX + "Invalid function name; function: dog",
            ),
            "a function in capitals": (
                {"KeyConditionExpression": "pk = :p AND BEGINS_WITH(sk, :p)", "ExpressionAttributeValues": S},
                PREFIX + "Invalid function name; function: BEGINS_WITH",
            ),
            "bounds the wrong way round": (
                {
                    "KeyConditionExpression": "pk = :p AND sk BETWEEN :q AND :p",
                    "ExpressionAttributeValues": TWO,
                },
                PREFIX
                + "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
                + "lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}",
            ),
            "bounds of two types": (
                {
                    "KeyConditionExpression": "pk = :p AND sk BETWEEN :n AND :p",
                    "ExpressionAttributeValues": NUMBER,
                },
                PREFIX
                + "The BETWEEN operator requires same data type for lower and upper bounds; "
                + "lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}",
            ),
            "a prefix that is a number": (
                {
                    "KeyConditionExpression": "pk = :p AND begins_with(sk, :n)",
                    "ExpressionAttributeValues": NUMBER,
                },
                PREFIX
                + "Incorrect operand type for operator or function; "
                + "operator or function: begins_with, operand type: N",
            ),
            "parentheses around the whole twice": (
                {"KeyConditionExpression": "((pk = :p))", "ExpressionAttributeValues": S},
                REDUNDANT,
            ),
            "parentheses around a part twice": (
                {"KeyConditionExpression": "(pk = :p) AND ((sk = :p))", "ExpressionAttributeValues": S},
                REDUNDANT,
            ),
        }
    ),
)
def test_rejects_what_any_expression_rejects(raw: Raw, table: str, body: Body, text: str) -> None:
    # DynamoDB Local writes operands as `{S: b,}`.
    assert raw.refusal("Query", {"TableName": table} | body) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("expression", "text"),
    cases(
        {
            "half a condition": ("pk", 'token: "<EOF>", near: "pk"'),
            "an operator there is not": ("pk = :p AND sk != :p", 'token: "!", near: "sk !="'),
            "an operator too many": ("pk = = :p", 'token: "=", near: "= = :p"'),
        }
    ),
)
def test_a_syntax_error_is_shown_with_its_surroundings(
    raw: Raw, table: str, expression: str, text: str
) -> None:
    # dynalite has the texts of the parser generator it uses.
    body = {"TableName": table, "KeyConditionExpression": expression, "ExpressionAttributeValues": S}
    assert raw.refusal("Query", body) == ("ValidationException", f"{PREFIX}Syntax error; {text}")


# Validation: errors of key conditions only


@pytest.mark.parametrize(
    ("expression", "values", "text"),
    cases(
        {
            "OR": ("pk = :p OR sk = :p", S, OPERATOR + "OR"),
            "NOT": ("NOT pk = :p", S, OPERATOR + "NOT"),
            "not equal": ("pk = :p AND sk <> :p", S, OPERATOR + "<>"),
            "IN": ("pk = :p AND sk IN (:p)", S, OPERATOR + "IN"),
            "attribute_exists": ("pk = :p AND attribute_exists(sk)", S, OPERATOR + "attribute_exists"),
            "attribute_not_exists": (
                "pk = :p AND attribute_not_exists(sk)",
                S,
                OPERATOR + "attribute_not_exists",
            ),
            "attribute_type": (
                "pk = :p AND attribute_type(sk, :q)",
                S | {":q": {"S": "S"}},
                OPERATOR + "attribute_type",
            ),
            "contains": ("pk = :p AND contains(sk, :p)", S, OPERATOR + "contains"),
            "size": (
                "pk = :p AND size(sk) = :n",
                NUMBER,
                "KeyConditionExpressions cannot contain nested operations",
            ),
            "a path into a map": (
                "pk = :p AND sk.a = :p",
                S,
                "KeyConditionExpressions cannot have conditions on nested attributes",
            ),
            "a path into a list": (
                "pk = :p AND extra[0] = :p",
                S,
                "KeyConditionExpressions cannot have conditions on nested attributes",
            ),
            "two attributes": ("pk = sk", None, CONDITION + "Multiple attribute names used in one condition"),
            "no attribute": (":p = :p", S, CONDITION + "No key attribute specified"),
            "BETWEEN turned round": (
                "pk = :p AND :p BETWEEN sk AND :p",
                S,
                CONDITION + "BETWEEN operator must have the key attribute as its first operand",
            ),
            "begins_with turned round": (
                "pk = :p AND begins_with(:p, sk)",
                S,
                CONDITION + "begins_with operator must have the key attribute as its first operand",
            ),
            "the hash key twice": ("pk = :p AND pk = :p", S, ONE_EACH),
            "the range key twice": ("pk = :p AND sk >= :p AND sk <= :q", TWO, ONE_EACH),
            "three keys": (
                "pk = :p AND sk = :p AND more = :p",
                S,
                "The number of query conditions (3) exceeds the number of key attributes defined in the "
                "schema (2)",
            ),
            "no hash key": ("sk = :p", S, "Query condition missed key schema element: pk"),
            "no key at all": ("more = :p", S, "Query condition missed key schema element: pk"),
            "another attribute for the range key": (
                "pk = :p AND more = :p",
                S,
                "Query condition missed key schema element: sk",
            ),
            "less than a hash key": ("pk < :p", S, NOT_SUPPORTED),
            "a range of hash keys": ("pk BETWEEN :p AND :q", TWO, NOT_SUPPORTED),
            "the beginning of a hash key": ("begins_with(pk, :p)", S, NOT_SUPPORTED),
            "a number for a string": ("pk = :n", {":n": {"N": "1"}}, WRONG_TYPE),
            "a set for a string": ("pk = :s", {":s": {"SS": ["a"]}}, WRONG_TYPE),
            "a number for the range key": ("pk = :p AND sk = :n", NUMBER, WRONG_TYPE),
        }
    ),
)
def test_rejects_an_invalid_key_condition(
    raw: Raw, table: str, expression: str, values: Body | None, text: str
) -> None:
    # DynamoDB Local does not name the missed element.
    body: Body = {"TableName": table, "KeyConditionExpression": expression}
    if values:
        body["ExpressionAttributeValues"] = values
    assert raw.refusal("Query", body) == ("ValidationException", text)


def test_index_query_conditions_use_the_index_keys(raw: Raw, table: str) -> None:
    body = {
        "TableName": table,
        "IndexName": "by_kind",
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": S,
    }
    text = "Query condition missed key schema element: kind"
    assert raw.refusal("Query", body) == ("ValidationException", text)


def test_a_table_without_a_range_key_takes_one_condition(raw: Raw, shared_hash_table: str) -> None:
    body = {
        "TableName": shared_hash_table,
        "KeyConditionExpression": "pk = :p AND sk = :p",
        "ExpressionAttributeValues": S,
    }
    assert raw.refusal("Query", body) == ("ValidationException", NOT_SUPPORTED)


def test_compared_range_key_has_at_most_1024_bytes(raw: Raw, table: str) -> None:
    # dynalite finds nothing instead of refusing.
    body = {
        "TableName": table,
        "KeyConditionExpression": "pk = :p AND sk = :q",
        "ExpressionAttributeValues": S | {":q": {"S": "x" * 1025}},
    }
    text = INVALID + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
    assert raw.refusal("Query", body) == ("ValidationException", text)


def test_checks_the_expression_before_the_table(raw: Raw) -> None:
    body = {"TableName": "there_is_no_such_table", "KeyConditionExpression": "pk"}
    code, text = raw.refusal("Query", body)
    assert code == "ValidationException"
    assert str(text).startswith(PREFIX)


# Behaviour

NUMBERS = [-12, -1, 0, 1, 2, 3, 5, 10, 11, 100]
WORDS = ["a", "a!", "aa", "ab", "b", "ba", "é", "日", "𝄞"]
BYTES = [b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]


@pytest.fixture(scope="module")
def partitions(make_shared_table: MakeTable, dynamodb: Any) -> dict[type, str]:
    """Create three tables, each with a partition `p` of numbers, words or bytes, and a second partition."""
    made: dict[type, str] = {}
    kinds: list[tuple[type, str, Sequence[Any]]] = [
        (int, "N", NUMBERS),
        (str, "S", WORDS),
        (bytes, "B", BYTES),
    ]
    for kind, letter, keys in kinds:
        table = make_shared_table("pk:S", f"sk:{letter}")
        made[kind] = table
        for key in keys:
            dynamodb.put_item(TableName=table, Item={"pk": {"S": "p"}, "sk": attribute_value(key)})
        dynamodb.put_item(TableName=table, Item={"pk": {"S": "other"}, "sk": attribute_value(keys[3])})
    return made


def query_sort_keys(dynamodb: Any, table: str, condition: str, **values: Any) -> list[Any]:
    """Query the partition `p` and return the sort keys in order."""
    answer = dynamodb.query(
        TableName=table,
        KeyConditionExpression=condition,
        ExpressionAttributeValues={":p": {"S": "p"}}
        | {f":{name}": attribute_value(value) for name, value in values.items()},
    )
    assert answer["Count"] == answer["ScannedCount"] == len(answer["Items"])
    keys = [next(iter(item["sk"].items())) for item in answer["Items"]]
    return [int(value) if kind == "N" else value for kind, value in keys]


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    cases(
        {
            "all": ("pk = :p", {}, NUMBERS),
            "equal": ("pk = :p AND sk = :a", {"a": 3}, [3]),
            "equal to none": ("pk = :p AND sk = :a", {"a": 4}, []),
            "less": ("pk = :p AND sk < :a", {"a": 2}, [-12, -1, 0, 1]),
            "at most": ("pk = :p AND sk <= :a", {"a": 2}, [-12, -1, 0, 1, 2]),
            "more": ("pk = :p AND sk > :a", {"a": 10}, [11, 100]),
            "at least": ("pk = :p AND sk >= :a", {"a": 10}, [10, 11, 100]),
            "between": ("pk = :p AND sk BETWEEN :a AND :b", {"a": -1, "b": 3}, [-1, 0, 1, 2, 3]),
            "value first": (":p = pk AND :a < sk", {"a": 10}, [11, 100]),
            "value first and at least": ("pk = :p AND :a >= sk", {"a": -1}, [-12, -1]),
            "range key first": ("sk = :a AND pk = :p", {"a": 3}, [3]),
            "in parentheses": ("((sk = :a) AND (pk = :p))", {"a": 3}, [3]),
            "keywords in any case": ("pk = :p aNd sk bEtWeEn :a AnD :b", {"a": 2, "b": 5}, [2, 3, 5]),
            "without a space": ("pk=:p AND sk>:a", {"a": 11}, [100]),
        }
    ),
)
def test_numbers_are_compared_by_value(
    dynamodb: Any, partitions: dict[type, str], condition: str, values: dict[str, int], expected: list[int]
) -> None:
    assert query_sort_keys(dynamodb, partitions[int], condition, **values) == expected


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    cases(
        {
            "all": ("pk = :p", {}, WORDS),
            "equal": ("pk = :p AND sk = :a", {"a": "a"}, ["a"]),
            "less": ("pk = :p AND sk < :a", {"a": "ab"}, ["a", "a!", "aa"]),
            "more": ("pk = :p AND sk > :a", {"a": "ba"}, ["é", "日", "𝄞"]),
            "between": ("pk = :p AND sk BETWEEN :a AND :b", {"a": "aa", "b": "b"}, ["aa", "ab", "b"]),
            "begins with": ("pk = :p AND begins_with(sk, :a)", {"a": "a"}, ["a", "a!", "aa", "ab"]),
            "begins with the last character": ("pk = :p AND begins_with(sk, :a)", {"a": "𝄞"}, ["𝄞"]),
            "begins with nothing there": ("pk = :p AND begins_with(sk, :a)", {"a": "z"}, []),
        }
    ),
)
def test_words_are_compared_by_their_bytes(
    dynamodb: Any, partitions: dict[type, str], condition: str, values: dict[str, str], expected: list[str]
) -> None:
    assert query_sort_keys(dynamodb, partitions[str], condition, **values) == expected


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    cases(
        {
            "all": ("pk = :p", {}, BYTES),
            "less": ("pk = :p AND sk < :a", {"a": b"\x80"}, BYTES[:4]),
            "at least": ("pk = :p AND sk >= :a", {"a": b"\x80"}, BYTES[4:]),
            "between": ("pk = :p AND sk BETWEEN :a AND :b", {"a": b"\x00\x00", "b": b"\x7f"}, BYTES[1:4]),
            "begins with": ("pk = :p AND begins_with(sk, :a)", {"a": b"\x00"}, BYTES[:2]),
            "begins with the greatest byte": ("pk = :p AND begins_with(sk, :a)", {"a": b"\xff"}, BYTES[5:]),
        }
    ),
)
def test_bytes_are_compared_without_a_sign(
    dynamodb: Any,
    partitions: dict[type, str],
    condition: str,
    values: dict[str, bytes],
    expected: list[bytes],
) -> None:
    assert query_sort_keys(dynamodb, partitions[bytes], condition, **values) == expected


def test_placeholders_may_name_keys(dynamodb: Any, partitions: dict[type, str]) -> None:
    answer = dynamodb.query(
        TableName=partitions[int],
        KeyConditionExpression="#a = :p AND #b = :s",
        ExpressionAttributeNames={"#a": "pk", "#b": "sk"},
        ExpressionAttributeValues={":p": {"S": "p"}, ":s": {"N": "5.0"}},
    )
    assert [item["sk"]["N"] for item in answer["Items"]] == ["5"]


def test_a_table_without_a_range_key_finds_its_one_item(dynamodb: Any, shared_hash_table: str) -> None:
    dynamodb.put_item(TableName=shared_hash_table, Item={"pk": {"S": "p"}, "a": {"S": "b"}})
    answer = dynamodb.query(
        TableName=shared_hash_table,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": "p"}},
    )
    assert answer["Items"] == [{"pk": {"S": "p"}, "a": {"S": "b"}}]
