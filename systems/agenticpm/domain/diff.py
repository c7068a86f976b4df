"""Differences between two contents of an artefact, by path, and one line of text for each.

List entries are matched by their name (id, ticket_id, name, option) if all have one, so a new first entry is
one difference; otherwise by position. There are no differences if and only if both contents are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

NAMES: Final = ("id", "ticket_id", "name", "option")
# The fields that best describe an added or removed entry.
TITLES: Final = ("title", "description", "name", "option", "detail", "issue")
MAX_VALUE_CHARS: Final = 120

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~", "moved": "~"}


@dataclass(frozen=True)
class Difference:
    """A difference at one path.

    An added value has no `before`, a removed one no `after`. For a moved list, both are the order of its
    names.
    """

    path: str
    before: Any = None
    after: Any = None
    kind: Literal["added", "removed", "changed", "moved"] = "changed"


def compute_differences(before: Any, after: Any) -> list[Difference]:
    """Return all differences in the order of the contents. If one side is None, that is one difference."""
    return list(_compare("", before, after))


def _compare(path: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the differences of two values at a path."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _compare_members(path, "{}.{}" if path else "{}{}", before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(path, before, after)
    elif not _is_same(before, after):
        yield Difference(path, before, after)


def _compare_members(
    path: str, form: str, before: Mapping[Any, Any], after: Mapping[Any, Any]
) -> Iterator[Difference]:
    """Yield the differences of two mappings. `form` formats a path and a name as the member's path."""
    for name in [*before, *(each for each in after if each not in before)]:
        place = form.format(path, name)
        if name not in after:
            yield Difference(place, before=before[name], kind="removed")
        elif name not in before:
            yield Difference(place, after=after[name], kind="added")
        else:
            yield from _compare(place, before[name], after[name])


def _compare_lists(path: str, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    """Yield the differences of two lists: by identifying name with a change of order, or else by position."""
    called = _find_identifying_name(before, after)
    if called is None:
        yield from _compare_members(path, "{}[{}]", dict(enumerate(before)), dict(enumerate(after)))
        return
    was, now = ({each[called]: each for each in some} for some in (before, after))
    yield from _compare_members(path, "{}[{}]", was, now)
    order_was, order_now = [each for each in was if each in now], [each for each in now if each in was]
    if order_was != order_now:
        yield Difference(path, order_was, order_now, "moved")


def _find_identifying_name(before: Sequence[Any], after: Sequence[Any]) -> str | None:
    """Return the field that identifies all entries of both lists, or None."""
    for name in NAMES:
        if all(_has_unique_names(name, some) for some in (before, after)):
            return name
    return None


def _has_unique_names(name: str, some: Sequence[Any]) -> bool:
    """Return whether every entry has a text under this field, and no two are equal."""
    names = [each.get(name) if isinstance(each, Mapping) else None for each in some]
    return all(isinstance(each, str) for each in names) and len(set(names)) == len(names)


def _is_same(before: Any, after: Any) -> bool:
    # True == 1 in Python.
    """Return whether both values are equal; unlike in Python, True and 1 differ."""
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)


# --- text ---------------------------------------------------------------------------------------------------


def format_lines(found: Sequence[Difference]) -> list[str]:
    """Format one line per difference for a person: `~ key_metrics.active_risks: 3 → 4`."""
    return [f"{_SIGNS[each.kind]} {each.path or 'everything'}: {_format_change(each)}" for each in found]


def _format_change(found: Difference) -> str:
    if found.kind == "added":
        return format_value(found.after)
    if found.kind == "removed":
        return format_value(found.before)
    return f"{format_value(found.before)} → {format_value(found.after)}"


def format_value(value: Any, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Format a value as one line of at most `max_chars`, without control characters.

    A mapping is shown by its title, if it has one.
    """
    text = "".join(each for each in " ".join(_to_text(value).split()) if each.isprintable())
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _to_text(value: Any) -> str:
    """Return a value as text: a mapping by its title or as JSON, None as "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        for name in TITLES:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False, default=_to_json_number)
    return str(value)


def _to_json_number(value: Any) -> int | float | str:
    return float(value) if isinstance(value, Decimal) else str(value)
