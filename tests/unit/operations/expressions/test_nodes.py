"""Nodes of the syntax tree: equal by value, frozen, and usable without parsing text."""

from __future__ import annotations

import pytest

from holdfast.operations.expressions import evaluate_condition
from holdfast.operations.expressions.nodes import And, AttributeExists, Compare, Literal, Not, Path, Update


def test_nodes_with_equal_parts_are_equal_and_hash_alike() -> None:
    one, other = (Compare("=", Path("a", ("b", 0)), Literal(1)) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != Compare("<>", Path("a", ("b", 0)), Literal(1))


def test_nodes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Path("a").root = "b"  # type: ignore[misc]


def test_a_literal_of_a_list_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(Literal([1]))


def test_a_path_shows_itself_as_dynamodb_does() -> None:
    assert str(Path("a", ("b", 1, "c"))) == "[a, b, [1], c]"


def test_a_condition_built_without_text_holds() -> None:
    condition = And((AttributeExists(Path("a")), Not(Compare("=", Path("a"), Literal("x")))))
    assert evaluate_condition(condition, {"a": "y"}) and not evaluate_condition(condition, {"a": "x"})


def test_an_update_without_sections_has_no_actions() -> None:
    assert Update().actions == ()
