"""Paths that were not parsed are checked as those that were."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import check_apart
from holdfast.operations.expressions.nodes import Path


def test_paths_beside_each_other_pass() -> None:
    check_apart((Path("a", ("b", 0)), Path("a", ("b", 1)), Path("a", ("c",)), Path("b")), "UpdateExpression")


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ((Path("a"), Path("a", ("b",))), "overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]"),
        ((Path("a", (0,)), Path("a", ("b",))), "conflict with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a, [0]]"),
    ],
)  # fmt: skip
def test_paths_that_meet_are_refused(paths: tuple[Path, ...], reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_apart(paths, "ProjectionExpression")
    assert refused.value.message == f"Invalid ProjectionExpression: Two document paths {reason}"
