"""TransactWriteItems over the wire: shape, refusals, cancellations, atomicity, and client tokens."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    METRICS_ENUM,
    NOT_NULL,
    SERVICE_ERROR,
    Raw,
    cases,
    constraint,
    split_constraints,
)

INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "
MISMATCH = "The provided key element does not match the schema"
CONDITION_FAILED = "The conditional request failed"
TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
ABSENT = "attribute_not_exists(pk)"
PRESENT = "attribute_exists(pk)"

# Placeholder for the test's own table in the cases below.
TABLE = "<table>"


def put(table: str, item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": item} | more}


def delete(table: str, key: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Delete": {"TableName": table, "Key": key} | more}


def update(
    table: str, key: dict[str, Any], expression: str, values: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    values_member = {"ExpressionAttributeValues": values} if values else {}
    return {"Update": {"TableName": table, "Key": key, "UpdateExpression": expression} | values_member | more}


def check(table: str, key: dict[str, Any], condition: str, **more: Any) -> dict[str, Any]:
    return {"ConditionCheck": {"TableName": table, "Key": key, "ConditionExpression": condition} | more}


def key(value: str) -> dict[str, Any]:
    return {"pk": {"S": value}}


def nest(levels: int) -> dict[str, Any]:
    """Return a string inside this many maps."""
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(levels):
        value = {"M": {"n": value}}
    return value


NESTED_TOO_DEEP = nest(100)


def fill_in_table(table: str, action: dict[str, Any]) -> dict[str, Any]:
    """Return the action with its table name replaced by the real one."""
    return {kind: body | {"TableName": table} for kind, body in action.items()}


def write(raw: Raw, *actions: dict[str, Any], **more: Any) -> Any:
    """Run a transaction that must succeed."""
    return raw.answer("TransactWriteItems", {"TransactItems": list(actions)} | more)


def cancellation_reasons(raw: Raw, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reasons of a transaction that must be cancelled, after checking the envelope around them."""
    status, answer = raw.call("TransactWriteItems", {"TransactItems": list(actions)})
    assert status == 400, answer
    assert answer["__type"] == SERVICE_ERROR + "TransactionCanceledException", answer
    reasons: list[dict[str, Any]] = answer["CancellationReasons"]
    codes = ", ".join(reason["Code"] for reason in reasons)
    text = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    assert answer.get("Message", answer.get("message")) == text
    return reasons


# Shape


