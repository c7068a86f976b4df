"""UpdateItem over the wire: its shape, its refusals in order, and its effects."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    METRICS_ENUM,
    NOT_NULL,
    RETURN_VALUES_ENUM,
    TABLE_NAME_PATTERN,
    Raw,
    cases,
    constraint,
    split_constraints,
)

INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "
MISMATCH = "The provided key element does not match the schema"
BAD_OPERAND = "An operand in the update expression has an incorrect data type"
BAD_PATH = "The document path provided in the update expression is invalid for update"
NO_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
KEY = {"pk": {"S": "a"}}

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
                {
                    "TableName": "abc;",
                    "ReturnConsumedCapacity": "hi",
                    "ReturnItemCollectionMetrics": "hi",
                    "ReturnValues": "hi",
                },
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'abc;'", "tableName", TABLE_NAME_PATTERN),
                    constraint("'hi'", "returnItemCollectionMetrics", METRICS_ENUM),
                    constraint("'hi'", "returnValues", RETURN_VALUES_ENUM),
                    constraint("null", "key", NOT_NULL),
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("UpdateItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


# Validation, before the table is looked up: the table `abc` does not exist


def overlap(one: str, two: str) -> str:
    """Return the message about two overlapping paths."""
    return (
        "Invalid UpdateExpression: Two document paths overlap with each other; "
        f"must remove or rewrite one of these paths; path one: {one}, path two: {two}"
    )


def operand_type(operator: str, kind: str) -> str:
    """Return the message about an operand of the wrong type."""
    return (
        f"Invalid UpdateExpression: Incorrect operand type for operator or function; {operator}, operand "
        f"type: {kind}"
    )


@all_cases(
    ("more", "text"),
    cases(
        {
            "expression and non-expression parameters": (
                {
                    "AttributeUpdates": {},
                    "Expected": {"a": {}},
                    "UpdateExpression": "",
                    "ConditionExpression": "",
                },
                "Can not use both expression and non-expression parameters in the same request: "
                "Non-expression parameters: {AttributeUpdates, Expected} Expression parameters: "
                "{UpdateExpression, ConditionExpression}",
            ),
            "names without an expression": (
                {"ExpressionAttributeNames": {}, "ExpressionAttributeValues": {}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "values without an expression": (
                {"ExpressionAttributeValues": {}},
                "ExpressionAttributeValues can only be specified when using expressions: "
                "UpdateExpression and ConditionExpression are null",
            ),
            "the key before the expressions": (
                {"Key": {"a": {}}, "UpdateExpression": ""},
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "the update before the condition": (
                {"UpdateExpression": "", "ConditionExpression": ""},
                "Invalid UpdateExpression: The expression can not be empty;",
            ),
            "an empty condition": (
                {"ConditionExpression": ""},
                "Invalid ConditionExpression: The expression can not be empty;",
            ),
            "a value of an empty set": (
                {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"SS": []}}},
                "ExpressionAttributeValues contains invalid value: One or more parameter values were "
                "invalid: An string set  may not be empty for key :a",
            ),
            "a value that is no number": (
                {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"N": "x"}}},
                "ExpressionAttributeValues contains invalid value: "
                "The parameter cannot be converted to a numeric value: x for key :a",
            ),
            "a section twice": (
                {"UpdateExpression": "SET a = b SET c = d"},
                'Invalid UpdateExpression: The "SET" section can only be used once in an update expression;',
            ),
            "a section twice with another between": (
                {"UpdateExpression": "REMOVE a SET b = c REMOVE d"},
                'Invalid UpdateExpression: The "REMOVE" section can only be used once in an update expression;',  # noqa: E501
            ),
            "a reserved word": (
                {"UpdateExpression": "REMOVE Absolute"},
                "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: Absolute",
            ),
            "a name not defined": (
                {"UpdateExpression": "REMOVE #a"},
                "Invalid UpdateExpression: An expression attribute name used in the document path is not "
                "defined; attribute name: #a",
            ),
            "a value not defined": (
                {"UpdateExpression": "SET a = :a"},
                "Invalid UpdateExpression: An expression attribute value used in expression is not defined; "
                "attribute value: :a",
            ),
            "an unknown function": (
                {"UpdateExpression": "SET a = nope(b)"},
                "Invalid UpdateExpression: Invalid function name; function: nope",
            ),
            "one operand for two": (
                {"UpdateExpression": "SET a = list_append(b)"},
                "Invalid UpdateExpression: Incorrect number of operands for operator or function; "
                "operator or function: list_append, number of operands: 1",
            ),
            "if_not_exists of a value": (
                {
                    "UpdateExpression": "SET a = if_not_exists(:a, b)",
                    "ExpressionAttributeValues": {":a": {"S": "a"}},
                },
                "Invalid UpdateExpression: Operator or function requires a document path; "
                "operator or function: if_not_exists",
            ),
            "a string in a sum": (
                {"UpdateExpression": "SET a = a + :a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
                operand_type("operator or function: +", "S"),
            ),
            "a list in a difference": (
                {"UpdateExpression": "SET a = a - :a", "ExpressionAttributeValues": {":a": {"L": []}}},
                operand_type("operator or function: -", "L"),
            ),
            "a map appended to a list": (
                {
                    "UpdateExpression": "SET a = list_append(a, :a)",
                    "ExpressionAttributeValues": {":a": {"M": {}}},
                },
                operand_type("operator or function: list_append", "M"),
            ),
            "ADD of a string": (
                {"UpdateExpression": "ADD a :a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
                operand_type("operator: ADD", "STRING"),
            ),
            "ADD of a list": (
                {"UpdateExpression": "ADD a :a", "ExpressionAttributeValues": {":a": {"L": []}}},
                operand_type("operator: ADD", "LIST"),
            ),
            "DELETE of a number": (
                {"UpdateExpression": "DELETE a :a", "ExpressionAttributeValues": {":a": {"N": "1"}}},
                operand_type("operator: DELETE", "NUMBER"),
            ),
            "DELETE of a map": (
                {"UpdateExpression": "DELETE a :a", "ExpressionAttributeValues": {":a": {"M": {}}}},
                operand_type("operator: DELETE", "MAP"),
            ),
            "the same path twice": ({"UpdateExpression": "SET a = b, a = c"}, overlap("[a]", "[a]")),
            "a path set and removed": ({"UpdateExpression": "SET a = b REMOVE a"}, overlap("[a]", "[a]")),
            "a path inside another": ({"UpdateExpression": "SET a.b = c, a = d"}, overlap("[a, b]", "[a]")),
            "an element of a list that is set": (
                {"UpdateExpression": "SET a[1] = c, a = d"},
                overlap("[a, [1]]", "[a]"),
            ),
            "one attribute under two names": (
                {"UpdateExpression": "REMOVE #b, #c", "ExpressionAttributeNames": {"#b": "a", "#c": "a"}},
                overlap("[a]", "[a]"),
            ),
            "one attribute as a map and a list": (
                {"UpdateExpression": "SET a.b = c, a[1] = d"},
                "Invalid UpdateExpression: Two document paths conflict with each other; "
                "must remove or rewrite one of these paths; path one: [a, b], path two: [a, [1]]",
            ),
            "a value not used": (
                {
                    "UpdateExpression": "SET a = :a",
                    "ExpressionAttributeValues": {":a": {"S": "a"}, ":b": {"S": "b"}},
                },
                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b}",
            ),
            "a name not used": (
                {"UpdateExpression": "REMOVE a", "ExpressionAttributeNames": {"#b": "b"}},
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_the_table(
    raw: Raw, more: dict[str, Any], text: str
) -> None:
    body = {"TableName": "abc", "Key": {}} | more
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)


@all_cases(
    "expression",
    [
        "whatever",
        "set a",
        "set a = b / c",
        "set a = b + c + d",
        "set a = if_not_exists(b, c + d)",
        "set :a = b",
        "remove a b",
        "add a b",
        "delete a = b",
        "set a[:i] = b",
        "set a[-1] = b",
        "set _a = b",
        "set 1a = b",
        'set "a" = b',
    ],
)
def test_an_expression_that_does_not_parse_is_a_syntax_error(raw: Raw, expression: str) -> None:
    code, text = raw.refusal("UpdateItem", {"TableName": "abc", "Key": {}, "UpdateExpression": expression})
    assert code == "ValidationException"
    assert str(text).startswith("Invalid UpdateExpression: Syntax error; ")


# dynalite's parser words syntax errors in its own way.
def test_a_syntax_error_names_the_token_and_its_neighbours(raw: Raw) -> None:
    body = {"TableName": "abc", "Key": {}, "UpdateExpression": "INVALID SYNTAX HERE"}
    text = 'Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"'
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)


def test_reports_a_missing_table_before_checking_the_key(raw: Raw) -> None:
    body = {"TableName": "no_such_table", "Key": {}}
    assert raw.refusal("UpdateItem", body) == ("ResourceNotFoundException", "Requested resource not found")


# Validation against the table


def part_of_the_key(attribute: str) -> str:
    """Return the message about an update of a key attribute."""
    return INVALID + f"Cannot update attribute {attribute}. This attribute is part of the key"


def index_type(attribute: str, expected: str, actual: str, index: str) -> str:
    """Return the message about an index key of the wrong type."""
    return (
        INVALID
        + f"Type mismatch for Index Key {attribute} Expected: {expected} Actual: {actual} IndexName: {index}"
    )


NUMBER, STRING, EMPTY, SET = {":v": {"N": "1"}}, {":v": {"S": "x"}}, {":v": {"S": ""}}, {":v": {"SS": ["x"]}}


@pytest.mark.parametrize(
    ("expression", "values", "text"),
    cases(
        {
            "setting the hash key": ("SET pk = :v", STRING, part_of_the_key("pk")),
            "setting the range key": ("SET x = :v, sk = :v", STRING, part_of_the_key("sk")),
            "removing the hash key": ("REMOVE pk", None, part_of_the_key("pk")),
            "removing the range key": ("REMOVE sk", None, part_of_the_key("sk")),
            "adding to the hash key": ("ADD pk :v", NUMBER, part_of_the_key("pk")),
            "deleting from the hash key": ("DELETE pk :v", SET, part_of_the_key("pk")),
            "setting inside the hash key": ("SET pk.x = :v", STRING, part_of_the_key("pk")),
            "a number for a global index key": (
                "SET kind = :v",
                NUMBER,
                index_type("kind", "S", "N", "by_kind"),
            ),
            "a string for a local index key": (
                "SET #s = :v",
                STRING,
                index_type("size", "N", "S", "by_size"),
            ),
            "adding a number to a string index key": (
                "ADD kind :v",
                NUMBER,
                index_type("kind", "S", "N", "by_kind"),
            ),
            "setting inside an index key": (
                "SET kind.x = :v",
                STRING,
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
                "IndexKey: kind",
            ),
            # dynalite accepts an empty index key; AWS does not.
            "an empty index key": (
                "SET kind = :v",
                EMPTY,
                NOT_VALID
                + "The update expression attempted to update a secondary index key to a value that is not "
                "supported. The AttributeValue for a key attribute cannot contain an empty string value.",
            ),
        }
    ),
)
def test_an_update_that_does_not_fit_the_table_is_refused(
    raw: Raw, shared_index_table: str, expression: str, values: dict[str, Any] | None, text: str
) -> None:
    body: dict[str, Any] = {
        "TableName": shared_index_table,
        "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}},
        "UpdateExpression": expression,
    }
    if values:
        body["ExpressionAttributeValues"] = values
    if "#s" in expression:
        body["ExpressionAttributeNames"] = {"#s": "size"}
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)
    assert raw.item(shared_index_table, body["Key"]) is None


def test_copying_a_value_of_the_wrong_type_into_an_index_key_is_refused(
    raw: Raw, shared_index_table: str
) -> None:
    key = {"pk": {"S": "copied"}, "sk": {"S": "b"}}
    raw.put(shared_index_table, key | {"number": {"N": "1"}})
    body = {
        "TableName": shared_index_table,
        "Key": key,
        "UpdateExpression": "SET kind = #n",
        "ExpressionAttributeNames": {"#n": "number"},
    }
    text = "The update expression attempted to update the secondary index key to unsupported type"
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)


@all_cases(
    ("key", "text"),
    cases(
        {
            "an empty key": ({}, MISMATCH),
            "another attribute": ({"x": {"S": "a"}}, MISMATCH),
            "an attribute too many": ({"pk": {"S": "a"}, "x": {"S": "a"}}, MISMATCH),
            "a number for a string": ({"pk": {"N": "1"}}, MISMATCH),
            "a list for a string": ({"pk": {"L": []}}, MISMATCH),
            "an empty key value": (
                {"pk": {"S": ""}},
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "a key too long": (
                {"pk": {"S": "a" * 2049}},
                INVALID + "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ),
            "the key before the update": ({"pk": {"N": "1"}, "x": {"S": "a"}}, MISMATCH),
        }
    ),
)
def test_a_key_that_does_not_fit_the_table_is_refused(
    raw: Raw, shared_hash_table: str, key: dict[str, Any], text: str
) -> None:
    body = {"TableName": shared_hash_table, "Key": key, "UpdateExpression": "REMOVE pk"}
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)


# Validation against the item

ITEM = KEY | {
    "num": {"N": "5"},
    "str": {"S": "x"},
    "strings": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "map": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "deep"}}}}},
    "list": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]},
}
NAMES = {
    "#map": "map",
    "#list": "list",
    "#str": "str",
    "#num": "num",
    "#strings": "strings",
    "#numbers": "numbers",
}


def update(table: str, expression: str, values: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a request on the item ITEM; `#x` may name any of its attributes."""
    body: dict[str, Any] = {"TableName": table, "Key": KEY, "UpdateExpression": expression} | more
    spoken = set(re.findall(r"#\w+", f"{expression} {more.get('ConditionExpression', '')}"))
    used = {name: attribute for name, attribute in NAMES.items() if name in spoken}
    if used:
        body["ExpressionAttributeNames"] = used
    if values:
        body["ExpressionAttributeValues"] = values
    return body


