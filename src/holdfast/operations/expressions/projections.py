"""Project an item to a set of paths.

Paths into the same map or list are merged into one map or list. A list keeps only the requested elements, in
their order. A path that leads to nothing is left out, together with any map or list that would be empty
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from holdfast.operations.expressions.evaluation import MISSING
from holdfast.operations.expressions.nodes import Path, Projection
from holdfast.operations.values import Item, Value

# The requested part of each name or index: all of it (None), or parts of it (another tree).
_Tree: TypeAlias = dict[Any, Any]


def project(projection: Projection, item: Mapping[str, Value]) -> Item:
    """Return the parts of one item that the projection's paths lead to."""
    return _project_map(_build_tree(projection), item)


def compile_projection(projection: Projection) -> Callable[[Mapping[str, Value]], Item]:
    """Return a function that projects any number of items, such as those of a page."""
    return partial(_project_map, _build_tree(projection))


def _build_tree(projection: Projection) -> _Tree:
    """Merge the paths into one tree of the requested names and indexes."""
    tree: _Tree = {}
    for path in projection:
        if path.steps:
            _add_path(tree, path)
        else:
            tree[path.root] = None
    return tree


def _add_path(tree: _Tree, path: Path) -> None:
    """Add a nested path to the tree."""
    *way, last = path.elements
    for element in way:
        tree = tree.setdefault(element, {})
    tree[last] = None


def _project_value(tree: _Tree, value: Any) -> Any:
    """Return the requested parts of a map or list, or MISSING if there are none or it is another type."""
    if type(value) is dict:
        return _project_map(tree, value) or MISSING
    if type(value) is list:
        return _project_list(tree, value) or MISSING
    return MISSING


def _project_map(tree: _Tree, value: Mapping[str, Value]) -> Item:
    """Return the requested members of a map; those that lead to nothing are left out."""
    found: Item = {}
    for name, wanted in tree.items():
        if name in value:
            part = value[name] if wanted is None else _project_value(wanted, value[name])
            if part is not MISSING:
                found[name] = part
    return found


def _project_list(tree: _Tree, value: list[Value]) -> list[Value]:
    """Return the requested elements in index order, or an empty list if the tree names map members."""
    if type(next(iter(tree))) is not int:
        return []
    found = []
    for index in sorted(tree):
        if index < len(value):
            wanted = tree[index]
            part = value[index] if wanted is None else _project_value(wanted, value[index])
            if part is not MISSING:
                found.append(part)
    return found
