"""Check that contained resources belong to their resource (invariant dom-3), in one walk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagw.domain.profiles.findings import At, Findings

_TEXT = "a contained resource must be referred to, or refer to the resource that contains it (dom-3)"


def check_contained(resource: Any, at: At, findings: Findings) -> None:
    """Report contained resources that nothing refers to."""
    contained = resource["contained"]
    named = set(_iterate_fragments(resource))
    for index, each in enumerate(contained if isinstance(contained, list) else []):
        if (
            isinstance(each, dict)
            and f"#{each.get('id')}" not in named
            and "#" not in _iterate_fragments(each)
        ):
            findings.add_error("invariant", (at, "contained", index), _TEXT)


def _iterate_fragments(value: Any) -> Iterator[str]:
    """Yield the texts within a value that start with `#`."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and each.startswith("#"):
            yield each