@pytest.mark.parametrize(
    ("expression", "values", "text"),
    cases(
        {
            "copying an absent attribute": ("SET a = b", None, NO_ATTRIBUTE),
            "copying what the same expression sets": ("SET a = :v, b = a", NUMBER, NO_ATTRIBUTE),
            "adding to an absent attribute": ("SET a = b + :v", NUMBER, NO_ATTRIBUTE),
            "appending to an absent list": ("SET a = list_append(b, :v)", {":v": {"L": []}}, NO_ATTRIBUTE),
            "a sum with a string": ("SET a = #str + :v", NUMBER, BAD_OPERAND),
            "a difference with a map": ("SET a = #map - :v", NUMBER, BAD_OPERAND),
            "appending to a set": ("SET a = list_append(#strings, :v)", {":v": {"L": []}}, BAD_OPERAND),
            "ADD of a number to a string": ("ADD #str :v", NUMBER, BAD_OPERAND),
            "ADD of strings to numbers": ("ADD #numbers :v", SET, BAD_OPERAND),
            "ADD of a set to a list": ("ADD #list :v", SET, BAD_OPERAND),
            "DELETE of strings from numbers": ("DELETE #numbers :v", SET, BAD_OPERAND),
            "DELETE from a string": ("DELETE #str :v", SET, BAD_OPERAND),
            "a member of an absent map": ("SET gone.x = :v", NUMBER, BAD_PATH),
            "an element of an absent list": ("SET gone[0] = :v", NUMBER, BAD_PATH),
            "a member of a string": ("SET #str.x = :v", NUMBER, BAD_PATH),
            "an element of a map": ("SET #map[0] = :v", NUMBER, BAD_PATH),
            "a member of a list": ("SET #list.x = :v", NUMBER, BAD_PATH),
            "a member two levels down": ("SET #map.gone.x = :v", NUMBER, BAD_PATH),
            "removing a member of an absent map": ("REMOVE gone.x", None, BAD_PATH),
            "a sum too large": (
                "SET a = :v + :w",
                {":v": {"N": "9e125"}, ":w": {"N": "9e125"}},
                OVERFLOW,
            ),
            "a difference too large": (
                "SET a = :v - :w",
                {":v": {"N": "9e125"}, ":w": {"N": "-9e125"}},
                OVERFLOW,
            ),
        }
    ),
)
def test_an_update_that_does_not_fit_the_item_is_refused_and_changes_nothing(
    raw: Raw, hash_table: str, expression: str, values: dict[str, Any] | None, text: str
) -> None:
    raw.put(hash_table, ITEM)
    assert raw.refusal("UpdateItem", update(hash_table, expression, values)) == ("ValidationException", text)
    assert raw.item(hash_table, KEY) == ITEM


