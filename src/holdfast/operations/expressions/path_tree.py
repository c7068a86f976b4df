"""Checks that the paths of one update or one projection do not overlap or conflict.

Two paths overlap when they are equal or one leads through the other. They conflict when one treats a value as
a map and the other treats it as a list. The parser checks the paths it reads; code that builds nodes directly
calls `check_no_overlap`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.errors import ExpressionError, build_expression_error
from holdfast.operations.expressions.nodes import Path

_Branch: TypeAlias = dict[str | int, Any]


def check_no_overlap(
    paths: Iterable[Path], parameter: Literal["UpdateExpression", "ProjectionExpression"]
) -> None:
    """Raise `InvalidRequest`, as the parser does, if paths overlap or conflict. For nodes that were not
    parsed.
    """
    tree = PathTree()
    try:
        for path in paths:
            tree.add(path)
    except ExpressionError as error:
        raise InvalidRequest(f"Invalid {parameter}: {error.reason}") from None


class PathTree:
    """Paths that do not overlap, as a tree. A branch is keyed by the next path element; a leaf is the path
    that ends there.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Branch = {}

    def add(self, path: Path) -> None:
        """Add a path. Raise `ExpressionError` if it overlaps or conflicts with a path in the tree."""
        *way, last = path.elements
        branch = self._root
        for element in way:
            branch = _get_child(branch, element, path)
        _check_kind(branch, last, path)
        if last in branch:
            raise _build_conflict_error("overlap", path, _find_leaf(branch[last]))
        branch[last] = path


def _get_child(branch: _Branch, element: str | int, path: Path) -> _Branch:
    """Return the branch below an element, creating it if absent. Raise `ExpressionError` if a path ends
    there.
    """
    _check_kind(branch, element, path)
    child = branch.setdefault(element, {})
    if isinstance(child, Path):
        raise _build_conflict_error("overlap", path, child)
    return child  # type: ignore[no-any-return]


def _check_kind(branch: _Branch, element: str | int, path: Path) -> None:
    """Raise `ExpressionError` if a name is added next to list indexes or an index next to names."""
    for other in branch:
        if isinstance(other, int) != isinstance(element, int):
            raise _build_conflict_error("conflict", path, _find_leaf(branch[other]))
        return


def _find_leaf(node: _Branch | Path) -> Path:
    """Return the first path at or below a node of the tree."""
    while not isinstance(node, Path):
        node = next(iter(node.values()))
    return node


def _build_conflict_error(how: str, one: Path, two: Path) -> ExpressionError:
    """Build the error for two paths; `how` is "overlap" or "conflict"."""
    return build_expression_error(
        f"Two document paths {how} with each other; must remove or rewrite one of these paths",
        path_one=one,
        path_two=two,
    )
