"""Project an item to a set of paths.

Paths into the same map or list are merged into one map or list. A list keeps only the requested elements, in
their order. A path that leads to nothing is left out, together with any map or list that would be empty
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from holdfast.operations.expressions.evaluate import MISSING
from holdfast.operations.expressions.nodes import Path, Projection
from holdfast.operations.values import Item, Value

# The requested part of each name or index: all of it (None), or parts of it (another tree).
_Tree: TypeAlias = dict[Any, Any]


def project(projection: Projection, item: Mapping[str, Value]) -> Item:
    return _part_of_map(_tree(projection), item)


def projector(projection: Projection) -> Callable[[Mapping[str, Value]], Item]:
    """Return a function that projects any number of items, such as those of a page."""
    return partial(_part_of_map, _tree(projection))


def _tree(projection: Projection) -> _Tree:
    tree: _Tree = {}
    for path in projection:
        if path.steps:
            _grow(tree, path)
        else:
            tree[path.root] = None
    return tree


def _grow(tree: _Tree, path: Path) -> None:
    *way, last = path.elements
    for element in way:
        tree = tree.setdefault(element, {})
    tree[last] = None


def _part(tree: _Tree, value: Any) -> Any:
    if type(value) is dict:
        return _part_of_map(tree, value) or MISSING
    if type(value) is list:
        return _part_of_list(tree, value) or MISSING
    return MISSING


def _part_of_map(tree: _Tree, value: Mapping[str, Value]) -> Item:
    found: Item = {}
    for name, wanted in tree.items():
        if name in value:
            part = value[name] if wanted is None else _part(wanted, value[name])
            if part is not MISSING:
                found[name] = part
    return found


def _part_of_list(tree: _Tree, value: list[Value]) -> list[Value]:
    if type(next(iter(tree))) is not int:
        return []
    found = []
    for index in sorted(tree):
        if index < len(value):
            wanted = tree[index]
            part = value[index] if wanted is None else _part(wanted, value[index])
            if part is not MISSING:
                found.append(part)
    return found
