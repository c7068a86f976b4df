"""Projections: the parts of an item that a ProjectionExpression selects."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import (
    Placeholders,
    check_no_overlap,
    compile_projection,
    parse_projection,
    project,
)
from holdfast.operations.expressions.evaluation import MISSING, resolve_path
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.values import Item
from tests.cases import all_cases

ITEM: Item = {
    "a": "x",
    "m": {"k": 1, "j": {"z": 2, "y": 3}, "nil": None},
    "l": ["a", {"k": 1, "j": 2}, ["b", "c"]],
    "blank": {},
}


@all_cases(
    ("text", "part"),
    [
        ("a", {"a": "x"}),
        ("a, absent", {"a": "x"}),
        ("absent", {}),
        ("blank", {"blank": {}}),
        ("m.k", {"m": {"k": 1}}),
        ("m.nil", {"m": {"nil": None}}),
        ("m.k, m.j.z", {"m": {"k": 1, "j": {"z": 2}}}),
        ("m.absent", {}),
        ("m.absent, m.k", {"m": {"k": 1}}),
        ("m.j.absent", {}),
        ("m.k.z", {}),
        ("m[0]", {}),
        ("l[0]", {"l": ["a"]}),
        ("l[2], l[0]", {"l": ["a", ["b", "c"]]}),
        ("l[9]", {}),
        ("l[9], l[1].j", {"l": [{"j": 2}]}),
        ("l[1].k, l[1].j", {"l": [{"k": 1, "j": 2}]}),
        ("l[2][1]", {"l": [["c"]]}),
        ("l.k", {}),
        ("blank.x", {}),
    ],
)
def test_projects_an_item_to_the_requested_parts(text: str, part: Item) -> None:
    assert project(parse_projection(text, Placeholders()), ITEM) == part


def test_one_projector_serves_many_items() -> None:
    part = compile_projection(parse_projection("m.k", Placeholders()))
    items: list[Item] = [ITEM, {"m": {"k": 2}}, {}]
    assert [part(item) for item in items] == [{"m": {"k": 1}}, {"m": {"k": 2}}, {}]


_names = st.sampled_from(("a", "b"))
_documents = st.recursive(
    st.integers(0, 3),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=2)),
    max_leaves=10,
)
_paths = st.builds(
    Path, _names, st.lists(st.one_of(_names, st.integers(0, 3)), max_size=3).map(lambda steps: tuple(steps))
)


@given(st.dictionaries(_names, _documents), _paths)
def test_a_path_projected_alone_finds_exactly_its_value(item: dict[str, Any], path: Path) -> None:
    found: Any = project((path,), item)
    expected = resolve_path(path, item)
    if expected is MISSING:
        assert found == {}
        return
    for element in path.elements:
        assert len(found) == 1
        found = found[0 if isinstance(element, int) else element]
    assert found == expected


@given(st.dictionaries(_names, _documents), st.lists(_paths, min_size=1, max_size=4))
def test_the_order_of_the_paths_does_not_matter(item: dict[str, Any], paths: list[Path]) -> None:
    try:
        check_no_overlap(paths, "ProjectionExpression")
    except InvalidRequest:
        return
    assert project(tuple(paths), item) == project(tuple(reversed(paths)), item)
