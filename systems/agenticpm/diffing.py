"""What differs between two contents of an artefact, place by place, and how a person is told.

Things in a list are matched by what they are called (id, ticket_id, name, option) where all of them have it, so that a
new first item is one difference; others by where they stand. Nothing is told if and only if both are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

NAMES: Final = ("id", "ticket_id", "name", "option")
# What says most of a thing that came or went as a whole.
TITLES: Final = ("title", "description", "name", "option", "detail", "issue")
VALUE_CHARS_MAX: Final = 120

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~", "moved": "~"}


@dataclass(frozen=True)
class Difference:
    """One place. What was added has no `before`, what was removed no `after`; of what moved, both are the order."""

    path: str
    before: Any = None
    after: Any = None
    kind: Literal["added", "removed", "changed", "moved"] = "changed"


def differences(before: Any, after: Any) -> list[Difference]:
    """All differences, in the order of the contents. Nothing before, or nothing after, is one of them."""
    return list(_between("", before, after))


def _between(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _members(path, "{}.{}" if path else "{}{}", before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _elements(path, before, after)
    elif not _is_same(before, after):
        yield Difference(path, before, after)


def _members(
    path: str, form: str, before: Mapping[Any, Any], after: Mapping[Any, Any]
) -> Iterator[Difference]:
    for name in [*before, *(each for each in after if each not in before)]:
        place = form.format(path, name)
        if name not in after:
            yield Difference(place, before=before[name], kind="removed")
        elif name not in before:
            yield Difference(place, after=after[name], kind="added")
        else:
            yield from _between(place, before[name], after[name])


def _elements(path: str, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    called = _called(before, after)
    if called is None:
        yield from _members(path, "{}[{}]", dict(enumerate(before)), dict(enumerate(after)))
        return
    was, now = ({each[called]: each for each in some} for some in (before, after))
    yield from _members(path, "{}[{}]", was, now)
    order_was, order_now = [each for each in was if each in now], [each for each in now if each in was]
    if order_was != order_now:
        yield Difference(path, order_was, order_now, "moved")


def _called(before: Sequence[Any], after: Sequence[Any]) -> str | None:
    """By which of the names all things of both lists can be told apart."""
    for name in NAMES:
        if all(_all_called(name, some) for some in (before, after)):
            return name
    return None


def _all_called(name: str, some: Sequence[Any]) -> bool:
    names = [each.get(name) if isinstance(each, Mapping) else None for each in some]
    return all(isinstance(each, str) for each in names) and len(set(names)) == len(names)


def _is_same(before: Any, after: Any) -> bool:
    # In Python, True is 1.
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)


# --- told --------------------------------------------------------------------------------------------------------


def lines(found: Sequence[Difference]) -> list[str]:
    """A line for each, for a person: `~ key_metrics.active_risks: 3 → 4`."""
    return [f"{_SIGNS[each.kind]} {each.path or 'everything'}: {_said(each)}" for each in found]


def _said(found: Difference) -> str:
    if found.kind == "added":
        return shown(found.after)
    if found.kind == "removed":
        return shown(found.before)
    return f"{shown(found.before)} → {shown(found.after)}"


def shown(value: Any, chars_max: int = VALUE_CHARS_MAX) -> str:
    """A value in one short line, without anything that a terminal would follow."""
    text = "".join(each for each in " ".join(_text(value).split()) if each.isprintable())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        for name in TITLES:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False, default=_number)
    return str(value)


def _number(value: Any) -> int | float | str:
    return float(value) if isinstance(value, Decimal) else str(value)
