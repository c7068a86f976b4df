"""Request shapes: wrong types of members are refused first, then up to ten constraint errors."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.wire.shapes import (
    Request,
    Shape,
    boolean,
    integer,
    item,
    list_of,
    long,
    map_of,
    string,
    structure,
    table_name,
    table_name_checked_first,
    timestamp,
)

INNER = structure("Inner", Name=string(required=True))


def read(shape: Shape, value: Any) -> Any:
    """Read a request whose only member has this shape, and return the member."""
    return structure("Outer", Member=shape).read({"Member": value})["Member"]


def check(shape: Shape, value: Any) -> None:
    """Read and check a request whose only member has this shape."""
    outer = structure("Outer", Member=shape)
    outer.check({"Member": value}, outer.read({"Member": value}))


def malformed_message(shape: Shape, value: Any) -> str:
    """Return the message for a member of the wrong type."""
    with pytest.raises(MalformedRequest) as refused:
        read(shape, value)
    return refused.value.message


def constraint_message(shape: Shape, value: Any) -> str:
    """Return the message for a member that violates a constraint."""
    with pytest.raises(InvalidRequest) as refused:
        check(shape, value)
    return refused.value.message


@pytest.mark.parametrize(("word", "meaning"), [("true", True), ("YES", True), ("0", False), ("no", False)])
def test_reads_booleans_from_some_strings(word: str, meaning: bool) -> None:
    assert read(boolean(), word) is meaning


def test_a_whole_number_stays_in_its_range() -> None:
    assert read(integer(), 2**31 - 1) == 2**31 - 1
    assert "out of range" in malformed_message(integer(), 2**31)
    assert "out of range" in malformed_message(long(), -(2**63) - 1)


def test_a_time_is_a_number_of_seconds() -> None:
    assert read(timestamp(), 12) == 12.0
    assert malformed_message(timestamp(), "12") == "STRING_VALUE cannot be converted to Date"


def test_errors_follow_the_order_of_the_shape_and_are_counted() -> None:
    shape = structure("Outer", First=string(enum=("A", "B")), Second=table_name(), Third=item(required=True))
    request: Request = {"Second": "a;", "First": "hi"}
    with pytest.raises(InvalidRequest) as refused:
        shape.check(request, shape.read(request))
    assert refused.value.message == (
        "4 validation errors detected: Value 'hi' at 'first' failed to satisfy constraint: Member must "
        "satisfy enum value set: [A, B]; Value 'a;' at 'second' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; "
        "Value 'a;' at 'second' failed to satisfy constraint: "
        "Member must have length greater than or equal to 3; "
        "Value null at 'third' failed to satisfy constraint: Member must not be null"
    )


def test_reports_at_most_ten_errors() -> None:
    text = constraint_message(list_of(string(max_length=1)), ["ab"] * 30)
    assert text.startswith("10 validation errors detected: ")
    assert text.count("failed to satisfy constraint") == 10
    assert "'member.10.member'" in text
    assert "'member.11.member'" not in text


def test_path_names_list_positions_and_map_keys() -> None:
    assert "Value null at 'member.2.member.name' failed" in constraint_message(
        list_of(INNER), [{"Name": "a"}, {}]
    )
    assert "Value null at 'member.x y.member.name' failed" in constraint_message(map_of(INNER), {"x y": {}})


def test_null_in_a_list_or_map_is_an_error() -> None:
    assert "Value null at 'member.1.member' failed" in constraint_message(list_of(INNER), [None])
    assert "Value null at 'member.a.member' failed" in constraint_message(map_of(string()), {"a": None})


def test_values_are_shown_as_java_prints_them() -> None:
    assert "Value '[[a, b], [c]]' at 'member'" in constraint_message(
        list_of(list_of(string()), min_length=3), [["a", "b"], ["c"]]
    )
    assert "Value '{abc=[Inner(name=x)]}' at 'member'" in constraint_message(
        map_of(list_of(INNER), list_lengths=(2, 3)), {"abc": [{"Name": "x"}]}
    )


def test_the_keys_of_a_map_by_table_are_names_of_tables() -> None:
    shape = map_of(string(), is_keyed_by_table=True)
    check(shape, {"abc": "x", "arn:aws:dynamodb:us-east-1:000000000000:table/abc": "x"})
    assert constraint_message(shape, {"a;": "x"}) == (
        "1 validation error detected: Value '{a;=x}' at 'member' failed to satisfy constraint: "
        "Map keys must satisfy constraint: [Member must have length less than or equal to 255, "
        "Member must have length greater than or equal to 3, "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"
    )


def test_a_table_is_named_by_its_name_or_its_arn() -> None:
    assert read(table_name(), "abc") == "abc"
    assert read(table_name(), "arn:aws:dynamodb:eu-west-1:123456789012:table/abc") == "abc"
    check(table_name(), "arn:aws:dynamodb:eu-west-1:123456789012:table/abc")
    assert "regular expression pattern" in constraint_message(table_name(), "arn:aws:s3:::abc")


def test_some_members_have_another_message_as_the_only_error() -> None:
    at_least_1 = "Member must have value greater than or equal to 1"
    assert constraint_message(integer(minimum=1, omits_value=True), 0) == (
        f"1 validation error detected: Value at 'Member' failed to satisfy constraint: {at_least_1}"
    )
    assert constraint_message(table_name(), "") == (
        "1 validation error detected: Value '' at 'member' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1"
    )
    shape = structure("Outer", Limit=integer(minimum=1, omits_value=True), TableName=table_name())
    request: Request = {"Limit": 0, "TableName": ""}
    with pytest.raises(InvalidRequest) as refused:
        shape.check(request, shape.read(request))
    assert refused.value.message == (
        f"3 validation errors detected: Value '0' at 'limit' failed to satisfy constraint: {at_least_1}; "
        "Value '' at 'tableName' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; "
        "Value '' at 'tableName' failed to satisfy constraint: "
        "Member must have length greater than or equal to 3"
    )


def test_table_operations_check_the_name_first_with_their_own_message() -> None:
    shape = structure("Outer", Kind=string(enum=("A",)), TableName=table_name_checked_first())
    for request, text in [
        ({"Kind": "B"}, "The parameter 'TableName' is required but was not present in the request"),
        (
            {"Kind": "B", "TableName": "ab"},
            "TableName must be at least 3 characters long and at most 255 characters long",
        ),
        (
            {"TableName": "abc;"},
            "1 validation error detected: Value 'abc;' at 'tableName' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        ),
    ]:
        with pytest.raises(InvalidRequest) as refused:
            shape.check(request, shape.read(request))
        assert refused.value.message == text
