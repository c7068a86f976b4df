"""`apply_update`: items after updates, and updates that DynamoDB refuses for an item."""

from __future__ import annotations

import copy
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.expressions import (
    Placeholders,
    apply_update,
    get_written_paths,
    parse_update,
    select_written_values,
)
from holdfast.operations.expressions.nodes import Path, Update
from holdfast.operations.values import Item
from tests.cases import all_cases

KEY: Item = {"p": "x"}
ITEM: Item = {
    "p": "x",
    "n": 5,
    "s": "text",
    "l": [0, 1, 2, 3],
    "m": {"k": 1, "j": "2", "ll": ["a", "b"]},
    "ss": frozenset(("a", "b")),
    "ls": [frozenset(("a",)), {"k": 1}],
    "nothing": None,
    "yes": True,
    "big": 9 * 10**125,
    "digits": 10**38 - 1,
    "small": Decimal("1e-130"),
}
VALUES: dict[str, Any] = {
    ":n": 1,
    ":h": Decimal("1.5"),
    ":s": "x",
    ":l": ["q", 3],
    ":ss": frozenset(("b", "q")),
    ":sa": frozenset(("a",)),
    ":ns": frozenset((1,)),
    ":big": 9 * 10**125,
    ":minus": -9 * 10**125,
    ":half": Decimal("0.5"),
    ":true": True,
}
MISSING_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"
WRONG_PATH = "The document path provided in the update expression is invalid for update"
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"


def _update(text: str) -> Update:
    return parse_update(text, Placeholders(None, VALUES))


@all_cases(
    ("text", "changes"),
    [
        ("SET a = :n", {"a": 1}),
        ("SET n = :s, a = n", {"n": "x", "a": 5}),
        ("SET n = s, s = n", {"n": "text", "s": 5}),
        ("SET a = p", {"a": "x"}),
        ("SET a = m.ll[1]", {"a": "b"}),
        ("SET a = n + n", {"a": 10}),
        ("SET a = n - :h", {"a": Decimal("3.5")}),
        ("SET a = :h + :half", {"a": 2}),
        ("SET a = digits + :n", {"a": 10**38}),
        ("SET a = small + small", {"a": Decimal("2e-130")}),
        ("SET a = small - small", {"a": 0}),
        ("SET a = if_not_exists(b, :n)", {"a": 1}),
        ("SET a = if_not_exists(nothing, :n)", {"a": None}),
        ("SET n = if_not_exists(n, :n) + :n", {"n": 6}),
        ("SET a = if_not_exists(b, if_not_exists(c, :n))", {"a": 1}),
        ("SET a = list_append(if_not_exists(b, :l), l)", {"a": ["q", 3, 0, 1, 2, 3]}),
        ("SET l = list_append(:l, l)", {"l": ["q", 3, 0, 1, 2, 3]}),
        ("SET m.k = :s", {"m": {"k": "x", "j": "2", "ll": ["a", "b"]}}),
        ("SET m.fresh = :s REMOVE m.j", {"m": {"k": 1, "ll": ["a", "b"], "fresh": "x"}}),
        (
            "SET m.ll[0] = m.ll[1], m.ll[1] = m.ll[0], m.k = m.j",
            {"m": {"k": "2", "j": "2", "ll": ["b", "a"]}},
        ),
        ("SET l[1] = :s", {"l": [0, "x", 2, 3]}),
        ("SET l[9] = :s, l[5] = :n, l[0] = :n", {"l": [1, 1, 2, 3, 1, "x"]}),
        ("SET l[1] = :s REMOVE l[0], l[3]", {"l": ["x", 2]}),
        ("SET l[9] = :s REMOVE l[0], l[3]", {"l": [1, 2, "x"]}),
        ("REMOVE l[0], l[2], l[9]", {"l": [1, 3]}),
        ("REMOVE l[0], l[1], l[2], l[3]", {"l": []}),
        ("REMOVE n, absent, m.absent", {"n": ...}),
        ("ADD n :h", {"n": Decimal("6.5")}),
        ("ADD a :n, b :ss", {"a": 1, "b": VALUES[":ss"]}),
        ("ADD ss :ss", {"ss": frozenset(("a", "b", "q"))}),
        ("ADD l[0] :n, l[9] :h", {"l": [1, 1, 2, 3, Decimal("1.5")]}),
        ("ADD m.k :n, m.zz :ss", {"m": {"k": 2, "j": "2", "ll": ["a", "b"], "zz": VALUES[":ss"]}}),
        ("DELETE ss :ss", {"ss": frozenset(("a",))}),
        ("DELETE ss :sa, absent :sa, m.absent :sa", {"ss": frozenset(("b",))}),
        ("DELETE ls[0] :sa", {"ls": [{"k": 1}]}),
        ("ADD ls[1].k :n", {"ls": [frozenset(("a",)), {"k": 2}]}),
    ],
)
def test_an_update_makes_these_changes_and_leaves_the_old_item_alone(
    text: str, changes: dict[str, Any]
) -> None:
    before = copy.deepcopy(ITEM)
    after = apply_update(_update(text), ITEM, KEY)
    expected = {name: value for name, value in {**ITEM, **changes}.items() if value is not ...}
    assert after == expected
    assert before == ITEM


