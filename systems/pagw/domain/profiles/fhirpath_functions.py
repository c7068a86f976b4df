"""Functions of FHIRPath over lists of JSON values, and how two values compare."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import Any, Final

Items = list[Any]

MAX_INTERSECTED: Final = 100

_DATE: Final = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
_TIME_OF_DAY: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


def get_truth(items: Items) -> bool | None:
    """Return the collection as a boolean: None if it is empty, true for a single value."""
    if not items:
        return None
    return items[0] if isinstance(items[0], bool) and len(items) == 1 else True


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. A boolean never equals a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def compare(left: Any, right: Any) -> int | None:
    """Return the order of two values (-1, 0, 1), or None if they cannot be compared."""
    if isinstance(left, dict) and isinstance(right, dict):
        same_unit = all(left.get(name) == right.get(name) for name in ("system", "code", "unit"))
        return compare(left.get("value"), right.get("value")) if same_unit else None
    if isinstance(left, str) and isinstance(right, str):
        return _compare_texts(left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (left > right) - (left < right)
    return None


def _compare_texts(left: str, right: str) -> int | None:
    """Compare dates and times by their common precision, other texts by their characters."""
    if _DATE.fullmatch(left) is None or _DATE.fullmatch(right) is None:
        return (left > right) - (left < right)
    one, other = _split_date(left), _split_date(right)
    if isinstance(one, datetime) and isinstance(other, datetime):
        has_zones = (one.tzinfo is None) == (other.tzinfo is None)
        return (one > other) - (one < other) if has_zones else None
    parts, others = left.partition("T")[0].split("-"), right.partition("T")[0].split("-")
    for part, another in zip(parts, others, strict=False):
        if part != another:
            return (part > another) - (part < another)
    return 0 if len(left) == len(right) else None


def _split_date(text: str) -> datetime | None:
    """Return a date with a time as a datetime, or None for a date without one."""
    try:
        return datetime.fromisoformat(text) if "T" in text else None
    except ValueError:
        return None


def get_distinct(items: Items) -> Items:
    """Return the values without duplicates, in order."""
    return list({_get_key(each): each for each in items}.values())


def _get_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _iterate_children(items: Items) -> Iterator[Any]:
    for item in items:
        for name, value in item.items() if isinstance(item, dict) else ():
            if name != "resourceType" and not name.startswith("_"):
                yield from value if isinstance(value, list) else [value]


def _list_descendants(items: Items) -> Items:
    found: Items = []
    level = items
    while level := list(_iterate_children(level)):
        found += level
    return found


def _test_text(test: Callable[[str, str], bool]) -> Callable[[Items, Items], Items]:
    def function(items: Items, argument: Items) -> Items:
        return [test(str(items[0]), str(argument[0]))] if items and argument else []

    return function


@cache
def _compile_regex(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


def _substring(items: Items, start: Items, length: Items | None = None) -> Items:
    if not items or not start or not 0 <= start[0] < len(items[0]):
        return []
    end = start[0] + length[0] if length else None
    return [items[0][start[0] : end]]


def _to_integer(items: Items) -> Items:
    if not items or isinstance(items[0], bool):
        return [int(each) for each in items]
    text = str(items[0])
    return [int(text)] if re.fullmatch(r"[+-]?\d+", text) else []


def _to_string(items: Items) -> Items:
    if not items or isinstance(items[0], dict):
        return []
    return [str(items[0]).lower() if isinstance(items[0], bool) else str(items[0])]


def _find_extension(items: Items, url: Items) -> Items:
    return [
        each
        for item in items
        if isinstance(item, dict) and isinstance(item.get("extension"), list)
        for each in item["extension"]
        if isinstance(each, dict) and each.get("url") == url[0]
    ]


def _intersect(items: Items, others: Items) -> Items:
    # An invariant may do this for each of many elements.
    if len(others) > MAX_INTERSECTED:
        return []
    keys = {_get_key(each) for each in others}
    return get_distinct([each for each in items if _get_key(each) in keys])


FUNCTIONS: Final[dict[str, Callable[..., Items]]] = {
    "not": lambda items: [] if (truth := get_truth(items)) is None else [not truth],
    "count": lambda items: [len(items)],
    "hasValue": lambda items: [len(items) == 1 and not isinstance(items[0], dict)],
    "first": lambda items: items[:1],
    "last": lambda items: items[-1:],
    "tail": lambda items: items[1:],
    "single": lambda items: items[:1],
    "distinct": get_distinct,
    "isDistinct": lambda items: [len(get_distinct(items)) == len(items)],
    "allFalse": lambda items: [not any(items)],
    "allTrue": lambda items: [all(items)],
    "anyTrue": lambda items: [any(items)],
    "children": lambda items: list(_iterate_children(items)),
    "descendants": _list_descendants,
    "trace": lambda items, *_: items,
    "combine": lambda items, others: [*items, *others],
    "union": lambda items, others: get_distinct([*items, *others]),
    "intersect": _intersect,
    "extension": _find_extension,
    "htmlChecks": lambda items: [True],
    "matches": _test_text(lambda text, regex: _compile_regex(regex).fullmatch(text) is not None),
    "startsWith": _test_text(lambda text, start: text.startswith(start)),
    "endsWith": _test_text(lambda text, end: text.endswith(end)),
    "contains": _test_text(lambda text, part: part in text),
    "replaceMatches": lambda items, regex, new: (
        [_compile_regex(regex[0]).sub(new[0], items[0])] if items else []
    ),
    "substring": _substring,
    "length": lambda items: [len(items[0])] if items else [],
    "toInteger": _to_integer,
    "toString": _to_string,
    "toBoolean": lambda items: [items[0] in (True, "true")] if items else [],
    "today": lambda items: [],
    "now": lambda items: [],
}
