"""Random corruption of FHIR resources, for tests that nothing crashes on it or repeats it."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any


def corrupt_copy(value: Any, random: Random, mark: str) -> Any:
    """Return a copy with one value replaced by nonsense or one unknown member added. Nonsense texts and names
    are `mark`, so that a test can search for it.
    """
    value = deepcopy(value)
    at = value
    while True:
        places: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not places:
            return value
        place = random.choice(places)
        if isinstance(at[place], dict | list) and random.random() < 0.85:
            at = at[place]
            continue
        if isinstance(at, dict) and random.random() < 0.3:
            at[mark] = random.choice([at[place], {"reference": mark}])
        else:
            nonsense: list[Any] = [
                mark,
                None,
                0,
                -1,
                True,
                [],
                {},
                [mark],
                {mark: mark},
                {"reference": mark},
                1.5,
                [[]],
                [None],
            ]
            at[place] = random.choice(nonsense)
        return value
