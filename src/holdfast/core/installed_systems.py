"""Find the installed systems and demos by their entry points, without importing any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "holdfast.systems"
DEMO_ENTRY_POINT_GROUP: Final = "holdfast.demos"


def find_entry_points(group: str = ENTRY_POINT_GROUP) -> dict[str, EntryPoint]:
    """Return the entry points of the installed systems, or of another group, by name, sorted.

    If two distributions have the same name in it, the first on the import path wins.
    """
    # Imported late: most commands start without it.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=group), key=lambda each: each.name)
    first: dict[str, EntryPoint] = {}
    for each in found:
        first.setdefault(each.name, each)
    return first
