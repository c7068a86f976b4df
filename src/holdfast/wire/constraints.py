"""Constraints on the members of a request: a predicate, and DynamoDB's text for a value that violates it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

Constraint: TypeAlias = tuple[Callable[[Any], bool], str]


def require_enum(allowed: tuple[str, ...]) -> Constraint:
    """Require one of the allowed values."""
    return frozenset(allowed).__contains__, f"Member must satisfy enum value set: [{', '.join(allowed)}]"


def require_pattern(pattern: str) -> Constraint:
    """Require a match of the whole value."""
    fullmatch = re.compile(pattern).fullmatch
    text = f"Member must satisfy regular expression pattern: {pattern}"
    return lambda value: fullmatch(value) is not None, text


def require_length(min_length: int | None, max_length: int | None) -> tuple[Constraint, ...]:
    """Require a length within the bounds; None leaves a bound open."""
    found: list[Constraint] = []
    if min_length is not None:
        text = f"Member must have length greater than or equal to {min_length}"
        found.append((lambda value: len(value) >= min_length, text))
    if max_length is not None:
        text = f"Member must have length less than or equal to {max_length}"
        found.append((lambda value: len(value) <= max_length, text))
    return tuple(found)


def require_range(minimum: int | None, maximum: int | None) -> tuple[Constraint, ...]:
    """Require a number within the bounds; None leaves a bound open."""
    found: list[Constraint] = []
    if minimum is not None:
        text = f"Member must have value greater than or equal to {minimum}"
        found.append((lambda value: value >= minimum, text))
    if maximum is not None:
        found.append(
            (lambda value: value <= maximum, f"Member must have value less than or equal to {maximum}")
        )
    return tuple(found)


def require_list_lengths(min_length: int, max_length: int) -> Constraint:
    """Require every list of a map to have a length within the bounds."""
    text = (
        f"Map value must satisfy constraint: [Member must have length less than or equal to {max_length}, "
        f"Member must have length greater than or equal to {min_length}]"
    )
    return lambda value: all(min_length <= len(each or ()) <= max_length for each in value.values()), text
