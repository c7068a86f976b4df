"""The renderer: nodes rendered as text parse to the same nodes, without redundant parentheses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import Placeholders, parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.key_conditions import KeyTest, split_key_condition
from holdfast.operations.expressions.nodes import (
    AddAction,
    And,
    AttributeExists,
    AttributeNotExists,
    AttributeType,
    BeginsWith,
    Between,
    Comparator,
    Compare,
    Condition,
    Contains,
    DeleteAction,
    IfNotExists,
    In,
    ListAppend,
    Literal,
    Minus,
    Not,
    Or,
    Path,
    Plus,
    RemoveAction,
    SetAction,
    Size,
    Update,
)
from holdfast.operations.expressions.renderer import Renderer
from holdfast.operations.values import Value

# Reserved words, names with symbols of the language in them, and names in other alphabets.
NAMES = st.sampled_from(["a", "status", "a.b", "#x", ":v", "x[0]", "größe", "with space", "AND", "size"])
PATHS = st.builds(
    Path, NAMES, st.lists(NAMES | st.integers(0, 1000), max_size=3).map(lambda steps: tuple(steps))
)
TEXTS = st.text(max_size=4).map(Literal)
NUMBERS = st.integers(-99, 99).map(Literal)
OTHERS: list[Value] = [None, True, b"\x00", [1, "x"], {"k": [None]}]
LITERALS = TEXTS | NUMBERS | st.sampled_from(OTHERS).map(Literal)
SIZES = st.builds(Size, PATHS)
SIGNS: list[Comparator] = ["=", "<>", "<", "<=", ">", ">="]


def distinct(nodes: tuple[Any, ...]) -> bool:
    """Return whether the first operand is not repeated: DynamoDB refuses such an operator."""
    return nodes[0] not in nodes[1:]


def build_distinct(kind: Any, *operands: Any) -> st.SearchStrategy[Any]:
    """Draw nodes of this kind whose first operand is not repeated."""
    return st.tuples(*operands).filter(distinct).map(lambda parts: kind(*parts))


SIMPLE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(SIGNS[:2]).flatmap(
        lambda sign: build_distinct(partial(Compare, sign), PATHS | SIZES, PATHS | LITERALS)
    ),
    st.sampled_from(SIGNS[2:]).flatmap(
        lambda sign: build_distinct(partial(Compare, sign), PATHS | SIZES, PATHS | TEXTS | NUMBERS)
    ),
    st.builds(lambda path, low: Between(path, Literal(low), Literal(low + 1)), PATHS, st.integers(0, 9)),
    st.builds(
        lambda path, choices: In(path, tuple(choices)), PATHS, st.lists(LITERALS, min_size=1, max_size=4)
    ),
    st.builds(AttributeExists, PATHS),
    st.builds(AttributeNotExists, PATHS),
    st.builds(AttributeType, PATHS, st.sampled_from(["S", "N", "M", "NULL", "BS"])),
    build_distinct(BeginsWith, PATHS, PATHS | TEXTS),
    build_distinct(Contains, PATHS, PATHS | LITERALS),
)


def join(kind: Any, parts: list[Condition]) -> Any:
    """Join conditions as the parser does: a chain is flat."""
    return kind(
        tuple(inner for part in parts for inner in (part.conditions if isinstance(part, kind) else (part,)))
    )


CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: join(And, parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: join(Or, parts)),
    ),
    max_leaves=8,
)


def placeholders(renderer: Renderer) -> Placeholders:
    """Return the names and values that the renderer collected, as a request would carry them."""
    return Placeholders(renderer.names or None, renderer.values or None)


@given(CONDITIONS)
def test_a_rendered_condition_parses_to_the_same_node(node: Condition) -> None:
    renderer = Renderer()
    text = renderer.render_condition(node)

    given_placeholders = placeholders(renderer)
    assert parse_condition(text, "ConditionExpression", given_placeholders) == node
    given_placeholders.check_all_used()


LISTS = st.lists(st.integers(), max_size=2).map(lambda elements: Literal([*elements]))
SET_OPERANDS: st.SearchStrategy[Any] = st.one_of(
    PATHS,
    LITERALS,
    build_distinct(IfNotExists, PATHS, LITERALS),
    st.builds(ListAppend, PATHS | build_distinct(IfNotExists, PATHS, LISTS), LISTS),
    st.builds(Plus, PATHS | build_distinct(IfNotExists, PATHS, NUMBERS), NUMBERS),
    st.builds(Minus, PATHS, PATHS | NUMBERS),
)


@st.composite
def updates(draw: st.DrawFn) -> Update:
    """Draw an update whose roots differ, so that no two paths overlap."""
    roots = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6, unique=True))
    parts: dict[type, list[Any]] = {SetAction: [], RemoveAction: [], AddAction: [], DeleteAction: []}
    for root in roots:
        path = Path(root, tuple(draw(st.lists(NAMES | st.integers(0, 9), max_size=2))))
        kind = draw(st.sampled_from(list(parts)))
        if kind is SetAction:
            parts[kind].append(SetAction(path, draw(SET_OPERANDS)))
        elif kind is RemoveAction:
            parts[kind].append(RemoveAction(path))
        else:
            parts[kind].append(kind(path, frozenset(draw(st.sets(st.integers(), min_size=1, max_size=2)))))
    return Update(*(tuple(actions) for actions in parts.values()))


@given(updates())
def test_a_rendered_update_parses_to_the_same_node(node: Update) -> None:
    renderer = Renderer()
    text = renderer.render_update(node)

    assert parse_update(text, placeholders(renderer)) == node


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True), st.data())
def test_a_rendered_projection_parses_to_the_same_paths(roots: list[str], data: st.DataObject) -> None:
    steps = st.lists(NAMES | st.integers(0, 9), max_size=3)
    node = tuple(Path(root, tuple(data.draw(steps))) for root in roots)
    renderer = Renderer()

    assert parse_projection(renderer.render_projection(node), placeholders(renderer)) == node


@pytest.mark.parametrize(
    "test",
    [
        KeyTest("sk", "=", ("x",)),
        KeyTest("sk", "<=", (1,)),
        KeyTest("sk", "between", (1, 2)),
        KeyTest("date", "begins_with", ("2026-",)),
    ],
)
def test_a_rendered_key_condition_parses_to_the_same_tests(test: KeyTest) -> None:
    tests = (KeyTest("status", "=", ("open",)), test)
    renderer = Renderer()
    text = renderer.render_key_condition(tests)

    assert (
        split_key_condition(parse_condition(text, "KeyConditionExpression", placeholders(renderer))) == tests
    )


def test_one_renderer_shares_names_between_the_expressions_of_a_request() -> None:
    renderer = Renderer()

    texts = [
        renderer.render_condition(Compare("=", Path("status"), Literal("open"))),
        renderer.render_projection((Path("status"), Path("tags", (2, "status")))),
        renderer.render_condition(AttributeType(Path("tags"), "L")),
    ]
    assert texts == ["#n0 = :v0", "#n0, #n1[2].#n0", "attribute_type(#n1, :v1)"]
    assert renderer.names == {"#n0": "status", "#n1": "tags"}
    assert renderer.values == {":v0": "open", ":v1": "L"}


def test_only_parentheses_that_are_needed_are_written() -> None:
    a, b, c = (AttributeExists(Path(name)) for name in "abc")
    said = [
        Renderer().render_condition(node)
        for node in (
            And((a, Or((b, c)))),
            Or((a, And((b, c)))),
            And((a, And((b, c)))),
            Not(Or((a, b))),
            Not(Not(a)),
            And((Or((And((a, b)),)), c)),
        )
    ]
    a_, b_, c_ = (f"attribute_exists(#n{number})" for number in range(3))
    assert said == [
        f"{a_} AND ({b_} OR {c_})",
        f"{a_} OR {b_} AND {c_}",
        f"{a_} AND {b_} AND {c_}",
        f"NOT ({a_} OR {b_})",
        f"NOT NOT {a_}",
        f"{a_} AND {b_} AND {c_}",
    ]


def test_update_without_actions_renders_empty() -> None:
    assert Renderer().render_update(Update()) == ""


@pytest.mark.parametrize("node", [And(()), Or(()), Not(And(())), "a = b"])
def test_rejects_empty_conjunctions_and_other_objects(node: Any) -> None:
    with pytest.raises(InvalidRequest):
        Renderer().render_condition(node)