def test_a_sum_of_more_than_38_digits_is_refused(raw: Raw, hash_table: str) -> None:
    body = update(hash_table, "SET a = :v + :w", {":v": {"N": "1e50"}, ":w": {"N": "1"}})
    code, text = raw.refusal("UpdateItem", body)
    assert code == "ValidationException"
    # AWS calls this an overflow, too; emulators name the digits.
    assert text in (OVERFLOW, "Attempting to store more than 38 significant digits in a Number")


def test_an_item_may_not_grow_past_400_kb(raw: Raw, hash_table: str) -> None:
    key = {"pk": {"S": "k" * 100}}
    raw.put(hash_table, key | {"big": {"S": "b" * 300_000}})
    body = {
        "TableName": hash_table,
        "Key": key,
        "UpdateExpression": "SET more = :v",
        "ExpressionAttributeValues": {":v": {"S": "m" * 200_000}},
    }
    text = "Item size to update has exceeded the maximum allowed size"
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)
    assert "more" not in raw.item(hash_table, key)


MAX_ITEM_BYTES = 409_600
SET_OF_PADDING = 3 + 19 + len("b")
TEN = {"S": "y" * 10}
ONE = {"N": "1"}


@pytest.mark.parametrize(
    ("clause", "charge", "values", "seed"),
    cases(
        {
            "nothing else": ("", 0, {}, {}),
            "a second value": (", c = :c", 19 + 1 + 1, {":c": {"S": "y"}}, {}),
            "a copy": (", c = ten", 19 + 1 + 1 + 14 + 3, {}, {"ten": TEN}),
            "a copy of an element": (", c = l[0]", 19 + 1 + 1 + 14 + 1 + 14 + 1, {}, {"l": {"L": [TEN]}}),
            "a value at a path": (", m.z = :c", 19 + 1 + 4 + 1 + 1, {":c": {"S": "y"}}, {"m": {"M": {}}}),
            "a sum": (", n = n + :one", 19 + 1 + 34 + 1 + 14 + 1 + 2, {":one": ONE}, {"n": {"N": "98765"}}),
            "a difference": (", n = n - :one", 19 + 1 + 37 + 1 + 14 + 1 + 2, {":one": ONE}, {"n": ONE}),
            "a default": (
                ", c = if_not_exists(c, :c)",
                19 + 1 + 39 + 1 + 14 + 1 + 10,
                {":c": TEN},
                {"c": ONE},
            ),
            "an append": (
                ", l = list_append(l, :l)",
                19 + 1 + 37 + 1 + 14 + 1 + 3 + 1 + 10,
                {":l": {"L": [TEN]}},
                {"l": {"L": []}},
            ),
            "an addition to a set": (
                " ADD s :s",
                19 + 1 + 500,
                {":s": {"SS": ["s" * 500]}},
                {"s": {"SS": ["p"]}},
            ),
            "a removal": (" REMOVE ten", 1 + 3, {}, {"ten": TEN}),
            "a removal of an element": (" REMOVE l[10]", 1 + 1 + 4 + 2, {}, {"l": {"L": [{"S": "e"}] * 11}}),
            "a deletion from a set": (
                " DELETE s :s",
                1 + 1,
                {":s": {"SS": ["q"]}},
                {"s": {"SS": ["p", "q"]}},
            ),
        }
    ),
)
def test_a_statement_is_charged_by_its_clauses(
    raw: Raw, hash_table: str, clause: str, charge: int, values: dict[str, Any], seed: dict[str, Any]
) -> None:
    """Recorded in two thirds of AWS's regions, us-east-1 among them; the others measure only the finished
    item.
    """
    key = {"pk": {"S": "k"}}
    raw.put(hash_table, key | seed)
    padding = MAX_ITEM_BYTES - SET_OF_PADDING - charge
    body = {
        "TableName": hash_table,
        "Key": key,
        "UpdateExpression": f"SET b = :b{clause}",
        "ExpressionAttributeValues": values | {":b": {"S": "b" * (padding + 1)}},
    }
    text = "Item size to update has exceeded the maximum allowed size"
    assert raw.refusal("UpdateItem", body) == ("ValidationException", text)
    raw.answer("UpdateItem", body | {"ExpressionAttributeValues": values | {":b": {"S": "b" * padding}}})