def test_removing_the_last_element_removes_the_attribute() -> None:
    assert apply_update(_update("DELETE a :sa"), {"p": "x", "a": frozenset(("a",))}, KEY) == KEY


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("SET a = :n", {"p": "x", "a": 1}),
        ("SET a = p", {"p": "x", "a": "x"}),
        ("ADD a :n", {"p": "x", "a": 1}),
        ("REMOVE a", {"p": "x"}),
        ("DELETE a :sa", {"p": "x"}),
    ],
)
def test_update_of_an_absent_item_starts_from_its_key(text: str, after: Item) -> None:
    assert apply_update(_update(text), None, KEY) == after


@all_cases(
    ("text", "message"),
    [
        ("SET a = absent", MISSING_ATTRIBUTE),
        ("SET a = m.absent", MISSING_ATTRIBUTE),
        ("SET a = l[9]", MISSING_ATTRIBUTE),
        ("SET a = s.x", MISSING_ATTRIBUTE),
        ("SET a = absent + :n", MISSING_ATTRIBUTE),
        ("SET a = :n, b = a", MISSING_ATTRIBUTE),
        ("SET a = list_append(absent, :l)", MISSING_ATTRIBUTE),
        ("SET a = if_not_exists(n, absent)", MISSING_ATTRIBUTE),
        ("SET a = s + :n", WRONG_TYPE),
        ("SET a = yes + :n", WRONG_TYPE),
        ("SET a = list_append(s, :l)", WRONG_TYPE),
        ("SET a = if_not_exists(absent, :s) + :n", WRONG_TYPE),
        ("ADD s :n", WRONG_TYPE),
        ("ADD yes :n", WRONG_TYPE),
        ("ADD nothing :n", WRONG_TYPE),
        ("ADD n :ss", WRONG_TYPE),
        ("ADD ss :ns", WRONG_TYPE),
        ("ADD l :n", WRONG_TYPE),
        ("DELETE s :ss", WRONG_TYPE),
        ("DELETE ss :ns", WRONG_TYPE),
        ("SET absent.x = :n", WRONG_PATH),
        ("SET absent[0] = :n", WRONG_PATH),
        ("SET s.x = :n", WRONG_PATH),
        ("SET l.x = :n", WRONG_PATH),
        ("SET m[0] = :n", WRONG_PATH),
        ("SET m.x.y = :n", WRONG_PATH),
        ("SET l[9].x = :n", WRONG_PATH),
        ("REMOVE absent.x", WRONG_PATH),
        ("REMOVE s[1]", WRONG_PATH),
        ("ADD absent.x :n", WRONG_PATH),
        ("DELETE absent.x :sa", WRONG_PATH),
        ("SET a = big + :big", OVERFLOW),
        ("SET a = :minus - :big", OVERFLOW),
        ("ADD big :big", OVERFLOW),
        ("SET a = digits + :half", OVERFLOW),
        ("SET a = digits - small", OVERFLOW),
    ],
)
def test_rejects_an_inapplicable_update(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        apply_update(_update(text), ITEM, KEY)
    assert refused.value.message == message


def test_shares_unchanged_parts_with_the_old_item() -> None:
    item: Item = {"p": "x", "a": {"b": {"c": 1}, "d": [1]}, "e": [2]}
    after: Any = apply_update(_update("SET a.b.c = :n"), item, KEY)
    before: Any = item
    assert after["e"] is before["e"] and after["a"]["d"] is before["a"]["d"]
    assert after["a"]["b"] is not before["a"]["b"]


def test_reports_the_written_paths() -> None:
    paths = get_written_paths(_update("REMOVE a SET b.c = d ADD e :n DELETE f :ss"))
    assert paths == (Path("b", ("c",)), Path("a"), Path("e"), Path("f"))


@all_cases(
    ("text", "old", "new"),
    [
        ("SET n = :n, a = :n", {"n": 5}, {"n": 1, "a": 1}),
        ("REMOVE n", {"n": 5}, {}),
        ("SET m.k = :s", {"m": {"k": 1}}, {"m": {"k": "x"}}),
        ("SET m.ll[1] = :n, m.k = :s", {"m": {"k": 1, "ll": ["b"]}}, {"m": {"k": "x", "ll": [1]}}),
        ("SET m.fresh = :n", {}, {"m": {"fresh": 1}}),
        ("REMOVE l[1], l[9]", {"l": [1]}, {"l": [2]}),
        ("SET l[100] = :n", {}, {}),
    ],
)
def test_only_the_updated_parts_are_returned(text: str, old: Item, new: Item) -> None:
    update = _update(text)
    assert select_written_values(get_written_paths(update), ITEM) == old
    assert select_written_values(get_written_paths(update), apply_update(update, ITEM, KEY)) == new


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 20))
def test_sums_are_exact_or_refused(left: int, right: int, scale: int) -> None:
    values = {":l": numbers.parse(f"{left}e-{scale}"), ":r": numbers.parse(f"{right}e-{scale}")}
    update = parse_update("SET a = :l + :r", Placeholders(None, values))
    if len(str(abs(left + right)).rstrip("0")) > 38:
        with pytest.raises(InvalidRequest):
            apply_update(update, None, KEY)
    else:
        total: Any = apply_update(update, None, KEY)["a"]
        assert Fraction(total) * 10**scale == left + right
