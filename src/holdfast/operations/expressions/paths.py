"""Checks that the paths of one update or one projection do not overlap or conflict.

Two paths overlap when they are equal or one leads through the other. They conflict when one treats a value as
a map and the other treats it as a list. The parser checks the paths it reads; code that builds nodes directly
calls `check_apart`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.expressions.refusal import Refused, refusal

_Branch: TypeAlias = dict[str | int, Any]


def check_apart(
    paths: Iterable[Path], parameter: Literal["UpdateExpression", "ProjectionExpression"]
) -> None:
    """Raise the parser's error if paths overlap or conflict. For nodes that were not parsed."""
    tree = PathTree()
    try:
        for path in paths:
            tree.add(path)
    except Refused as refused:
        raise InvalidRequest(f"Invalid {parameter}: {refused.reason}") from None


class PathTree:
    """Paths that do not overlap, as a tree. A branch is keyed by the next path element; a leaf is the path
    that ends there.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Branch = {}

    def add(self, path: Path) -> None:
        *way, last = path.elements
        branch = self._root
        for element in way:
            branch = _child(branch, element, path)
        _check_kind(branch, last, path)
        if last in branch:
            raise _meeting("overlap", path, _any_leaf(branch[last]))
        branch[last] = path


def _child(branch: _Branch, element: str | int, path: Path) -> _Branch:
    _check_kind(branch, element, path)
    child = branch.setdefault(element, {})
    if isinstance(child, Path):
        raise _meeting("overlap", path, child)
    return child  # type: ignore[no-any-return]


def _check_kind(branch: _Branch, element: str | int, path: Path) -> None:
    for other in branch:
        if isinstance(other, int) != isinstance(element, int):
            raise _meeting("conflict", path, _any_leaf(branch[other]))
        return


def _any_leaf(node: _Branch | Path) -> Path:
    while not isinstance(node, Path):
        node = next(iter(node.values()))
    return node


def _meeting(how: str, one: Path, two: Path) -> Refused:
    return refusal(
        f"Two document paths {how} with each other; must remove or rewrite one of these paths",
        path_one=one,
        path_two=two,
    )