def test_an_update_within_a_transaction_is_measured_by_the_finished_item(raw: Raw, hash_table: str) -> None:
    update = {
        "TableName": hash_table,
        "Key": {"pk": {"S": "k"}},
        "UpdateExpression": "SET b = :b",
        "ExpressionAttributeValues": {":b": {"S": "b" * (MAX_ITEM_BYTES - len("pk" + "k" + "b"))}},
    }
    raw.answer("TransactWriteItems", {"TransactItems": [{"Update": update}]})


# Behaviour


@pytest.mark.parametrize(
    "more", [{}, {"AttributeUpdates": {}}], ids=["no-update-at-all", "no-attribute-updates"]
)
def test_an_update_that_changes_nothing_creates_the_item(
    raw: Raw, hash_table: str, more: dict[str, Any]
) -> None:
    assert raw.answer("UpdateItem", {"TableName": hash_table, "Key": KEY} | more) == {}
    assert raw.item(hash_table, KEY) == KEY


# AWS creates no item for an update that only removes; DynamoDB Local and dynalite do.
# AWS then checks no path: an invalid path on an item is accepted on an absent one.
@pytest.mark.parametrize(
    ("expression", "values"),
    [("REMOVE a", None), ("DELETE a :v", SET), ("REMOVE a.b", None), ("REMOVE a[0], b.c", None)],
)
def test_update_that_only_removes_creates_no_item(
    raw: Raw, hash_table: str, expression: str, values: dict[str, Any] | None
) -> None:
    body = update(hash_table, expression, values, ReturnValues="ALL_NEW")
    assert raw.answer("UpdateItem", body) == {}
    assert raw.item(hash_table, KEY) is None


