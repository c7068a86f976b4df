"""Commands and groups whose help shows a parameter as it is typed.

Typer shows `--force <bool>` for a flag, which takes no value, and `PATH <list[Path]>` for several values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

_LIST_TYPE: Final = re.compile(r"<list\[(.*)\]>")


class PlainHelp(TyperCommand if TYPE_CHECKING else object):  # type: ignore[misc]
    """A mixin for commands and groups: no type after a flag, and the type of one value for several."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)
        for each in parameters:
            if getattr(each, "is_flag", False):
                each.metavar = ""
            elif found := _LIST_TYPE.fullmatch(each.display_type_rich(ctx)):
                # Typer offers no setting for the type that it shows.
                each.display_type_rich = lambda ctx, shown=f"<{found[1]}>": shown
        return parameters


class PlainCommand(PlainHelp, TyperCommand):
    """A command with plain help."""


class PlainGroup(PlainHelp, TyperGroup):
    """A group with plain help."""
