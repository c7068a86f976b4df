"""Attribute values over the wire: numbers, sets, empty values, nesting, exact sizes, and sort key order."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable
from .protocol import Raw, cases

INVALID = "One or more parameter values were invalid: "
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
TOO_PRECISE = "Attempting to store more than 38 significant digits in a Number"
TOO_LARGE = "Item size has exceeded the maximum allowed size"
TOO_DEEP = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"  # noqa: E501
MAX_ITEM_BYTES = 409_600
KEY = {"pk": {"S": "a"}}


def put_and_read(raw: Raw, table: str, value: dict[str, Any]) -> Any:
    """Put an item with this value in `v`, read it, and return the value."""
    raw.put(table, KEY | {"v": value})
    return raw.item(table, KEY)["v"]


def put_refusal(raw: Raw, table: str, value: dict[str, Any]) -> tuple[str, str | None]:
    """Put an item with this value in `v`, which must be refused."""
    return raw.refusal("PutItem", {"TableName": table, "Item": KEY | {"v": value}})


# Numbers


@pytest.mark.parametrize(
    ("written", "read"),
    cases(
        {
            "zero": ("0", "0"),
            "negative zero": ("-0", "0"),
            "zero with an exponent": ("0e1000", "0"),
            "zeros after the point": ("0.000", "0"),
            "leading zeros of the exponent": ("15e" + "0" * 5000 + "1", "150"),
            "leading zeros": ("00042", "42"),
            "trailing zeros after the point": ("3.1400", "3.14"),
            "a whole number with a point": ("1.0", "1"),
            "trailing zeros before the point": ("100", "100"),
            # dynalite refuses a plus sign.
            "a plus sign": ("+3", "3"),
            "no digit before the point": (".5", "0.5"),
            "no digit after the point": ("5.", "5"),
            "an exponent": ("1.5e2", "150"),
            "an exponent in upper case with a sign": ("-17E+3", "-17000"),
            "a negative exponent": ("12e-3", "0.012"),
            "38 digits": ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
            "38 digits after the point": (
                "0.12345678901234567890123456789012345678",
                "0.12345678901234567890123456789012345678",
            ),
            "38 digits around the point": (
                "-1234567890123456789.0123456789012345678",
                "-1234567890123456789.0123456789012345678",
            ),
            "zeros do not count as digits": ("1" + "0" * 60, "1" + "0" * 60),
            "the largest": ("9.9999999999999999999999999999999999999e125", "9" * 38 + "0" * 88),
            "the smallest": ("1e-130", "0." + "0" * 129 + "1"),
            "a large power of ten": ("1E125", "1" + "0" * 125),
        }
    ),
)
def test_a_number_comes_back_in_one_canonical_form(
    raw: Raw, hash_table: str, written: str, read: str
) -> None:
    assert put_and_read(raw, hash_table, {"N": written}) == {"N": read}


@pytest.mark.parametrize(
    ("written", "text"),
    cases(
        {
            "empty": ("", "The parameter cannot be converted to a numeric value"),
            "letters": ("b", "The parameter cannot be converted to a numeric value: b"),
            "space before": (" 1", "The parameter cannot be converted to a numeric value:  1"),
            "space after": ("1 ", "The parameter cannot be converted to a numeric value: 1 "),
            "not a number": ("NaN", "The parameter cannot be converted to a numeric value: NaN"),
            "infinity": ("Infinity", "The parameter cannot be converted to a numeric value: Infinity"),
            "a sign alone": ("-", "The parameter cannot be converted to a numeric value: -"),
            "two points": ("1.2.3", "The parameter cannot be converted to a numeric value: 1.2.3"),
            "an underscore": ("1_000", "The parameter cannot be converted to a numeric value: 1_000"),
            "hexadecimal": ("0x10", "The parameter cannot be converted to a numeric value: 0x10"),
            "other digits": ("١", "The parameter cannot be converted to a numeric value: ١"),
            "39 digits": ("123456789012345678901234567890123456789", TOO_PRECISE),
            "39 digits after the point": ("-1.23456789012345678901234567890123456789", TOO_PRECISE),
            "too large": ("1e126", OVERFLOW),
            "too large and negative": ("-1e126", OVERFLOW),
            "too large in other words": ("11e125", OVERFLOW),
            "far too large": ("1e100000000", OVERFLOW),
            "beyond 32 bits": ("1e99999999999", OVERFLOW),
            "beyond 64 bits": (
                "1e9223372036854775808",
                "The parameter cannot be converted to a numeric value: 1e9223372036854775808",
            ),
            "too small": ("1e-131", UNDERFLOW),
            "too small and negative": ("-0.9e-130", UNDERFLOW),
            "far too small": ("1e-100000000", UNDERFLOW),
        }
    ),
)
@pytest.mark.parametrize("in_a_set", [False, True], ids=["alone", "in-a-set"])
def test_rejects_invalid_numbers(
    raw: Raw, shared_hash_table: str, written: str, text: str, in_a_set: bool
) -> None:
    value: dict[str, Any] = {"NS": ["1", written]} if in_a_set else {"N": written}
    assert put_refusal(raw, shared_hash_table, value) == ("ValidationException", text)


def test_numbers_as_sort_keys_are_ordered_by_value(raw: Raw, number_table: str) -> None:
    in_order = [
        "-9.9999999999999999999999999999999999999e125",
        "-12345678901234567890123456789012345678",
        "-12345678901234567890123456789012345677",
        "-100",
        "-99.5",
        "-10",
        "-9",
        "-1.5",
        "-1",
        "-0.5",
        "-0.05",
        "-1e-130",
        "0",
        "1e-130",
        "1e-129",
        "0.00000000000000000000000000000000000001",
        "0.05",
        "0.5",
        "0.51",
        "1",
        "1.5",
        "2",
        "9",
        "10",
        "99.5",
        "100",
        "12345678901234567890123456789012345677",
        "12345678901234567890123456789012345678",
        "1e125",
    ]
    for place, number in sorted(enumerate(in_order), key=lambda entry: entry[1]):
        raw.put(number_table, KEY | {"sk": {"N": number}, "place": {"N": str(place)}})
    answer = raw.answer(
        "Query",
        {
            "TableName": number_table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "a"}},
            "ConsistentRead": True,
        },
    )
    assert [int(item["place"]["N"]) for item in answer["Items"]] == list(range(len(in_order)))


@pytest.mark.parametrize("other", ["1.0", "01", "1e0", "10e-1", "+1"])
def test_equal_numbers_are_one_key(raw: Raw, number_table: str, other: str) -> None:
    raw.put(number_table, KEY | {"sk": {"N": "1"}})
    assert raw.item(number_table, KEY | {"sk": {"N": other}}) == KEY | {"sk": {"N": "1"}}


def test_neighbouring_38_digit_numbers_are_two_keys(raw: Raw, make_table: MakeTable) -> None:
    table = make_table("pk:N")
    numbers = ["12345678901234567890123456789012345677", "12345678901234567890123456789012345678"]
    for number in numbers:
        raw.put(table, {"pk": {"N": number}, "v": {"S": number}})
    assert [raw.item(table, {"pk": {"N": number}})["v"] for number in numbers] == [{"S": n} for n in numbers]


# Strings and binaries


def test_strings_as_sort_keys_are_ordered_by_their_bytes(raw: Raw, range_table: str) -> None:
    # In UTF-16 the last two would change places.
    in_order = ["\x00", "0", "A", "B", "a", "aa", "b", "é", "日", "\uffee", "\U0001f600"]
    for text in reversed(in_order):
        raw.put(range_table, KEY | {"sk": {"S": text}})
    answer = raw.answer(
        "Query",
        {
            "TableName": range_table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "a"}},
        },
    )
    assert [item["sk"]["S"] for item in answer["Items"]] == in_order


def test_binaries_as_sort_keys_are_ordered_as_unsigned_bytes(raw: Raw, binary_table: str) -> None:
    in_order = [b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x7f\xff", b"\x80", b"\xff", b"\xff\x00"]
    for value in reversed(in_order):
        raw.put(binary_table, KEY | {"sk": {"B": base64.b64encode(value).decode()}})
    answer = raw.answer(
        "Query",
        {
            "TableName": binary_table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "a"}},
        },
    )
    assert [base64.b64decode(item["sk"]["B"]) for item in answer["Items"]] == in_order


@pytest.mark.parametrize(
    "value",
    cases(
        {
            "an empty string": ({"S": ""},),
            "an empty binary": ({"B": ""},),
            "an empty list": ({"L": []},),
            "an empty map": ({"M": {}},),
            "an empty name in a map": ({"M": {"x": {"S": ""}, "y": {"L": [{"S": ""}, {"B": ""}]}}},),
            "an empty string in a set": ({"SS": [""]},),
            "an empty binary in a set": ({"BS": [""]},),
            "true": ({"BOOL": True},),
            "false": ({"BOOL": False},),
            "null": ({"NULL": True},),
            "text of every plane": ({"S": 'a\x00\n"\\/é日\U0001f600'},),
            "all bytes": ({"B": base64.b64encode(bytes(range(256))).decode()},),
            "mixed lists": (
                {"L": [{"N": "1"}, {"S": "1"}, {"L": [{"NULL": True}]}, {"M": {"": {"N": "1"}}}]},
            ),
            "an attribute name like a type": ({"M": {"S": {"N": "1"}, "N": {"S": "x"}}},),
        }
    ),
)
def test_a_value_comes_back_as_it_was_written(raw: Raw, hash_table: str, value: dict[str, Any]) -> None:
    assert put_and_read(raw, hash_table, value) == value


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("YES", True), ("false", False), ("0", False)]
)
def test_reads_booleans_from_some_strings(raw: Raw, hash_table: str, text: str, value: bool) -> None:
    assert put_and_read(raw, hash_table, {"BOOL": text}) == {"BOOL": value}


def test_null_must_be_true(raw: Raw, shared_hash_table: str) -> None:
    text = INVALID + "Null attribute value types must have the value of true"
    assert put_refusal(raw, shared_hash_table, {"NULL": False}) == ("ValidationException", text)


# Sets


@all_cases(
    ("value", "text"),
    cases(
        {
            "no strings": ({"SS": []}, INVALID + "An string set  may not be empty"),
            "no numbers": ({"NS": []}, INVALID + "An number set  may not be empty"),
            "no binaries": ({"BS": []}, INVALID + "Binary sets should not be empty"),
            "a string twice": ({"SS": ["a", "a"]}, INVALID + "Input collection [a, a] contains duplicates."),
            "a number twice": ({"NS": ["1", "1"]}, "Input collection contains duplicates"),
            "a binary twice": (
                {"BS": ["Yg==", "Yg=="]},
                INVALID + "Input collection [Yg==, Yg==]of type BS contains duplicates.",
            ),
            "an empty set in a map": ({"M": {"x": {"SS": []}}}, INVALID + "An string set  may not be empty"),
            "an empty set in a list": ({"L": [{"NS": []}]}, INVALID + "An number set  may not be empty"),
        }
    ),
)
def test_rejects_empty_sets_and_duplicates(
    raw: Raw, shared_hash_table: str, value: dict[str, Any], text: str
) -> None:
    assert put_refusal(raw, shared_hash_table, value) == ("ValidationException", text)


def test_equal_numbers_written_differently_are_duplicates(raw: Raw, shared_hash_table: str) -> None:
    refused = ("ValidationException", "Input collection contains duplicates")
    assert put_refusal(raw, shared_hash_table, {"NS": ["1", "1.0"]}) == refused


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("SS", ["b", "a", "B", ""], ["", "B", "a", "b"]),
        ("NS", ["10", "9", "-1", "0.50"], ["-1", "0.5", "9", "10"]),
        ("BS", ["/w==", "AA=="], ["/w==", "AA=="]),
    ],
)
def test_a_set_keeps_its_members(
    raw: Raw, hash_table: str, kind: str, members: list[str], expected: list[str]
) -> None:
    value = put_and_read(raw, hash_table, {kind: members})
    assert list(value) == [kind]
    assert sorted(value[kind]) == sorted(expected)


# dynalite keeps the order of the request.
@pytest.mark.parametrize(
    ("kind", "members", "in_order"),
    [("SS", ["b", "a", "B", ""], ["", "B", "a", "b"]), ("BS", ["/w==", "AA=="], ["AA==", "/w=="])],
)
def test_strings_and_binaries_of_a_set_come_back_in_the_order_of_their_bytes(
    raw: Raw, hash_table: str, kind: str, members: list[str], in_order: list[str]
) -> None:
    assert put_and_read(raw, hash_table, {kind: members}) == {kind: in_order}


def test_sets_are_equal_in_any_order(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, KEY | {"v": {"NS": ["1", "2", "3"]}})
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "ConditionExpression": "v = :v",
        "ExpressionAttributeValues": {":v": {"NS": ["3.0", "1", "2"]}},
    }
    assert raw.answer("DeleteItem", body) == {}


# Nesting


def nest(depth: int, kind: str) -> dict[str, Any]:
    """Return a value of `depth` levels, the innermost a string."""
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(depth - 1):
        value = {"M": {"x": value}} if kind == "M" else {"L": [value]}
    return value


# dynalite has no limit.
@pytest.mark.parametrize("kind", ["M", "L"])
def test_values_may_be_nested_32_levels_deep(raw: Raw, hash_table: str, kind: str) -> None:
    assert put_and_read(raw, hash_table, nest(32, kind)) == nest(32, kind)
    assert put_refusal(raw, hash_table, nest(33, kind)) == ("ValidationException", TOO_DEEP)


def test_an_update_nests_as_deep_as_a_put_and_no_deeper(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, KEY | {"v": {"M": {}}})
    body = {"TableName": hash_table, "Key": KEY, "UpdateExpression": "SET v.x = :v"}
    deepest = body | {"ExpressionAttributeValues": {":v": nest(31, "M")}}
    too_deep = body | {"ExpressionAttributeValues": {":v": nest(32, "M")}}
    assert raw.answer("UpdateItem", deepest) == {}
    assert raw.refusal("UpdateItem", too_deep) == ("ValidationException", TOO_DEEP)
    whole = raw.item(hash_table, KEY)
    raw.put(hash_table, whole)
    assert raw.item(hash_table, KEY) == whole


def test_an_update_inside_a_map_may_not_exceed_the_depth(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, KEY | {"v": nest(20, "M")})
    path = ".".join(["v"] + ["x"] * 18)
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "UpdateExpression": f"SET {path} = :v",
        "ExpressionAttributeValues": {":v": nest(20, "M")},
    }
    code, text = raw.refusal("UpdateItem", body)
    assert code == "ValidationException"
    assert str(text).startswith("Nesting Levels have exceeded supported limits")
    assert raw.item(hash_table, KEY)["v"] == nest(20, "M")


# Sizes (dynalite counts UTF-16 units where AWS counts UTF-8 bytes)


def padded_item(attributes: dict[str, Any], attribute_bytes: int, total: int) -> dict[str, Any]:
    """Return an item of exactly `total` bytes: its key, `attributes` of `attribute_bytes` bytes, and
    padding.
    """
    padding = total - len("pk") - len("a") - attribute_bytes - len("p")
    return KEY | attributes | {"p": {"S": "x" * padding}}


@pytest.mark.parametrize(
    ("attributes", "size"),
    cases(
        {
            "nothing else": ({}, 0),
            "a name in UTF-8": ({"é": {"S": ""}}, 2),
            "a string in UTF-8": ({"v": {"S": "é日\U0001f600"}}, 1 + 2 + 3 + 4),
            "a binary by its bytes": ({"v": {"B": base64.b64encode(b"12345").decode()}}, 1 + 5),
            "true": ({"v": {"BOOL": True}}, 1 + 1),
            "null": ({"v": {"NULL": True}}, 1 + 1),
            "zero": ({"v": {"N": "0"}}, 1 + 1),
            "one digit": ({"v": {"N": "1"}}, 1 + 2),
            "two digits": ({"v": {"N": "12"}}, 1 + 2),
            "three digits": ({"v": {"N": "123"}}, 1 + 3),
            "38 digits": ({"v": {"N": "12345678901234567890123456789012345678"}}, 1 + 20),
            "trailing zeros": ({"v": {"N": "100"}}, 1 + 2),
            "a negative number": ({"v": {"N": "-42"}}, 1 + 3),
            "a set of strings": ({"v": {"SS": ["a", "bc"]}}, 1 + 3),
            "a list": ({"v": {"L": [{"S": "abc"}, {"BOOL": True}]}}, 1 + 3 + (1 + 3) + (1 + 1)),
            "a map": ({"v": {"M": {"ab": {"S": "c"}}}}, 1 + 3 + (1 + 2 + 1)),
            "an empty map": ({"v": {"M": {}}}, 1 + 3),
        }
    ),
)
def test_an_item_may_have_400_kb_to_the_byte(
    raw: Raw, shared_hash_table: str, attributes: dict[str, Any], size: int
) -> None:
    body = {"TableName": shared_hash_table, "Item": padded_item(attributes, size, MAX_ITEM_BYTES + 1)}
    assert raw.refusal("PutItem", body) == ("ValidationException", TOO_LARGE)
    raw.put(shared_hash_table, padded_item(attributes, size, MAX_ITEM_BYTES))


# AWS documents pairs of digits from the first; AWS and dynalite actually pair outwards from the decimal
# point.
@pytest.mark.parametrize(
    ("number", "size"), [("1.5", 3), ("3.14159", 5), ("100.5", 4), ("0.15", 2), ("0.0000001", 2)]
)
def test_digits_on_both_sides_of_the_point_are_counted_apart(
    raw: Raw, shared_hash_table: str, number: str, size: int
) -> None:
    attributes = {"v": {"N": number}}
    body = {"TableName": shared_hash_table, "Item": padded_item(attributes, 1 + size, MAX_ITEM_BYTES + 1)}
    assert raw.refusal("PutItem", body) == ("ValidationException", TOO_LARGE)
    raw.put(shared_hash_table, padded_item(attributes, 1 + size, MAX_ITEM_BYTES))


@pytest.mark.parametrize(("hash_bytes", "range_bytes"), [(2048, 1024)])
@pytest.mark.parametrize("kind", ["S", "B"])
def test_keys_may_have_2048_and_1024_bytes(
    raw: Raw, make_table: MakeTable, kind: str, hash_bytes: int, range_bytes: int
) -> None:
    table = make_table(f"pk:{kind}", f"sk:{kind}")

    def value(size: int) -> dict[str, str]:
        return {kind: "k" * size if kind == "S" else base64.b64encode(b"k" * size).decode()}

    item = {"pk": value(hash_bytes), "sk": value(range_bytes)}
    raw.put(table, item)
    assert raw.item(table, item) == item
    body = {"TableName": table, "Item": item | {"pk": value(hash_bytes + 1)}}
    text = INVALID + "Size of hashkey has exceeded the maximum size limit of2048 bytes"
    assert raw.refusal("PutItem", body) == ("ValidationException", text)
    body = {"TableName": table, "Item": item | {"sk": value(range_bytes + 1)}}
    text = INVALID + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


# dynalite counts UTF-16 units.
def test_key_sizes_are_counted_in_utf_8(raw: Raw, shared_range_table: str) -> None:
    raw.put(shared_range_table, KEY | {"sk": {"S": "é" * 512}})
    body = {"TableName": shared_range_table, "Item": KEY | {"sk": {"S": "é" * 513}}}
    assert raw.refusal("PutItem", body)[0] == "ValidationException"


# dynalite and DynamoDB Local have no limit for names.
def test_attribute_names_may_have_65535_bytes_and_no_more(raw: Raw, hash_table: str) -> None:
    item = KEY | {"n" * 65_535: {"N": "1"}}
    raw.put(hash_table, item)
    assert raw.item(hash_table, KEY) == item
    code, _ = raw.refusal("PutItem", {"TableName": hash_table, "Item": KEY | {"n" * 65_536: {"N": "1"}}})
    assert code == "ValidationException"