@pytest.mark.parametrize(
    ("expression", "values", "changed"),
    cases(
        {
            "SET creates": ("SET a = :v", NUMBER, {"a": {"N": "1"}}),
            "SET to an empty string": ("SET a = :v", EMPTY, {"a": {"S": ""}}),
            "keywords in any case": ("sEt a = :v", NUMBER, {"a": {"N": "1"}}),
            "space is free": ("  SET   a=:v  ", NUMBER, {"a": {"N": "1"}}),
            "SET replaces and may change the type": ("SET #num = :v", STRING, {"num": {"S": "x"}}),
            "SET copies": ("SET a = #num", None, {"a": {"N": "5"}}),
            "SET copies a key attribute": ("SET a = pk", None, {"a": {"S": "a"}}),
            "SET swaps": ("SET #num = #str, #str = #num", None, {"num": {"S": "x"}, "str": {"N": "5"}}),
            "SET reads before REMOVE takes away": (
                "REMOVE #num SET a = #num",
                None,
                {"num": None, "a": {"N": "5"}},
            ),
            "a sum": ("SET #num = #num + :v", NUMBER, {"num": {"N": "6"}}),
            "a difference": ("SET #num = :v - #num", NUMBER, {"num": {"N": "-4"}}),
            "a sum in parentheses": ("SET #num = (#num - :v)", NUMBER, {"num": {"N": "4"}}),
            "a sum of two attributes": ("SET a = #num + #num", None, {"a": {"N": "10"}}),
            "a sum keeps 38 digits": (
                "SET a = :v + :w",
                {":v": {"N": "1"}, ":w": {"N": "10000000000000000000000000000000000000"}},
                {"a": {"N": "10000000000000000000000000000000000001"}},
            ),
            "if_not_exists of what exists": ("SET #num = if_not_exists(#num, :v)", NUMBER, {}),
            "if_not_exists of what does not": ("SET a = if_not_exists(a, :v)", NUMBER, {"a": {"N": "1"}}),
            "if_not_exists of another": ("SET a = if_not_exists(#num, :v)", NUMBER, {"a": {"N": "5"}}),
            "if_not_exists in a sum": ("SET a = if_not_exists(a, :v) + :v", NUMBER, {"a": {"N": "2"}}),
            "list_append": (
                "SET #list = list_append(#list, :v)",
                {":v": {"L": [{"S": "n"}]}},
                {"list": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}, {"S": "n"}]}},
            ),
            "list_append in front": (
                "SET #list = list_append(:v, #list)",
                {":v": {"L": [{"S": "n"}]}},
                {"list": {"L": [{"S": "n"}, {"N": "0"}, {"N": "1"}, {"N": "2"}]}},
            ),
            "list_append with if_not_exists": (
                "SET a = list_append(if_not_exists(a, :e), :v)",
                {":e": {"L": []}, ":v": {"L": [{"S": "n"}]}},
                {"a": {"L": [{"S": "n"}]}},
            ),
            "SET of a list element": (
                "SET #list[1] = :v",
                STRING,
                {"list": {"L": [{"N": "0"}, {"S": "x"}, {"N": "2"}]}},
            ),
            "SET past the end appends": (
                "SET #list[9] = :v",
                STRING,
                {"list": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}, {"S": "x"}]}},
            ),
            "REMOVE of a list element shifts the rest": (
                "REMOVE #list[0]",
                None,
                {"list": {"L": [{"N": "1"}, {"N": "2"}]}},
            ),
            "REMOVE of two elements counts in the old list": (
                "REMOVE #list[0], #list[1]",
                None,
                {"list": {"L": [{"N": "2"}]}},
            ),
            "REMOVE past the end does nothing": ("REMOVE #list[9]", None, {}),
            "indexes are those before the REMOVE": (
                "REMOVE #list[0] SET #list[2] = :v",
                STRING,
                {"list": {"L": [{"N": "1"}, {"S": "x"}]}},
            ),
            "REMOVE": ("REMOVE #num, #str", None, {"num": None, "str": None}),
            "REMOVE of what is not there": ("REMOVE gone", None, {}),
            "SET of a nested member": (
                "SET #map.y.z = :v",
                STRING,
                {"map": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "x"}}}}}},
            ),
            "SET of a new nested member": (
                "SET #map.n = :v",
                STRING,
                {"map": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "deep"}}}, "n": {"S": "x"}}}},
            ),
            "a nested sum": (
                "SET #map.x = #map.x + :v",
                NUMBER,
                {"map": {"M": {"x": {"N": "2"}, "y": {"M": {"z": {"S": "deep"}}}}}},
            ),
            "REMOVE of a nested member": ("REMOVE #map.y", None, {"map": {"M": {"x": {"N": "1"}}}}),
            "REMOVE of an absent nested member": ("REMOVE #map.gone", None, {}),
            "ADD to a number": ("ADD #num :v", NUMBER, {"num": {"N": "6"}}),
            "ADD of a negative number": ("ADD #num :v", {":v": {"N": "-7.5"}}, {"num": {"N": "-2.5"}}),
            "ADD creates a number": ("ADD a :v", NUMBER, {"a": {"N": "1"}}),
            "ADD creates a set": ("ADD a :v", SET, {"a": {"SS": ["x"]}}),
            "ADD to a set": (
                "ADD #strings :v",
                {":v": {"SS": ["b", "c"]}},
                {"strings": {"SS": ["a", "b", "c"]}},
            ),
            "ADD to a nested number": (
                "ADD #map.x :v",
                NUMBER,
                {"map": {"M": {"x": {"N": "2"}, "y": {"M": {"z": {"S": "deep"}}}}}},
            ),
            "DELETE from a set": (
                "DELETE #strings :v",
                {":v": {"SS": ["a", "q"]}},
                {"strings": {"SS": ["b"]}},
            ),
            "DELETE of every element removes the set": (
                "DELETE #strings :v",
                {":v": {"SS": ["a", "b"]}},
                {"strings": None},
            ),
            "DELETE from an absent set": ("DELETE gone :v", SET, {}),
            "DELETE compares numbers by value": (
                "DELETE #numbers :v",
                {":v": {"NS": ["1.0"]}},
                {"numbers": {"NS": ["2"]}},
            ),
            "all four sections": (
                "SET a = :n REMOVE #str ADD #num :n DELETE #strings :s",
                {":n": {"N": "1"}, ":s": {"SS": ["a"]}},
                {"a": {"N": "1"}, "str": None, "num": {"N": "6"}, "strings": {"SS": ["b"]}},
            ),
        }
    ),
)
def test_update_changes_only_the_named_attributes(
    raw: Raw, hash_table: str, expression: str, values: dict[str, Any] | None, changed: dict[str, Any]
) -> None:
    raw.put(hash_table, ITEM)
    raw.answer("UpdateItem", update(hash_table, expression, values))
    expected = {name: value for name, value in (ITEM | changed).items() if value is not None}
    assert _sets_in_order(raw.item(hash_table, KEY)) == _sets_in_order(expected)


