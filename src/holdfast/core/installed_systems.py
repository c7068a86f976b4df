"""Find the installed systems by their entry points, without importing any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "holdfast.systems"


def find_entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of the installed systems by name, sorted."""
    # Imported late: most commands start without it.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name)
    return {each.name: each for each in found}
