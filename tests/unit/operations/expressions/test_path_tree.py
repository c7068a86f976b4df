"""`check_no_overlap`: overlapping paths of nodes that were not parsed are refused like parsed ones."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import check_no_overlap
from holdfast.operations.expressions.nodes import Path


def test_accepts_separate_paths() -> None:
    check_no_overlap(
        (Path("a", ("b", 0)), Path("a", ("b", 1)), Path("a", ("c",)), Path("b")), "UpdateExpression"
    )


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ((Path("a"), Path("a", ("b",))), "overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]"),  # noqa: E501
        ((Path("a", (0,)), Path("a", ("b",))), "conflict with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a, [0]]"),  # noqa: E501
    ],
)  # fmt: skip
def test_rejects_overlapping_paths(paths: tuple[Path, ...], reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_no_overlap(paths, "ProjectionExpression")
    assert refused.value.message == f"Invalid ProjectionExpression: Two document paths {reason}"
