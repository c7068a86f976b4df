"""Error messages stay short, however many names they list."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ComponentRefused


@pytest.mark.parametrize(
    ("count", "listed"),
    [(0, "no pattern"), (2, "F1, F2"), (5, "F1, F2, F3, F4, F5"), (40, "F1, F2, F3, F4, F5 and 35 more")],
)
def test_access_error_lists_only_the_first_patterns(count: int, listed: str) -> None:
    declared = [f"F{number}" for number in range(1, count + 1)]

    assert f"it declares {listed}. Add" in ComponentRefused("agent", "X1", declared).message