@pytest.mark.parametrize(
    ("return_values", "expression", "values", "attributes"),
    cases(
        {
            "NONE": ("NONE", "SET #num = :v", NUMBER, None),
            "ALL_OLD": ("ALL_OLD", "SET #num = :v", NUMBER, ITEM),
            "ALL_NEW": ("ALL_NEW", "SET #num = :v", NUMBER, ITEM | {"num": {"N": "1"}}),
            "ALL_NEW without what was removed": (
                "ALL_NEW",
                "REMOVE #num",
                None,
                {name: value for name, value in ITEM.items() if name != "num"},
            ),
            "UPDATED_OLD": ("UPDATED_OLD", "SET #num = :v", NUMBER, {"num": {"N": "5"}}),
            "UPDATED_OLD of a new attribute": ("UPDATED_OLD", "SET a = :v", NUMBER, None),
            "UPDATED_OLD of a new and an old attribute": (
                "UPDATED_OLD",
                "SET a = :v, #num = :v",
                NUMBER,
                {"num": {"N": "5"}},
            ),
            "UPDATED_OLD of the same value": ("UPDATED_OLD", "SET #num = #num", None, {"num": {"N": "5"}}),
            "UPDATED_OLD of a removed attribute": ("UPDATED_OLD", "REMOVE #num", None, {"num": {"N": "5"}}),
            "UPDATED_OLD of a nested member": (
                "UPDATED_OLD",
                "SET #map.y.z = :v",
                STRING,
                {"map": {"M": {"y": {"M": {"z": {"S": "deep"}}}}}},
            ),
            "UPDATED_OLD of a list element": (
                "UPDATED_OLD",
                "SET #list[1] = :v",
                STRING,
                {"list": {"L": [{"N": "1"}]}},
            ),
            "UPDATED_NEW": ("UPDATED_NEW", "SET #num = #num + :v", NUMBER, {"num": {"N": "6"}}),
            "UPDATED_NEW of a new attribute": ("UPDATED_NEW", "SET a = :v", NUMBER, {"a": {"N": "1"}}),
            "UPDATED_NEW of a removed attribute": ("UPDATED_NEW", "REMOVE #num", None, None),
            "UPDATED_NEW without what was removed": (
                "UPDATED_NEW",
                "SET a = :v REMOVE #num",
                NUMBER,
                {"a": {"N": "1"}},
            ),
            "UPDATED_NEW of two members of one map": (
                "UPDATED_NEW",
                "SET #map.x = :v, #map.n = :v",
                NUMBER,
                {"map": {"M": {"x": {"N": "1"}, "n": {"N": "1"}}}},
            ),
            "UPDATED_NEW of a list element": (
                "UPDATED_NEW",
                "SET #list[1] = :v",
                STRING,
                {"list": {"L": [{"S": "x"}]}},
            ),
            "UPDATED_NEW of an element past the end": ("UPDATED_NEW", "SET #list[9] = :v", STRING, None),
            "UPDATED_NEW of a removed element is its successor": (
                "UPDATED_NEW",
                "REMOVE #list[1]",
                None,
                {"list": {"L": [{"N": "2"}]}},
            ),
        }
    ),
)
def test_return_values_of_an_existing_item(
    raw: Raw,
    hash_table: str,
    return_values: str,
    expression: str,
    values: dict[str, Any] | None,
    attributes: dict[str, Any] | None,
) -> None:
    """Check what each ReturnValues returns after an update of an existing item."""
    raw.put(hash_table, ITEM)
    answer = raw.answer("UpdateItem", update(hash_table, expression, values, ReturnValues=return_values))
    assert answer == ({"Attributes": attributes} if attributes else {})