@all_cases(
    ("body", "entries"),
    cases(
        {
            "nothing at all": ({}, {constraint("null", "transactItems", NOT_NULL)}),
            "bad enums": (
                {"ReturnConsumedCapacity": "hi", "ReturnItemCollectionMetrics": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'hi'", "returnItemCollectionMetrics", METRICS_ENUM),
                    constraint("null", "transactItems", NOT_NULL),
                },
            ),
            "no actions": (
                {"TransactItems": []},
                {constraint("'[]'", "transactItems", "Member must have length greater than or equal to 1")},
            ),
            "an empty put": (
                {"TransactItems": [{"Put": {}}]},
                {
                    constraint("null", "transactItems.1.member.put.item", NOT_NULL),
                    constraint("null", "transactItems.1.member.put.tableName", NOT_NULL),
                },
            ),
            "an empty delete": (
                {"TransactItems": [{"Delete": {}}]},
                {
                    constraint("null", "transactItems.1.member.delete.key", NOT_NULL),
                    constraint("null", "transactItems.1.member.delete.tableName", NOT_NULL),
                },
            ),
            "an empty update": (
                {"TransactItems": [{"Update": {}}]},
                {
                    constraint("null", "transactItems.1.member.update.key", NOT_NULL),
                    constraint("null", "transactItems.1.member.update.tableName", NOT_NULL),
                    constraint("null", "transactItems.1.member.update.updateExpression", NOT_NULL),
                },
            ),
            "an empty condition check": (
                {"TransactItems": [{"ConditionCheck": {}}]},
                {
                    constraint("null", "transactItems.1.member.conditionCheck.key", NOT_NULL),
                    constraint("null", "transactItems.1.member.conditionCheck.tableName", NOT_NULL),
                    constraint("null", "transactItems.1.member.conditionCheck.conditionExpression", NOT_NULL),
                },
            ),
            "a token of 37 characters": (
                {"TransactItems": [put("abc", {})], "ClientRequestToken": "t" * 37},
                {
                    constraint(
                        f"'{'t' * 37}'",
                        "clientRequestToken",
                        "Member must have length less than or equal to 36",
                    )
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("TransactWriteItems", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


def test_reports_a_long_token_first(raw: Raw) -> None:
    body = {
        "TransactItems": [put("abc", key("a"))],
        "ClientRequestToken": "x" * 37,
        "ReturnConsumedCapacity": "hi",
    }
    token = constraint(
        f"'{'x' * 37}'", "clientRequestToken", "Member must have length less than or equal to 36"
    )
    returned = constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM)
    text = f"2 validation errors detected: {token}; {returned}"
    assert raw.refusal("TransactWriteItems", body) == ("ValidationException", text)


def test_reports_the_first_invalid_action_whatever_its_error(raw: Raw, shared_hash_table: str) -> None:
    nameless = put(shared_hash_table, key("a") | {"": {"S": "x"}})
    deep = put(shared_hash_table, key("b") | {"deep": nest(40)})
    malformed = check(shared_hash_table, key("c"), "attribute_not_exists(")
    elsewhere = put("no_such_table", key("d"))
    syntax = 'Invalid ConditionExpression: Syntax error; token: "<EOF>", near: "("'
    for actions, text in (
        ([nameless, deep], "Empty attribute name"),
        ([deep, nameless], TOO_DEEP),
        ([deep, malformed], TOO_DEEP),
        ([malformed, deep], syntax),
        ([elsewhere, malformed], syntax),
    ):
        assert raw.refusal("TransactWriteItems", {"TransactItems": actions}) == ("ValidationException", text)


def test_more_than_100_actions_are_refused(raw: Raw) -> None:
    actions = [put("abc", key(str(n))) for n in range(101)]
    code, text = raw.refusal("TransactWriteItems", {"TransactItems": actions})
    assert code == "ValidationException"
    assert str(text).startswith("1 validation error detected: Value '[")
    ending = "]' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100"  # noqa: E501
    assert str(text).endswith(ending)


@pytest.mark.parametrize("value", ["none", "ALL_NEW"])
def test_return_values_on_failure_is_checked_for_the_whole_request(raw: Raw, value: str) -> None:
    body = {"TransactItems": [put("abc", key("a"), ReturnValuesOnConditionCheckFailure=value)]}
    code, text = raw.refusal("TransactWriteItems", body)
    assert code == "ValidationException"
    assert "transactItems.1.member.put.returnValuesOnConditionCheckFailure" in str(text)


# Validation of the whole request


@all_cases(
    ("action", "text"),
    cases(
        {
            "neither put nor anything": (
                {},
                "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request",
            ),
            "two in one": (
                put(TABLE, key("a")) | delete(TABLE, key("a")),
                "TransactItems can only contain one of Check, Put, Update or Delete",
            ),
            "a value without a type": (
                put(TABLE, {"pk": {}}),
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "an item too large": (
                put(TABLE, key("a") | {"big": {"S": "b" * 409_600}}),
                "Item size has exceeded the maximum allowed size",
            ),
            "an attribute without a name": (
                put(TABLE, key("a") | {"": {"S": "x"}, "deep": NESTED_TOO_DEEP}),
                "Empty attribute name",
            ),
            "a value nested too deep": (put(TABLE, key("a") | {"deep": NESTED_TOO_DEEP}), TOO_DEEP),
            "a malformed condition and a key nested too deep": (
                delete(TABLE, {"pk": NESTED_TOO_DEEP}, ConditionExpression="a = = b"),
                'Invalid ConditionExpression: Syntax error; token: "=", near: "= = b"',
            ),
            "a name not defined": (
                put(TABLE, key("a"), ConditionExpression="attribute_exists(#x)"),
                "Invalid ConditionExpression: An expression attribute name used in the document path is not "
                "defined; attribute name: #x",
            ),
            "a value not defined": (
                delete(TABLE, key("a"), ConditionExpression="a = :x"),
                "Invalid ConditionExpression: An expression attribute value used in expression is not "
                "defined; attribute value: :x",
            ),
            "a name not used": (
                put(TABLE, key("a"), ConditionExpression=PRESENT, ExpressionAttributeNames={"#x": "x"}),
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#x}",
            ),
            "a value not used": (
                update(TABLE, key("a"), "REMOVE a", {":x": {"N": "1"}}),
                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:x}",
            ),
            "an empty condition": (
                check(TABLE, key("a"), ""),
                "Invalid ConditionExpression: The expression can not be empty;",
            ),
            "an empty hash key in a put": (
                put(TABLE, key("")),
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "an empty hash key in an update": (
                update(TABLE, key(""), "REMOVE a"),
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "an empty hash key in a check": (
                check(TABLE, key(""), ABSENT),
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
        }
    ),
)
def test_invalid_request_is_refused_without_reasons(
    raw: Raw, shared_hash_table: str, action: dict[str, Any], text: str
) -> None:
    good = put(shared_hash_table, key("good"))
    body = {"TransactItems": [good, fill_in_table(shared_hash_table, action)]}
    assert raw.refusal("TransactWriteItems", body) == ("ValidationException", text)
    assert raw.item(shared_hash_table, key("good")) is None


@pytest.mark.parametrize(
    "actions",
    cases(
        {
            "two puts": ([put(TABLE, key("a")), put(TABLE, key("a") | {"v": {"N": "1"}})],),
            "a put and a delete": ([put(TABLE, key("a")), delete(TABLE, key("a"))],),
            "a put and a check": ([put(TABLE, key("a")), check(TABLE, key("a"), ABSENT)],),
            "an update and a delete": ([update(TABLE, key("a"), "REMOVE x"), delete(TABLE, key("a"))],),
            "two checks": ([check(TABLE, key("a"), ABSENT), check(TABLE, key("a"), ABSENT)],),
        }
    ),
)
def test_two_actions_on_one_item_are_refused(
    raw: Raw, shared_hash_table: str, actions: list[dict[str, Any]]
) -> None:
    body = {"TransactItems": [fill_in_table(shared_hash_table, action) for action in actions]}
    text = "Transaction request cannot include multiple operations on one item"
    assert raw.refusal("TransactWriteItems", body) == ("ValidationException", text)


def test_reports_a_missing_table(raw: Raw, shared_hash_table: str) -> None:
    body = {"TransactItems": [put(shared_hash_table, key("good")), put("no_such_table", key("a"))]}
    assert raw.refusal("TransactWriteItems", body) == (
        "ResourceNotFoundException",
        "Requested resource not found",
    )
    assert raw.item(shared_hash_table, key("good")) is None


# DynamoDB Local allows 10 actions, moto knows no total.
def test_more_than_4_mb_are_refused(raw: Raw, hash_table: str) -> None:
    actions = [put(hash_table, key(str(n)) | {"big": {"S": "b" * 390_000}}) for n in range(11)]
    assert raw.refusal("TransactWriteItems", {"TransactItems": actions})[0] == "ValidationException"
    assert raw.item(hash_table, key("0")) is None


def test_an_empty_index_key_refuses_the_request(raw: Raw, shared_index_table: str) -> None:
    at = {"pk": {"S": "empty"}, "sk": {"S": "b"}}
    body = {"TransactItems": [put(shared_index_table, at | {"kind": {"S": ""}})]}
    text = (
        NOT_VALID
        + "A value specified for a secondary index key is not supported. The AttributeValue for a key "
        "attribute cannot contain an empty string value. IndexName: by_kind, IndexKey: kind"
    )
    assert raw.refusal("TransactWriteItems", body) == ("ValidationException", text)
    body = {"TransactItems": [update(shared_index_table, at, "SET kind = :v", {":v": {"S": ""}})]}
    text = (
        NOT_VALID + "The update expression attempted to update a secondary index key to a value that is not "
        "supported. The AttributeValue for a key attribute cannot contain an empty string value."
    )
    assert raw.refusal("TransactWriteItems", body) == ("ValidationException", text)


# Cancellation


@all_cases(
    ("action", "text"),
    cases(
        {
            "a put of a wrong key type": (
                put(TABLE, {"pk": {"N": "1"}, "sk": {"S": "b"}}),
                INVALID + "Type mismatch for key pk expected: S actual: N",
            ),
            "a put without its key": (
                put(TABLE, {"pk": {"S": "a"}}),
                INVALID + "Missing the key sk in the item",
            ),
            "an update of a wrong key type": (
                update(TABLE, {"pk": {"N": "1"}, "sk": {"S": "b"}}, "REMOVE x"),
                MISMATCH,
            ),
            "a delete without the range key": (delete(TABLE, {"pk": {"S": "a"}}), MISMATCH),
            "a check of a key that is a list": (
                check(TABLE, {"pk": {"L": []}, "sk": {"S": "b"}}, ABSENT),
                MISMATCH,
            ),
            "a put of a wrong index key type": (
                put(TABLE, {"pk": {"S": "a"}, "sk": {"S": "b"}, "kind": {"N": "1"}}),
                INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: by_kind",
            ),
            "an update of a wrong index key type": (
                update(TABLE, {"pk": {"S": "a"}, "sk": {"S": "b"}}, "SET kind = :v", {":v": {"N": "1"}}),
                INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: by_kind",
            ),
            "an operand of the wrong type": (
                update(
                    TABLE, {"pk": {"S": "there"}, "sk": {"S": "b"}}, "SET x = sk + :v", {":v": {"N": "1"}}
                ),
                "An operand in the update expression has an incorrect data type",
            ),
            "an attribute that is not there": (
                update(TABLE, {"pk": {"S": "there"}, "sk": {"S": "b"}}, "SET x = gone"),
                "The provided expression refers to an attribute that does not exist in the item",
            ),
            "a path that is not there": (
                update(
                    TABLE, {"pk": {"S": "there"}, "sk": {"S": "b"}}, "SET gone.x = :v", {":v": {"N": "1"}}
                ),
                "The document path provided in the update expression is invalid for update",
            ),
            "an item grown too large": (
                update(
                    TABLE,
                    {"pk": {"S": "there"}, "sk": {"S": "b"}},
                    "SET x = :v",
                    {":v": {"S": "v" * 409_600}},
                ),
                "Item size to update has exceeded the maximum allowed size",
            ),
        }
    ),
)
def test_invalid_action_cancels_the_transaction_with_its_reason(
    raw: Raw, shared_index_table: str, action: dict[str, Any], text: str
) -> None:
    raw.put(shared_index_table, {"pk": {"S": "there"}, "sk": {"S": "b"}})
    good = {"pk": {"S": "good"}, "sk": {"S": "b"}}
    reasons = cancellation_reasons(
        raw, put(shared_index_table, good), fill_in_table(shared_index_table, action)
    )
    assert reasons == [{"Code": "None"}, {"Code": "ValidationError", "Message": text}]
    assert raw.item(shared_index_table, good) is None


def test_names_only_the_first_invalid_action_and_checks_no_condition(raw: Raw, hash_table: str) -> None:
    reasons = cancellation_reasons(
        raw,
        put(hash_table, {"pk": {"N": "7"}}),
        put(hash_table, {"pk": {"N": "8"}}),
        put(hash_table, key("a"), ConditionExpression=PRESENT),
    )
    assert [reason["Code"] for reason in reasons] == ["ValidationError", "None", "None"]


def test_every_failed_condition_is_named_and_nothing_is_written(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, key("there") | {"v": {"N": "1"}})
    reasons = cancellation_reasons(
        raw,
        put(hash_table, key("new")),
        put(hash_table, key("there"), ConditionExpression=ABSENT),
        delete(hash_table, key("absent"), ConditionExpression=PRESENT),
        update(hash_table, key("other"), "SET v = :v", {":v": {"N": "1"}}, ConditionExpression=PRESENT),
        check(hash_table, key("fifth"), PRESENT),
    )
    failed = {"Code": "ConditionalCheckFailed", "Message": CONDITION_FAILED}
    assert reasons == [{"Code": "None"}, failed, failed, failed, failed]
    assert raw.item(hash_table, key("new")) is None
    assert raw.item(hash_table, key("there")) == key("there") | {"v": {"N": "1"}}
    assert raw.item(hash_table, key("other")) is None


@pytest.mark.parametrize(("wanted", "returned"), [("ALL_OLD", True), ("NONE", False)])
@pytest.mark.parametrize("kind", ["Put", "Update", "Delete", "ConditionCheck"])
def test_reason_carries_the_item_on_request(
    raw: Raw, hash_table: str, kind: str, wanted: str, returned: bool
) -> None:
    old = key("a") | {"v": {"N": "1"}}
    raw.put(hash_table, old)
    body: dict[str, Any] = {"ConditionExpression": ABSENT, "ReturnValuesOnConditionCheckFailure": wanted}
    actions = {
        "Put": put(hash_table, key("a"), **body),
        "Update": update(hash_table, key("a"), "REMOVE v", **body),
        "Delete": delete(hash_table, key("a"), **body),
        "ConditionCheck": check(hash_table, key("a"), ABSENT, ReturnValuesOnConditionCheckFailure=wanted),
    }
    reason = {"Code": "ConditionalCheckFailed", "Message": CONDITION_FAILED}
    assert cancellation_reasons(raw, actions[kind]) == [reason | ({"Item": old} if returned else {})]


# Behaviour


def test_writes_all_kinds_of_actions_over_two_tables(raw: Raw, hash_table: str, range_table: str) -> None:
    for name in ("updated", "deleted", "checked"):
        raw.put(hash_table, key(name) | {"v": {"N": "1"}})
    row = {"pk": {"S": "row"}, "sk": {"S": "b"}}
    answer = write(
        raw,
        put(range_table, row, ConditionExpression=ABSENT),
        update(
            hash_table, key("updated"), "SET v = v + :v", {":v": {"N": "1"}}, ConditionExpression="v = :v"
        ),
        delete(hash_table, key("deleted"), ConditionExpression=PRESENT),
        check(hash_table, key("checked"), "v = :v", ExpressionAttributeValues={":v": {"N": "1"}}),
        update(hash_table, key("created"), "ADD n :v", {":v": {"N": "5"}}),
    )
    assert answer == {}
    assert raw.item(range_table, row) == row
    assert raw.item(hash_table, key("updated"))["v"] == {"N": "2"}
    assert raw.item(hash_table, key("deleted")) is None
    assert raw.item(hash_table, key("checked")) == key("checked") | {"v": {"N": "1"}}
    assert raw.item(hash_table, key("created")) == key("created") | {"n": {"N": "5"}}


def test_condition_check_of_an_absent_item_writes_nothing(raw: Raw, hash_table: str) -> None:
    write(raw, check(hash_table, key("a"), ABSENT))
    assert raw.item(hash_table, key("a")) is None


# DynamoDB Local still has the old limit of 10.
def test_100_actions_are_written(raw: Raw, hash_table: str) -> None:
    write(raw, *[put(hash_table, key(str(n))) for n in range(100)])
    assert raw.item(hash_table, key("0")) is not None
    assert raw.item(hash_table, key("99")) is not None


def test_a_transaction_is_measured_by_its_request_not_by_the_items_it_deletes(
    raw: Raw, hash_table: str
) -> None:
    for n in range(11):
        raw.put(hash_table, key(str(n)) | {"big": {"S": "b" * 390_000}})
    write(raw, *[delete(hash_table, key(str(n))) for n in range(11)])
    assert raw.item(hash_table, key("10")) is None


def test_same_token_applies_the_transaction_once(raw: Raw, hash_table: str) -> None:
    token = str(uuid.uuid4())
    add = update(hash_table, key("a"), "ADD n :v", {":v": {"N": "1"}})
    for _ in range(3):
        assert write(raw, add, ClientRequestToken=token) == {}
    assert raw.item(hash_table, key("a"))["n"] == {"N": "1"}
    write(raw, add)
    assert raw.item(hash_table, key("a"))["n"] == {"N": "2"}


def test_a_token_ignores_the_order_of_members(raw: Raw, hash_table: str) -> None:
    token = str(uuid.uuid4())
    body = {"ExpressionAttributeValues": {":v": {"N": "1"}}, "UpdateExpression": "ADD n :v"}
    write(raw, {"Update": {"TableName": hash_table, "Key": key("a")} | body}, ClientRequestToken=token)
    write(raw, {"Update": body | {"Key": key("a"), "TableName": hash_table}}, ClientRequestToken=token)
    assert raw.item(hash_table, key("a"))["n"] == {"N": "1"}


# moto ignores tokens.
def test_same_token_with_another_request_is_a_mismatch(raw: Raw, hash_table: str) -> None:
    token = str(uuid.uuid4())
    write(raw, put(hash_table, key("a")), ClientRequestToken=token)
    body = {"TransactItems": [put(hash_table, key("b"))], "ClientRequestToken": token}
    assert raw.refusal("TransactWriteItems", body)[0] == "IdempotentParameterMismatchException"
    assert raw.item(hash_table, key("b")) is None


def test_a_cancelled_transaction_does_not_use_up_its_token(raw: Raw, hash_table: str) -> None:
    token = str(uuid.uuid4())
    body = {
        "TransactItems": [put(hash_table, key("a"), ConditionExpression=PRESENT)],
        "ClientRequestToken": token,
    }
    assert raw.refusal("TransactWriteItems", body)[0] == "TransactionCanceledException"
    raw.put(hash_table, key("a"))
    assert raw.answer("TransactWriteItems", body) == {}


def test_racing_transactions_are_neither_lost_nor_split(raw: Raw, hash_table: str) -> None:
    def transfer(n: int) -> bool:
        actions = [
            update(hash_table, key("one"), "ADD n :v", {":v": {"N": "-1"}}),
            update(hash_table, key("two"), "ADD n :v", {":v": {"N": "1"}}),
        ]
        status, answer = raw.call(
            "TransactWriteItems", {"TransactItems": actions if n % 2 else actions[::-1]}
        )
        assert status == 200 or answer["__type"].endswith("TransactionCanceledException"), answer
        return status == 200

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(transfer, range(24)))
    assert done > 0
    assert raw.item(hash_table, key("one"))["n"] == {"N": str(-done)}
    assert raw.item(hash_table, key("two"))["n"] == {"N": str(done)}
