"""Evaluation of conditions, by table and against a second, small evaluator."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.operations.expressions import (
    Placeholders,
    compile_condition,
    evaluate_condition,
    parse_condition,
)
from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.values import Item
from tests.cases import all_cases

ITEM: Item = {
    "s": "hello",
    "accent": "é",
    "high": "\uffee",
    "emoji": "\U0001f600",
    "n": 5,
    "half": Decimal("0.5"),
    "b": b"hi",
    "yes": True,
    "one": 1,
    "nothing": None,
    "ss": frozenset(("dog", "cat")),
    "ns": frozenset((1, Decimal("2.5"))),
    "bs": frozenset((b"x",)),
    "l": ["dog", 1, [1]],
    "lt": [True],
    "l1": [1],
    "m": {"x": 1, "y": {"z": ["deep"]}},
    "mt": {"x": True},
    "blank": "",
}
VALUES: dict[str, Any] = {
    ":hello": "hello",
    ":he": "he",
    ":llo": "llo",
    ":n5": 5,
    ":n1": 1,
    ":n2": 2,
    ":n25": Decimal("2.5"),
    ":half": Decimal("0.5"),
    ":bhi": b"hi",
    ":bh": b"h",
    ":true": True,
    ":null": None,
    ":catdog": frozenset(("cat", "dog")),
    ":cat": frozenset(("cat",)),
    ":dog": "dog",
    ":lone": [1],
    ":ltrue": [True],
    ":mone": {"x": 1},
    ":mtrue": {"x": True},
    ":bx": b"x",
    ":empty": "",
    **{f":{tag}": tag for tag in ("S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M")},
}


def _condition(text: str) -> Condition:
    return parse_condition(text, "ConditionExpression", Placeholders(None, VALUES))


HOLD = """
s = :hello | n = :n5 | half = :half | b = :bhi | yes = :true | nothing = :null | ss = :catdog
l1 = :lone | lt = :ltrue | mt = :mtrue | blank = :empty
n <> :hello | one <> :true | yes <> :n1 | l1 <> :ltrue | mt <> :mone | absent <> :n1 | absent <> gone
s > :he | :n2 < n | half < :n1 | b > :bh | high < emoji | accent < high | n >= :n5 | n <= :n5
n BETWEEN :n1 AND :n5 | s BETWEEN :he AND :hello | b BETWEEN :bh AND :bhi | :n2 BETWEEN one AND n
n IN (:hello, :n5) | s IN (:hello) | nothing IN (:null) | ss IN (:catdog)
attribute_exists(s) | attribute_exists(nothing) | attribute_exists(m.y.z[0]) | attribute_exists(l[2][0])
attribute_not_exists(absent) | attribute_not_exists(m.q) | attribute_not_exists(l[3]) | attribute_not_exists(s.x)
attribute_not_exists(m[0]) | attribute_not_exists(l.x)
begins_with(s, :he) | begins_with(b, :bh) | begins_with(s, :empty)
contains(s, :llo) | contains(b, :bh) | contains(ss, :dog) | contains(ns, :n25) | contains(ns, one) | contains(bs, :bx)
contains(l, :dog) | contains(l, :lone) | contains(l, :n1) | contains(lt, :true)
size(s) = :n5 | size(ss) = :n2 | size(l) > :n2 | size(m) = :n2 | size(b) = :n2 | size(accent) = :n1 | size(emoji) = :n2
size(n) <> :n1 | size(absent) <> :n1 | size(blank) < :n1 | size(s) = n
attribute_type(s, :S) | attribute_type(n, :N) | attribute_type(half, :N) | attribute_type(b, :B)
attribute_type(yes, :BOOL) | attribute_type(nothing, :NULL) | attribute_type(ss, :SS) | attribute_type(ns, :NS)
attribute_type(bs, :BS) | attribute_type(l, :L) | attribute_type(m, :M)
NOT n = :n1 | NOT absent < :n1 | n = :n5 AND s = :hello | n = :n1 OR s = :hello
NOT n = :n1 AND s = :hello AND yes = :true | n = :n1 OR n = :n2 OR n = :n5
"""  # noqa: E501
FAIL = """
n = :hello | one = :true | yes = :n1 | absent = :n1 | absent = gone | l1 = :ltrue | mt = :mone | ss = :cat
s <> :hello | ss <> :catdog | l1 <> :lone
n < :hello | s < :n1 | n < :n5 | absent < :n1 | absent >= gone | yes < one | b < s
n BETWEEN :he AND :hello | absent BETWEEN :n1 AND :n5 | s BETWEEN :n1 AND one
n IN (:n1, :n2) | yes IN (:n1) | absent IN (gone)
attribute_exists(absent) | attribute_exists(s[0]) | attribute_not_exists(s)
begins_with(s, :llo) | begins_with(n, :he) | begins_with(s, :bh) | begins_with(absent, :he)
contains(s, :n1) | contains(ss, :he) | contains(ss, :n1) | contains(ns, :true) | contains(l, :true) | contains(l, :ltrue)
contains(lt, :n1) | contains(n, :n5) | contains(m, :dog) | contains(absent, :dog) | contains(l, absent)
contains(ss, ss2) | contains(ns, :catdog)
size(n) = :n1 | size(yes) < :n5 | size(nothing) = :n1 | size(absent) = :n1 | size(s) = :hello
attribute_type(absent, :S) | attribute_type(yes, :N) | attribute_type(n, :S)
NOT n = :n5 | n = :n5 AND s = :he | n = :n1 OR s = :he
"""  # noqa: E501


def _split_lines(table: str) -> list[str]:
    """Return the conditions of a table, which are separated by " | "."""
    return [text.strip() for line in table.split("\n") for text in line.split(" | ") if text.strip()]


@all_cases("text", _split_lines(HOLD))
def test_each_listed_condition_holds_for_the_item(text: str) -> None:
    assert evaluate_condition(_condition(text), ITEM)


@all_cases("text", _split_lines(FAIL))
def test_each_listed_condition_fails_for_the_item(text: str) -> None:
    assert not evaluate_condition(_condition(text), ITEM)


def test_absent_item_has_no_attributes() -> None:
    assert evaluate_condition(_condition("attribute_not_exists(s)"), None)
    assert not evaluate_condition(_condition("s = :hello"), None)


def test_predicate_is_reusable() -> None:
    decide = compile_condition(_condition("n = :n5"))
    assert [decide({"n": n}) for n in (4, 5, 6)] == [False, True, False]


@pytest.mark.parametrize("text", ["not " * 299 + "n = :n5", "n<one " + "or (n<one " * 149 + ")" * 149])
def test_the_deepest_conditions_are_evaluated(text: str) -> None:
    assert evaluate_condition(_condition(text), ITEM) is False


# --- an oracle ----------------------------------------------------------------------------------------------
# Every value is written with its type first, so that Python's own comparison of pairs is DynamoDB's.

_SCALARS: list[Any] = [0, 1, 2, Decimal("1.5"), "", "a", "ab", "b", b"", b"a", b"ab", True, False, None]
_VALUES = [*_SCALARS, [1], [True], ["a"], {"x": 1}, {"x": True}, frozenset(("a", "b")), frozenset((1, 2))]
_ATTRIBUTES = ["a", "b", "c"]


def _tag(value: Any) -> Any:
    """Return the value with its type, so that Python compares pairs as DynamoDB compares values."""
    match value:
        case bool():
            return ("BOOL", value)
        case None:
            return ("NULL", 0)
        case int() | Decimal():
            return ("N", value)
        case list():
            return ("L", tuple(map(_tag, value)))
        case dict():
            return ("M", tuple(sorted((name, _tag(inner)) for name, inner in value.items())))
        case frozenset():
            return ("SET", frozenset(map(_tag, value)))
    return (type(value).__name__, value)


def _oracle(operator: str, left: Any, right: Any) -> bool:
    """Compare two values independently of the code; `...` is an absent value."""
    if operator == "=":
        return left is not ... and right is not ... and bool(_tag(left) == _tag(right))
    if operator == "<>":
        return not _oracle("=", left, right)
    if left is ... or right is ...:
        return False
    (left_type, left), (right_type, right) = _tag(left), _tag(right)
    if left_type != right_type or left_type not in ("N", "str", "bytes"):
        return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


_comparisons = st.tuples(
    st.sampled_from(_ATTRIBUTES),
    st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
    st.one_of(st.sampled_from(_ATTRIBUTES), st.sampled_from(_SCALARS[:11]).map(lambda value: (value,))),
)
_trees = st.recursive(
    _comparisons,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.just("AND"), inner, inner),
        st.tuples(st.just("OR"), inner, inner),
    ),
    max_leaves=8,
)


def _text(tree: Any, values: dict[str, Any]) -> str:
    """Render a random tree as expression text, and add its values to `values`."""
    match tree:
        case ("NOT", inner):
            return f"NOT ({_text(inner, values)})"
        case ("AND" | "OR" as word, left, right):
            return f"({_text(left, values)}) {word} ({_text(right, values)})"
        case (left, operator, (value,)):
            key = f":v{len(values)}"
            values[key] = value
            return f"{left} {operator} {key}"
        case (left, operator, right):
            return f"{left} {operator} {right if right != left else 'gone'}"
    raise AssertionError(tree)


def _evaluate_tree(tree: Any, item: Item) -> bool:
    """Evaluate a random tree on an item with the oracle."""
    match tree:
        case ("NOT", inner):
            return not _evaluate_tree(inner, item)
        case ("AND", left, right):
            return _evaluate_tree(left, item) and _evaluate_tree(right, item)
        case ("OR", left, right):
            return _evaluate_tree(left, item) or _evaluate_tree(right, item)
        case (left, operator, (value,)):
            return _oracle(operator, item.get(left, ...), value)
        case (left, operator, right):
            other = ... if right == left else item.get(right, ...)
            return _oracle(operator, item.get(left, ...), other)
    raise AssertionError(tree)


@given(_trees, st.dictionaries(st.sampled_from(_ATTRIBUTES), st.sampled_from(_VALUES)))
def test_random_conditions_hold_when_the_oracle_says_so(tree: Any, item: Item) -> None:
    values: dict[str, Any] = {}
    text = _text(tree, values)
    condition = parse_condition(text, "FilterExpression", Placeholders(None, values or None))
    assert evaluate_condition(condition, item) is _evaluate_tree(tree, item)


@given(st.text(), st.text())
def test_strings_are_in_the_order_of_their_bytes(left: str, right: str) -> None:
    condition = _condition("a < b")
    assert evaluate_condition(condition, {"a": left, "b": right}) is (left.encode() < right.encode())