@pytest.mark.parametrize(
    ("return_values", "attributes"),
    [
        ("NONE", None),
        ("ALL_OLD", None),
        ("UPDATED_OLD", None),
        ("ALL_NEW", KEY | {"a": {"N": "1"}}),
        ("UPDATED_NEW", {"a": {"N": "1"}}),
    ],
)
def test_return_values_of_a_new_item(
    raw: Raw, hash_table: str, return_values: str, attributes: dict[str, Any] | None
) -> None:
    """Check what each ReturnValues returns after an update that created the item."""
    answer = raw.answer("UpdateItem", update(hash_table, "SET a = :v", NUMBER, ReturnValues=return_values))
    assert answer == ({"Attributes": attributes} if attributes else {})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("#num = :five", True), ("#num < :five", False), ("attribute_not_exists(pk)", False)],
)
def test_a_conditional_update_changes_only_when_the_condition_holds(
    raw: Raw, hash_table: str, condition: str, holds: bool
) -> None:
    raw.put(hash_table, ITEM)
    values = {":v": {"N": "9"}} | ({":five": {"N": "5"}} if ":five" in condition else {})
    body = update(hash_table, "SET #num = :v", values, ConditionExpression=condition)
    status, answer = raw.call("UpdateItem", body)
    assert status == (200 if holds else 400), answer
    assert raw.item(hash_table, KEY)["num"] == {"N": "9" if holds else "5"}


