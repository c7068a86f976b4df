"""Find the slice that an item belongs to, and compare values with fixed values and patterns."""

from __future__ import annotations

from typing import Any

from pagw.domain.profiles.fhirpath import Scope, find_first
from pagw.domain.profiles.fhirpath_functions import is_equal
from pagw.domain.profiles.rules import Element, Matcher
from pagw.domain.profiles.tables import Json


def find_slice(element: Element, item: Any, scope: Scope) -> Element | None:
    """Return the slice of an item, or None if it belongs to none."""
    if not isinstance(item, dict):
        return None
    if isinstance(url := item.get("url"), str) and (found := element.slices_by_url.get(url)) is not None:
        return found
    for each in element.slices:
        if all(_matches(matcher, item, scope) for matcher in each.matchers):
            return each
    return None


def matches_value(value: Any, rules: Json) -> bool:
    """Return whether a value has the fixed value or the pattern of an element."""
    if "fixed" in rules:
        return is_equal(value, rules["fixed"])
    return matches_pattern(value, rules["pattern"])


def matches_pattern(value: Any, pattern: Any) -> bool:
    """Return whether a value has everything that a pattern has."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name in value and matches_pattern(value[name], each) for name, each in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and all(
            any(matches_pattern(item, each) for item in value) for each in pattern
        )
    return is_equal(value, pattern)


def _matches(matcher: Matcher, item: Any, scope: Scope) -> bool:
    if matcher.path is None:
        return False
    found = find_first(matcher.path, item, scope)
    match matcher.kind:
        case "fixed":
            return any(is_equal(each, matcher.expected) for each in found)
        case "pattern":
            return any(matches_pattern(each, matcher.expected) for each in found)
        case "type":
            return any(
                isinstance(each, dict) and each.get("resourceType") in matcher.expected for each in found
            )
        case "exists":
            return bool(found) is matcher.expected
    return False
