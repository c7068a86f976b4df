"""The texts of errors stay short, whatever they list."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ComponentRefused


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "no pattern"), (2, "F1, F2"), (5, "F1, F2, F3, F4, F5"), (40, "F1, F2, F3, F4, F5 and 35 more")],
)
def test_a_component_that_is_refused_names_the_first_few_of_its_patterns(count: int, told: str) -> None:
    declared = [f"F{number}" for number in range(1, count + 1)]

    assert f"it declares {told}. Add" in ComponentRefused("agent", "X1", declared).message