def test_refused_conditional_update_of_an_absent_item_creates_nothing(raw: Raw, hash_table: str) -> None:
    body = update(hash_table, "SET a = :v", NUMBER, ConditionExpression="attribute_exists(pk)")
    refusal = ("ConditionalCheckFailedException", "The conditional request failed")
    assert raw.refusal("UpdateItem", body) == refusal
    assert raw.item(hash_table, KEY) is None


# dynalite does not know ReturnValuesOnConditionCheckFailure.
@pytest.mark.parametrize(("wanted", "returned"), [("ALL_OLD", True), ("NONE", False)])
def test_failed_condition_returns_the_item_on_request(
    raw: Raw, hash_table: str, wanted: str, returned: bool
) -> None:
    raw.put(hash_table, KEY | {"v": {"N": "1"}})
    body = update(
        hash_table,
        "SET a = :v",
        NUMBER,
        ConditionExpression="attribute_not_exists(pk)",
        ReturnValuesOnConditionCheckFailure=wanted,
    )
    status, answer = raw.call("UpdateItem", body)
    assert status == 400
    assert answer.get("Item") == (KEY | {"v": {"N": "1"}} if returned else None)


def test_concurrent_counters_lose_nothing(raw: Raw, hash_table: str) -> None:
    def increment(_: int) -> str:
        body = update(hash_table, "ADD n :v", NUMBER, ReturnValues="UPDATED_NEW")
        return str(raw.answer("UpdateItem", body)["Attributes"]["n"]["N"])

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(increment, range(32)))
    assert sorted(seen, key=int) == [str(n) for n in range(1, 33)]


def _sets_in_order(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item with its sets sorted, for comparison."""
    return {
        name: {kind: sorted(value) if kind in ("SS", "NS", "BS") else value for kind, value in typed.items()}
        for name, typed in item.items()
    }
