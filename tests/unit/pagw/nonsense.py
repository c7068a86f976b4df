"""Nonsense put somewhere into a resource: for tests that nothing breaks on it, and nothing repeats it."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any


def spoiled(value: Any, random: Random, mark: str) -> Any:
    """A copy with one place of it replaced by nonsense, or by a member of an unknown name."""
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
